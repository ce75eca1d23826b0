//! The search: sound pruning, shortest counterexamples, tokens that replay, and green that is not empty.
#![cfg(not(target_family = "wasm"))]

mod common;

use std::collections::BTreeSet;

use common::recorded;
use tool_retries::explore::{
    Bounds, Case, Cell, DESIGNS, FAULTS, Invariant, Progress, Search, replay, replay_in_steps,
};
use tool_retries::json::Value;
use tool_retries::key::OperationKey;
use tool_retries::search::Strategy;
use tool_retries::sim::trace::{Trace, What};
use tool_retries::sim::{Journal, World};
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
fn result(search: &Search) -> (u64, u64, BTreeSet<Invariant>, Option<String>) {
    let Progress {
        schedules,
        bad,
        broken,
        ..
    } = search.progress();
    let token = search.counterexample().map(|found| found.token);
    (schedules, bad, broken.iter().collect(), token)
}

/// The pruned search counts the schedules that it does not run, and finds what the unpruned one
/// finds: as many schedules, as many bad ones, and the same shortest counterexample.
#[test]
fn pruning_changes_nothing_but_the_number_of_runs() {
    let (mut runs, mut runs_unpruned) = (0, 0);
    for journal in Journal::ALL {
        for cell in matrix_of(journal) {
            // All of the immediate design, and what is quick of the others.
            let limit = if cell.design == "immediate" {
                10_000
            } else {
                430
            };
            let usual = case(cell.design, cell.fault).with_journal(journal);
            let one_attempt = [usual.bounds.callers, 1, usual.bounds.faults];
            let cases = [Ok(usual), usual.within(bounds(one_attempt))];
            // One attempt has far fewer schedules than two.
            for (case, most) in cases.into_iter().zip([limit, 20 * limit]) {
                let Ok(case) = case else { continue };
                if cell.schedules > most {
                    continue;
                }
                let pruned = search(case, Strategy::Exhaustive);
                if pruned.progress().schedules > limit {
                    continue;
                }
                let unpruned = search(case, Strategy::Unpruned);
                assert_eq!(result(&pruned), result(&unpruned), "{case:?}");
                runs += pruned.progress().runs;
                runs_unpruned += unpruned.progress().runs;
            }
        }
    }
    // Runs in which the disk fails differ in where it does, and seldom meet.
    assert!(runs * 3 < runs_unpruned * 2, "{runs} of {runs_unpruned}");
}

/// A cell of `results.json`, which the command line's tests hold to a search of each.
struct Recorded {
    design: &'static str,
    fault: &'static str,
    verdict: String,
    schedules: u64,
    safe: bool,
    shown: Vec<Invariant>,
    broken: Vec<Invariant>,
}

impl Recorded {
    /// What is wrong, or that nothing is.
    fn kind(&self) -> &str {
        self.verdict.split(" in ").next().unwrap()
    }

    /// Each is safe or has a counterexample, which replays, watched, and again to the byte.
    fn check(self, cell: &Value) -> Self {
        let at = format!("{} {}", self.design, self.fault);
        let bad = cell.get("bad").and_then(Value::as_i64).unwrap();
        let token = cell.get("token").and_then(Value::as_str);
        assert_eq!(self.safe, token.is_none(), "{at}");
        assert_eq!(bad > 0, token.is_some(), "{at}");
        assert_eq!(!self.broken.is_empty(), token.is_some(), "{at}");
        let Some(token) = token else {
            assert_eq!(self.kind(), "safe", "{at}");
            return self;
        };
        let outcome = replay(token).unwrap();
        let failed = outcome.checks.iter().filter(|check| !check.holds());
        let failed: Vec<&str> = failed.map(|check| &*check.claim).collect();
        let broken = self.broken.iter();
        let found: Vec<&str> = broken.map(|one| one.claim()).collect();
        assert!(!failed.is_empty(), "{token}");
        assert!(
            failed.iter().all(|one| found.contains(one)),
            "{token}: {failed:?}"
        );
        assert_eq!(
            replay(token).unwrap().trace.canonical(),
            outcome.trace.canonical()
        );
        self
    }
}

/// The recorded matrix of a journal.
fn matrix_of(journal: Journal) -> Vec<Recorded> {
    let recorded = recorded();
    let matrix = recorded.get("matrix").and_then(|all| all.get(journal.id()));
    let matrix = matrix.expect("a matrix of each journal");
    let invariants = |cell: &Value, name| match cell.get(name) {
        Some(Value::Array(ids)) => {
            let ids = ids.iter().map(|id| Invariant::find(id.as_str().unwrap()));
            ids.collect::<Option<Vec<_>>>()
                .expect("names of invariants")
        }
        _ => panic!("no {name}"),
    };
    let cells = DESIGNS.iter().flat_map(|design| {
        FAULTS.iter().map(|class| {
            let row = matrix.get(design.id);
            let cell = row.and_then(|row| row.get(class.id)).expect("a cell");
            let read = Recorded {
                design: design.id,
                fault: class.id,
                verdict: cell
                    .get("verdict")
                    .and_then(Value::as_str)
                    .unwrap()
                    .to_owned(),
                schedules: cell.get("schedules").and_then(Value::as_i64).unwrap() as u64,
                safe: cell.get("safe").and_then(Value::as_bool).unwrap(),
                shown: invariants(cell, "shown"),
                broken: invariants(cell, "broken"),
            };
            read.check(cell)
        })
    });
    cells.collect()
}

/// What article.md says of WAL mode: which cells break otherwise than with a rollback journal.
#[test]
fn in_wal_mode_a_commit_in_doubt_is_none_and_without_syncs_answers_are_lost() {
    let usual = matrix_of(Journal::Rollback);
    let differ = |journal: Journal| {
        let cells = usual.iter().zip(matrix_of(journal));
        let cells = cells.filter(|(usual, own)| usual.kind() != own.kind());
        cells
            .map(|(_, own)| (own.design, own.fault, own.kind().to_owned()))
            .collect::<Vec<_>>()
    };
    let safe = ["no_key", "key_per_attempt", "memory"]
        .map(|design| (design, "disk_error", "safe".to_owned()));
    assert_eq!(differ(Journal::WalFull), safe);
    let (lost, others): (Vec<_>, Vec<_>) = differ(Journal::WalNormal)
        .into_iter()
        .partition(|(_, fault, _)| *fault == "power_lost");
    assert_eq!(others, safe);
    let all = DESIGNS.iter().map(|design| {
        let gone = "an answered ticket is gone".to_owned();
        (design.id, "power_lost", gone)
    });
    assert_eq!(lost, all.collect::<Vec<_>>());
}

#[test]
fn the_matrix_breaks_where_it_should_and_its_green_is_not_empty() {
    let cells = matrix_of(Journal::Rollback);
    // Each design breaks somewhere: the three right ones only where their records are pruned.
    for cell in &cells {
        let at = format!("{} {}", cell.design, cell.fault);
        if ["claim", "unique", "immediate"].contains(&cell.design) {
            assert_eq!(cell.safe, cell.fault != "record_pruned", "{at}");
        }
    }
    for design in DESIGNS {
        let mut own = cells.iter().filter(|cell| cell.design == design.id);
        assert!(own.any(|cell| !cell.safe), "{}", design.id);
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
        .filter(|cell| cell.design == "effect_then_record" && !cell.safe);
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
            shortest = unpruned.counterexample();
        }
        let pruned = search(case, Strategy::Exhaustive);
        assert!(shortest.is_some());
        assert_eq!(pruned.counterexample(), shortest, "{design} {fault}");
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
