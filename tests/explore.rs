//! The search: sound pruning, shortest counterexamples, tokens that replay, and green that is not empty.
#![cfg(not(target_family = "wasm"))]

mod common;

use std::collections::BTreeSet;

use common::recorded;
use tool_retries::explore::{
    Bounds, Case, Cell, DESIGNS, FAULTS, Invariant, Progress, Search, Strategy, matrix, replay,
    replay_in_steps, to_json,
};
use tool_retries::key::OperationKey;
use tool_retries::sim::World;
use tool_retries::sim::trace::{Trace, What};
use tool_retries::timeline::{self, Rows};

fn case(design: &str, fault: &str) -> Case {
    Case::find(design, fault).unwrap()
}

fn bounds([callers, attempts, faults]: [u8; 3]) -> Bounds {
    Bounds {
        callers,
        attempts,
        faults,
    }
}

fn search(case: Case, strategy: Strategy) -> Search {
    Search::new(case, strategy).unwrap().finish().unwrap()
}

/// What pruning must not change.
fn result(search: &Search) -> (u64, u64, BTreeSet<Invariant>, Option<&str>) {
    let Progress {
        schedules,
        bad,
        broken,
        ..
    } = search.progress();
    let token = search.counterexample().map(|found| found.token.as_str());
    (schedules, bad, broken.iter().collect(), token)
}

/// The pruned search counts the schedules that it does not run, and finds what the unpruned one
/// finds: as many schedules, as many bad ones, and the same shortest counterexample.
#[test]
fn pruning_changes_nothing_but_the_number_of_runs() {
    let mut cases: Vec<Case> = Vec::new();
    for design in DESIGNS {
        for class in FAULTS {
            let usual = case(design.id, class.id);
            cases.push(usual);
            let one_attempt = [usual.bounds.callers, 1, usual.bounds.faults];
            cases.extend(usual.within(bounds(one_attempt)));
        }
    }
    let (mut runs, mut runs_unpruned) = (0, 0);
    for case in cases {
        let pruned = search(case, Strategy::Exhaustive);
        // All of the immediate design, and what is quick of the others.
        let limit = if case.design.id == "immediate" {
            10_000
        } else {
            430
        };
        if pruned.progress().schedules > limit {
            continue;
        }
        let unpruned = search(case, Strategy::Unpruned);
        assert_eq!(result(&pruned), result(&unpruned), "{case:?}");
        runs += pruned.progress().runs;
        runs_unpruned += unpruned.progress().runs;
    }
    // Runs in which the disk fails differ in where it does, and seldom meet.
    assert!(runs * 3 < runs_unpruned * 2, "{runs} of {runs_unpruned}");
}

#[test]
fn the_committed_matrix_is_this_search_and_its_green_is_not_empty() {
    let cells = matrix().unwrap();
    let json = to_json(&cells);
    assert!(
        recorded().get("matrix") == Some(&json),
        "if the change is meant: cargo run -q -- --output results.json"
    );
    assert_eq!(cells.len(), DESIGNS.len() * FAULTS.len());
    // Each cell is safe or has a counterexample, and each design breaks somewhere: the three right
    // ones only where their records are pruned.
    for cell in &cells {
        let at = format!("{} {}", cell.design, cell.fault);
        assert!(!cell.limited, "{at}");
        assert_eq!(cell.is_safe(), cell.counterexample.is_none(), "{at}");
        assert_eq!(cell.bad > 0, cell.counterexample.is_some(), "{at}");
        if ["claim", "unique", "immediate"].contains(&cell.design) {
            assert_eq!(cell.is_safe(), cell.fault != "record_pruned", "{at}");
        }
    }
    for design in DESIGNS {
        let mut own = cells.iter().filter(|cell| cell.design == design.id);
        assert!(own.any(|cell| !cell.is_safe()), "{}", design.id);
    }
    // Each invariant is shown somewhere, and each breaks but one: SQLite refuses at once whom waiting cannot help, so
    // that no design waits for ever.
    for invariant in Invariant::ALL {
        assert!(
            cells.iter().any(|cell| cell.shown.contains(&invariant)),
            "{invariant:?}"
        );
        assert_eq!(
            cells.iter().any(|cell| cell.broken.contains(&invariant)),
            invariant != Invariant::NobodyWaits,
            "{invariant:?}"
        );
    }
    // A claim that nobody may take over outlives whoever made it, and a payload that another call's
    // end recorded under the key refuses the caller's own.
    let unanswered = cells
        .iter()
        .filter(|cell| cell.broken.contains(&Invariant::RetryAnswered));
    assert_eq!(
        unanswered
            .map(|cell| (cell.design, cell.fault))
            .collect::<Vec<_>>(),
        [
            ("shared_connection", "changed_payload"),
            ("claim_for_ever", "killed"),
            ("claim_for_ever", "power_lost"),
            ("claim_for_ever", "disk_error"),
        ]
    );
    // The immediate design with its record committed in a second transaction: wherever a call is
    // repeated, it turns red.
    let red = cells
        .iter()
        .filter(|cell| cell.design == "effect_then_record" && !cell.is_safe());
    assert_eq!(
        red.map(|cell| cell.fault).collect::<Vec<_>>(),
        [
            "none",
            "response_lost",
            "delivered_twice",
            "delivered_late",
            "killed",
            "power_lost",
            "disk_error",
            "record_pruned",
            "changed_payload"
        ]
    );
    // Every token replays what its cell says, watched, and again to the byte.
    for cell in &cells {
        let Some(found) = &cell.counterexample else {
            continue;
        };
        let outcome = replay(&found.token).unwrap();
        let failed: Vec<&str> = outcome
            .checks
            .iter()
            .filter(|check| !check.holds())
            .map(|check| check.claim.as_str())
            .collect();
        let claims: Vec<&str> = found.broken.iter().map(Invariant::claim).collect();
        assert_eq!(failed, claims, "{}", found.token);
        assert_eq!(
            replay(&found.token).unwrap().trace.canonical(),
            outcome.trace.canonical()
        );
    }
}

/// In every class that has a fault, it strikes.
#[test]
fn the_fault_strikes() {
    for class in FAULTS.iter().filter(|class| class.bounds.faults > 0) {
        let found = search(case("immediate", class.id), Strategy::Exhaustive);
        assert!(found.progress().struck > 0, "{}", class.id);
    }
}

/// The shortest of all bad schedules, each of which runs, is the one that the pruned search shows,
/// though it may have pruned that one.
#[test]
fn the_shortest_counterexample_is_the_shortest_there_is() {
    for (design, fault) in [
        ("no_key", "response_lost"),
        ("effect_then_record", "response_lost"),
        ("effect_then_record", "killed"),
        ("memory", "changed_payload"),
        ("deferred", "record_pruned"),
    ] {
        let case = case(design, fault);
        let mut unpruned = Search::new(case, Strategy::Unpruned).unwrap();
        // Each run is one schedule until all have run; what then follows are runs of the shortening.
        let mut shortest = None;
        loop {
            let progress = unpruned.advance(1).unwrap();
            if progress.runs > progress.schedules || progress.done {
                break;
            }
            shortest = unpruned.counterexample().cloned();
        }
        let pruned = search(case, Strategy::Exhaustive);
        assert!(shortest.is_some());
        assert_eq!(
            pruned.counterexample(),
            shortest.as_ref(),
            "{design} {fault}"
        );
    }
}

/// Advanced in slices of any size, a search comes to the same.
#[test]
fn slices_change_nothing() {
    let case = case("effect_then_record", "response_lost");
    let whole = search(case, Strategy::Exhaustive);
    for slice in [1, 7] {
        let mut sliced = Search::new(case, Strategy::Exhaustive).unwrap();
        let mut slices = 0;
        while !sliced.advance(slice).unwrap().done {
            slices += 1;
        }
        assert!(slices > 1);
        assert_eq!(sliced.progress(), whole.progress());
        assert_eq!(sliced.counterexample(), whole.counterexample());
    }
}

/// Random schedules find what is there, replay, and depend on nothing but their seed.
#[test]
fn random_schedules_find_it_too() {
    let case = case("effect_then_record", "killed")
        .within(bounds([3, 2, 1]))
        .unwrap();
    let found = [1, 1, 2].map(|seed| {
        let mut search = Search::new(case, Strategy::Random { seed }).unwrap();
        let progress = search.advance(300).unwrap();
        assert!(progress.bad > 0 && progress.struck > 0 && !progress.done);
        let cell = Cell::of(&search);
        assert!(!cell.is_safe());
        assert!(
            !replay(&cell.counterexample.unwrap().token)
                .unwrap()
                .passed()
        );
        progress
    });
    assert_eq!(found[0], found[1]);
    assert_ne!(found[0], found[2]);
    let mut search = Search::new(
        self::case("immediate", "none"),
        Strategy::Random { seed: 0 },
    )
    .unwrap();
    search.advance(10).unwrap();
    let cell = Cell::of(&search);
    assert!(!cell.is_safe(), "{}", cell.verdict());
}

fn statements(trace: &Trace, who: &str) -> Vec<String> {
    let statements = trace.events.iter().filter(|event| *event.who == *who);
    statements
        .filter_map(|event| match &event.what {
            // The keys and payloads are others.
            What::Sql(sql) => Some(sql.split('\'').step_by(2).collect()),
            What::Reached(point) => Some(point.to_string()),
            _ => None,
        })
        .collect()
}

/// The immediate design is the lab's tool: the same statements and points, first call and replay.
#[test]
fn the_immediate_design_is_the_labs_tool() {
    let world = World::new();
    let process = world.start("agent");
    let desk = common::open_desk(&world, &process);
    let setting_up = statements(&world.trace(), "agent").len();
    let key = OperationKey::new("k").unwrap();
    let payload = tool_retries::json::parse("{}").unwrap();
    for _ in 0..2 {
        let answer = world.run(&process, desk.create_ticket(&payload, Some(&key)));
        assert!(answer.unwrap().unwrap().is_ok());
    }
    let lab = statements(&world.trace(), "agent").split_off(setting_up);
    // The response of the first call is lost once the tool is done: the retry is a replay.
    let trace = replay("immediate.response_lost.121.11111")
        .unwrap_or_else(|error| panic!("{error}"))
        .trace;
    let mut design = statements(&trace, "worker 1");
    design.extend(statements(&trace, "worker 2"));
    assert_eq!(design, lab);
}

#[test]
fn nonsense_replays_nothing() {
    for (token, part) in [
        ("", "form"),
        ("immediate.none.220", "form"),
        ("immediate.none.2200.-", "form"),
        ("immediate.none.220.!", "form"),
        ("nonsense.none.220.-", "no design"),
        ("immediate.nonsense.220.-", "no fault"),
        ("immediate.none.520.-", "callers"),
        ("immediate.none.221.-", "faults"),
        ("immediate.none.220.z", "another run"),
        ("immediate.request_lost.121.0000000000000001", "another run"),
    ] {
        let error = replay(token).unwrap_err().to_string();
        assert!(error.contains(part), "{token:?}: {error}");
    }
}

/// Seen step by step a counterexample is the same run: a step an event, tables from the first one on, and at the end
/// the rows that are left.
#[test]
fn a_counterexample_can_be_stepped_through() {
    for token in [
        "deferred.record_pruned.121.01222",
        "effect_then_record.killed.122.0000000000000000001",
        "immediate.record_pruned.121.0122",
        "key_per_attempt.power_lost.121.000000000000000000000000001",
    ] {
        let (outcome, history) = replay_in_steps(token).unwrap();
        assert_eq!(replay(token).unwrap().trace, outcome.trace, "{token}");
        let steps = timeline::steps(&outcome, &history);
        assert_eq!(steps.len(), outcome.trace.events.len(), "{token}");
        let count = |rows: &Rows| -> usize {
            match rows {
                Rows::Tables(tables) => tables.iter().map(|table| table.rows.len()).sum(),
                Rows::None(why) => panic!("{token}: {why}"),
            }
        };
        let left: usize = outcome.tables.iter().map(|table| table.rows.len()).sum();
        assert!(left > 0, "{token}");
        assert_eq!(count(&steps[0].seen), 0, "{token}");
        assert_eq!(count(&steps[steps.len() - 1].seen), left, "{token}");
    }
}

/// The beginning of a token names its case.
#[test]
fn a_case_is_read_as_it_is_printed() {
    let wide = case("claim", "killed").within(bounds([3, 1, 2])).unwrap();
    assert_eq!(wide.to_string(), "claim.killed.312");
    let read: Case = "claim.killed.312".parse().unwrap();
    assert_eq!(
        (read.design, read.class.id, read.bounds),
        (wide.design, "killed", wide.bounds)
    );
    for text in [
        "",
        "claim",
        "claim.killed",
        "claim.killed.31",
        "claim.killed.3122",
        "claim.killed.912",
        "x.killed.122",
    ] {
        assert!(text.parse::<Case>().is_err(), "{text}");
    }
}
