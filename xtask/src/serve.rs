//! A static server on loopback, as plain as the poorest static host.

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use tiny_http::{Header, Method, Request, Response};

use crate::budget;

/// What happens to a file on its way out: from its name, how often it was asked for before, and its bytes if there is
/// such a file, the bytes to send, or nothing for a 404.
pub type Alter = dyn Fn(&str, usize, Option<Vec<u8>>) -> Option<Vec<u8>> + Send;

/// How to serve a folder.
pub struct Options {
    /// The path that the folder stands under, with a slash at both ends.
    pub prefix: String,
    /// The content type of `.wasm` files; a host that knows no better sends `application/octet-stream`.
    pub wasm_type: String,
    /// Whether text and modules go out compressed to those who accept it.
    pub gzip: bool,
    /// What tests do to the site.
    pub alter: Box<Alter>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            prefix: "/".to_owned(),
            wasm_type: "application/wasm".to_owned(),
            gzip: false,
            alter: Box::new(|_, _, bytes| bytes),
        }
    }
}

/// A server that runs until it is stopped or dropped.
pub struct Server {
    running: Mutex<Option<Running>>,
    address: SocketAddr,
    prefix: String,
    requests: Arc<Mutex<Vec<Served>>>,
}

struct Running {
    http: Arc<tiny_http::Server>,
    thread: JoinHandle<()>,
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

/// How long a stopped server may take to be gone.
const CLOSED: Duration = Duration::from_secs(3);

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
            let mut site = Site {
                dir,
                options,
                asked: BTreeMap::new(),
                packed: BTreeMap::new(),
            };
            thread::spawn(move || {
                // `recv` fails once, when the server is dropped.
                while let Ok(request) = http.recv() {
                    site.answer(request, &requests);
                }
            })
        };
        Ok(Self {
            running: Mutex::new(Some(Running { http, thread })),
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
    pub fn wait(self) {
        if let Some(running) = self.running().take() {
            let _ = running.thread.join();
        }
    }

    /// Takes no more connections from now on.
    pub fn stop(&self) {
        let Some(Running { http, thread }) = self.running().take() else {
            return;
        };
        http.unblock();
        let _ = thread.join();
        drop(http);
        // The library closes its socket from a thread of its own, a moment later.
        let asked = Instant::now();
        while TcpStream::connect(self.address).is_ok() && asked.elapsed() < CLOSED {
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A folder that is served.
struct Site {
    dir: PathBuf,
    options: Options,
    /// How often each file was asked for.
    asked: BTreeMap<String, usize>,
    /// Each file as it was when compressed, and compressed.
    packed: BTreeMap<String, (Vec<u8>, Vec<u8>)>,
}

impl Site {
    fn answer(&mut self, request: Request, log: &Mutex<Vec<Served>>) {
        const TEXT: &str = "text/plain; charset=utf-8";
        let path = request.url().to_owned();
        let mut headers = Vec::new();
        let (status, content_type, body) =
            if *request.method() != Method::Get && *request.method() != Method::Head {
                (405, TEXT.to_owned(), b"only GET and HEAD\n".to_vec())
            } else if format!("{path}/") == self.options.prefix {
                headers.push(("Location", self.options.prefix.clone()));
                (301, TEXT.to_owned(), b"moved\n".to_vec())
            } else if let Some((name, bytes)) = self.file(&path) {
                let packable = self.options.gzip && compresses(&name);
                let bytes = if packable && accepts_gzip(&request) {
                    headers.push(("Content-Encoding", "gzip".to_owned()));
                    self.packed(&name, bytes)
                } else {
                    bytes
                };
                if packable {
                    headers.push(("Vary", "Accept-Encoding".to_owned()));
                }
                (200, content_type(&name, &self.options), bytes)
            } else {
                (404, TEXT.to_owned(), b"no such file\n".to_vec())
            };
        headers.push(("Content-Type", content_type.clone()));
        // Files change between two builds under the same name.
        headers.push(("Cache-Control", "no-cache".to_owned()));
        let mut response = Response::from_data(body).with_status_code(status);
        for (name, value) in headers {
            if let Ok(header) = Header::from_bytes(name, value) {
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
    fn file(&mut self, address: &str) -> Option<(String, Vec<u8>)> {
        let name = name(address, &self.options.prefix)?;
        let asked = self.asked.entry(name.clone()).or_default();
        let earlier = *asked;
        *asked += 1;
        let bytes = (self.options.alter)(&name, earlier, read(&self.dir, &name))?;
        Some((name, bytes))
    }

    /// Compressed once: it takes longer than sending.
    fn packed(&mut self, name: &str, bytes: Vec<u8>) -> Vec<u8> {
        if let Some((_, packed)) = self.packed.get(name).filter(|(plain, _)| *plain == bytes) {
            return packed.clone();
        }
        let packed = budget::gzip(&bytes);
        self.packed.insert(name.to_owned(), (bytes, packed.clone()));
        packed
    }
}

fn accepts_gzip(request: &Request) -> bool {
    request
        .headers()
        .iter()
        .filter(|header| header.field.equiv("Accept-Encoding"))
        .flat_map(|header| header.value.as_str().split(','))
        .any(|coding| coding.split(';').next().map(str::trim) == Some("gzip"))
}

/// Whether a host would compress a file of that name.
fn compresses(name: &str) -> bool {
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    !matches!(extension, "png" | "ico" | "zip")
}

/// The name of the file that an address stands for, unless it could name anything outside the folder.
fn name(address: &str, prefix: &str) -> Option<String> {
    let path = address.split(['?', '#']).next()?;
    let name = decode(path)?.strip_prefix(prefix)?.to_owned();
    if name.is_empty() {
        return Some("index.html".to_owned());
    }
    // Nothing hidden and nothing that could leave the folder: `..` starts with a dot too.
    name.split('/')
        .all(|segment| {
            !segment.is_empty() && !segment.starts_with('.') && !segment.contains(['\\', '\0'])
        })
        .then_some(name)
}

/// The bytes of a file of the folder, reached by no link, which could leave the folder.
fn read(dir: &Path, name: &str) -> Option<Vec<u8>> {
    let mut place = PathBuf::from(dir);
    for segment in name.split('/') {
        place.push(segment);
        if fs::symlink_metadata(&place).ok()?.is_symlink() {
            return None;
        }
    }
    fs::metadata(&place).ok()?.is_file().then_some(())?;
    fs::read(&place).ok()
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

    /// Sends a request target as it stands, which a proper client would tidy up first.
    fn get(server: &Server, target: &str) -> String {
        String::from_utf8(get_with(server, target, "")).unwrap()
    }

    fn get_with(server: &Server, target: &str, headers: &str) -> Vec<u8> {
        let mut stream = TcpStream::connect(server.address).unwrap();
        write!(
            stream,
            "GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n"
        )
        .unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
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
            ..Options::default()
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
    fn a_stopped_server_takes_no_connection() {
        let dir = site();
        let server = serve(&dir, Options::default());
        assert!(get(&server, "/").ends_with("page"));
        server.stop();
        assert!(TcpStream::connect(server.address).is_err());
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

    #[test]
    fn compressed_only_where_asked_for_and_accepted() {
        let dir = site();
        let text = |answer: &[u8]| String::from_utf8_lossy(answer).into_owned();
        let gzip = "Accept-Encoding: br, gzip;q=1.0\r\n";
        let plain = serve(&dir, Options::default());
        let answer = text(&get_with(&plain, "/a.wasm", gzip));
        assert!(
            answer.ends_with("wasm") && !answer.contains("Vary"),
            "{answer}"
        );

        let options = Options {
            gzip: true,
            ..Options::default()
        };
        let packing = serve(&dir, options);
        for _ in 0..2 {
            let answer = get_with(&packing, "/a.wasm", gzip);
            let head = text(&answer);
            assert!(head.contains("Content-Encoding: gzip\r\n"), "{head}");
            assert!(head.contains("Vary: Accept-Encoding\r\n"), "{head}");
            let body = answer.windows(2).position(|pair| pair == [0x1f, 0x8b]);
            let mut unpacked = String::new();
            flate2::read::GzDecoder::new(&answer[body.unwrap()..])
                .read_to_string(&mut unpacked)
                .unwrap();
            assert_eq!(unpacked, "wasm");
        }
        let answer = text(&get_with(&packing, "/a.wasm", "Accept-Encoding: br\r\n"));
        assert!(answer.ends_with("wasm"), "{answer}");
        assert!(answer.contains("Vary: Accept-Encoding\r\n"), "{answer}");
    }

    #[test]
    fn a_test_can_alter_what_is_served() {
        let dir = site();
        let options = Options {
            alter: Box::new(|name, earlier, bytes| match (name, earlier) {
                ("index.html", 0) => None,
                ("new.js", _) => Some(b"new".to_vec()),
                _ => bytes,
            }),
            ..Options::default()
        };
        let server = serve(&dir, options);
        assert!(get(&server, "/").starts_with("HTTP/1.1 404"));
        assert!(get(&server, "/").ends_with("page"));
        assert!(get(&server, "/new.js").ends_with("new"));
        assert!(get(&server, "/nothing").starts_with("HTTP/1.1 404"));
    }
}
