//! Evidence that can fail: a check is worth nothing where what it takes for granted did not happen.
#![cfg(not(target_family = "wasm"))]

use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use rusqlite::Connection;
use tool_retries::json::Canonical;
use tool_retries::outcome::{Check, Checks, Outcome, Premise};
use tool_retries::scenario::{Fixture, RunError, Scenario, Stage, all, contracts, lab};
use tool_retries::sim::trace::{Event, Trace, What};
use tool_retries::sim::{Point, Process, World};

fn waits(who: &[&str]) -> Trace {
    let event = |who: &&str| Event {
        at: Duration::ZERO,
        who: Rc::from(*who),
        what: What::Waits,
    };
    Trace {
        events: who.iter().map(event).collect(),
    }
}

fn is_wait(event: &Event) -> bool {
    event.what == What::Waits
}

fn check(premise: Premise, seen: i32) -> Check {
    let mut checks = Checks::default();
    checks.check(premise, "two and two", 4, seen);
    checks.into_vec().remove(0)
}

#[test]
fn a_check_holds_only_if_its_premise_happened_often_enough() {
    for (happened, needed, holds) in [
        (&[][..], 1, false),
        // No check can do without.
        (&[], 0, false),
        (&["a"], 0, true),
        (&["a"], 1, true),
        (&["a"], 2, false),
        (&["a", "a"], 2, true),
        (&["a", "b", "a"], 2, true),
    ] {
        let premise = Premise::happened(&waits(happened), "somebody waited", needed, is_wait);
        assert_eq!(premise.is_met(), holds, "{happened:?}, {needed}");
        assert_eq!(check(premise.clone(), 4).holds(), holds);
        assert!(!check(premise, 5).holds(), "what was seen counts as ever");
    }
    let other = Premise::happened(&waits(&["a"]), "somebody died", 1, |event| {
        event.what == What::Killed
    });
    assert!(!check(other, 4).holds());
}

#[test]
fn what_happened_to_one_process_over_and_over_did_not_happen_to_two() {
    let waited = |who: &[&str]| Premise::happened_to(&waits(who), "somebody waited", 2, is_wait);
    assert!(!waited(&["a", "a", "a"]).is_met());
    assert!(waited(&["a", "b", "a"]).is_met());
}

#[test]
fn a_premise_says_how_often() {
    let said = |who: &[&str], needed| {
        let trace = waits(who);
        let times = Premise::happened(&trace, "somebody waited", needed, is_wait);
        let processes = Premise::happened_to(&trace, "somebody waited", needed, is_wait);
        (times.to_string(), processes.to_string())
    };
    let words = |times: &str, processes: &str| (times.to_owned(), processes.to_owned());
    let waited = "somebody waited";
    assert_eq!(said(&[], 1), words(waited, waited));
    assert_eq!(said(&["a"], 1), words(waited, waited));
    assert_eq!(
        said(&["a", "b", "b"], 1),
        words("somebody waited, 3 times", "somebody waited, 2 processes")
    );
    assert_eq!(
        said(&["a", "b"], 3),
        words("somebody waited, 2 of 3", "somebody waited, 2 of 3")
    );
    let premise = Premise::happened(&waits(&["a", "a"]), waited, 1, is_wait);
    assert_eq!(
        check(premise, 4).to_json().compact(),
        r#"{"claim":"two and two","expected":4,"premise":{"counted":"times","happened":2,"needed":1,"what":"somebody waited"},"seen":4}"#
    );
    let missing = Premise::happened(&waits(&["a", "a"]), waited, 3, is_wait);
    assert_eq!(
        check(missing, 5).to_string(),
        "two and two: expected 4, saw 5; worth nothing, as it did not happen: somebody waited, 2 of 3"
    );
}

fn run_in(world: &World, scenario: &Scenario) -> Outcome {
    (scenario.play)(world, &Fixture::committed())
        .unwrap_or_else(|error| panic!("{}: {error}", scenario.id))
}

/// Scenarios that count runs in worlds of their own, which go on failing whatever becomes of theirs.
const SWEEPS: [&str; 6] = [
    "disk_errors_in_call",
    "disk_errors_in_opening",
    "disk_errors_in_recovery",
    "short_reads_in_recovery",
    "wal_crashes",
    "wal_disk_errors",
];

/// Every premise is read from the trace, or from a sweep's own record: where no trace is kept no check
/// holds but those of a sweep, however right what it saw.
#[test]
fn no_check_of_any_scenario_holds_without_a_trace() {
    for scenario in all() {
        let outcome = run_in(&World::timeless(false), scenario);
        assert!(!outcome.checks.is_empty(), "{}", scenario.id);
        assert!(!outcome.passed(), "{}", scenario.id);
        for check in &outcome.checks {
            if SWEEPS.contains(&scenario.id) && check.premise.is_met() {
                continue;
            }
            assert!(!check.premise.is_met(), "{}: {check}", scenario.id);
            assert!(!check.holds(), "{}: {check}", scenario.id);
        }
    }
}

/// Where nothing fails any more, a scenario that is about a failure fails, and not only by what it
/// sees.
#[test]
fn a_scenario_whose_fault_does_not_strike_fails() {
    let mut without_faults = Vec::new();
    for scenario in all() {
        let usual = run_in(&(scenario.world)(), scenario);
        let world = (scenario.world)();
        world.spare();
        let spared = run_in(&world, scenario);
        if usual.trace == spared.trace {
            assert!(spared.passed(), "{}", scenario.id);
            without_faults.push(scenario.id);
            continue;
        }
        let unmet = spared.checks.iter().filter(|one| !one.premise.is_met());
        assert!(unmet.count() > 0, "{}: {:?}", scenario.id, spared.checks);
        assert!(!spared.passed(), "{}", scenario.id);
    }
    let about_no_fault = [
        "concurrent_same_key",
        "new_key_same_payload",
        "deleted_replay_record",
        "overlapping_calls",
        "key_of_another_operation",
        "key_of_another_tenant",
        "opening_while_another_writes",
        "reused_ticket_id",
        "disk_errors_in_call",
        "disk_errors_in_opening",
        "disk_errors_in_recovery",
        "short_reads_in_recovery",
        "wal_snapshot_too_old",
        "wal_crashes",
        "wal_disk_errors",
        "model_repeats_call",
        "new_run_same_arguments",
        "tool_batch_paused_for_human",
        "contract_invalid_then_corrected",
        "contract_changed_payload",
        "contract_second_while_first_runs",
        "contract_retry_after_retention",
    ];
    assert_eq!(without_faults, about_no_fault);
}

/// The simulated world, but whoever is to call at once calls one after the other.
struct OneByOne(World);

impl Stage for OneByOne {
    type Host = Process;

    fn enter<T>(
        &self,
        process: &str,
        open: impl AsyncFnOnce(Connection, Process) -> rusqlite::Result<T>,
    ) -> Result<T, RunError> {
        self.0.enter(process, open)
    }

    fn fail_at(&self, process: &str, point: Point, visit: u32) {
        self.0.fail_at(process, point, visit);
    }

    fn run<T>(&self, host: &Process, work: impl Future<Output = T>) -> Result<T, RunError> {
        Stage::run(&self.0, host, work)
    }

    fn run_together<T, F>(
        &self,
        names: &[String],
        work: impl Fn(Connection, Process) -> F + Sync,
    ) -> Result<Vec<T>, RunError>
    where
        T: Send,
        F: Future<Output = T>,
    {
        let run = |name: &String| {
            let entered = self.enter(name, async |connection, process| Ok((connection, process)));
            let (connection, process) = entered?;
            Stage::run(self, &process.clone(), work(connection, process))
        };
        names.iter().map(run).collect()
    }

    fn record(host: &Process, what: What) {
        <World as Stage>::record(host, what);
    }

    fn trace(&self) -> Trace {
        Stage::trace(&self.0)
    }
}

/// Eight callers that never met prove nothing, though there is one ticket and all of them have it.
#[test]
fn callers_that_never_met_prove_nothing() {
    type Run = fn(&OneByOne, &Fixture) -> Result<Outcome, RunError>;
    let runs: [(Run, &str); 2] = [
        (lab::concurrent_same_key, "has the one ticket"),
        (
            contracts::contract_second_while_first_runs,
            "has the one ticket",
        ),
    ];
    for (run, claim) in runs {
        let outcome = run(&OneByOne(World::new()), &Fixture::committed()).unwrap();
        let about: Vec<&Check> = outcome
            .checks
            .iter()
            .filter(|check| check.claim.ends_with(claim))
            .collect();
        assert!(about.len() > 1);
        for check in about {
            assert_eq!(check.expected, check.seen, "what is seen is right");
            assert!(!check.holds(), "{check}");
        }
        assert!(!outcome.passed());
    }
}
