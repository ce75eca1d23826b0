//! The article, open in a browser.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::driver::Session;
use crate::serve::{self, Server};

/// How the site is served and the browser set for a check.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    /// The path that the site stands under.
    pub prefix: &'static str,
    /// The content type of the module.
    pub wasm_type: &'static str,
    /// Whether scripts run.
    pub javascript: bool,
}

impl Setup {
    /// The site at the root of a good host.
    pub const PLAIN: Self = Self {
        prefix: "/",
        wasm_type: "application/wasm",
        javascript: true,
    };

    /// The server's part.
    pub fn serve(&self) -> serve::Options {
        serve::Options {
            prefix: self.prefix.to_owned(),
            wasm_type: self.wasm_type.to_owned(),
        }
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
}

impl Row {
    /// Whether the reader's own run gave what is recorded, and the page says so.
    pub fn agrees(&self) -> bool {
        self.agreement == "✓ agrees" && !self.reader.is_empty() && self.reader == self.recorded
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
        // Going to the address that is already open could keep the document.
        let client = self.session.client()?;
        client.goto("about:blank").await?;
        client.goto(&self.server.url()).await?;
        Ok(())
    }

    /// Loads the page afresh and waits until its buttons work.
    pub async fn load_with_engine(&self) -> Result<()> {
        self.load().await?;
        let state = self
            .wait("the engine is ready", async || {
                let state = self
                    .text("return document.documentElement.dataset.engine ?? ''")
                    .await?;
                Ok(["ready", "failed"]
                    .contains(&state.as_str())
                    .then_some(state))
            })
            .await?;
        if state == "failed" {
            bail!(
                "expected the engine ready, seen it failed; the page says: {}",
                self.status().await?
            );
        }
        Ok(())
    }

    /// Presses a button as a reader does: visible, and where the pointer can reach it.
    pub async fn press(&self, selector: &str) -> Result<()> {
        let button = self
            .session
            .client()?
            .find(fantoccini::Locator::Css(selector))
            .await
            .with_context(|| format!("the page has no {selector}"))?;
        ensure!(
            button.is_displayed().await?,
            "expected {selector} displayed, seen it hidden"
        );
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

    /// Presses a scenario's own button and waits for its row.
    pub async fn run_one(&self, id: &str) -> Result<()> {
        self.press(&format!("button.run[data-run='{id}']")).await?;
        self.wait(
            &format!("the row of {id} says whether it agrees"),
            async || {
                let rows = self.rows().await?;
                Ok(rows
                    .iter()
                    .any(|row| row.id == id && row.agreement.starts_with(['✓', '✗']))
                    .then_some(()))
            },
        )
        .await
    }

    /// Every scenario's row.
    pub async fn rows(&self) -> Result<Vec<Row>> {
        // textContent and not what is painted: a phone's layout may hide a cell's label or fold it.
        let rows = self
            .script(
                "const text = (row, part) => row.querySelector(part)?.textContent.trim().replace(/\\s+/g, ' ') ?? '';
                 return [...document.querySelectorAll('tr[data-scenario]')].map((row) => [
                   row.dataset.scenario, text(row, '.recorded'), text(row, '.reader'), text(row, '.agreement')]);",
            )
            .await?;
        let rows: Vec<[String; 4]> = serde_json::from_value(rows)?;
        Ok(rows
            .into_iter()
            .map(|[id, recorded, reader, agreement]| Row {
                id,
                recorded,
                reader,
                agreement,
            })
            .collect())
    }

    /// What the status region says.
    pub async fn status(&self) -> Result<String> {
        self.text("return document.querySelector('#status')?.textContent.trim() ?? ''")
            .await
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
    async fn wait<T>(
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
