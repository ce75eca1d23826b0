//! The worker's side: runs what a request names and answers, one reply a scenario.

use std::cell::RefCell;

use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::{DedicatedWorkerGlobalScope, Event, MessageEvent};

use super::dom::Listener;
use super::protocol::{Ran, Reply, Request, Steps, encode};
use crate::diagram;
use crate::evidence::{self, TraceAt};
use crate::report;
use crate::scenario::{self, Fixture, Outcome, Scenario};
use crate::sim::World;
use crate::storm::{Setup, Storm};
use crate::timeline;

thread_local! {
    /// Held as long as the worker lives.
    static REQUESTS: RefCell<Option<Listener>> = const { RefCell::new(None) };
}

/// Makes this worker answer requests. `worker.js` calls it once its module stands.
#[wasm_bindgen]
pub fn worker_main() -> Result<(), JsValue> {
    let scope: DedicatedWorkerGlobalScope = js_sys::global().dyn_into()?;
    report_panics(scope.clone());
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

/// A panic ends in a trap that says only `unreachable`; its message has to go ahead of it. The standard library that is
/// built for size formats none and comes straight to the trap.
fn report_panics(scope: DedicatedWorkerGlobalScope) {
    std::panic::set_hook(Box::new(move |info| {
        // Of the place only the file's name: a path would name the machine that built the engine.
        let place = info.location().map_or(String::new(), |at| {
            let file = at.file().rsplit(['/', '\\']).next().unwrap_or_default();
            format!(" ({file}:{})", at.line())
        });
        let message = format!(
            "{}{place}",
            info.payload_as_str().unwrap_or("the engine panicked")
        );
        // Nobody is left to tell if this fails; the error event of the trap still follows.
        let _ = send(&scope, &Reply::Panicked(message));
    }));
}

fn answer(scope: &DedicatedWorkerGlobalScope, event: &Event) -> Result<(), JsValue> {
    let Some(event) = event.dyn_ref::<MessageEvent>() else {
        return Ok(());
    };
    match Request::decode(&event.data())? {
        Request::Run {
            request,
            scenarios,
            report,
        } => answer_run(scope, request, &scenarios, report),
        Request::Steps { request, scenario } => answer_steps(scope, request, scenario),
        Request::Storm { request, setup } => answer_storm(scope, request, setup),
    }
}

fn answer_run(
    scope: &DedicatedWorkerGlobalScope,
    request: u32,
    scenarios: &[String],
    wants_report: bool,
) -> Result<(), JsValue> {
    let fixture = Fixture::committed();
    let mut outcomes: Vec<(&'static str, Outcome)> = Vec::new();
    for id in scenarios {
        match run(id, &World::new(), &fixture) {
            Ok((scenario, outcome)) => {
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
                outcomes.push((scenario.id, outcome));
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
) -> Result<(), JsValue> {
    let world = World::new();
    world.keep_history();
    let reply = match run(&scenario, &world, &Fixture::committed()) {
        Ok((_, outcome)) => {
            let pages = timeline::pages(&outcome, &world.take_history());
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

fn run(id: &str, world: &World, fixture: &Fixture) -> Result<(&'static Scenario, Outcome), String> {
    let scenario = scenario::find(id).ok_or_else(|| format!("no scenario is called {id}"))?;
    let outcome = (scenario.play)(world, fixture).map_err(|error| error.to_string())?;
    Ok((scenario, outcome))
}

fn send(scope: &DedicatedWorkerGlobalScope, reply: &Reply) -> Result<(), JsValue> {
    scope.post_message(&encode(reply)?)
}
