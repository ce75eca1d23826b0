//! Searches: the cells of the matrix, and the workbench.
//!
//! The workbench has a worker of its own, and the cells share as many as there are cores for, up to [`MOST_SEATS`]. None
//! of them is the worker that runs scenarios. What a cell came to is shown in the order in which cells were asked for,
//! whichever worker is done first.

use std::collections::VecDeque;

use wasm_bindgen::{JsCast, JsValue};
use web_sys::{Element, HtmlElement};

use super::dom::{self, Timer};
use super::protocol::{Choice, Explored, Progress, Reply, Request, encode};
use super::{Ask, EngineWorker, Input, Page, take};
use crate::explore::{Case, CaseError};
use crate::json::{self, Value};
use crate::scenario::{Fixture, FixtureError};

/// The most workers that share the cells.
const MOST_SEATS: f64 = 4.0;

/// The place of the workbench's worker; those of the cells are behind it.
const BENCH: usize = 1;

/// After this long a worker that should stop is replaced.
const STOP_MS: i32 = 1_000;

/// More callers than this, and the workbench proposes random schedules.
const MOST_CALLERS_EXHAUSTIVE: u8 = 2;

/// The controls that make up a choice.
const CONTROLS: [&str; 7] = [
    "explore-design",
    "explore-fault",
    "explore-callers",
    "explore-attempts",
    "explore-faults",
    "explore-way",
    "explore-seed",
];

/// What the page keeps of its searches.
#[derive(Default)]
pub(super) struct Searches {
    /// One a worker that searches; the first belongs to the workbench.
    seats: Vec<Seat>,
    /// Searches that nothing is shown of yet, in the order asked for.
    tasks: Vec<Task>,
    last_request: u32,
    total: usize,
    agreed: usize,
    differed: usize,
    failed: usize,
    /// Calls off those that do not stop.
    stopping: Option<Timer>,
}

#[derive(Default)]
struct Seat {
    worker: Option<EngineWorker>,
    /// The request that it is at.
    request: Option<u32>,
    sent: bool,
    stopping: bool,
}

struct Task {
    request: u32,
    search: String,
    pressed: HtmlElement,
    /// The cell; without one it is the workbench's.
    cell: Option<HtmlElement>,
    begun: bool,
    /// By the page's clock; of no result.
    since_ms: f64,
    answer: Option<Result<Explored, String>>,
}

impl Page {
    /// Answers a press of a button that is about searches.
    pub(super) fn explore_click(&mut self, button: HtmlElement) -> Result<(), JsValue> {
        if button.has_attribute("data-explore") {
            return self.explore_cells(button.clone(), &[button]);
        }
        if button.has_attribute("aria-expanded") {
            return self.toggle_counterexample(button);
        }
        match button.id().as_str() {
            "explore-all" => {
                let buttons: Vec<HtmlElement> =
                    dom::all(&dom::root(&self.document)?, "[data-explore]")?
                        .into_iter()
                        .filter_map(|button| button.dyn_into().ok())
                        .collect();
                self.explore_cells(button, &buttons)
            }
            "explore" => self.explore_choice(button),
            "explore-stop" => self.stop_searches(true),
            "replay" => {
                let token = dom::value(&self.document, "token")?;
                self.mark("token", None)?;
                if !token.contains('.') {
                    return self.mark("token", Some(&CaseError::Form.to_string()));
                }
                self.show(button, "replayed", token.trim().to_owned(), None)
            }
            "run-edited" => self.run_edited(button),
            // The others do what needs no engine, and `boot.js` answers them.
            _ => Ok(()),
        }
    }

    fn explore_cells(
        &mut self,
        pressed: HtmlElement,
        buttons: &[HtmlElement],
    ) -> Result<(), JsValue> {
        if pressed.has_attribute("aria-disabled") {
            return Ok(());
        }
        let searches = &mut self.searches;
        if searches.tasks.iter().all(|task| task.cell.is_none()) {
            (
                searches.total,
                searches.agreed,
                searches.differed,
                searches.failed,
            ) = (0, 0, 0, 0);
        }
        for button in buttons {
            let name = button.get_attribute("data-explore").unwrap_or_default();
            let case = name
                .split_once('/')
                .and_then(|(design, fault)| Case::find(design, fault).ok());
            let cell = button.closest("td")?.and_then(|cell| cell.dyn_into().ok());
            let (Some(case), Some(cell)) = (case, cell) else {
                continue;
            };
            if button.has_attribute("aria-disabled") {
                continue;
            }
            button.set_attribute("aria-disabled", "true")?;
            set_state(&cell, "running", "running …")?;
            searches.total += 1;
            searches.add(case.to_string(), button.clone(), Some(cell));
        }
        self.status.set_text_content(None);
        self.advance_searches()
    }

    fn explore_choice(&mut self, button: HtmlElement) -> Result<(), JsValue> {
        if button.has_attribute("aria-disabled") {
            return Ok(());
        }
        let Some(search) = self.choice()? else {
            return Ok(());
        };
        button.set_attribute("aria-disabled", "true")?;
        dom::by_id(&self.document, "explore-stop")?.remove_attribute("hidden")?;
        self.say_progress("Searching …")?;
        dom::by_id(&self.document, "explored")?.set_text_content(None);
        dom::by_id(&self.document, "shortest")?.set_attribute("hidden", "")?;
        self.searches.add(search, button, None);
        self.advance_searches()
    }

    /// Gives every idle worker the next search.
    fn advance_searches(&mut self) -> Result<(), JsValue> {
        let searches = &mut self.searches;
        if searches.seats.is_empty() {
            let cores = dom::window()?.navigator().hardware_concurrency();
            let seats = 1 + cores.clamp(1.0, MOST_SEATS) as usize;
            searches.seats.resize_with(seats, Seat::default);
        }
        for (index, seat) in searches.seats.iter_mut().enumerate() {
            if seat.request.is_none() {
                let is_bench = index + 1 == BENCH;
                let next = searches
                    .tasks
                    .iter_mut()
                    .find(|task| !task.begun && task.cell.is_none() == is_bench);
                let Some(task) = next else { continue };
                task.begun = true;
                seat.request = Some(task.request);
                seat.sent = false;
                if seat.worker.is_none() {
                    seat.worker = Some(EngineWorker::spawn(index + 1)?);
                }
            }
            seat.send(&mut searches.tasks)?;
        }
        self.show_search_progress()
    }

    /// A message of a worker that searches.
    pub(super) fn search_message(&mut self, place: usize, reply: Reply) -> Result<(), JsValue> {
        let Some(seat) = self.searches.seats.get_mut(place - 1) else {
            return Ok(());
        };
        match reply {
            Reply::Ready => {
                if let Some(worker) = &mut seat.worker {
                    worker.ready = true;
                }
                seat.send(&mut self.searches.tasks)
            }
            Reply::Progress(progress) => self.search_progress(&progress),
            Reply::Explored(explored) => {
                let request = explored.request;
                self.search_answered(place, request, Ok(*explored))
            }
            Reply::Failed {
                request, message, ..
            } => self.search_answered(place, request, Err(message)),
            Reply::Panicked(message) => self.search_broken(place, &message),
            // Not asked of these workers.
            Reply::Ran(_) | Reply::Steps(_) | Reply::Storm { .. } | Reply::Done { .. } => Ok(()),
        }
    }

    /// A worker is lost, and its search with it.
    pub(super) fn search_broken(&mut self, place: usize, message: &str) -> Result<(), JsValue> {
        let Some(seat) = self.searches.seats.get_mut(place - 1) else {
            return Ok(());
        };
        seat.worker = None;
        let Some(request) = seat.request else {
            return Ok(());
        };
        let message = ["the engine stopped: ", super::cause(message)].concat();
        self.search_answered(place, request, Err(message))
    }

    fn search_answered(
        &mut self,
        place: usize,
        request: u32,
        answer: Result<Explored, String>,
    ) -> Result<(), JsValue> {
        let seat = &mut self.searches.seats[place - 1];
        if seat.request != Some(request) {
            return Ok(());
        }
        let stopped = std::mem::take(&mut seat.stopping);
        seat.request = None;
        let tasks = &mut self.searches.tasks;
        if let Some(at) = tasks.iter().position(|task| task.request == request) {
            tasks[at].answer = Some(answer);
            if tasks[at].cell.is_none() {
                let task = tasks.remove(at);
                self.show_choice(task, stopped)?;
            }
        }
        self.show_cells()?;
        self.advance_searches()
    }

    /// Shows the cells whose turn it is.
    fn show_cells(&mut self) -> Result<(), JsValue> {
        let mut last = String::new();
        while let Some(task) = self
            .searches
            .tasks
            .iter()
            .position(|task| task.cell.is_some())
            .filter(|&first| self.searches.tasks[first].answer.is_some())
            .map(|first| self.searches.tasks.remove(first))
        {
            let (Some(cell), Some(answer)) = (&task.cell, &task.answer) else {
                continue;
            };
            let recorded = |name| cell.get_attribute(name).unwrap_or_default();
            if let Ok(found) = answer
                && let Some(token) = &found.token
            {
                cell.set_attribute("data-found", token)?;
            }
            let (state, verdict) = match answer {
                Ok(found)
                    if recorded("title") == found.verdict
                        && recorded("data-token") == found.token.as_deref().unwrap_or_default() =>
                {
                    self.searches.agreed += 1;
                    ("agrees", "✓ agrees".to_owned())
                }
                Ok(found) => {
                    self.searches.differed += 1;
                    ("differs", ["✗ differs: ", &found.verdict].concat())
                }
                Err(message) => {
                    self.searches.failed += 1;
                    ("failed", ["✗ failed: ", message].concat())
                }
            };
            set_state(cell, state, &verdict)?;
            task.pressed.remove_attribute("aria-disabled")?;
            last = [&task.search, ": ", &verdict].concat();
        }
        if !last.is_empty() && !self.searches.has_cells() {
            let Searches {
                total,
                agreed,
                differed,
                failed,
                ..
            } = self.searches;
            if total > 1 {
                last = super::summary(total, agreed, differed, failed);
            }
            self.end_cells(&last)?;
        }
        Ok(())
    }

    fn end_cells(&self, summary: &str) -> Result<(), JsValue> {
        if self.current.is_none() {
            let all = dom::by_id(&self.document, "explore-all")?;
            self.hide_stop(&all)?;
        }
        self.status.set_text_content(Some(summary));
        Ok(())
    }

    /// What the workbench's search came to.
    fn show_choice(&mut self, task: Task, stopped: bool) -> Result<(), JsValue> {
        task.pressed.remove_attribute("aria-disabled")?;
        let stop = dom::by_id(&self.document, "explore-stop")?;
        if self.document.active_element().as_ref() == Some(&*stop) {
            task.pressed.focus()?;
        }
        stop.set_attribute("hidden", "")?;
        let result = dom::by_id(&self.document, "explored")?;
        let (sentences, token) = match task.answer {
            Some(Ok(found)) => {
                let begin = if stopped { "Stopped: " } else { "" };
                let mut sentences = vec![[begin, &found.verdict, "."].concat()];
                sentences.extend(found.sentences);
                if let Some(token) = &found.token {
                    sentences.push(["Token of the shortest: ", token].concat());
                }
                self.say_progress(&[&rate(found.runs, task.since_ms), "."].concat())?;
                (sentences, found.token)
            }
            Some(Err(message)) => (vec![["✗ failed: ", &message].concat()], None),
            None => (vec!["Stopped.".to_owned()], None),
        };
        self.status
            .set_text_content(sentences.first().map(String::as_str));
        for sentence in sentences {
            let line = self.document.create_element("p")?;
            line.set_text_content(Some(&sentence));
            result.append_child(&line)?;
        }
        match token {
            Some(token) => self.show(task.pressed, "shortest", token, None),
            None => Ok(()),
        }
    }

    fn search_progress(&mut self, progress: &Progress) -> Result<(), JsValue> {
        let tasks = &self.searches.tasks;
        let task = tasks.iter().find(|task| task.request == progress.request);
        let Some(task) = task.filter(|task| task.cell.is_none()) else {
            return Ok(());
        };
        self.say_progress(
            &[
                &progress.schedules,
                " schedules so far; ",
                &progress.pruned.to_string(),
                " runs pruned at a known state; ",
                &rate(progress.runs, task.since_ms),
                " …",
            ]
            .concat(),
        )
    }

    fn say_progress(&self, text: &str) -> Result<(), JsValue> {
        dom::by_id(&self.document, "explore-progress")?.set_text_content(Some(text));
        Ok(())
    }

    fn show_search_progress(&self) -> Result<(), JsValue> {
        let searches = &self.searches;
        if searches.has_cells() {
            let open = searches.tasks.iter().filter(|task| task.cell.is_some());
            let text = super::progress(searches.total - open.count(), searches.total);
            self.status.set_text_content(Some(&text));
            self.stop.remove_attribute("hidden")?;
        }
        Ok(())
    }

    /// Asks the workers to stop, those of the cells or that of the workbench.
    pub(super) fn stop_searches(&mut self, bench: bool) -> Result<(), JsValue> {
        let searches = &mut self.searches;
        for (index, seat) in searches.seats.iter_mut().enumerate() {
            if (index + 1 == BENCH) == bench && seat.request.is_some() {
                seat.stopping = true;
                if let Some(worker) = seat.worker.as_ref().filter(|_| seat.sent) {
                    worker.worker.post_message(&encode(&Request::Stop)?)?;
                }
            }
        }
        searches.stopping = Some(Timer::new(STOP_MS, || take(Input::Unstopped))?);
        if bench {
            return Ok(());
        }
        let mut stopped = 0;
        while let Some(at) = searches.tasks.iter().position(|task| task.cell.is_some()) {
            let task = searches.tasks.remove(at);
            task.pressed.remove_attribute("aria-disabled")?;
            if let Some(cell) = &task.cell {
                set_state(cell, "stopped", "stopped")?;
            }
            stopped += 1;
        }
        if stopped == 0 {
            return Ok(());
        }
        let total = searches.total;
        self.end_cells(&super::stopped(total - stopped, total))
    }

    /// Ends the workers that did not stop when they were asked to.
    pub(super) fn end_unstopped(&mut self) -> Result<(), JsValue> {
        for index in 0..self.searches.seats.len() {
            let seat = &mut self.searches.seats[index];
            if let Some(request) = seat.request.filter(|_| seat.stopping) {
                seat.worker = None;
                let answer = Err("stopped; the worker did not answer".to_owned());
                self.search_answered(index + 1, request, answer)?;
            }
        }
        Ok(())
    }

    /// Opens below its row the run that breaks a cell, or closes it.
    fn toggle_counterexample(&mut self, button: HtmlElement) -> Result<(), JsValue> {
        let Some(row) = button.closest("tr")? else {
            return Ok(());
        };
        for open in dom::all(&row, "[aria-expanded=true]")? {
            open.set_attribute("aria-expanded", "false")?;
            if let Some(shown) = row.next_element_sibling() {
                shown.remove();
            }
            if *open == **button {
                return Ok(());
            }
        }
        // The reader's own, if they have run the cell.
        let token = button
            .closest("td")?
            .and_then(|cell| {
                let found = cell.get_attribute("data-found");
                found.or_else(|| cell.get_attribute("data-token"))
            })
            .unwrap_or_default();
        let shown: HtmlElement = self.document.create_element("tr")?.dyn_into()?;
        shown.set_class_name("counterexample");
        shown.set_attribute("role", "row")?;
        shown.set_inner_html(
            "<td role=\"cell\" colspan=\"11\"><p></p><div class=\"evidence-body\"></div></td>",
        );
        let label = button.get_attribute("aria-label").unwrap_or_default();
        let words = ["The", label.trim_start_matches("Show the"), ". Token: "].concat();
        let line = dom::first(&shown, "p")?;
        line.set_text_content(Some(&words));
        let code = self.document.create_element("code")?;
        code.set_text_content(Some(&token));
        line.append_child(&code)?;
        let place = dom::first(&shown, ".evidence-body")?;
        row.after_with_node_1(&shown)?;
        button.set_attribute("aria-expanded", "true")?;
        self.press(
            Ask::Show(place, None),
            button,
            None,
            VecDeque::from([token]),
        )
    }

    /// Runs a scenario or a token and shows it in the element with this id.
    fn show(
        &mut self,
        button: HtmlElement,
        place: &str,
        id: String,
        fixture: Option<String>,
    ) -> Result<(), JsValue> {
        let place = dom::by_id(&self.document, place)?;
        self.press(
            Ask::Show(place, fixture),
            button,
            None,
            VecDeque::from([id]),
        )
    }

    /// Runs a scenario with the operation that the reader wrote.
    fn run_edited(&mut self, button: HtmlElement) -> Result<(), JsValue> {
        let key = dom::value(&self.document, "edited-key")?;
        let payload = dom::value(&self.document, "edited-payload")?;
        let scenario = dom::value(&self.document, "edited-scenario")?;
        for control in ["edited-key", "edited-payload"] {
            self.mark(control, None)?;
        }
        let fixture = json::parse(&payload)
            .map_err(FixtureError::Json)
            .map(|payload| {
                Value::object([("operation_key", Value::from(key)), ("payload", payload)]).compact()
            });
        let checked = fixture.and_then(|text| Fixture::parse(text.as_bytes()).map(|_| text));
        match checked {
            Ok(text) => self.show(button, "edited", scenario, Some(text)),
            Err(error) => {
                let control = match error {
                    FixtureError::Key(_) => "edited-key",
                    _ => "edited-payload",
                };
                self.mark(control, Some(&error.to_string()))
            }
        }
    }

    /// Says beside a control what is wrong with it, or that nothing is.
    pub(super) fn mark(&self, control: &str, problem: Option<&str>) -> Result<(), JsValue> {
        let invalid = if problem.is_some() { "true" } else { "false" };
        let control = dom::by_id(&self.document, control)?;
        control.set_attribute("aria-invalid", invalid)?;
        if let Some(place) = control.get_attribute("aria-describedby") {
            dom::by_id(&self.document, &place)?.set_text_content(problem);
        }
        if problem.is_some() {
            self.status.set_text_content(problem);
        }
        Ok(())
    }

    /// A control of the workbench was changed.
    pub(super) fn choice_changed(&mut self, control: &Element) -> Result<(), JsValue> {
        let id = control.id();
        let document = &self.document;
        if id == "explore-fault" {
            let fault = dom::value(document, "explore-fault")?;
            let design = dom::value(document, "explore-design")?;
            if let Ok(case) = Case::find(&design, &fault) {
                self.set_bounds(&case)?;
                dom::set_value(document, "explore-way", "all")?;
            }
        } else if id == "explore-callers" {
            let callers = dom::value(document, &id)?.parse().unwrap_or(1_u8);
            let way = if callers > MOST_CALLERS_EXHAUSTIVE {
                "random"
            } else {
                "all"
            };
            dom::set_value(document, "explore-way", way)?;
        }
        if CONTROLS.contains(&id.as_str())
            && let Some(search) = self.choice()?
        {
            let link = dom::by_id(&self.document, "explore-link")?;
            link.set_attribute("href", &["#explore=", &search].concat())?;
        }
        Ok(())
    }

    fn set_bounds(&self, case: &Case) -> Result<(), JsValue> {
        for (control, number) in CONTROLS[2..5].iter().zip([
            case.bounds.callers,
            case.bounds.attempts,
            case.bounds.faults,
        ]) {
            dom::set_value(&self.document, control, &number.to_string())?;
        }
        Ok(())
    }

    /// The search that the controls ask for; without one it is told what is wrong.
    fn choice(&self) -> Result<Option<String>, JsValue> {
        for control in CONTROLS {
            self.mark(control, None)?;
        }
        let mut values = Vec::new();
        for control in CONTROLS {
            values.push(dom::value(&self.document, control)?);
        }
        let mut search = [values[..3].join("."), values[3].clone(), values[4].clone()].concat();
        if let Err(error) = search.parse::<Case>() {
            let control = match error {
                CaseError::Bounds { name, .. } => ["explore-", name].concat(),
                _ => CONTROLS[0].to_owned(),
            };
            self.mark(&control, Some(&error.to_string()))?;
            return Ok(None);
        }
        if values[5] == "random" {
            let Ok(seed) = values[6].trim().parse::<u64>() else {
                self.mark(
                    "explore-seed",
                    Some("seed: expected a whole number, from 0"),
                )?;
                return Ok(None);
            };
            search = [&search, ".", &seed.to_string()].concat();
        }
        Ok(Some(search))
    }

    /// Restores the choice that the address names, if it names one.
    pub(super) fn restore_choice(&mut self) -> Result<(), JsValue> {
        let address = dom::window()?.location().hash()?;
        let Some(search) = address.strip_prefix("#explore=") else {
            return Ok(());
        };
        let Some(bench) = self.document.get_element_by_id("workbench") else {
            return Ok(());
        };
        let Ok(Choice { case, seed }) = search.parse() else {
            self.status.set_text_content(Some(
                "The address names no search; the workbench stays as it is.",
            ));
            return Ok(());
        };
        let document = &self.document;
        dom::set_value(document, "explore-design", case.design.id)?;
        dom::set_value(document, "explore-fault", case.class.id)?;
        self.set_bounds(&case)?;
        let way = if seed.is_some() { "random" } else { "all" };
        dom::set_value(document, "explore-way", way)?;
        if let Some(seed) = seed {
            dom::set_value(document, "explore-seed", &seed.to_string())?;
        }
        self.choice()?;
        let link = dom::by_id(document, "explore-link")?;
        link.set_attribute("href", &address)?;
        bench.scroll_into_view();
        Ok(())
    }
}

impl Searches {
    fn add(&mut self, search: String, pressed: HtmlElement, cell: Option<HtmlElement>) {
        self.last_request = self.last_request.wrapping_add(1);
        self.tasks.push(Task {
            request: self.last_request,
            search,
            pressed,
            cell,
            begun: false,
            since_ms: 0.0,
            answer: None,
        });
    }

    /// Whether a cell waits for its answer.
    pub(super) fn has_cells(&self) -> bool {
        self.tasks.iter().any(|task| task.cell.is_some())
    }
}

impl Seat {
    /// Gives the worker its request as soon as it listens.
    fn send(&mut self, tasks: &mut [Task]) -> Result<(), JsValue> {
        let (Some(worker), Some(request)) = (&self.worker, self.request) else {
            return Ok(());
        };
        let task = tasks.iter_mut().find(|task| task.request == request);
        let Some(task) = task.filter(|_| worker.ready && !self.sent) else {
            return Ok(());
        };
        self.sent = true;
        task.since_ms = js_sys::Date::now();
        let request = Request::Explore {
            request,
            search: task.search.clone(),
        };
        worker.worker.post_message(&encode(&request)?)
    }
}

/// By the page's clock, and so no result.
fn rate(runs: u32, since_ms: f64) -> String {
    let seconds = (js_sys::Date::now() - since_ms) / 1000.0;
    let rate = f64::from(runs) / seconds.max(0.001);
    [
        &runs.to_string(),
        " runs, ",
        &(rate as u32).to_string(),
        " a second",
    ]
    .concat()
}

fn set_state(cell: &HtmlElement, state: &str, verdict: &str) -> Result<(), JsValue> {
    cell.set_attribute("data-state", state)?;
    dom::first(cell, ".agreement")?.set_text_content(Some(verdict));
    Ok(())
}
