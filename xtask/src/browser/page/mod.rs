//! The article, open in a browser.

pub mod pictures;

use std::fmt::Debug;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use fantoccini::actions::{InputSource, KeyAction, KeyActions};
use fantoccini::elements::Element;
use fantoccini::key::Key;
use fantoccini::{Client, Locator};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::driver::{Browser, Session, Settings, WINDOW};
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

    /// The site as built, but for a script ahead of all others that notes what goes wrong, for [`Page::no_errors`].
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

/// Notes what goes wrong, for [`Page::no_errors`]. WebDriver gives no console but Chromium's, and runs no script ahead of
/// the page's own.
pub const WATCH: &str = "window.watched = [];
const note = (kind, text) => watched.push(`${kind}: ${text}`);
addEventListener('error', (event) => note('error', event.message ?? event.target.outerHTML), true);
addEventListener('unhandledrejection', (event) => note('rejection', event.reason));
addEventListener('securitypolicyviolation', (event) =>
  note('policy', `${event.effectiveDirective} ${event.blockedURI}`));
const told = console.error;
console.error = (...words) => { note('console', words.join(' ')); told(...words); };
";

fn watched(name: &str, _: usize, bytes: Option<Vec<u8>>) -> Option<Vec<u8>> {
    with_script_ahead(WATCH, name, bytes)
}

/// The file with that script ahead of all others of the article.
pub fn with_script_ahead(script: &str, name: &str, bytes: Option<Vec<u8>>) -> Option<Vec<u8>> {
    match name {
        "ahead.js" => Some(script.into()),
        "index.html" => {
            let page = String::from_utf8(bytes?).ok()?;
            let (head, rest) = page.split_once("<script")?;
            Some(format!("{head}<script src=\"ahead.js\"></script>\n<script{rest}").into_bytes())
        }
        _ => bytes,
    }
}

/// How long anything may take to come true: ten times what it takes alone on a machine with two slow cores, since others
/// use them too.
pub const WAIT: Duration = Duration::from_secs(240);

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(25);

/// A browser and the server whose site it shows.
///
/// A check cannot read a moment: what it is told of the page comes from a [`Look`], and those are made in
/// [`Page::until`], which looks again until it sees what it is to see, and in [`Page::once`], whose caller says why no
/// second look could show anything else.
pub struct Page {
    session: Session,
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

/// One look at the page as it stands.
pub struct Look<'a> {
    client: &'a Client,
}

impl Look<'_> {
    /// The value of an expression of the page.
    pub async fn value<T: DeserializeOwned>(&self, expression: &str) -> Result<T> {
        let script = format!("return ({expression})");
        let value = self.client.execute(&script, Vec::new()).await?;
        serde_json::from_value(value.clone())
            .with_context(|| format!("did not expect `{expression}` to be {value}"))
    }

    /// What the status region says.
    pub async fn status(&self) -> Result<String> {
        self.value("document.querySelector('#status')?.textContent.trim() ?? ''")
            .await
    }

    /// Every scenario's row.
    pub async fn rows(&self) -> Result<Vec<Row>> {
        // textContent and not what is painted: a phone's layout may hide a cell's label or fold it.
        let rows: Vec<[String; 5]> = self
            .value(
                "((text) => [...document.querySelectorAll('tr[data-scenario]')].map((row) => [
                   row.dataset.scenario, text(row, '.recorded'), text(row, '.reader'), text(row, '.agreement'),
                   row.dataset.state ?? '']))
                 ((row, part) => row.querySelector(part)?.textContent.trim().replace(/\\s+/g, ' ') ?? '')",
            )
            .await?;
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

    /// The elements that match, by the driver: a page without scripts need not run its own.
    pub async fn elements(&self, selector: &str) -> Result<Vec<Element>> {
        Ok(self.client.find_all(Locator::Css(selector)).await?)
    }

    /// The texts of the elements that match and are displayed.
    pub async fn displayed(&self, selector: &str) -> Result<Vec<String>> {
        let mut texts = Vec::new();
        for element in self.elements(selector).await? {
            if element.is_displayed().await? {
                texts.push(element.text().await?);
            }
        }
        Ok(texts)
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

    /// Which browser it is.
    pub fn browser(&self) -> Browser {
        self.session.browser()
    }

    /// Every request that the page and its workers made in Chromium, by address. Ends the browser.
    pub async fn requests(&self) -> Result<Vec<String>> {
        self.session.requests_from(&self.server.origin()).await
    }

    /// What Chromium has logged under a type since the last call.
    pub async fn log(&self, kind: &str) -> Result<Vec<Value>> {
        self.session.log(kind).await
    }

    /// Looks until what is seen fits; `what` is what should come true. A look that fails, as where something is not yet
    /// in the page, is one that does not fit.
    pub async fn until<T: Debug>(
        &self,
        what: &str,
        mut look: impl AsyncFnMut(&Look<'_>) -> Result<T>,
        fits: impl Fn(&T) -> bool,
    ) -> Result<T> {
        let here = self.look()?;
        let started = Instant::now();
        loop {
            let seen = look(&here).await;
            match seen {
                Ok(seen) if fits(&seen) => return Ok(seen),
                _ if started.elapsed() < WAIT => tokio::time::sleep(PAUSE).await,
                _ => {
                    let seen = match seen {
                        Ok(seen) => format!("{seen:?}"),
                        Err(error) => format!("{error:#}"),
                    };
                    bail!(
                        "expected that {what} within {} s, last seen: {seen}; the page says: {}",
                        WAIT.as_secs(),
                        here.status().await.unwrap_or_default()
                    );
                }
            }
        }
    }

    /// Looks once: at what was so from the beginning, or what must not have come about by now. `settled` says why a later
    /// look would show the same.
    pub async fn once<T>(
        &self,
        settled: &str,
        look: impl AsyncFnOnce(&Look<'_>) -> Result<T>,
    ) -> Result<T> {
        look(&self.look()?)
            .await
            .with_context(|| format!("looking once ({settled})"))
    }

    /// Waits until what an expression of the page gives fits.
    pub async fn see<T: DeserializeOwned + Debug>(
        &self,
        what: &str,
        expression: &str,
        fits: impl Fn(&T) -> bool,
    ) -> Result<T> {
        self.until(what, async |look| look.value(expression).await, fits)
            .await
    }

    /// Waits until an expression of the page is true.
    pub async fn expect(&self, what: &str, expression: &str) -> Result<()> {
        self.see(what, expression, |holds: &bool| *holds)
            .await
            .map(|_| ())
    }

    /// Waits until the status region says what fits.
    pub async fn says(&self, what: &str, fits: impl Fn(&str) -> bool) -> Result<String> {
        self.until(what, async |look| look.status().await, |said| fits(said))
            .await
    }

    /// Waits until the rows fit.
    pub async fn rows(&self, what: &str, fits: impl Fn(&[Row]) -> bool) -> Result<Vec<Row>> {
        self.until(what, async |look| look.rows().await, |rows| fits(rows))
            .await
    }

    /// An expression's value, looked at once: see [`Page::once`].
    pub async fn settled<T: DeserializeOwned>(&self, settled: &str, expression: &str) -> Result<T> {
        self.once(settled, async |look| look.value(expression).await)
            .await
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

    /// Makes the window of the size that [`WINDOW`] says.
    pub async fn resize(&self) -> Result<()> {
        let (width, height) = WINDOW;
        Ok(self
            .session
            .client()?
            .set_window_size(width, height)
            .await?)
    }

    /// Waits until the buttons work.
    pub async fn engine_ready(&self) -> Result<()> {
        self.engine_is("ready").await
    }

    /// Waits until the engine has loaded or failed to, and fails unless it is `wanted`, `ready` or `failed`.
    pub async fn engine_is(&self, wanted: &str) -> Result<()> {
        let state = self
            .see(
                "the engine is ready or has failed",
                // A frame has no document at first.
                "document.documentElement?.dataset.engine ?? ''",
                |state: &String| ["ready", "failed"].contains(&state.as_str()),
            )
            .await?;
        ensure!(
            state == wanted,
            "expected the engine {wanted}, seen it {state}; the page says: {}",
            self.look()?.status().await?
        );
        Ok(())
    }

    /// Presses a button as a reader does: once it is visible, where the pointer can reach it, and no press before is still
    /// at work.
    pub async fn press(&self, selector: &str) -> Result<()> {
        let client = self.session.client()?;
        // What appears gradually is not displayed at first, and what moves is not where the driver clicks. Each attempt
        // that fails has pressed nothing.
        self.until(
            &format!("{selector} can be pressed"),
            async |_| {
                let button = client.find(Locator::Css(selector)).await?;
                ensure!(button.is_displayed().await?, "it is not displayed");
                let busy = button.attr("aria-disabled").await?;
                ensure!(busy.is_none(), "it is still at work on its last press");
                // At once and to the middle: a page that scrolls smoothly is still moving when the driver clicks.
                let scroll =
                    "arguments[0].scrollIntoView({ block: 'center', behavior: 'instant' })";
                client
                    .execute(scroll, vec![serde_json::to_value(&button)?])
                    .await?;
                Ok(button.click().await?)
            },
            |()| true,
        )
        .await
    }

    /// Presses every table's Run all, one after the other, and answers their reports. What an earlier run left is not
    /// taken for one.
    pub async fn run_all(&self) -> Result<Vec<String>> {
        let groups: Vec<String> = self
            .settled(
                "the tables are in the page as it was served",
                "[...document.querySelectorAll('[data-run-all]')].map((one) => one.dataset.runAll)",
            )
            .await?;
        let mut reports = Vec::new();
        for group in groups {
            let report =
                format!("document.querySelector(\"[data-report='{group}'] pre\").textContent");
            self.act(&format!(
                "{report} = ''; document.querySelector('#status').textContent = ''"
            ))
            .await?;
            self.press(&format!("[data-run-all='{group}']")).await?;
            // Where a run fails there is no report.
            let (report, failed): (String, Vec<String>) = self
                .see(
                    &format!("all of {group} is run"),
                    &format!(
                        "/ agree with /.test(document.querySelector('#status').textContent)
                           ? [{report}, [...document.querySelectorAll(\"[data-group='{group}'] tr[data-state=failed]\")].map((row) => row.textContent)]
                           : ['', []]"
                    ),
                    |(report, failed): &(String, Vec<String>)| {
                        !report.trim().is_empty() || !failed.is_empty()
                    },
                )
                .await?;
            ensure!(
                failed.is_empty(),
                "expected that no run of {group} fails, seen {failed:?}"
            );
            reports.push(report);
        }
        Ok(reports)
    }

    /// Presses a scenario's own button, waits for its answer and returns the row.
    pub async fn run_one(&self, id: &str) -> Result<Row> {
        // What an earlier run left must not be taken for the answer.
        self.act(&format!(
            "delete document.getElementById('{id}').dataset.state"
        ))
        .await?;
        self.press(&format!("button.run[data-run='{id}']")).await?;
        self.answered(id).await
    }

    /// Waits until the run of a scenario has ended and returns the row.
    pub async fn answered(&self, id: &str) -> Result<Row> {
        self.until(
            &format!("the run of {id} ends"),
            async |look| look.row(id).await,
            Row::is_answered,
        )
        .await
    }

    /// Opens a scenario's evidence by its line.
    pub async fn open_evidence(&self, id: &str) -> Result<()> {
        self.press(&format!("#evidence-{id} > summary")).await?;
        self.is_open(id).await
    }

    /// Waits until a scenario's evidence is open.
    pub async fn is_open(&self, id: &str) -> Result<()> {
        self.expect(
            &format!("the evidence of {id} is open"),
            &format!("document.getElementById('evidence-{id}').open"),
        )
        .await
    }

    /// Opens everything that can be opened, traces included.
    pub async fn open_everything(&self) -> Result<()> {
        self.act("for (const one of document.querySelectorAll('details')) one.open = true;")
            .await
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

    /// Gives the focus to a control once it can be seen and no press before is still at work, and sends it a key.
    pub async fn key_on(&self, selector: &str, key: Key) -> Result<()> {
        let control = serde_json::to_string(selector)?;
        self.expect(
            &format!("{selector} takes the focus"),
            &format!(
                "((control) => {{
                   if (!control?.checkVisibility({{ visibilityProperty: true }})) return false;
                   if (control.hasAttribute('aria-disabled')) return false;
                   control.focus();
                   return document.activeElement === control;
                 }})(document.querySelector({control}))"
            ),
        )
        .await?;
        self.key(key, 1).await
    }

    /// What went wrong since the page was loaded, where the setup watches for it: nothing, whatever the check has waited
    /// for before it asks.
    pub async fn no_errors(&self) -> Result<()> {
        let errors: Vec<String> = self
            .settled("all that the check does is done", "window.watched")
            .await?;
        ensure!(
            errors.is_empty(),
            "expected no error, seen {}",
            errors.join("; ")
        );
        Ok(())
    }

    /// Runs a script for what it does.
    pub async fn act(&self, script: &str) -> Result<()> {
        self.session.client()?.execute(script, Vec::new()).await?;
        Ok(())
    }

    /// Runs a script that ends when it calls its last argument, and answers what it calls that with.
    pub async fn finish(&self, script: &str, arguments: Vec<Value>) -> Result<Value> {
        Ok(self
            .session
            .client()?
            .execute_async(script, arguments)
            .await?)
    }

    /// Follows a link, by the driver: a page without scripts need not run its own.
    pub async fn follow(&self, selector: &str) -> Result<()> {
        let link = self
            .session
            .client()?
            .find(Locator::Css(selector))
            .await
            .with_context(|| format!("no {selector} in the page"))?;
        Ok(link.click().await?)
    }

    fn look(&self) -> Result<Look<'_>> {
        Ok(Look {
            client: self.session.client()?,
        })
    }
}
