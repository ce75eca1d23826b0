//! The worker's side: runs what a request names and answers, one reply a scenario. A search runs in slices, between
//! which the worker looks at its messages.

use std::cell::RefCell;

use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::{DedicatedWorkerGlobalScope, Event, MessageEvent};

use super::dom::{Listener, Timer};
use super::panic;
use super::protocol::{Choice, Explored, Progress, Ran, Reply, Request, Steps, decode, encode};
use crate::console::{self, Console};
use crate::diagram;
use crate::evidence::{self, TraceAt};
use crate::explore::{self, Cell, ExploreError, Invariant, Search};
use crate::json::Canonical;
use crate::outcome::Outcome;
use crate::report;
use crate::scenario::{self, Fixture};
use crate::search::Strategy;
use crate::sim::Journal;
use crate::sim::disk::Moment;
use crate::storm::{Setup, Storm};
use crate::timeline;

/// After this long a search looks at the messages.
const SLICE_MS: f64 = 100.0;

/// So many runs are made between two looks at the clock.
const RUNS_A_LOOK: u32 = 16;

/// The runs of a random search; a multiple of [`RUNS_A_LOOK`], so that it takes no run more.
const RANDOM_RUNS: u64 = 20_000;

thread_local! {
    /// Held as long as the worker lives.
    static REQUESTS: RefCell<Option<Listener>> = const { RefCell::new(None) };
    /// The search that is under way.
    static SEARCHING: RefCell<Option<Searching>> = const { RefCell::new(None) };
}

struct Searching {
    scope: DedicatedWorkerGlobalScope,
    request: u32,
    name: String,
    search: Search,
    /// The most runs.
    limit: u64,
    /// By the clock of this machine; of no result.
    since_ms: f64,
    next_slice: Option<Timer>,
}

/// Makes this worker answer requests. `worker.js` calls it once its module stands.
#[wasm_bindgen]
pub fn worker_main() -> Result<(), JsValue> {
    panic::throw();
    let scope: DedicatedWorkerGlobalScope = js_sys::global().dyn_into()?;
    let answering = scope.clone();
    let listener = Listener::new(&scope, "message", move |event| {
        if let Err(thrown) = answer(&answering, &event) {
            // Thrown on, it becomes the error event on which the page replaces this worker.
            wasm_bindgen::throw_val(thrown);
        }
    })?;
    REQUESTS.set(Some(listener));
    send(&scope, &Reply::Ready)
}

fn answer(scope: &DedicatedWorkerGlobalScope, event: &Event) -> Result<(), JsValue> {
    let Some(event) = event.dyn_ref::<MessageEvent>() else {
        return Ok(());
    };
    match decode(event.data())? {
        Request::Run {
            request,
            scenarios,
            fixture,
            report,
        } => answer_run(scope, request, &scenarios, fixture, report),
        Request::Steps {
            request,
            scenario,
            fixture,
        } => answer_steps(scope, request, scenario, fixture),
        Request::Storm { request, setup } => answer_storm(scope, request, setup),
        Request::Explore { request, search } => explore(scope, request, search),
        Request::Stop => match SEARCHING.take() {
            Some(searching) => searching.answer(),
            None => Ok(()),
        },
        Request::Sql {
            request,
            wal,
            statements,
        } => {
            let journal = if wal {
                Journal::WalFull
            } else {
                Journal::Rollback
            };
            let console =
                Console::open(journal).map_err(|error| JsValue::from(error.to_string()))?;
            let answers = statements
                .iter()
                .map(|sql| console::printed(&console.run(sql)))
                .collect();
            send(scope, &Reply::Answers { request, answers })
        }
    }
}

fn answer_run(
    scope: &DedicatedWorkerGlobalScope,
    request: u32,
    scenarios: &[String],
    fixture: Option<String>,
    wants_report: bool,
) -> Result<(), JsValue> {
    let mut outcomes: Vec<(&str, Outcome)> = Vec::new();
    for id in scenarios {
        match run(id, fixture.as_deref(), false) {
            Ok((outcome, _)) => {
                let ran = Ran {
                    request,
                    scenario: id.clone(),
                    values: outcome.values.spaced(),
                    trace_sha256: outcome.trace_sha256(),
                    checks_sha256: outcome.checks_sha256(),
                    passed: outcome.passed(),
                    evidence: evidence::html(&outcome, id, TraceAt::Here),
                };
                send(scope, &Reply::Ran(Box::new(ran)))?;
                outcomes.push((id, outcome));
            }
            Err(message) => send(
                scope,
                &Reply::Failed {
                    request,
                    scenario: id.clone(),
                    message,
                },
            )?,
        }
    }
    let report = (wants_report && outcomes.len() == scenarios.len())
        .then(|| report::report(&outcomes).pretty());
    send(scope, &Reply::Done { request, report })
}

fn answer_steps(
    scope: &DedicatedWorkerGlobalScope,
    request: u32,
    scenario: String,
    fixture: Option<String>,
) -> Result<(), JsValue> {
    let reply = match run(&scenario, fixture.as_deref(), true) {
        Ok((outcome, history)) => {
            let pages = timeline::pages(&outcome, &history);
            Reply::Steps(Box::new(Steps {
                request,
                scenario,
                texts: pages.texts,
                steps: pages.steps,
            }))
        }
        Err(message) => Reply::Failed {
            request,
            scenario,
            message,
        },
    };
    send(scope, &reply)?;
    send(
        scope,
        &Reply::Done {
            request,
            report: None,
        },
    )
}

/// Runs ahead of what the page shows: the page ends this worker to stop it.
fn answer_storm(
    scope: &DedicatedWorkerGlobalScope,
    request: u32,
    setup: String,
) -> Result<(), JsValue> {
    // The page sends none that it could not read itself.
    let setup = Setup::parse(&setup).map_err(|word| JsValue::from_str(&word))?;
    let breakers = setup.breakers();
    let mut storm = Storm::new(&setup, &breakers);
    loop {
        let goes_on = storm.advance();
        let (calls, served) = storm.load();
        let frame = [
            &diagram::load(&calls, served),
            "<p>",
            &storm.summary(),
            "</p>",
        ]
        .concat();
        send(scope, &Reply::Storm { request, frame })?;
        if !goes_on {
            break;
        }
    }
    send(
        scope,
        &Reply::Done {
            request,
            report: None,
        },
    )
}

/// Runs a scenario, or the run that a token names: of the two only a token has a full stop.
fn run(
    id: &str,
    fixture: Option<&str>,
    keeps_history: bool,
) -> Result<(Outcome, Vec<(usize, Moment)>), String> {
    if id.contains('.') {
        return explore::replay_in_steps(id).map_err(|error| error.to_string());
    }
    let scenario = scenario::find(id).ok_or_else(|| format!("no scenario is called {id}"))?;
    let fixture = match fixture {
        Some(text) => Fixture::parse(text.as_bytes()).map_err(|error| error.to_string())?,
        None => Fixture::committed(),
    };
    let world = (scenario.world)();
    if keeps_history {
        world.keep_history();
    }
    let outcome = (scenario.play)(&world, &fixture).map_err(|error| error.to_string())?;
    Ok((outcome, world.take_history()))
}

/// Begins a search in the place of the one before, if there is one.
fn explore(scope: &DedicatedWorkerGlobalScope, request: u32, name: String) -> Result<(), JsValue> {
    let begin = || -> Result<(Search, u64), ExploreError> {
        let Choice { case, seed } = name.parse()?;
        Ok(match seed {
            Some(seed) => (Search::new(case, Strategy::Random { seed })?, RANDOM_RUNS),
            None => (Search::new(case, Strategy::Exhaustive)?, u64::MAX),
        })
    };
    match begin() {
        Ok((search, limit)) => {
            let searching = Searching {
                scope: scope.clone(),
                request,
                name,
                search,
                limit,
                since_ms: js_sys::Date::now(),
                next_slice: None,
            };
            searching.wait()
        }
        Err(error) => send(
            scope,
            &Reply::Failed {
                request,
                scenario: name,
                message: error.to_string(),
            },
        ),
    }
}

/// Goes on with the search until the time of a slice is over, or the search is.
fn slice() -> Result<(), JsValue> {
    let Some(mut searching) = SEARCHING.take() else {
        return Ok(());
    };
    let until = js_sys::Date::now() + SLICE_MS;
    while js_sys::Date::now() < until {
        match searching.search.advance(RUNS_A_LOOK) {
            Ok(progress) if progress.done || progress.runs >= searching.limit => {
                return searching.answer();
            }
            Ok(_) => {}
            Err(error) => {
                let failed = Reply::Failed {
                    request: searching.request,
                    scenario: searching.name,
                    message: error.to_string(),
                };
                return send(&searching.scope, &failed);
            }
        }
    }
    let progress = searching.search.progress();
    let told = Progress {
        request: searching.request,
        text: [
            &progress.schedules.to_string(),
            " schedules so far; ",
            &progress.pruned.to_string(),
            " runs pruned at a known state; ",
            &searching.rate(),
            " …",
        ]
        .concat(),
    };
    send(&searching.scope, &Reply::Progress(told))?;
    searching.wait()
}

impl Searching {
    /// Lets the messages that wait have their turn before the next slice.
    fn wait(mut self) -> Result<(), JsValue> {
        self.next_slice = Some(Timer::new(0, || {
            if let Err(thrown) = slice() {
                wasm_bindgen::throw_val(thrown);
            }
        })?);
        SEARCHING.set(Some(self));
        Ok(())
    }

    fn rate(&self) -> String {
        let runs = self.search.progress().runs;
        let seconds = (js_sys::Date::now() - self.since_ms) / 1000.0;
        let rate = runs as f64 / seconds.max(0.001);
        [
            &runs.to_string(),
            " runs, ",
            &(rate as u64).to_string(),
            " a second",
        ]
        .concat()
    }

    fn answer(self) -> Result<(), JsValue> {
        let cell = Cell::of(&self.search);
        let progress = self.search.progress();
        let extent = if !cell.limited {
            ""
        } else if progress.limited {
            " The search came to its limit: not every schedule was tried."
        } else if progress.runs >= self.limit {
            " These are schedules at random, not all."
        } else {
            " Stopped before every schedule was tried."
        };
        let verdict = cell.verdict();
        let mut bounds = cell.bounds.to_string();
        if cell.journal.is_wal() {
            bounds = [&bounds, ", ", cell.journal.title()].concat();
        }
        let mut sentences = vec![["Within ", &bounds, ": ", &verdict, ".", extent].concat()];
        let invariants = [
            (
                "Holds, and was put to the test: ",
                &cell.shown,
                Invariant::claim as fn(_) -> _,
            ),
            ("Broken: ", &cell.broken, Invariant::breach),
        ];
        for (begin, list, words) in invariants {
            if !list.is_empty() {
                let list: Vec<&str> = list.iter().map(|&one| words(one)).collect();
                sentences.push([begin, &list.join("; "), "."].concat());
            }
        }
        let token = cell.counterexample.map(|found| found.token);
        if let Some(token) = &token {
            sentences.push(["Token of the shortest: ", token].concat());
        }
        sentences.push([&self.rate(), "."].concat());
        let explored = Explored {
            request: self.request,
            verdict,
            sentences,
            token,
            runs: cell.runs as u32,
        };
        send(&self.scope, &Reply::Explored(Box::new(explored)))
    }
}

fn send(scope: &DedicatedWorkerGlobalScope, reply: &Reply) -> Result<(), JsValue> {
    scope.post_message(&encode(reply)?)
}
