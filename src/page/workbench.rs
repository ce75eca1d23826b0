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
use super::{Ask, EngineWorker, Input, Page, Tally, take};
use crate::explore::{Case, CaseError};
use crate::json::{self, Canonical, Value};
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
const CONTROLS: [&str; 8] = [
    "explore-design",
    "explore-fault",
    "explore-callers",
    "explore-attempts",
    "explore-faults",
    "explore-way",
    "explore-seed",
    "explore-journal",
];

/// What the page keeps of its searches.
#[derive(Default)]
pub(super) struct Searches {
    /// One a worker that searches; the first belongs to the workbench.
    seats: Vec<Seat>,
    /// Searches that nothing is shown of yet, in the order asked for.
    tasks: Vec<Task>,
    last_request: u32,
    /// Of the cells.
    tally: Tally,
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
                dom::by_id(&self.document, "replayed")?.set_attribute("hidden", "")?;
                if !super::is_token(&token) {
                    return self.refuse("token", &CaseError::Form.to_string());
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
            searches.tally = Tally::default();
        }
        for button in buttons {
            let cell = button.closest("[data-cell]")?;
            let Some(cell) = cell.and_then(|cell| cell.dyn_into::<HtmlElement>().ok()) else {
                continue;
            };
            let name = cell.get_attribute("data-cell").unwrap_or_default();
            let case = name
                .split_once('/')
                .and_then(|(design, fault)| Case::find(design, fault).ok());
            let Some(case) = case else { continue };
            if button.has_attribute("aria-disabled") {
                continue;
            }
            button.set_attribute("aria-disabled", "true")?;
            set_state(&cell, "running", "running …")?;
            cell.remove_attribute("data-seen")?;
            searches.tally.total += 1;
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
            seat.send(&searches.tasks)?;
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
                seat.send(&self.searches.tasks)
            }
            Reply::Progress(progress) => self.search_progress(&progress),
            Reply::Explored(explored) => {
                let request = explored.request;
                self.search_answered(place, request, Ok(*explored))
            }
            Reply::Failed {
                request, message, ..
            } => self.search_answered(place, request, Err(message)),
            // Not asked of these workers.
            Reply::Ran(_)
            | Reply::Steps(_)
            | Reply::Storm { .. }
            | Reply::Answers { .. }
            | Reply::Done { .. } => Ok(()),
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
        seat.stopping = false;
        seat.request = None;
        let tasks = &mut self.searches.tasks;
        if let Some(at) = tasks.iter().position(|task| task.request == request) {
            tasks[at].answer = Some(answer);
            if tasks[at].cell.is_none() {
                let task = tasks.remove(at);
                self.show_choice(task)?;
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
            let (state, verdict) = match answer {
                Ok(found)
                    if recorded("title") == found.verdict
                        && recorded("data-token") == found.token.as_deref().unwrap_or_default() =>
                {
                    self.searches.tally.agreed += 1;
                    ("agrees", "✓ agrees".to_owned())
                }
                Ok(found) => {
                    self.searches.tally.differed += 1;
                    let token = found.token.as_deref().unwrap_or_default();
                    cell.set_attribute("data-seen", token)?;
                    let verdict = ["✗ differs: ", &found.verdict, " ", token].concat();
                    ("differs", verdict.trim_end().to_owned())
                }
                Err(message) => {
                    self.searches.tally.failed += 1;
                    ("failed", ["✗ failed: ", message].concat())
                }
            };
            set_state(cell, state, &verdict)?;
            task.pressed.remove_attribute("aria-disabled")?;
            last = [&task.search, ": ", &verdict].concat();
        }
        if !last.is_empty() && !self.searches.has_cells() {
            let tally = &self.searches.tally;
            if tally.total > 1 {
                last = tally.summary();
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
    fn show_choice(&mut self, task: Task) -> Result<(), JsValue> {
        task.pressed.remove_attribute("aria-disabled")?;
        let stop = dom::by_id(&self.document, "explore-stop")?;
        if self.document.active_element().as_ref() == Some(&*stop) {
            task.pressed.focus()?;
        }
        stop.set_attribute("hidden", "")?;
        let result = dom::by_id(&self.document, "explored")?;
        let (sentences, token) = match task.answer {
            Some(Ok(found)) => (found.sentences, found.token),
            Some(Err(message)) => (vec![["✗ failed: ", &message].concat()], None),
            None => (vec!["Stopped.".to_owned()], None),
        };
        self.say_progress("")?;
        let said = sentences.first().cloned().unwrap_or_default();
        for sentence in sentences {
            let line = self.document.create_element("p")?;
            line.set_text_content(Some(&sentence));
            result.append_child(&line)?;
        }
        let Some(token) = token else {
            self.status.set_text_content(Some(&said));
            return Ok(());
        };
        self.show(task.pressed, "shortest", token, None)?;
        if let Some(job) = self.waiting.back_mut().or(self.current.as_mut()) {
            job.last = said;
        }
        Ok(())
    }

    fn search_progress(&mut self, progress: &Progress) -> Result<(), JsValue> {
        let tasks = &self.searches.tasks;
        let task = tasks.iter().find(|task| task.request == progress.request);
        match task.filter(|task| task.cell.is_none()) {
            Some(_) => self.say_progress(&progress.text),
            None => Ok(()),
        }
    }

    fn say_progress(&self, text: &str) -> Result<(), JsValue> {
        dom::by_id(&self.document, "explore-progress")?.set_text_content(Some(text));
        Ok(())
    }

    fn show_search_progress(&self) -> Result<(), JsValue> {
        let searches = &self.searches;
        if searches.has_cells() {
            let open = searches.tasks.iter().filter(|task| task.cell.is_some());
            let text = super::progress(searches.tally.total - open.count(), searches.tally.total);
            self.status.set_text_content(Some(&text));
            self.stop.remove_attribute("hidden")?;
        }
        Ok(())
    }

    /// Asks the workers to stop, those of the cells or that of the workbench.
    pub(super) fn stop_searches(&mut self, bench: bool) -> Result<(), JsValue> {
        let mut unasked = Vec::new();
        for (index, seat) in self.searches.seats.iter_mut().enumerate() {
            if (index + 1 == BENCH) != bench || seat.request.is_none() {
                continue;
            }
            match &seat.worker {
                Some(worker) if seat.sent => {
                    seat.stopping = true;
                    worker.worker.post_message(&encode(&Request::Stop)?)?;
                }
                _ => unasked.push(index),
            }
        }
        self.searches.stopping = Some(Timer::new(STOP_MS, || take(Input::Unstopped))?);
        for index in unasked {
            self.abandon(index)?;
        }
        if bench {
            return Ok(());
        }
        let searches = &mut self.searches;
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
        let total = searches.tally.total;
        self.end_cells(&super::stopped(total - stopped, total))
    }

    /// Ends the workers that did not stop when they were asked to.
    pub(super) fn end_unstopped(&mut self) -> Result<(), JsValue> {
        for index in 0..self.searches.seats.len() {
            if self.searches.seats[index].stopping {
                self.abandon(index)?;
            }
        }
        self.advance_searches()
    }

    /// Ends a worker, and with it the workbench's search if it was at that.
    fn abandon(&mut self, index: usize) -> Result<(), JsValue> {
        let searches = &mut self.searches;
        let seat = std::mem::take(&mut searches.seats[index]);
        let at = searches
            .tasks
            .iter()
            .position(|task| task.cell.is_none() && Some(task.request) == seat.request);
        match at {
            Some(at) => {
                let task = searches.tasks.remove(at);
                self.show_choice(task)
            }
            None => Ok(()),
        }
    }

    /// Opens below its row the run that breaks a cell, or closes it.
    fn toggle_counterexample(&mut self, button: HtmlElement) -> Result<(), JsValue> {
        let (Some(row), Some(cell)) = (button.closest("tr")?, button.closest("td")?) else {
            return Ok(());
        };
        // Its run is still to come, and takes no second press.
        if button.has_attribute("aria-disabled") {
            return Ok(());
        }
        for open in dom::all(&row, "[aria-expanded=true]")? {
            open.set_attribute("aria-expanded", "false")?;
            if let Some(shown) = row.next_element_sibling() {
                shown.remove();
            }
            if *open == **button {
                return Ok(());
            }
        }
        let seen = cell
            .get_attribute("data-seen")
            .filter(|token| !token.is_empty());
        let whose = match seen {
            Some(_) => ", by your run. Token: ",
            None => ". Token: ",
        };
        let token = seen
            .or_else(|| cell.get_attribute("data-token"))
            .unwrap_or_default();
        let shown: HtmlElement = self.document.create_element("tr")?.dyn_into()?;
        shown.set_class_name("counterexample");
        shown.set_attribute("role", "row")?;
        shown.set_inner_html(
            "<td role=\"cell\" colspan=\"11\"><p></p><div class=\"evidence-body\"></div></td>",
        );
        let label = button.get_attribute("aria-label").unwrap_or_default();
        let words = ["The", label.trim_start_matches("Show the"), whose].concat();
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
        dom::by_id(&self.document, "edited")?.set_attribute("hidden", "")?;
        for control in ["edited-key", "edited-payload"] {
            self.mark(control, None)?;
        }
        let fixture = json::parse(&payload)
            .map_err(FixtureError::Json)
            .map(|payload| {
                json::object([("operation_key", Value::from(key)), ("payload", payload)]).compact()
            });
        let checked = fixture.and_then(|text| Fixture::parse(text.as_bytes()).map(|_| text));
        match checked {
            Ok(text) => self.show(button, "edited", scenario, Some(text)),
            Err(error) => {
                let control = match error {
                    FixtureError::Key(_) => "edited-key",
                    _ => "edited-payload",
                };
                self.refuse(control, &error.to_string())
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
        Ok(())
    }

    /// Says what is wrong with a control, beside it and aloud.
    fn refuse(&self, control: &str, problem: &str) -> Result<(), JsValue> {
        self.status.set_text_content(Some(problem));
        self.mark(control, Some(problem))
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
        if CONTROLS.contains(&id.as_str()) {
            self.link_choice()?;
        }
        Ok(())
    }

    fn link_choice(&self) -> Result<(), JsValue> {
        if let Some(search) = self.choice()? {
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
        let named = [
            values[..3].join("."),
            values[3..5].concat(),
            ".".to_owned(),
            values[7].clone(),
        ];
        let mut search = match named.concat().parse::<Case>() {
            Ok(case) => case.to_string(),
            Err(error) => {
                let control = match error {
                    CaseError::Bounds { name, .. } => ["explore-", name].concat(),
                    _ => CONTROLS[0].to_owned(),
                };
                self.refuse(&control, &error.to_string())?;
                return Ok(None);
            }
        };
        if values[5] == "random" {
            let Ok(seed) = values[6].trim().parse::<u64>() else {
                self.refuse("explore-seed", "seed: expected a whole number, from 0")?;
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
        dom::set_value(document, "explore-journal", case.journal.id())?;
        self.set_bounds(&case)?;
        let way = if seed.is_some() { "random" } else { "all" };
        dom::set_value(document, "explore-way", way)?;
        if let Some(seed) = seed {
            dom::set_value(document, "explore-seed", &seed.to_string())?;
        }
        self.link_choice()?;
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
    fn send(&mut self, tasks: &[Task]) -> Result<(), JsValue> {
        let (Some(worker), Some(request)) = (&self.worker, self.request) else {
            return Ok(());
        };
        let task = tasks.iter().find(|task| task.request == request);
        let Some(task) = task.filter(|_| worker.ready && !self.sent) else {
            return Ok(());
        };
        self.sent = true;
        let request = Request::Explore {
            request,
            search: task.search.clone(),
        };
        worker.worker.post_message(&encode(&request)?)
    }
}

fn set_state(cell: &HtmlElement, state: &str, verdict: &str) -> Result<(), JsValue> {
    cell.set_attribute("data-state", state)?;
    dom::first(cell, ".agreement")?.set_text_content(Some(verdict));
    Ok(())
}
