//! Starting browsers, and leaving none behind.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use fantoccini::wd::{Capabilities, WebDriverCompatibleCommand};
use fantoccini::{Client, ClientBuilder};
use http::Method;
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::tools;

/// The browser's own record of its requests, in its profile.
const NET_LOG: &str = "net-log.json";

/// A browser that the checks run in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Browser {
    /// Chromium, through chromedriver.
    Chromium,
}

impl Browser {
    /// Every browser that the checks run in.
    pub const ALL: [Self; 1] = [Self::Chromium];

    /// The name in the list of checks.
    pub fn name(self) -> &'static str {
        match self {
            Self::Chromium => "chromium",
        }
    }
}

/// A child process that is killed by its own id when dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running WebDriver server.
pub struct Driver {
    browser: Browser,
    program: PathBuf,
    url: String,
    // Fields are dropped in this order: the temporary files go when the driver is dead.
    process: Process,
    home: TempDir,
}

impl Driver {
    /// Finds or installs the browser and starts its driver on a free port of loopback.
    pub fn start(browser: Browser) -> Result<Self> {
        let (program, driver) = match browser {
            Browser::Chromium => tools::chromium()?,
        };
        let home = tempfile::Builder::new().prefix("browser-").tempdir()?;
        let mut process = Process(
            Command::new(&driver)
                .arg("--port=0")
                .env("HOME", home.path())
                .env("TMPDIR", home.path())
                .env("XDG_CONFIG_HOME", home.path())
                .env("XDG_CACHE_HOME", home.path())
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .with_context(|| format!("cannot start {}", driver.display()))?,
        );
        let mut lines = BufReader::new(
            process
                .0
                .stdout
                .take()
                .context("the driver has no output")?,
        )
        .lines();
        let port: u16 = lines
            .by_ref()
            .map_while(|line| line.ok())
            .find_map(|line| {
                line.strip_suffix('.')?
                    .rsplit_once("successfully on port ")?
                    .1
                    .parse()
                    .ok()
            })
            .with_context(|| format!("{} named no port", driver.display()))?;
        // A full pipe would stop the driver.
        thread::spawn(move || lines.for_each(drop));
        let url = format!("http://{}:{port}", Ipv4Addr::LOCALHOST);
        Ok(Self {
            browser,
            program,
            url,
            process,
            home,
        })
    }

    /// Starts a browser with a fresh profile.
    pub async fn session(&self, javascript: bool) -> Result<Session> {
        let profile = tempfile::Builder::new()
            .prefix("profile-")
            .tempdir_in(self.home.path())?;
        let capabilities = match self.browser {
            Browser::Chromium => self.chromium(&tools::text(profile.path()), javascript),
        };
        let Value::Object(capabilities) = capabilities else {
            unreachable!("capabilities are written as an object");
        };
        let client = ClientBuilder::new(HttpConnector::new())
            .capabilities(capabilities as Capabilities)
            .connect(&self.url)
            .await
            .with_context(|| {
                format!(
                    "cannot start {} (driver {})",
                    self.program.display(),
                    self.process.0.id()
                )
            })?;
        let pid = client
            .capabilities()
            .and_then(|capabilities| capabilities.get("goog:processID"))
            .and_then(Value::as_u64);
        Ok(Session {
            client: Some(client),
            running: Running { pid, profile },
        })
    }

    fn chromium(&self, profile: &str, javascript: bool) -> Value {
        let net_log = format!("--log-net-log={profile}/{NET_LOG}");
        let profile = format!("--user-data-dir={profile}");
        let scripts = if javascript { 1 } else { 2 };
        json!({
                    "browserName": "chrome",
                    "pageLoadStrategy": "normal",
                    "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
                    "goog:chromeOptions": {
                        "binary": tools::text(&self.program),
                        "args": [
                            "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--no-default-browser-check",
                            "--disable-background-networking", "--disable-component-update", "--disable-sync",
                            "--disable-quic", "--disable-dev-shm-usage", "--disable-extensions", "--lang=en-GB",
                            "--window-size=1280,900",
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        net_log,
        profile,
                        ],
                        "prefs": { "profile.default_content_setting_values.javascript": scripts },
                    },
                })
    }
}

/// A browser process and its profile, both gone when dropped.
struct Running {
    pid: Option<u64>,
    profile: TempDir,
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(pid) = self.pid else { return };
        // Closed properly it is gone by now, and its number may be another's: the profile's path tells.
        let command_line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if String::from_utf8_lossy(&command_line).contains(&tools::text(self.profile.path())) {
            let _ = Command::new("kill")
                .arg("-KILL")
                .arg(pid.to_string())
                .status();
        }
    }
}

/// One browser with a fresh profile.
pub struct Session {
    client: Option<Client>,
    running: Running,
}

impl Session {
    /// The WebDriver client.
    pub fn client(&self) -> Result<&Client> {
        self.client.as_ref().context("the session is closed")
    }

    /// Closes the browser.
    pub async fn close(mut self) {
        if let Some(client) = self.client.take() {
            // What does not close in time is killed on drop.
            let _ = tokio::time::timeout(Duration::from_secs(10), client.close()).await;
        }
        drop(self.running);
    }

    /// Every request that a document or worker of `origin` made, by address. Ends the browser.
    ///
    /// The driver's log lacks what a worker asks for, and a proxy cannot tell the page's requests from those that
    /// Chromium makes for itself; its own network log names the origin behind each request.
    pub async fn requests_from(&self, origin: &str) -> Result<Vec<String>> {
        // The log is whole when the browser has ended.
        self.client()?.clone().close().await?;
        let path = self.running.profile.path().join(NET_LOG);
        let text = fs::read_to_string(&path).context("the browser wrote no network log")?;
        let log: Value =
            serde_json::from_str(&text).context("the browser's network log is cut off")?;
        let events = log["events"]
            .as_array()
            .context("the browser's network log has no events")?;
        Ok(events
            .iter()
            .map(|event| &event["params"])
            .filter(|params| params["initiator"] == origin)
            .filter_map(|params| params["url"].as_str().map(str::to_owned))
            .collect())
    }

    /// What the browser has logged under a type since the last call.
    pub async fn log(&self, kind: &str) -> Result<Vec<Value>> {
        let entries = self
            .driver_command("se/log", json!({ "type": kind }))
            .await?;
        entries
            .as_array()
            .cloned()
            .with_context(|| format!("the {kind} log is no list: {entries}"))
    }

    /// Sends a command of the Chrome DevTools protocol.
    pub async fn devtools(&self, command: &str, params: Value) -> Result<Value> {
        self.driver_command(
            "goog/cdp/execute",
            json!({ "cmd": command, "params": params }),
        )
        .await
        .with_context(|| format!("{command} failed"))
    }

    async fn driver_command(&self, path: &'static str, body: Value) -> Result<Value> {
        Ok(self.client()?.issue_cmd(Vendor { path, body }).await?)
    }
}

/// A command of the driver that WebDriver does not have.
#[derive(Debug)]
struct Vendor {
    path: &'static str,
    body: Value,
}

impl WebDriverCompatibleCommand for Vendor {
    fn endpoint(
        &self,
        base: &url::Url,
        session: Option<&str>,
    ) -> Result<url::Url, url::ParseError> {
        base.join(&format!(
            "session/{}/{}",
            session.unwrap_or_default(),
            self.path
        ))
    }

    fn method_and_body(&self, _: &url::Url) -> (Method, Option<String>) {
        (Method::POST, Some(self.body.to_string()))
    }
}
