//! The article, open in a browser.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use fantoccini::Locator;
use fantoccini::actions::{InputSource, KeyAction, KeyActions};
use fantoccini::key::Key;
use serde_json::Value;

use super::driver::{Session, Settings};
use crate::serve::{self, Server};

type Alter = fn(&str, usize, Option<Vec<u8>>) -> Option<Vec<u8>>;

/// How the site is served and the browser set for a check.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    /// The path that the site stands under.
    pub prefix: &'static str,
    /// The content type of the module.
    pub wasm_type: &'static str,
    /// What is done to the site: see [`serve::Alter`].
    pub alter: Alter,
    /// Whether the page may keep the site for reading offline.
    pub offline: bool,
    /// The browser's own settings.
    pub settings: Settings,
}

impl Setup {
    /// The site as built, at the root of a good host, in a browser as it comes.
    pub const PLAIN: Self = Self {
        prefix: "/",
        wasm_type: "application/wasm",
        alter: |_, _, bytes| bytes,
        offline: true,
        settings: Settings {
            javascript: true,
            storage: true,
            dark: false,
            reduced_motion: false,
        },
    };

    /// The site as built, but for a script ahead of all others that notes what goes wrong, for [`Page::errors`].
    pub const WATCHED: Self = Self::altered(watched);

    /// The site as built, and an empty page for [`Page::load_at_width`].
    pub const FRAMED: Self = Self::altered(|name, _, bytes| match name {
        FRAMES => Some(b"<!doctype html><title>Frames</title><body></body>".to_vec()),
        _ => bytes,
    });

    /// The site with something done to it, and not kept for reading offline: that would ask for files too.
    pub const fn altered(alter: Alter) -> Self {
        Self {
            alter,
            offline: false,
            ..Self::PLAIN
        }
    }

    /// The server's part.
    pub fn serve(&self) -> serve::Options {
        let Self { alter, offline, .. } = *self;
        serve::Options {
            prefix: self.prefix.to_owned(),
            wasm_type: self.wasm_type.to_owned(),
            gzip: false,
            alter: Box::new(move |name, earlier, bytes| match name {
                // One that keeps nothing: one that is missing would be an error of its own.
                "sw.js" if !offline => Some(Vec::new()),
                _ => alter(name, earlier, bytes),
            }),
        }
    }
}

const FRAMES: &str = "frames.html";

/// WebDriver gives no console but Chromium's, and runs no script ahead of the page's own.
const WATCH: &str = "window.watched = [];
const note = (kind, text) => watched.push(`${kind}: ${text}`);
addEventListener('error', (event) => note('error', event.message ?? event.target.outerHTML), true);
addEventListener('unhandledrejection', (event) => note('rejection', event.reason));
addEventListener('securitypolicyviolation', (event) =>
  note('policy', `${event.effectiveDirective} ${event.blockedURI}`));
const told = console.error;
console.error = (...words) => { note('console', words.join(' ')); told(...words); };
";

fn watched(name: &str, _: usize, bytes: Option<Vec<u8>>) -> Option<Vec<u8>> {
    match name {
        "watch.js" => Some(WATCH.into()),
        "index.html" => {
            let page = String::from_utf8(bytes?).ok()?;
            let (head, rest) = page.split_once("<script")?;
            Some(format!("{head}<script src=\"watch.js\"></script>\n<script{rest}").into_bytes())
        }
        _ => bytes,
    }
}

/// How long the engine may take to load or to run, on a slow machine.
const WAIT: Duration = Duration::from_secs(30);

/// A browser and the server whose site it shows.
pub struct Page {
    /// The browser.
    pub session: Session,
    /// The server.
    pub server: Server,
}

/// A scenario's row as the reader sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The scenario.
    pub id: String,
    /// The recorded value.
    pub recorded: String,
    /// The reader's own value, empty before a run.
    pub reader: String,
    /// Whether they agree, empty before a run.
    pub agreement: String,
    /// What the page makes of it: `running`, `agrees`, `differs`, `failed`, `stopped`, or nothing before a run.
    pub state: String,
}

impl Row {
    /// Whether the reader's own run gave what is recorded, and the page says so.
    pub fn agrees(&self) -> bool {
        self.agreement == "✓ agrees" && !self.reader.is_empty() && self.reader == self.recorded
    }

    /// Whether a run has ended here, however it went.
    pub fn is_answered(&self) -> bool {
        ["agrees", "differs", "failed", "stopped"].contains(&self.state.as_str())
    }
}

impl Page {
    /// A page that is not loaded yet.
    pub fn new(session: Session, server: Server) -> Self {
        Self { session, server }
    }

    /// Closes the browser, then the server.
    pub async fn close(self) {
        self.session.close().await;
    }

    /// Loads the page afresh.
    pub async fn load(&self) -> Result<()> {
        self.load_at("").await
    }

    /// Loads the page afresh, as a link with that end does: `#` and a fragment, or nothing.
    pub async fn load_at(&self, fragment: &str) -> Result<()> {
        // Going to the address that is already open could keep the document.
        let client = self.session.client()?;
        client.goto("about:blank").await?;
        client
            .goto(&format!("{}{fragment}", self.server.url()))
            .await?;
        Ok(())
    }

    /// Loads the page afresh and waits until its buttons work.
    pub async fn load_with_engine(&self) -> Result<()> {
        self.load().await?;
        self.engine_ready().await
    }

    /// Loads the page into a frame of that width and waits until its buttons work, on [`Setup::FRAMED`]. Windows cannot
    /// be as narrow as a phone in every browser, and to the page its frame is the window.
    pub async fn load_at_width(&self, width: u32) -> Result<()> {
        let client = self.session.client()?;
        let frames = format!("{}{FRAMES}", self.server.url());
        client.goto(&frames).await?;
        let script = "const frame = document.createElement('iframe');
            frame.width = arguments[0];
            frame.height = 800;
            frame.src = './';
            document.body.append(frame);";
        client.execute(script, vec![width.into()]).await?;
        let frame = client.find(Locator::Css("iframe")).await?;
        frame.enter_frame().await?;
        self.engine_ready().await
    }

    /// Waits until the buttons work.
    pub async fn engine_ready(&self) -> Result<()> {
        let state = self.engine_settled().await?;
        ensure!(
            state == "ready",
            "expected the engine ready, seen it {state}; the page says: {}",
            self.status().await?
        );
        Ok(())
    }

    /// Waits until the engine has loaded or failed to, and answers `ready` or `failed`.
    pub async fn engine_settled(&self) -> Result<String> {
        self.wait("the engine is ready or has failed", async || {
            let state = self
                // A frame has no document at first.
                .text("return document.documentElement?.dataset.engine ?? ''")
                .await?;
            Ok(["ready", "failed"]
                .contains(&state.as_str())
                .then_some(state))
        })
        .await
    }

    /// Presses a button as a reader does: visible, and where the pointer can reach it.
    pub async fn press(&self, selector: &str) -> Result<()> {
        let button = self
            .session
            .client()?
            .find(Locator::Css(selector))
            .await
            .with_context(|| format!("the page has no {selector}"))?;
        // What appears gradually is not displayed at first.
        self.wait(&format!("{selector} is displayed"), async || {
            Ok(button.is_displayed().await?.then_some(()))
        })
        .await?;
        // At once and to the middle: a page that scrolls smoothly is still moving when the driver clicks.
        let scroll = "arguments[0].scrollIntoView({ block: 'center', behavior: 'instant' })";
        let argument = serde_json::to_value(&button)?;
        self.session
            .client()?
            .execute(scroll, vec![argument])
            .await?;
        button
            .click()
            .await
            .with_context(|| format!("cannot press {selector}"))
    }

    /// Presses every table's Run all, one after the other, and answers their reports.
    pub async fn run_all(&self) -> Result<Vec<String>> {
        let groups = self
            .script(
                "return [...document.querySelectorAll('[data-run-all]')].map((one) => one.dataset.runAll);",
            )
            .await?;
        let groups: Vec<String> = serde_json::from_value(groups)?;
        let mut reports = Vec::new();
        for group in groups {
            self.press(&format!("[data-run-all='{group}']")).await?;
            let text = format!(
                "return document.querySelector(\"[data-report='{group}'] pre\")?.textContent ?? ''"
            );
            let report = self
                .wait(&format!("the report of {group} stands"), async || {
                    let report = self.text(&text).await?;
                    Ok((!report.trim().is_empty()).then_some(report))
                })
                .await?;
            reports.push(report);
        }
        Ok(reports)
    }

    /// Presses a scenario's own button, waits for its answer and returns the row.
    pub async fn run_one(&self, id: &str) -> Result<Row> {
        self.press(&format!("button.run[data-run='{id}']")).await?;
        self.answered(id).await
    }

    /// Waits until the run of a scenario has ended and returns the row.
    pub async fn answered(&self, id: &str) -> Result<Row> {
        self.wait(&format!("the run of {id} ends"), async || {
            Ok(Some(self.row(id).await?).filter(Row::is_answered))
        })
        .await
    }

    /// Every scenario's row.
    pub async fn rows(&self) -> Result<Vec<Row>> {
        // textContent and not what is painted: a phone's layout may hide a cell's label or fold it.
        let rows = self
            .script(
                "const text = (row, part) => row.querySelector(part)?.textContent.trim().replace(/\\s+/g, ' ') ?? '';
                 return [...document.querySelectorAll('tr[data-scenario]')].map((row) => [
                   row.dataset.scenario, text(row, '.recorded'), text(row, '.reader'), text(row, '.agreement'),
                   row.dataset.state ?? '']);",
            )
            .await?;
        let rows: Vec<[String; 5]> = serde_json::from_value(rows)?;
        Ok(rows
            .into_iter()
            .map(|[id, recorded, reader, agreement, state]| Row {
                id,
                recorded,
                reader,
                agreement,
                state,
            })
            .collect())
    }

    /// A scenario's row.
    pub async fn row(&self, id: &str) -> Result<Row> {
        let mut rows = self.rows().await?.into_iter();
        rows.find(|row| row.id == id)
            .with_context(|| format!("no row for {id}"))
    }

    /// Opens a scenario's evidence by its line.
    pub async fn open_evidence(&self, id: &str) -> Result<()> {
        self.press(&format!("#evidence-{id} > summary")).await?;
        ensure!(
            self.is_open(id).await?,
            "expected the evidence of {id} open after a press, seen it closed"
        );
        Ok(())
    }

    /// Whether a scenario's evidence is open.
    pub async fn is_open(&self, id: &str) -> Result<bool> {
        self.holds(&format!("document.getElementById('evidence-{id}').open"))
            .await
    }

    /// Opens everything that can be opened, traces included.
    pub async fn open_everything(&self) -> Result<()> {
        self.script("for (const one of document.querySelectorAll('details')) one.open = true;")
            .await?;
        Ok(())
    }

    /// Sends a key so many times to what has the focus.
    pub async fn key(&self, key: Key, times: usize) -> Result<()> {
        let value = char::from(key);
        let actions = (0..times).fold(KeyActions::new("keyboard".to_owned()), |actions, _| {
            actions
                .then(KeyAction::Down { value })
                .then(KeyAction::Up { value })
        });
        Ok(self.session.client()?.perform_actions(actions).await?)
    }

    /// Gives the focus to a control that can be seen, and sends it a key.
    pub async fn key_on(&self, selector: &str, key: Key) -> Result<()> {
        let took = self
            .session
            .client()?
            .execute(
                "const control = document.querySelector(arguments[0]);
                 if (!control?.checkVisibility({ visibilityProperty: true })) return false;
                 control.focus();
                 return document.activeElement === control;",
                vec![selector.into()],
            )
            .await?;
        ensure!(took == true, "expected that {selector} takes the focus");
        self.key(key, 1).await
    }

    /// What went wrong since the page was loaded, where the setup watches for it.
    pub async fn errors(&self) -> Result<Vec<String>> {
        Ok(serde_json::from_value(
            self.script("return window.watched").await?,
        )?)
    }

    /// What the status region says.
    pub async fn status(&self) -> Result<String> {
        self.text("return document.querySelector('#status')?.textContent.trim() ?? ''")
            .await
    }

    /// Whether an expression of the page is true.
    pub async fn holds(&self, expression: &str) -> Result<bool> {
        let value = self.script(&format!("return {expression}")).await?;
        value
            .as_bool()
            .with_context(|| format!("expected `{expression}` true or false, seen {value}"))
    }

    /// The value of a script.
    pub async fn script(&self, script: &str) -> Result<Value> {
        Ok(self.session.client()?.execute(script, Vec::new()).await?)
    }

    /// The text that a script returns.
    pub async fn text(&self, script: &str) -> Result<String> {
        let value = self.script(script).await?;
        value
            .as_str()
            .map(str::to_owned)
            .with_context(|| format!("expected text, seen {value}"))
    }

    /// Asks until there is an answer; `what` is what should come true.
    pub async fn wait<T>(
        &self,
        what: &str,
        mut ask: impl AsyncFnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        let started = Instant::now();
        loop {
            if let Some(answer) = ask().await? {
                return Ok(answer);
            }
            if started.elapsed() > WAIT {
                bail!(
                    "expected that {what} within {} s; the page says: {}",
                    WAIT.as_secs(),
                    self.status().await.unwrap_or_default()
                );
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    }
}
