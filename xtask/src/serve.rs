//! A static server on loopback, as plain as the poorest static host.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, anyhow, ensure};
use tiny_http::{Header, Method, Request, Response};

/// How to serve a folder.
#[derive(Debug, Clone)]
pub struct Options {
    /// The path that the folder stands under, with a slash at both ends.
    pub prefix: String,
    /// The content type of `.wasm` files; a host that knows no better sends `application/octet-stream`.
    pub wasm_type: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            prefix: "/".to_owned(),
            wasm_type: "application/wasm".to_owned(),
        }
    }
}

/// A server that runs until it is dropped.
pub struct Server {
    http: Arc<tiny_http::Server>,
    thread: Option<JoinHandle<()>>,
    address: SocketAddr,
    prefix: String,
    requests: Arc<Mutex<Vec<Served>>>,
}

/// One answered request.
#[derive(Debug, Clone)]
pub struct Served {
    /// The path as it was asked for.
    pub path: String,
    /// The status of the answer.
    pub status: u16,
    /// The content type of the answer.
    pub content_type: String,
}

/// A listener on loopback: on that port, or without one on 8000, or if that is taken on any.
pub fn listen(port: Option<u16>) -> Result<TcpListener> {
    let bind = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    match port {
        Some(port) => bind(port).with_context(|| format!("cannot listen on port {port}")),
        None => bind(8000)
            .or_else(|_| bind(0))
            .context("cannot listen on loopback"),
    }
}

impl Server {
    /// Serves `dir` on the listener from a thread of its own.
    pub fn start(dir: &Path, listener: TcpListener, options: Options) -> Result<Self> {
        ensure!(
            options.prefix.starts_with('/') && options.prefix.ends_with('/'),
            "the prefix {} must have a slash at both ends",
            options.prefix
        );
        let address = listener.local_addr()?;
        let http =
            tiny_http::Server::from_listener(listener, None).map_err(|error| anyhow!("{error}"))?;
        let http = Arc::new(http);
        let requests = Arc::new(Mutex::new(Vec::new()));
        let prefix = options.prefix.clone();
        let thread = {
            let (http, requests, dir) =
                (Arc::clone(&http), Arc::clone(&requests), dir.to_path_buf());
            thread::spawn(move || {
                // `recv` fails once, when the server is dropped.
                while let Ok(request) = http.recv() {
                    answer(request, &dir, &options, &requests);
                }
            })
        };
        Ok(Self {
            http,
            thread: Some(thread),
            address,
            prefix,
            requests,
        })
    }

    /// The scheme, host and port.
    pub fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The address of the page.
    pub fn url(&self) -> String {
        format!("{}{}", self.origin(), self.prefix)
    }

    /// The requests answered so far.
    pub fn requests(&self) -> Vec<Served> {
        self.requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Serves until the process is stopped.
    pub fn wait(mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.http.unblock();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn answer(request: Request, dir: &Path, options: &Options, log: &Mutex<Vec<Served>>) {
    let path = request.url().to_owned();
    let (status, content_type, location, body) =
        if *request.method() != Method::Get && *request.method() != Method::Head {
            (
                405,
                "text/plain; charset=utf-8".to_owned(),
                None,
                b"only GET and HEAD\n".to_vec(),
            )
        } else if format!("{path}/") == options.prefix {
            (
                301,
                "text/plain; charset=utf-8".to_owned(),
                Some(options.prefix.clone()),
                b"moved\n".to_vec(),
            )
        } else {
            match file(&path, dir, options) {
                Some((name, bytes)) => (200, content_type(&name, options), None, bytes),
                None => (
                    404,
                    "text/plain; charset=utf-8".to_owned(),
                    None,
                    b"no such file\n".to_vec(),
                ),
            }
        };
    let mut response = Response::from_data(body).with_status_code(status);
    // Files change between two builds under the same name.
    let headers = [
        ("Content-Type", Some(content_type.clone())),
        ("Cache-Control", Some("no-cache".to_owned())),
        ("Location", location),
    ];
    for (name, value) in headers {
        if let Some(header) = value.and_then(|value| Header::from_bytes(name, value).ok()) {
            response.add_header(header);
        }
    }
    // Before the answer, so that whoever has the answer finds it in the log.
    log.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(Served {
            path,
            status,
            content_type,
        });
    // A reader who leaves early is no error.
    let _ = request.respond(response);
}

/// The file that an address names, with its name.
fn file(address: &str, dir: &Path, options: &Options) -> Option<(String, Vec<u8>)> {
    let path = address.split(['?', '#']).next()?;
    let relative = decode(path)?.strip_prefix(&options.prefix)?.to_owned();
    let relative = if relative.is_empty() {
        "index.html".to_owned()
    } else {
        relative
    };
    let mut place = PathBuf::from(dir);
    for segment in relative.split('/') {
        // Nothing hidden and nothing that could leave the folder: `..` starts with a dot too.
        if segment.is_empty() || segment.starts_with('.') || segment.contains(['\\', '\0']) {
            return None;
        }
        place.push(segment);
        // A link could leave the folder as well.
        if fs::symlink_metadata(&place).ok()?.is_symlink() {
            return None;
        }
    }
    fs::metadata(&place).ok()?.is_file().then_some(())?;
    Some((relative, fs::read(&place).ok()?))
}

/// Undoes percent-encoding; nothing for an encoding that is broken or no UTF-8.
fn decode(path: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digit = |byte: u8| char::from(byte).to_digit(16);
            let (high, low) = (digit(rest.next()?)?, digit(rest.next()?)?);
            bytes.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

fn content_type(name: &str, options: &Options) -> String {
    let known = match name.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "wasm" => &options.wasm_type,
        "html" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "json" => "application/json",
        "webmanifest" => "application/manifest+json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "txt" | "md" => "text/plain; charset=utf-8",
        "xml" => "application/xml",
        "zip" => "application/zip",
        _ => "application/octet-stream",
    };
    known.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    /// Sends a request target as it stands, which a proper client would tidy up first.
    fn get(server: &Server, target: &str) -> String {
        let mut stream = TcpStream::connect(server.address).unwrap();
        write!(
            stream,
            "GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn site() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("secret"), "secret").unwrap();
        let dist = dir.path().join("dist");
        fs::create_dir_all(dist.join("sub")).unwrap();
        for (name, text) in [
            ("index.html", "page"),
            ("a.wasm", "wasm"),
            ("sub/b.js", "script"),
            (".hidden", "h"),
        ] {
            fs::write(dist.join(name), text).unwrap();
        }
        std::os::unix::fs::symlink(dir.path().join("secret"), dist.join("link")).unwrap();
        dir
    }

    fn serve(dir: &tempfile::TempDir, options: Options) -> Server {
        Server::start(&dir.path().join("dist"), listen(Some(0)).unwrap(), options).unwrap()
    }

    #[test]
    fn files_come_with_their_types() {
        let dir = site();
        let server = serve(&dir, Options::default());
        for (target, body, content_type) in [
            ("/", "page", "text/html; charset=utf-8"),
            ("/index.html?x=1", "page", "text/html; charset=utf-8"),
            ("/a.wasm", "wasm", "application/wasm"),
            ("/sub/b.js", "script", "text/javascript; charset=utf-8"),
            ("/sub%2Fb.js", "script", "text/javascript; charset=utf-8"),
        ] {
            let answer = get(&server, target);
            assert!(answer.starts_with("HTTP/1.1 200"), "{target}: {answer}");
            assert!(answer.ends_with(body), "{target}: {answer}");
            assert!(
                answer.contains(&format!("Content-Type: {content_type}\r\n")),
                "{target}: {answer}"
            );
        }
        assert_eq!(server.requests().len(), 5);
    }

    #[test]
    fn nothing_outside_the_folder_is_served() {
        let dir = site();
        let server = serve(&dir, Options::default());
        for target in [
            "/nothing",
            "/sub",
            "/sub/",
            "/.hidden",
            "/link",
            "/../secret",
            "/%2e%2e/secret",
            "/sub/../../secret",
            "/sub/%2e%2e/%2E%2E/secret",
            "/..%2fsecret",
            "/..%5csecret",
            "//secret",
            "/%00",
            "/%zz",
            "/a.wasm/",
        ] {
            let answer = get(&server, target);
            assert!(answer.starts_with("HTTP/1.1 404"), "{target}: {answer}");
            assert!(!answer.ends_with("secret"), "{target}: {answer}");
        }
    }

    #[test]
    fn a_prefix_moves_the_whole_site() {
        let dir = site();
        let options = Options {
            prefix: "/a/b/".to_owned(),
            wasm_type: "application/octet-stream".to_owned(),
        };
        let server = serve(&dir, options);
        assert!(get(&server, "/a/b/").ends_with("page"));
        let wasm = get(&server, "/a/b/a.wasm");
        assert!(
            wasm.contains("Content-Type: application/octet-stream\r\n"),
            "{wasm}"
        );
        let moved = get(&server, "/a/b");
        assert!(
            moved.starts_with("HTTP/1.1 301") && moved.contains("Location: /a/b/\r\n"),
            "{moved}"
        );
        for target in ["/", "/a.wasm", "/a/", "/a/bc"] {
            assert!(get(&server, target).starts_with("HTTP/1.1 404"), "{target}");
        }
    }

    #[test]
    fn only_reading_is_allowed() {
        let dir = site();
        let server = serve(&dir, Options::default());
        let mut stream = TcpStream::connect(server.address).unwrap();
        write!(
            stream,
            "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 405"), "{answer}");
    }
}
