//! The scenarios: the values of the lab, the digests of all, repetition, and what the trace of eight
//! callers shows.
#![cfg(not(target_family = "wasm"))]

mod common;

use std::collections::BTreeSet;

use common::{less_runtime, recorded, run_all, run_group};
use tool_retries::json::{Canonical, Value};
use tool_retries::report::{line, report};
use tool_retries::scenario::Fixture;
use tool_retries::scenario::find;
use tool_retries::sim::trace::What;

/// The values of the group `lab` as its description gives them.
const LINES: &str = r#"naive_retry: {"attempts": 2, "tickets": 2}
stable_key_retry: {"attempts": 3, "replay_ticket_id": 1, "tickets": 1}
changed_payload: {"rejected": true, "tickets": 1}
failure_before_commit: {"tickets_after_retry": 1, "tickets_before_retry": 0}
concurrent_same_key: {"attempts": 8, "returned_ticket_ids": [1], "tickets": 1}
new_key_same_payload: {"tickets": 2}
deleted_replay_record: {"tickets": 2}"#;

#[test]
fn values_are_the_described_ones() {
    let outcomes = run_group("lab");
    let lines: Vec<String> = outcomes.iter().map(|(id, one)| line(id, one)).collect();
    assert_eq!(lines.join("\n"), LINES);
}

#[test]
fn every_check_of_every_group_holds() {
    for (id, outcome) in &run_all() {
        let broken: Vec<_> = outcome.checks.iter().filter(|one| !one.holds()).collect();
        assert!(outcome.passed(), "{id}: {broken:?}");
    }
}

#[test]
fn the_committed_record_is_this_run() {
    let [seen, recorded] = [report(&run_all()), recorded()].map(|record| less_runtime(&record));
    let differs = seen
        .lines()
        .zip(recorded.lines())
        .find(|(one, other)| one != other);
    // Not the two of them, which are long.
    assert_eq!(
        differs, None,
        "seen and recorded; if the change is meant: cargo run -q -- --output results.json"
    );
    assert_eq!(seen.len(), recorded.len());
}

#[test]
fn running_again_and_in_parallel_gives_the_same_bytes() {
    let first = report(&run_all()).pretty();
    let threads: Vec<_> = (0..2)
        .map(|_| std::thread::spawn(|| report(&run_all()).pretty()))
        .collect();
    for thread in threads {
        assert_eq!(thread.join().unwrap(), first);
    }
}

/// One caller holds the lock; the other seven meet SQLITE_BUSY, wait, and then have their turn.
#[test]
fn seven_of_eight_callers_wait_on_the_virtual_clock() {
    let outcome = find("concurrent_same_key")
        .unwrap()
        .run(&Fixture::committed())
        .unwrap();
    let events = &outcome.trace.events;
    let who = |what: fn(&What) -> bool| -> BTreeSet<&str> {
        events
            .iter()
            .filter(|event| what(&event.what))
            .map(|event| &*event.who)
            .collect()
    };
    let waited = who(|what| matches!(what, What::Waited { waited } if !waited.is_zero()));
    assert_eq!(who(|what| matches!(what, What::Waits)), waited);
    assert_eq!(waited.len(), 7);
    assert_eq!(who(|what| matches!(what, What::Called { .. })).len(), 8);
    // All are in flight before the first one is answered.
    let last_call = events
        .iter()
        .rposition(|event| matches!(event.what, What::Called { .. }));
    let first_answer = events
        .iter()
        .position(|event| matches!(event.what, What::Answered { .. }));
    assert!(last_call < first_answer);
}

/// A scenario whose fixture differs still holds: nothing is tied to the committed payload.
#[test]
fn another_fixture_holds_too() {
    let fixture = Fixture::parse(
        r#"{"operation_key": "ключ '; DROP TABLE tickets; --",
            "payload": {"project": "\u0000", "title": "😀", "priority": "low", "n": [1, 2.5, null]}}"#
            .as_bytes(),
    )
    .unwrap();
    for scenario in tool_retries::scenario::all() {
        let outcome = scenario.run(&fixture).unwrap();
        assert!(outcome.passed(), "{}: {:?}", scenario.id, outcome.checks);
    }
}

/// An outcome has not passed when a check is broken, nor when it checks nothing.
#[test]
fn passing_takes_checks_and_all_of_them() {
    let mut outcome = find("naive_retry")
        .unwrap()
        .run(&Fixture::committed())
        .unwrap();
    let passed = |outcome: &tool_retries::outcome::Outcome| {
        let report = report(&[("naive_retry", outcome.clone())]);
        report.get("passed").and_then(Value::as_bool)
    };
    assert_eq!(passed(&outcome), Some(true));
    outcome.checks[0].seen = Value::Null;
    assert_eq!(passed(&outcome), Some(false));
    outcome.checks.clear();
    assert_eq!(passed(&outcome), Some(false));
}

/// A key is escaped for readers only: callers send it, and the database keeps it, as it is.
#[test]
fn a_key_is_sent_and_recorded_as_it_is() {
    let key = "ключ\u{200b}\u{a0}'";
    let fixture = Fixture::parse(
        format!(
            r#"{{"operation_key": "{key}",
                "payload": {{"project": "p", "title": "t", "priority": "low"}}}}"#
        )
        .as_bytes(),
    )
    .unwrap();
    let second = format!("{key}-new-intent");
    let outcome = find("new_key_same_payload").unwrap().run(&fixture).unwrap();
    let sent: Vec<&str> = outcome
        .trace
        .events
        .iter()
        .filter_map(|event| match &event.what {
            What::Called { key, .. } => key.as_deref(),
            _ => None,
        })
        .collect();
    assert_eq!(sent, [key, &second]);
    let records = outcome.tables.iter().find(|table| table.name == "requests");
    let recorded = records.unwrap().rows.iter().map(|row| row[0].as_str());
    assert!(recorded.eq([Some(key), Some(&*second)]));
}
