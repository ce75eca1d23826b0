//! `dist/`: the deployable site.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha2::{Digest, Sha256};
use tool_retries::article::{self, Shown};
use tool_retries::digest::hex;
use tool_retries::evidence::{self, TraceAt};
use tool_retries::{diagram, json, markup, scenario};
use url::Url;

use crate::budget;
use crate::lab;
use crate::tools::{self, say};
use crate::wasm;

/// Files that few readers open. The service worker keeps each from then on.
pub const LATER: [&str; 3] = ["bench.html", "bench.js", "traces.html"];

/// The files of a site by their relative address.
pub type Files = BTreeMap<String, Vec<u8>>;

/// Where the site is built.
pub fn dist() -> PathBuf {
    tools::root().join("dist")
}

/// Builds the site and prints the size of each file.
///
/// `module` is a module compiled elsewhere, for machines whose rustc has no wasm32; `base_url` is where the site will
/// be published.
pub fn build(module: Option<&Path>, base_url: Option<&Url>) -> Result<()> {
    let lab = lab::archive()?;
    let mut files = page(lab.len(), base_url)?;
    let engine = wasm::engine(module)?;
    for (name, bytes) in [("engine.js", engine.js), ("engine_bg.wasm", engine.wasm)] {
        ensure!(
            files.insert(name.to_owned(), bytes).is_none(),
            "www/{name} stands in the way of the engine"
        );
    }
    name_release(&mut files)?;
    // After that: no page loads it, so no reader without a network misses it.
    files.insert(lab::NAME.to_owned(), lab);
    write(&dist(), &files)?;
    print!("{}", budget::table(&files));
    say("the site is in dist/");
    Ok(())
}

/// The page and the static files of `www`.
fn page(lab_bytes: usize, base_url: Option<&Url>) -> Result<Files> {
    let root = tools::root();
    let www = root.join("www");
    let mut files = static_files(&www)?;
    let template = files
        .remove("index.html")
        .context("www/index.html is missing: it is the page's template")?;
    let template = String::from_utf8(template).context("www/index.html is not UTF-8")?;
    let read = |name: &str| {
        fs::read_to_string(root.join(name)).with_context(|| format!("cannot read {name}"))
    };
    let markdown = read("article.md")?;
    let results =
        json::parse(&read("results.json")?).map_err(|error| anyhow!("results.json: {error}"))?;

    // The evidence beside a recorded value is that of a run made now, so it cannot go stale unnoticed.
    let fixture = scenario::Fixture::committed();
    let failed = RefCell::new(None);
    let traces = RefCell::new(BTreeMap::new());
    let shown = |id: &str| {
        let found = scenario::find(id)?;
        match found.run(&fixture) {
            Ok(outcome) => {
                let address = format!("traces.html#{id}");
                let html = evidence::html(&outcome, id, TraceAt::Page(&address));
                traces
                    .borrow_mut()
                    .insert(found.id, outcome.trace.to_string());
                Some(Shown {
                    evidence: html,
                    diagram: diagram::sequence(&outcome.trace).unwrap_or_default(),
                })
            }
            Err(error) => {
                failed
                    .borrow_mut()
                    .get_or_insert_with(|| format!("scenario {id}: {error}"));
                None
            }
        }
    };
    let html = article::render(&template, &markdown, &results, &shown);
    if let Some(message) = failed.into_inner() {
        bail!(message);
    }
    let traces = traces_html(&traces.into_inner());
    fill(&mut files, "traces.html", "<!-- traces -->", &traces)?;
    files.insert(
        "index.html".to_owned(),
        html.map_err(|error| anyhow!("{error}"))?.into_bytes(),
    );
    let size = format!(" (ZIP, {} KB)", lab_bytes.div_ceil(1000));
    fill(&mut files, "index.html", "<!-- size of lab.zip -->", &size)?;
    let addresses = base_url.map(addresses).unwrap_or_default();
    fill(&mut files, "index.html", "<!-- addresses -->\n", &addresses)?;
    Ok(files)
}

/// The traces of recorded runs, by scenario, in the article's order.
fn traces_html(traces: &BTreeMap<&str, String>) -> String {
    let mut html = String::new();
    for scenario in scenario::all() {
        if let Some(trace) = traces.get(scenario.id) {
            let id = scenario.id;
            let trace = markup::escaped(trace);
            html += &format!(
                "<h2 id=\"{id}\"><code>{id}</code></h2>\n<pre class=\"trace-text\">{trace}</pre>\n"
            );
        }
    }
    html
}

/// The metadata that name where the article is published.
fn addresses(base_url: &Url) -> String {
    let url = markup::escaped(base_url.as_str());
    format!(
        "<link rel=\"canonical\" href=\"{url}\">\n\
         <meta property=\"og:url\" content=\"{url}\">\n\
         <meta name=\"citation_public_url\" content=\"{url}\">\n"
    )
}

/// The public address of a site from the address of its folder or its page.
pub fn base_url(text: &str) -> Result<Url> {
    let url = Url::parse(text).with_context(|| format!("{text:?} is no address"))?;
    ensure!(
        ["http", "https"].contains(&url.scheme())
            && url.path().ends_with('/')
            && url.query().is_none()
            && url.fragment().is_none(),
        "{text:?} is not the web address of a folder, such as https://example.org/retries/"
    );
    Ok(url)
}

/// Names this release by the digest of its files, and lists in the service worker what it keeps: everything but
/// itself, some of it [`LATER`].
fn name_release(files: &mut Files) -> Result<()> {
    let mut hash = Sha256::new();
    for (name, bytes) in &*files {
        // With its length, so that no two sites give the same input.
        hash.update(format!("{name} {}\n", bytes.len()));
        hash.update(bytes);
    }
    let digest = hex(&hash.finalize());
    fill(files, "boot.js", "{{release}}", &digest)?;
    fill(files, "sw.js", "{{release}}", &digest)?;
    let kept: Vec<(&str, String)> = files
        .iter()
        .filter(|(name, _)| *name != "sw.js")
        .map(|(name, bytes)| {
            let integrity = format!("sha256-{}", BASE64.encode(Sha256::digest(bytes)));
            (name.as_str(), integrity)
        })
        .collect();
    let kept = serde_json::to_string(&kept)?;
    fill(files, "sw.js", "\"{{files}}\"", &kept)?;
    let later = serde_json::to_string(&LATER)?;
    fill(files, "sw.js", "\"{{later}}\"", &later)
}

/// Puts `value` in the one place of a file that holds `placeholder`.
fn fill(files: &mut Files, name: &str, placeholder: &str, value: &str) -> Result<()> {
    let bytes = files
        .get_mut(name)
        .with_context(|| format!("www/{name} is missing"))?;
    let text = std::str::from_utf8(bytes).with_context(|| format!("{name} is not UTF-8"))?;
    let places = text.matches(placeholder).count();
    ensure!(
        places == 1,
        "{name} has {placeholder} {places} times, expected once"
    );
    *bytes = text.replace(placeholder, value).into_bytes();
    Ok(())
}

/// All files below a folder, except hidden ones such as an editor's.
pub fn static_files(dir: &Path) -> Result<Files> {
    let mut files = Files::new();
    let mut rooms = vec![(dir.to_path_buf(), String::new())];
    while let Some((room, address)) = rooms.pop() {
        for entry in
            fs::read_dir(&room).with_context(|| format!("cannot read {}", room.display()))?
        {
            let entry = entry?;
            let name = tools::text(entry.file_name());
            if name.starts_with('.') {
                continue;
            }
            let address = format!("{address}{name}");
            if entry.file_type()?.is_dir() {
                rooms.push((entry.path(), format!("{address}/")));
            } else {
                files.insert(address, fs::read(entry.path())?);
            }
        }
    }
    Ok(files)
}

/// Makes a folder hold exactly these files.
fn write(dir: &Path, files: &Files) -> Result<()> {
    if dir.exists() {
        fs::remove_dir_all(dir)?;
    }
    for (name, bytes) in files {
        let path = dir.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_worker(index: &str) -> Files {
        let file = |name: &str, text: &str| (name.to_owned(), text.as_bytes().to_vec());
        let mut files = Files::from([
            file("boot.js", "release = \"{{release}}\""),
            file("index.html", index),
            file(
                "sw.js",
                "release = \"{{release}}\", later = \"{{later}}\", files = \"{{files}}\"",
            ),
        ]);
        name_release(&mut files).unwrap();
        files
    }

    fn text<'a>(files: &'a Files, name: &str) -> &'a str {
        std::str::from_utf8(&files[name]).unwrap()
    }

    #[test]
    fn the_service_worker_lists_what_is_deployed() {
        let files = with_worker("Hello, World!");
        let (head, list) = text(&files, "sw.js").split_once(", files = ").unwrap();
        let (head, later) = head.split_once(", later = ").unwrap();
        assert_eq!(later, r#"["bench.html","bench.js","traces.html"]"#);
        // Page and worker name the same release.
        assert_eq!(text(&files, "boot.js"), head);
        let list: Vec<(String, String)> = serde_json::from_str(list).unwrap();
        let boot = format!(
            "sha256-{}",
            BASE64.encode(Sha256::digest(&files["boot.js"]))
        );
        // The second is a published digest.
        let hello = "sha256-3/1gIbsr1bCvZ2KQgJ7DpTGR3YHH9wpLKGiKNiGCmG8=".to_owned();
        assert_eq!(
            list,
            [
                ("boot.js".to_owned(), boot),
                ("index.html".to_owned(), hello)
            ]
        );
    }

    #[test]
    fn a_release_is_named_by_its_content() {
        let one = with_worker("one");
        assert_eq!(one, with_worker("one"));
        assert_ne!(text(&one, "boot.js"), text(&with_worker("two"), "boot.js"));
    }

    #[test]
    fn a_lost_placeholder_is_named() {
        let mut files = Files::from([("boot.js".to_owned(), b"release".to_vec())]);
        let message = name_release(&mut files).unwrap_err().to_string();
        assert!(
            message.contains("boot.js") && message.contains("{{release}}"),
            "{message}"
        );
    }

    #[test]
    fn only_a_folder_on_the_web_is_a_base_url() {
        let html = addresses(&base_url("https://example.org/a&b/").unwrap());
        assert_eq!(
            html,
            "<link rel=\"canonical\" href=\"https://example.org/a&amp;b/\">\n\
             <meta property=\"og:url\" content=\"https://example.org/a&amp;b/\">\n\
             <meta name=\"citation_public_url\" content=\"https://example.org/a&amp;b/\">\n"
        );
        for text in [
            "",
            "example.org",
            "/retries/",
            "file:///retries/",
            "https://example.org/index.html",
            "https://example.org/?a",
            "https://example.org/#a",
        ] {
            assert!(base_url(text).is_err(), "{text}");
        }
    }

    /// No page may be laxer than the others.
    #[test]
    fn all_pages_with_scripts_have_one_policy() {
        let policy = |page: &'static str| {
            let start = page
                .find("<meta http-equiv=\"Content-Security-Policy\"")
                .unwrap();
            page[start..].lines().next().unwrap()
        };
        let article = policy(include_str!("../../www/index.html"));
        assert_eq!(article, policy(include_str!("../../www/embed.html")));
        assert_eq!(article, policy(include_str!("../../www/bench.html")));
    }

    #[test]
    fn a_written_site_holds_its_files_and_no_older_ones() {
        let dir = tempfile::tempdir().unwrap();
        let dist = dir.path().join("dist");
        let old = Files::from([("old.js".to_owned(), b"old".to_vec())]);
        write(&dist, &old).unwrap();
        let new = Files::from([
            ("a/b.css".to_owned(), b"b".to_vec()),
            ("index.html".to_owned(), b"i".to_vec()),
        ]);
        write(&dist, &new).unwrap();
        fs::write(dist.join(".hidden"), "x").unwrap();
        assert_eq!(static_files(&dist).unwrap(), new);
    }
}
