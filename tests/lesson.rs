//! The lesson's scenarios against the values that its description gives, and the network beneath.
#![cfg(not(target_family = "wasm"))]

mod common;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use common::run_all;
use tool_retries::client::timeout;
use tool_retries::json::{Value, parse};
use tool_retries::sim::trace::{Fate, What};
use tool_retries::sim::{Host, Network, NetworkError, Point, Strike, Verdict, World};

/// What the description states of each scenario; other members may stand beside these.
const STATED: &[(&str, &str)] = &[
    (
        "refund_without_key",
        r#"{"refunds": 2, "printed": ["attempt 1: response lost after processing; retrying"]}"#,
    ),
    (
        "refund_with_action_key",
        r#"{"refunds": 1, "refund_id": "R1", "key": "91329aaacb7155b3"}"#,
    ),
    ("refund_key_per_attempt", r#"{"refunds": 2}"#),
    ("refund_key_recorded_after_crash", r#"{"refunds": 2}"#),
    ("refund_key_recorded_with_effect", r#"{"refunds": 1}"#),
    (
        "retry_only_retryable",
        r#"{"timeout": 3, "reset": 3, "429": 3, "500": 3, "502": 3, "503": 3, "504": 3, "400": 1,
            "401": 1, "403": 1, "404": 1, "409": 1, "422": 1, "validation": 1}"#,
    ),
    (
        "backoff_without_jitter",
        r#"{"delays_ms": [100, 200, 400, 800, 1000], "base_ms": 100, "cap_ms": 1000}"#,
    ),
    (
        "retry_after_seconds",
        r#"{"slept_ms": 2000, "attempts": 2}"#,
    ),
    (
        "retry_after_over_cap",
        r#"{"attempts": 1, "slept_ms": 0, "asked_s": 3600}"#,
    ),
    ("retry_after_unreadable", r#"{"slept_ms": 100}"#),
    ("attempts_capped", r#"{"attempts": 3}"#),
    (
        "unknown_outcome_is_told",
        r#"{"attempts": 4, "refunds": 1, "refund_id": "R1", "error": "gave up after attempt 3, the last one: connection refused; an earlier attempt may have taken effect"}"#,
    ),
    ("three_layers_multiply", r#"{"calls": 27}"#),
    ("one_layer_retries", r#"{"calls": 3}"#),
    ("call_without_timeout_hangs", r#"{"returned": false}"#),
    ("call_with_timeout_returns", r#"{"returned": true}"#),
    (
        "lockstep_stampede",
        r#"{"clients": 100, "peak_per_100_ms": 100}"#,
    ),
    ("jitter_spreads_load", r#"{"clients": 100}"#),
    (
        "breaker_opens",
        r#"{"touches": 2, "messages": ["ConnectionError: connection refused",
            "ConnectionError: connection refused",
            "RuntimeError: service unavailable (circuit open); do not retry now",
            "RuntimeError: service unavailable (circuit open); do not retry now"]}"#,
    ),
    ("breaker_half_open_success_closes", r#"{"state": "closed"}"#),
    ("breaker_half_open_failure_reopens", r#"{"state": "open"}"#),
    ("breaker_success_resets_count", r#"{"state": "closed"}"#),
    ("breaker_one_trial_at_a_time", r#"{"touches": 3}"#),
    ("breaker_late_result_ignored", r#"{"state": "open"}"#),
    ("resumed_node_without_key", r#"{"refunds": 2}"#),
    ("resumed_node_with_node_key", r#"{"refunds": 1}"#),
    (
        "model_repeats_call",
        r#"{"refunds": 1, "answers_equal": true, "flagged": 1}"#,
    ),
    ("new_run_same_arguments", r#"{"refunds": 2}"#),
    (
        "model_retries_through_outage",
        r#"{"touches": 6, "user_told": false}"#,
    ),
    (
        "breaker_tells_model_to_stop",
        r#"{"touches": 2, "user_told": true}"#,
    ),
    ("new_key_after_timeout", r#"{"refunds": 2}"#),
    ("tool_batch_paused_for_human", r#"{"refunds": 1}"#),
];

#[test]
fn values_are_the_described_ones_and_every_check_holds() {
    let outcomes = run_all();
    for (id, stated) in STATED {
        let (_, outcome) = outcomes
            .iter()
            .find(|(found, _)| found == id)
            .unwrap_or_else(|| panic!("no scenario {id}"));
        let broken: Vec<_> = outcome.checks.iter().filter(|one| !one.holds()).collect();
        assert!(outcome.passed(), "{id}: {broken:?}");
        let Value::Object(stated) = parse(stated).unwrap() else {
            panic!("{id}: not an object");
        };
        for (member, value) in stated {
            assert_eq!(outcome.values.get(&member), Some(&value), "{id}: {member}");
        }
    }
}

/// No scenario leaves a trace in which nothing happens: its digest would prove nothing.
#[test]
fn every_trace_tells_something() {
    for (id, outcome) in run_all() {
        assert!(!outcome.trace.events.is_empty(), "{id}");
    }
}

/// What one request under `verdict` comes to within a second, and whether it was processed.
fn send(verdict: Verdict) -> (Option<Result<u32, NetworkError>>, bool, World) {
    let world = World::new();
    let (caller, service) = (world.start("caller"), world.start("service"));
    let network = Network::new(Verdict::Deliver);
    network.place(1, verdict);
    let processed = Rc::new(Cell::new(false));
    let seen_there = Rc::clone(&processed);
    let call = network.call(&caller, &service, async move {
        seen_there.set(true);
        7
    });
    let limit = Duration::from_secs(1);
    let seen = world.run(&caller, timeout(&caller, limit, call)).unwrap();
    assert_eq!(network.sent(), 1);
    (seen.unwrap().ok(), processed.get(), world)
}

#[test]
fn every_verdict_of_the_network() {
    let refused = Err(NetworkError::ConnectionRefused);
    let broken = Err(NetworkError::ResponseLost);
    for (verdict, expected, processed) in [
        (Verdict::Deliver, Some(Ok(7)), true),
        (
            Verdict::Delay(Duration::from_millis(500)),
            Some(Ok(7)),
            true,
        ),
        (Verdict::Delay(Duration::from_secs(2)), None, true),
        (Verdict::DelayRequest(Duration::from_secs(2)), None, true),
        (Verdict::Refuse, Some(refused), false),
        (Verdict::LoseRequest, None, false),
        (Verdict::LoseResponse, None, true),
        (Verdict::BreakAfterwards, Some(broken), true),
    ] {
        let (seen, was_processed, world) = send(verdict);
        assert_eq!((seen, was_processed), (expected, processed), "{verdict:?}");
        let fates = |fate| {
            let trace = world.trace();
            trace.count(|what| matches!(what, What::Message { fate: one, .. } if *one == fate))
        };
        let told = (
            fates(Fate::Arrives),
            fates(Fate::Lost),
            fates(Fate::Refused),
        );
        let expected = match verdict {
            Verdict::Deliver => (2, 0, 0),
            Verdict::Delay(time) if time < Duration::from_secs(1) => (2, 0, 0),
            // It arrives where nobody waits any more.
            Verdict::Delay(_) | Verdict::DelayRequest(_) => (2, 0, 0),
            Verdict::Refuse => (0, 0, 1),
            Verdict::LoseRequest => (0, 1, 0),
            Verdict::LoseResponse | Verdict::BreakAfterwards => (1, 1, 0),
        };
        assert_eq!(told, expected, "{verdict:?}");
    }
}

/// A service that dies at its work answers nobody.
#[test]
fn a_dead_service_is_silent() {
    let world = World::new();
    let (caller, service) = (world.start("caller"), world.start("service"));
    let at_work = Point("at_work");
    world.strike("service", at_work, 1, Strike::Kill);
    let network = Network::new(Verdict::Deliver);
    let at = service.clone();
    let work = async move { at.reach(at_work).await };
    let call = network.call(&caller, &service, work);
    let seen = world.run(&caller, call).unwrap();
    assert!(seen.is_none() && caller.is_alive() && !service.is_alive());
}

/// A caller that stops waiting stops nothing: the service comes to the end of its work.
#[test]
fn a_timeout_does_not_reach_the_service() {
    let world = World::new();
    let (caller, service) = (world.start("caller"), world.start("service"));
    let network = Network::new(Verdict::Deliver);
    let finished = Rc::new(Cell::new(false));
    let (at, done) = (service.clone(), Rc::clone(&finished));
    let work = async move {
        at.sleep_until(Duration::from_secs(5)).await;
        done.set(true);
    };
    let call = network.call(&caller, &service, work);
    let limit = Duration::from_secs(1);
    let seen = world.run(&caller, timeout(&caller, limit, call)).unwrap();
    assert!(matches!(seen, Some(Err(_))), "it timed out");
    assert!(finished.get(), "and the service went on");
}
