//! Starting browsers.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::ops::Range;
use std::path::Path;
use std::process::{self, Command};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use fantoccini::wd::{Capabilities, TimeoutConfiguration, WebDriverCompatibleCommand};
use fantoccini::{Client, ClientBuilder};
use http::Method;
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};

use super::page::WAIT;
use super::process::Process;
use crate::tools;

/// Chromium's own record of its requests, in its home.
const NET_LOG: &str = "net-log.json";

/// How long a driver may take to listen, on a slow machine that others use too.
const START: Duration = Duration::from_secs(120);

/// The ports that WebKit's driver is given. Below those that systems give to whoever asks for any, so that none of those
/// takes a port between the look at it and the driver's start.
const PORTS: Range<u16> = 20_000..30_000;

/// Which of them was taken last. It begins where another process of this kind is not likely to.
static LAST_PORT: LazyLock<AtomicU32> = LazyLock::new(|| AtomicU32::new(process::id()));

/// How many of them are tried.
const TRIES: usize = 20;

/// The size of the window that tests see.
pub const WINDOW: (u32, u32) = (1280, 900);

/// A browser that the checks run in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Browser {
    /// Chromium, through chromedriver.
    Chromium,
    /// Firefox, through geckodriver.
    Firefox,
    /// WebKitGTK's MiniBrowser, through WebKitWebDriver.
    WebKit,
}

impl Browser {
    /// Every browser that the checks run in.
    pub const ALL: [Self; 3] = [Self::Chromium, Self::Firefox, Self::WebKit];

    /// The name on the command line and in the list of checks.
    pub fn name(self) -> &'static str {
        match self {
            Self::Chromium => "chromium",
            Self::Firefox => "firefox",
            Self::WebKit => "webkit",
        }
    }

    /// The browsers of a comma list, or `all`.
    pub fn list(names: &str) -> Result<Vec<Self>> {
        if names == "all" {
            return Ok(Self::ALL.to_vec());
        }
        let mut browsers = Vec::new();
        for name in names.split(',') {
            let Some(browser) = Self::ALL.into_iter().find(|browser| browser.name() == name) else {
                bail!("no browser `{name}`: there are chromium, firefox, webkit, and all");
            };
            if !browsers.contains(&browser) {
                browsers.push(browser);
            }
        }
        Ok(browsers)
    }
}

/// What is set in a browser before it starts.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Whether scripts run.
    pub javascript: bool,
    /// Whether sites may store anything.
    pub storage: bool,
    /// Whether the reader prefers dark colours.
    pub dark: bool,
    /// Whether the reader prefers things not to move.
    pub reduced_motion: bool,
}

/// A browser that has been found and can be started any number of times, by several threads at once.
pub struct Driver {
    browser: Browser,
    found: tools::Driven,
}

/// An X server without a screen.
struct Display {
    name: String,
    _server: Process,
}

impl Display {
    fn start() -> Result<Self> {
        let (width, height) = WINDOW;
        let mut command = Command::new(tools::xvfb()?);
        // It picks a free number and prints it.
        command
            .args(["-displayfd", "1", "-nolisten", "tcp", "-screen", "0"])
            .arg(format!("{width}x{height}x24"));
        let mut server = Process::start(&mut command, Process::home()?)?;
        let number: u32 = server.told(|line| line.trim().parse().ok())?;
        Ok(Self {
            name: format!(":{number}"),
            _server: server,
        })
    }
}

impl Driver {
    /// Finds or installs the browser.
    pub fn find(browser: Browser) -> Result<Self> {
        let found = match browser {
            Browser::Chromium => tools::chromium()?,
            Browser::Firefox => tools::firefox()?,
            Browser::WebKit => tools::webkit()?,
        };
        if browser == Browser::WebKit {
            tools::xvfb()?;
        }
        Ok(Self { browser, found })
    }

    /// Which browser it is.
    pub fn browser(&self) -> Browser {
        self.browser
    }

    /// Starts a browser with a fresh profile. Each has a driver to itself, on a free port of loopback: two of the three
    /// drivers take one browser at a time, and one that hangs must not hold up the next check.
    pub async fn session(&self, settings: &Settings) -> Result<Session> {
        let home = Process::home()?;
        let mut command = Command::new(&self.found.driver);
        let mut display = None;
        let (process, port, capabilities) = match self.browser {
            Browser::Chromium => {
                let capabilities = self.chromium(home.path(), settings);
                let mut process = Process::start(command.arg("--port=0"), home)?;
                let port = process.told(|line| {
                    let (_, port) = line
                        .strip_suffix('.')?
                        .rsplit_once("successfully on port ")?;
                    port.parse().ok()
                })?;
                (process, port, capabilities)
            }
            Browser::Firefox => {
                let mut process = Process::start(command.arg("--port=0"), home)?;
                let port = process.told(|line| {
                    let (_, port) = line.rsplit_once("Listening on 127.0.0.1:")?;
                    port.parse().ok()
                })?;
                (process, port, self.firefox(settings))
            }
            Browser::WebKit => {
                // One for each, so that no window is behind another's, and each has the keyboard.
                let screen = display.insert(Display::start()?);
                let (process, port) = self.webkit_driver(screen, settings)?;
                (process, port, self.webkit(settings))
            }
        };
        let Value::Object(capabilities) = capabilities else {
            unreachable!("capabilities are written as an object");
        };
        let url = format!("http://{}:{port}", Ipv4Addr::LOCALHOST);
        let client = ClientBuilder::new(HttpConnector::new())
            .capabilities(capabilities as Capabilities)
            .connect(&url)
            .await
            .with_context(|| format!("cannot start {}", self.found.browser.display()))?;
        let patient = TimeoutConfiguration::new(Some(WAIT), Some(WAIT), None);
        client.update_timeouts(patient).await?;
        let session = Session {
            browser: self.browser,
            client: Some(client),
            process,
            _display: display,
        };
        if self.browser == Browser::Chromium {
            session.emulate_media("screen", settings).await?;
        }
        Ok(session)
    }

    fn chromium(&self, home: &Path, settings: &Settings) -> Value {
        let (width, height) = WINDOW;
        let allowed = |allowed| if allowed { 1 } else { 2 };
        json!({
            "browserName": "chrome",
            "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
            "goog:chromeOptions": {
                "binary": tools::text(&self.found.browser),
                "args": [
                    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--no-default-browser-check",
                    "--disable-background-networking", "--disable-component-update", "--disable-sync",
                    "--disable-quic", "--disable-dev-shm-usage", "--disable-extensions", "--lang=en-GB",
                    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
                    format!("--window-size={width},{height}"),
                    format!("--log-net-log={}", home.join(NET_LOG).display()),
                    format!("--user-data-dir={}", home.join("profile").display()),
                ],
                "prefs": {
                    "profile.default_content_setting_values.javascript": allowed(settings.javascript),
                    "profile.default_content_setting_values.cookies": allowed(settings.storage),
                },
            },
        })
    }

    fn firefox(&self, settings: &Settings) -> Value {
        let (width, height) = WINDOW;
        json!({
            "browserName": "firefox",
            "moz:firefoxOptions": {
                "binary": tools::text(&self.found.browser),
                "args": ["-headless", format!("--width={width}"), format!("--height={height}")],
                "prefs": {
                    "javascript.enabled": settings.javascript,
                    // Accept all, or none, which forbids every kind of storage.
                    "network.cookie.cookieBehavior": if settings.storage { 0 } else { 2 },
                    "ui.systemUsesDarkTheme": u8::from(settings.dark),
                    "ui.prefersReducedMotion": u8::from(settings.reduced_motion),
                    "accessibility.tabfocus": 7,
                },
            },
        })
    }

    fn webkit(&self, settings: &Settings) -> Value {
        let mut args = vec!["--automation".to_owned()];
        if !settings.javascript {
            args.push("--enable-javascript-markup=false".to_owned());
        }
        if settings.dark {
            args.push("--dark-mode".to_owned());
        }
        if !settings.storage {
            args.push("--cookies-policy=never".to_owned());
            args.push("--enable-html5-local-storage=false".to_owned());
        }
        json!({
            "browserName": "MiniBrowser",
            "webkitgtk:browserOptions": {
                "binary": tools::text(&self.found.browser),
                "args": args,
            },
        })
    }

    /// WebKit's driver neither picks a port nor says when it listens; it ends when it cannot.
    fn webkit_driver(&self, display: &Display, settings: &Settings) -> Result<(Process, u16)> {
        let driver = self.found.driver.display();
        for _ in 0..TRIES {
            let next = LAST_PORT.fetch_add(1, Ordering::Relaxed);
            let port = PORTS.start + (next % PORTS.len() as u32) as u16;
            if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_err() {
                continue;
            }
            let mut process = self.start_webkit_driver(display, settings, port)?;
            let started = Instant::now();
            loop {
                if process.ended()?.is_some() {
                    // Somebody was faster.
                    break;
                }
                if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
                    return Ok((process, port));
                }
                ensure!(
                    started.elapsed() < START,
                    "{driver} does not listen within {} s",
                    START.as_secs()
                );
                thread::sleep(Duration::from_millis(10));
            }
        }
        bail!("{driver} ended on each of {TRIES} ports");
    }

    fn start_webkit_driver(
        &self,
        display: &Display,
        settings: &Settings,
        port: u16,
    ) -> Result<Process> {
        let home = Process::home()?;
        // What the desktop's settings say elsewhere.
        let gtk = home.path().join("gtk-3.0");
        fs::create_dir(&gtk)?;
        fs::write(
            gtk.join("settings.ini"),
            format!(
                "[Settings]\ngtk-enable-animations={}\n",
                !settings.reduced_motion
            ),
        )?;
        let mut command = Command::new(&self.found.driver);
        command
            .arg(format!("--port={port}"))
            .env("DISPLAY", &display.name)
            .env_remove("WAYLAND_DISPLAY")
            // Its processes' own sandbox cannot be made by root, nor in a container.
            .env("WEBKIT_DISABLE_SANDBOX_THIS_IS_DANGEROUS", "1")
            // There is no session bus to ask, and no desktop.
            .env("DBUS_SESSION_BUS_ADDRESS", "disabled:")
            .env("GSETTINGS_BACKEND", "memory")
            .env("NO_AT_BRIDGE", "1");
        Process::start(&mut command, home)
    }
}

/// One browser with a fresh profile. It ends when dropped.
pub struct Session {
    browser: Browser,
    client: Option<Client>,
    process: Process,
    // Dropped after the browser that is shown on it.
    _display: Option<Display>,
}

impl Session {
    /// Which browser it is.
    pub fn browser(&self) -> Browser {
        self.browser
    }

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
    }

    /// Every request that a document or worker of `origin` made in Chromium, by address. Ends the browser.
    ///
    /// The driver's log lacks what a worker asks for, and a proxy cannot tell the page's requests from those that
    /// Chromium makes for itself; its own network log names the origin behind each request.
    pub async fn requests_from(&self, origin: &str) -> Result<Vec<String>> {
        // The log is whole when the browser has ended.
        self.client()?.clone().close().await?;
        let path = self.process.place().join(NET_LOG);
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

    /// What Chromium has logged under a type since the last call.
    pub async fn log(&self, kind: &str) -> Result<Vec<Value>> {
        let entries = self
            .driver_command("se/log", json!({ "type": kind }))
            .await?;
        entries
            .as_array()
            .cloned()
            .with_context(|| format!("the {kind} log is no list: {entries}"))
    }

    /// Shows the page in Chromium as on that medium, to a reader with those preferences.
    pub async fn emulate_media(&self, medium: &str, settings: &Settings) -> Result<()> {
        let scheme = if settings.dark { "dark" } else { "light" };
        let motion = if settings.reduced_motion {
            "reduce"
        } else {
            "no-preference"
        };
        let media = json!({
            "media": medium,
            "features": [
                { "name": "prefers-color-scheme", "value": scheme },
                { "name": "prefers-reduced-motion", "value": motion },
            ],
        });
        self.devtools("Emulation.setEmulatedMedia", media).await?;
        Ok(())
    }

    /// Sends Chromium a command of the Chrome DevTools protocol.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_are_named_once_each_or_all_together() {
        assert_eq!(Browser::list("all").unwrap(), Browser::ALL);
        assert_eq!(
            Browser::list("webkit,chromium,webkit").unwrap(),
            [Browser::WebKit, Browser::Chromium]
        );
        for wrong in ["", "edge", "chromium,", "all,firefox", "Chromium"] {
            assert!(Browser::list(wrong).is_err(), "{wrong}");
        }
    }
}
