//! The reader's page: buttons, the worker that answers them, and where its answers go.
//!
//! This room is the one user of web-sys. It computes nothing: scenarios run in the worker, and what the page adds
//! is a comparison of texts and digests with those that the build wrote into the table. Data that came from
//! a run enters the document as text; the only markup set here is that of [`crate::evidence`], which escapes.
//!
//! Everything that can happen arrives as one [`Input`] at one [`Page`], one at a time. At most one request is with the
//! worker; further presses wait in the page, so that a worker can be ended at any time and nothing is lost with it.
//! Searches have workers of their own: see `workbench`.

mod dom;
mod panic;
pub mod protocol;
mod steps;
mod storm;
mod workbench;
pub mod worker;

use std::cell::RefCell;
use std::collections::VecDeque;

use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::{
    Document, Element, ErrorEvent, Event, HtmlElement, MessageEvent, Worker, WorkerOptions,
    WorkerType,
};

use dom::{Listener, Timer};
use protocol::{Ran, Reply, Request, Steps, decode, encode};
use steps::StepControl;
use storm::Frames;
use workbench::Searches;

use crate::json::{self, Canonical, Value};
use crate::{evidence, report};

/// After this long a run shows its progress and can be stopped.
const SLOW_MS: i32 = 500;

/// After this long without an answer a request is given up and its worker replaced. It is many times what any scenario
/// takes on a fast machine, since readers' machines may be slow and busy, and who will not wait can stop it.
const LIMIT_MS: i32 = 60_000;

/// The place of the worker that runs scenarios; those that search have higher ones.
const RUNNER: usize = 0;

thread_local! {
    /// Held as long as the document lives.
    static PAGE: RefCell<Option<Page>> = const { RefCell::new(None) };
}

/// Brings the page to life. `boot.js` calls it once its module stands.
#[wasm_bindgen]
pub fn start() -> Result<(), JsValue> {
    panic::throw();
    let mut page = Page::new(dom::document()?)?;
    // Warm before the first press, so that the press waits for nothing but its run.
    page.worker = Some(EngineWorker::spawn(RUNNER)?);
    page.restore_choice()?;
    PAGE.set(Some(page));
    Ok(())
}

enum Input {
    Click(Event),
    /// A control was moved.
    Moved(Event),
    /// The address has another end.
    Hash,
    /// From the worker in this place.
    Message(usize, JsValue),
    /// The worker in this place ended by itself.
    Broken(usize, String),
    /// The current job lasts.
    Slow,
    /// The current job lasts too long.
    Late,
    /// It is time for the next frame of a storm.
    Frame,
    /// Searches had time to stop.
    Unstopped,
}

fn take(input: Input) {
    PAGE.with(|page| {
        // Nothing that the page does calls back into it before it returns; were that to change, dropping
        // the inner input is better than a panic that takes the page down.
        let Ok(mut page) = page.try_borrow_mut() else {
            return;
        };
        let Some(page) = page.as_mut() else { return };
        if let Err(thrown) = page.take(input) {
            web_sys::console::error_1(&thrown);
            page.status.set_text_content(Some(&format!(
                "This page failed: {}",
                dom::message(&thrown)
            )));
        }
    });
}

struct Page {
    document: Document,
    status: HtmlElement,
    stop: HtmlElement,
    _clicks: Listener,
    _moves: Listener,
    _hashes: Listener,
    worker: Option<EngineWorker>,
    /// With the worker now, or waiting for it to be ready.
    current: Option<Job>,
    /// Bounded by the number of buttons: one that waits takes no second press.
    waiting: VecDeque<Job>,
    last_request: u32,
    /// The record of every run so far.
    every_run: Option<Value>,
    /// One a run that is stepped through, at most one a row.
    steps: Vec<StepControl>,
    frames: Frames,
    /// For readers who ask for no motion.
    still: bool,
    searches: Searches,
}

/// What a press asks of the worker. A fixture is its text; without one the committed is meant.
#[derive(Clone, PartialEq)]
enum Ask {
    /// To run scenarios for their rows.
    Run,
    /// To run one scenario or token and show it there.
    Show(HtmlElement, Option<String>),
    Steps(Option<String>),
    Storm,
}

/// One press of one button.
struct Job {
    request: u32,
    sent: bool,
    ask: Ask,
    pressed: HtmlElement,
    /// The table, if all of it was asked for.
    group: Option<String>,
    /// Scenarios without an answer yet, in the order in which the worker runs them.
    open: VecDeque<String>,
    report: bool,
    tally: Tally,
    /// What is said of the last scenario that got an answer; of a run to show, what is said once it stands there.
    last: String,
    slow: bool,
    timers: Vec<Timer>,
}

/// How the answers to a press compare with the record.
#[derive(Default)]
struct Tally {
    total: usize,
    agreed: usize,
    differed: usize,
    failed: usize,
}

impl Job {
    fn done(&self) -> usize {
        self.tally.total - self.open.len()
    }

    fn summary(&self) -> String {
        if self.group.is_none() {
            return self.last.clone();
        }
        self.tally.summary()
    }

    fn progress(&self) -> String {
        if self.ask == Ask::Storm {
            return "The storm runs …".to_owned();
        }
        match (&self.group, self.open.front()) {
            (None, Some(scenario)) => ["Running ", scenario, " …"].concat(),
            _ => progress(self.done(), self.tally.total),
        }
    }
}

/// Of scenarios and tokens only tokens have a full stop.
fn is_token(id: &str) -> bool {
    id.contains('.')
}

fn progress(done: usize, total: usize) -> String {
    [
        "Running … ",
        &done.to_string(),
        " of ",
        &total.to_string(),
        " done.",
    ]
    .concat()
}

fn stopped(done: usize, total: usize) -> String {
    format!("Stopped. {done} of {total} done.")
}

impl Tally {
    fn summary(&self) -> String {
        let (agreed, total) = (self.agreed.to_string(), self.total.to_string());
        let mut text = [&agreed, " of ", &total, " agree with the recorded results"].concat();
        let differ = if self.differed == 1 {
            " differs"
        } else {
            " differ"
        };
        for (count, what) in [(self.differed, differ), (self.failed, " failed")] {
            if count > 0 {
                text.push_str(&["; ", &count.to_string(), what].concat());
            }
        }
        text.push('.');
        text
    }
}

impl Page {
    fn new(document: Document) -> Result<Self, JsValue> {
        Ok(Self {
            status: dom::by_id(&document, "status")?,
            stop: dom::by_id(&document, "stop")?,
            _clicks: Listener::new(&document, "click", |event| take(Input::Click(event)))?,
            _moves: Listener::new(&document, "input", |event| take(Input::Moved(event)))?,
            _hashes: Listener::new(&dom::window()?.into(), "hashchange", |_| take(Input::Hash))?,
            worker: None,
            current: None,
            waiting: VecDeque::new(),
            last_request: 0,
            steps: Vec::new(),
            every_run: None,
            frames: Frames::default(),
            still: dom::window()?
                .match_media("(prefers-reduced-motion: reduce)")?
                .is_some_and(|query| query.matches()),
            searches: Searches::default(),
            document,
        })
    }

    fn take(&mut self, input: Input) -> Result<(), JsValue> {
        match input {
            Input::Click(event) => self.click(&event),
            Input::Moved(event) => self.moved(&event),
            Input::Hash => self.restore_choice(),
            Input::Unstopped => self.end_unstopped(),
            Input::Message(place, data) if place != RUNNER => {
                self.search_message(place, decode(data)?)
            }
            Input::Message(_, data) => match decode(data)? {
                Reply::Ready => self.ready(),
                Reply::Ran(ran) if self.is_current(ran.request) => self.ran(&ran),
                Reply::Failed {
                    request,
                    scenario,
                    message,
                } if self.is_current(request) => {
                    self.renew_limit()?;
                    self.failed(&scenario, &message)?;
                    self.show_progress()
                }
                Reply::Steps(run) if self.is_current(run.request) => self.stepped(*run),
                Reply::Storm { request, frame } if self.is_current(request) => {
                    self.storm_came(frame)
                }
                Reply::Done { request, .. }
                    if self.is_current(request) && self.asks(&Ask::Storm) =>
                {
                    self.storm_is_here()
                }
                Reply::Done { request, report } if self.is_current(request) => {
                    if let Some(text) = report {
                        self.reported(&text)?;
                    }
                    self.finish()
                }
                // An answer to a request that is over.
                _ => Ok(()),
            },
            Input::Broken(RUNNER, message) => self.broken(&message),
            Input::Broken(place, message) => self.search_broken(place, &message),
            Input::Slow => {
                if let Some(job) = &mut self.current {
                    job.slow = true;
                }
                self.show_progress()
            }
            Input::Frame => self.storm_moves(),
            Input::Late => self.broken(&format!("no answer within {} s", LIMIT_MS / 1000)),
        }
    }

    fn is_current(&self, request: u32) -> bool {
        self.current
            .as_ref()
            .is_some_and(|job| job.request == request)
    }

    fn click(&mut self, event: &Event) -> Result<(), JsValue> {
        let Some(target) = event.target().and_then(|it| it.dyn_into::<Element>().ok()) else {
            return Ok(());
        };
        let Some(button) = target.closest("button")? else {
            return Ok(());
        };
        let button: HtmlElement = button.dyn_into()?;
        if let Some(scenario) = button.get_attribute("data-run") {
            return self.press(Ask::Run, button, None, VecDeque::from([scenario]));
        }
        if let Some(group) = button.get_attribute("data-run-all") {
            let Some(table) = button.closest(".scenarios")? else {
                return Ok(());
            };
            let rows = table.query_selector_all("tr[data-scenario]")?;
            let scenarios = (0..rows.length())
                .filter_map(|index| rows.get(index)?.dyn_into::<Element>().ok())
                .filter_map(|row| row.get_attribute("data-scenario"))
                .collect();
            return self.press(Ask::Run, button, Some(group), scenarios);
        }
        if let Some(way) = button.get_attribute("data-move") {
            let control = self.steps.iter_mut().find(|control| control.holds(&button));
            return control.map_or(Ok(()), |control| control.go(&way));
        }
        if button.class_list().contains("step-through") {
            let Some(evidence) = button.closest("[data-evidence]")? else {
                return Ok(());
            };
            let scenario = evidence
                .get_attribute("data-evidence")
                .into_iter()
                .collect();
            let fixture = evidence.get_attribute("data-fixture");
            return self.press(Ask::Steps(fixture), button, None, scenario);
        }
        if button.closest("#storm")?.is_some() {
            return self.storm_pressed(button);
        }
        match button.id().as_str() {
            "stop" => self.stop(),
            _ => self.explore_click(button),
        }
    }

    fn moved(&mut self, event: &Event) -> Result<(), JsValue> {
        let Some(target) = event.target().and_then(|it| it.dyn_into::<Element>().ok()) else {
            return Ok(());
        };
        let control = self.steps.iter_mut().find(|control| control.holds(&target));
        match control {
            Some(control) => control.slide(),
            None => self.choice_changed(&target),
        }
    }

    fn press(
        &mut self,
        ask: Ask,
        pressed: HtmlElement,
        group: Option<String>,
        scenarios: VecDeque<String>,
    ) -> Result<(), JsValue> {
        // Still at work on its last press. Not `disabled`, which would take the focus from it.
        if pressed.has_attribute("aria-disabled") || scenarios.is_empty() {
            return Ok(());
        }
        pressed.set_attribute("aria-disabled", "true")?;
        self.waiting.push_back(Job {
            request: 0,
            sent: false,
            ask,
            pressed,
            report: true,
            group,
            tally: Tally {
                total: scenarios.len(),
                ..Tally::default()
            },
            open: scenarios,
            last: String::new(),
            slow: false,
            timers: Vec::new(),
        });
        self.advance()
    }

    /// Takes up the next job if the worker has none.
    fn advance(&mut self) -> Result<(), JsValue> {
        if self.current.is_some() {
            return Ok(());
        }
        let Some(job) = self.waiting.pop_front() else {
            return Ok(());
        };
        if job.ask == Ask::Run {
            for scenario in &job.open {
                self.row(scenario)?.set_attribute("data-state", "running")?;
            }
        }
        // Emptied first, so that the same summary twice is announced twice.
        self.status.set_text_content(None);
        self.frames = Frames::default();
        self.current = Some(job);
        self.dispatch()
    }

    /// Gives the current job a request of its own and, as soon as the worker listens, to the worker.
    fn dispatch(&mut self) -> Result<(), JsValue> {
        let Some(job) = &mut self.current else {
            return Ok(());
        };
        self.last_request = self.last_request.wrapping_add(1);
        job.request = self.last_request;
        job.sent = false;
        job.timers = vec![
            Timer::new(SLOW_MS, || take(Input::Slow))?,
            Timer::new(LIMIT_MS, || take(Input::Late))?,
        ];
        if self.worker.is_none() {
            self.worker = Some(EngineWorker::spawn(RUNNER)?);
        }
        self.send()
    }

    fn send(&mut self) -> Result<(), JsValue> {
        if let (Some(worker), Some(job)) = (&self.worker, &mut self.current)
            && worker.ready
            && !job.sent
        {
            let request = job.request;
            let scenarios = job.open.iter().cloned().collect();
            let request = match &job.ask {
                Ask::Run => Request::Run {
                    request,
                    scenarios,
                    fixture: None,
                    report: job.report,
                },
                Ask::Show(_, fixture) => Request::Run {
                    request,
                    scenarios,
                    fixture: fixture.clone(),
                    report: false,
                },
                Ask::Steps(fixture) => Request::Steps {
                    request,
                    scenario: job.open.front().cloned().unwrap_or_default(),
                    fixture: fixture.clone(),
                },
                Ask::Storm => Request::Storm {
                    request: job.request,
                    setup: job.open.front().cloned().unwrap_or_default(),
                },
            };
            worker.worker.post_message(&encode(&request)?)?;
            job.sent = true;
        }
        Ok(())
    }

    fn ready(&mut self) -> Result<(), JsValue> {
        if let Some(worker) = &mut self.worker {
            worker.ready = true;
        }
        if !self.is_ready() {
            for button in dom::all(
                &dom::root(&self.document)?,
                "button.run, button.run-all, #workbench",
            )? {
                button.remove_attribute("hidden")?;
            }
            self.set_engine("ready")?;
        }
        self.send()
    }

    /// The worker gave a sign of life, and has its whole time for the next: one scenario can take as long as a table.
    fn renew_limit(&mut self) -> Result<(), JsValue> {
        if let Some(job) = &mut self.current {
            job.timers.truncate(1);
            job.timers.push(Timer::new(LIMIT_MS, || take(Input::Late))?);
        }
        Ok(())
    }

    fn ran(&mut self, ran: &Ran) -> Result<(), JsValue> {
        self.renew_limit()?;
        if let Some(job) = &mut self.current
            && let Ask::Show(place, fixture) = &job.ask
        {
            place.set_inner_html(&ran.evidence);
            place.set_attribute("data-evidence", &ran.scenario)?;
            match fixture {
                Some(fixture) => place.set_attribute("data-fixture", fixture)?,
                None => place.remove_attribute("data-fixture")?,
            }
            place.remove_attribute("hidden")?;
            job.open.clear();
            let verdict = if ran.passed {
                ": every check holds"
            } else {
                ": a check fails, as the evidence shows"
            };
            if job.last.is_empty() {
                let name = if is_token(&ran.scenario) {
                    "The run"
                } else {
                    &ran.scenario
                };
                job.last = [name, verdict].concat();
            }
            return Ok(());
        }
        let row = self.row(&ran.scenario)?;
        self.show_values(&dom::first(&row, ".reader")?, &ran.values)?;

        let mut differing: Vec<&str> = [
            ("value", &ran.values, "data-recorded"),
            ("checks", &ran.checks_sha256, "data-checks"),
            ("trace", &ran.trace_sha256, "data-trace"),
        ]
        .into_iter()
        .filter(|(_, seen, recorded)| row.get_attribute(recorded).as_ref() != Some(*seen))
        .map(|(name, _, _)| name)
        .collect();
        if !ran.passed && differing.is_empty() {
            differing.push("a check fails");
        }
        let agrees = differing.is_empty();
        let verdict = if agrees {
            "✓ agrees".to_owned()
        } else {
            ["✗ differs: ", &differing.join(", ")].concat()
        };
        dom::first(&row, ".agreement")?.set_text_content(Some(&verdict));
        row.set_attribute("data-state", if agrees { "agrees" } else { "differs" })?;
        self.show_evidence(ran)?;
        if let Some(job) = &mut self.current {
            job.open.retain(|open| *open != ran.scenario);
            if agrees {
                job.tally.agreed += 1;
            } else {
                job.tally.differed += 1;
            }
            job.last = [&ran.scenario, ": ", &verdict].concat();
        }
        self.show_progress()
    }

    /// Puts a step control where the button was that asked for it.
    fn stepped(&mut self, run: Steps) -> Result<(), JsValue> {
        self.steps.retain(StepControl::is_shown);
        let Some(job) = &mut self.current else {
            return Ok(());
        };
        // Nothing is said of it: the control speaks for itself.
        job.open.clear();
        // Gone, when a new run has taken the place of the evidence meanwhile.
        let place = job.pressed.closest(".steps")?;
        if let Some(place) = place.and_then(|place| place.dyn_into().ok()) {
            self.steps
                .push(StepControl::new(&self.document, place, run)?);
        }
        Ok(())
    }

    /// The values as the table shows the recorded ones: lines break between members rather than within.
    fn show_values(&self, cell: &HtmlElement, values: &str) -> Result<(), JsValue> {
        let code = self.document.create_element("code")?;
        for (position, member) in evidence::members(values).enumerate() {
            if position > 0 {
                code.append_with_str_1(" ")?;
            }
            let span = self.document.create_element("span")?;
            span.set_text_content(Some(member));
            code.append_child(&span)?;
        }
        cell.set_text_content(None);
        cell.append_child(&code)?;
        Ok(())
    }

    fn show_evidence(&self, ran: &Ran) -> Result<(), JsValue> {
        let details = dom::by_id(&self.document, &["evidence-", &ran.scenario].concat())?;
        let body = dom::first(&details, ".evidence-body")?;
        let trace_was_open = body.query_selector(".trace[open]")?.is_some();
        body.set_inner_html(&ran.evidence);
        if trace_was_open {
            dom::first(&body, ".trace")?.set_attribute("open", "")?;
        }
        dom::first(&details, ".whose")?.set_text_content(Some("your run"));
        Ok(())
    }

    /// Shows a failure beside its button. The scenario counts as answered.
    fn failed(&mut self, scenario: &str, message: &str) -> Result<(), JsValue> {
        let verdict = ["✗ failed: ", message].concat();
        if self.asks(&Ask::Run) {
            let row = self.row(scenario)?;
            dom::first(&row, ".reader")?.set_text_content(None);
            dom::first(&row, ".agreement")?.set_text_content(Some(&verdict));
            row.set_attribute("data-state", "failed")?;
        }
        if let Some(job) = &self.current
            && let Ask::Show(place, _) = &job.ask
        {
            let has_field = job.pressed.id() == "replay";
            if has_field {
                self.mark("token", Some(message))?;
            }
            place.set_text_content(Some(&verdict));
            place.toggle_attribute_with_force("hidden", has_field)?;
        }
        if let Some(job) = &mut self.current {
            job.open.retain(|open| open != scenario);
            job.tally.failed += 1;
            // A token may be long, and what is wrong with it stands beside it.
            job.last = if is_token(scenario) {
                verdict
            } else {
                [scenario, ": ", &verdict].concat()
            };
            // A report over less than was asked for would not be a results.json.
            job.report = false;
        }
        Ok(())
    }

    /// Shows the record of this job, if it was of a whole table, and the one of everything so far.
    fn reported(&mut self, text: &str) -> Result<(), JsValue> {
        if let Some(group) = self.current.as_ref().and_then(|job| job.group.as_deref()) {
            for details in dom::all(&dom::root(&self.document)?, "details.report")? {
                if details.get_attribute("data-report").as_deref() == Some(group) {
                    show_report(&details, text)?;
                }
            }
        }
        // Not the parser's own error, whose words would be in the module for this alone.
        let record = json::parse(text).map_err(|_| JsValue::from_str("a record is no JSON"))?;
        let record = match self.every_run.take() {
            Some(earlier) => report::merged(earlier, record),
            None => record,
        };
        // A page that embeds one scenario has no place for it.
        if let Some(details) = self.document.get_element_by_id("every-run") {
            show_report(&details, &record.pretty())?;
        }
        self.every_run = Some(record);
        Ok(())
    }

    /// The worker is lost, and with it the scenario that it was at; those behind it go to its successor.
    fn broken(&mut self, message: &str) -> Result<(), JsValue> {
        let message = cause(message);
        let was_ready = self.worker.take().is_some_and(|worker| worker.ready);
        if !self.is_ready() {
            self.set_engine("failed")?;
            self.status.set_text_content(Some(&format!(
                "The engine did not start ({message}). The recorded results stand."
            )));
            return Ok(());
        }
        let open = self
            .current
            .as_ref()
            .map(|job| job.open.clone())
            .unwrap_or_default();
        let message = ["the engine stopped: ", message, "; press Run to try again"].concat();
        // A worker that never listened would fare no better with the next scenario.
        let lost = if was_ready { 1 } else { open.len() };
        for scenario in open.iter().take(lost) {
            self.failed(scenario, &message)?;
        }
        if open.len() > lost {
            return self.dispatch();
        }
        if was_ready {
            self.worker = Some(EngineWorker::spawn(RUNNER)?);
        }
        self.finish()
    }

    fn finish(&mut self) -> Result<(), JsValue> {
        if let Some(job) = self.current.take() {
            self.release(&job)?;
            self.status.set_text_content(Some(&job.summary()));
        }
        self.advance()
    }

    fn stop(&mut self) -> Result<(), JsValue> {
        self.frames = Frames::default();
        self.stop_searches(false)?;
        let Some(job) = self.current.take() else {
            return Ok(());
        };
        self.worker = None;
        let summary = stopped(job.done(), job.tally.total);
        for stopped in std::iter::once(job).chain(std::mem::take(&mut self.waiting)) {
            if let Ask::Show(place, _) = &stopped.ask {
                place.set_text_content(Some("stopped"));
            }
            let rows = if stopped.ask == Ask::Run {
                stopped.open.iter()
            } else {
                Default::default()
            };
            for scenario in rows {
                let row = self.row(scenario)?;
                dom::first(&row, ".reader")?.set_text_content(None);
                dom::first(&row, ".agreement")?.set_text_content(Some("stopped"));
                row.set_attribute("data-state", "stopped")?;
            }
            self.release(&stopped)?;
        }
        self.status.set_text_content(Some(&summary));
        self.worker = Some(EngineWorker::spawn(RUNNER)?);
        Ok(())
    }

    /// The job's button takes presses again.
    fn release(&self, job: &Job) -> Result<(), JsValue> {
        job.pressed.remove_attribute("aria-disabled")?;
        if self.searches.has_cells() {
            return Ok(());
        }
        self.hide_stop(&job.pressed)
    }

    fn hide_stop(&self, pressed: &HtmlElement) -> Result<(), JsValue> {
        let active = self.document.active_element().map(|active| active.id());
        if matches!(active.as_deref(), Some("stop" | "storm-stop")) {
            // Stop is about to vanish; the focus goes back to where the run began instead of nowhere.
            pressed.focus()?;
        }
        self.stop.set_attribute("hidden", "")
    }

    fn show_progress(&self) -> Result<(), JsValue> {
        let Some(job) = self.current.as_ref().filter(|job| job.slow) else {
            return Ok(());
        };
        if job.ask == Ask::Run {
            for scenario in &job.open {
                let row = self.row(scenario)?;
                dom::first(&row, ".agreement")?.set_text_content(Some("running …"));
            }
        }
        self.status.set_text_content(Some(&job.progress()));
        self.stop.remove_attribute("hidden")
    }

    fn asks(&self, ask: &Ask) -> bool {
        self.current.as_ref().is_some_and(|job| job.ask == *ask)
    }

    fn row(&self, scenario: &str) -> Result<HtmlElement, JsValue> {
        dom::by_id(&self.document, scenario)
    }

    fn is_ready(&self) -> bool {
        self.document
            .document_element()
            .and_then(|root| root.get_attribute("data-engine"))
            .as_deref()
            == Some("ready")
    }

    fn set_engine(&self, state: &str) -> Result<(), JsValue> {
        dom::root(&self.document)?.set_attribute("data-engine", state)
    }
}

fn show_report(details: &Element, text: &str) -> Result<(), JsValue> {
    dom::first(details, "pre")?.set_text_content(Some(text));
    details.remove_attribute("hidden")
}

/// Why a worker ended, for the reader. A panic comes with its message; what traps, each browser words in
/// its own way: `unreachable`, `unreachable executed`, `Unreachable code should not be executed`.
fn cause(message: &str) -> &str {
    if message.contains("nreachable") {
        return "an internal error";
    }
    let message = message.strip_prefix("Uncaught ").unwrap_or(message);
    message.strip_prefix("Error: ").unwrap_or(message)
}

/// A worker with our module; dropping it ends it, whatever it is at.
struct EngineWorker {
    worker: Worker,
    ready: bool,
    _listeners: [Listener; 3],
}

impl EngineWorker {
    /// A worker that tells who sits in this place.
    fn spawn(place: usize) -> Result<Self, JsValue> {
        let options = WorkerOptions::new();
        options.set_type(WorkerType::Module);
        let worker = Worker::new_with_options("worker.js", &options)?;
        let listeners = [
            Listener::new(&worker, "message", move |event| {
                if let Some(event) = event.dyn_ref::<MessageEvent>() {
                    take(Input::Message(place, event.data()));
                }
            })?,
            Listener::new(&worker, "error", move |event| {
                let message = event
                    .dyn_ref::<ErrorEvent>()
                    .map(ErrorEvent::message)
                    .filter(|message| !message.is_empty())
                    .unwrap_or_else(|| "the worker could not be loaded".to_owned());
                take(Input::Broken(place, message));
            })?,
            Listener::new(&worker, "messageerror", move |_| {
                take(Input::Broken(
                    place,
                    "an answer could not be read".to_owned(),
                ));
            })?,
        ];
        worker.post_message(&wasm_bindgen::module())?;
        Ok(Self {
            worker,
            ready: false,
            _listeners: listeners,
        })
    }
}

impl Drop for EngineWorker {
    fn drop(&mut self) {
        self.worker.terminate();
    }
}
