//! Steps of a run: read by SQLite at each moment, and true to the run's end.
#![cfg(not(target_family = "wasm"))]

use tool_retries::outcome::{Outcome, Table};
use tool_retries::scenario::{Fixture, all, find};
use tool_retries::sim::World;
use tool_retries::sim::trace::{Event, Loss, What};
use tool_retries::timeline::{self, Rows, Step};

fn run(id: &str) -> (Outcome, Vec<Step>) {
    let scenario = find(id).unwrap();
    let world = (scenario.world)();
    world.keep_history();
    let outcome = (scenario.play)(&world, &Fixture::committed()).unwrap();
    let steps = timeline::steps(&outcome, &world.take_history());
    (outcome, steps)
}

fn count(rows: &Rows, table: &str) -> Option<usize> {
    match rows {
        Rows::Tables(tables) => tables
            .iter()
            .find(|one| one.name == table)
            .map(|one| one.rows.len()),
        Rows::None(_) => None,
    }
}

/// Keeping a history changes nothing of the run, each event has a step, and the last step's rows are those left.
#[test]
fn the_last_step_equals_the_final_rows() {
    for scenario in all() {
        let plain = scenario.run(&Fixture::committed()).unwrap();
        let (outcome, steps) = run(scenario.id);
        assert!(plain.trace == outcome.trace, "{}: another run", scenario.id);
        assert_eq!(steps.len(), outcome.trace.events.len(), "{}", scenario.id);
        let Some(last) = steps.last().filter(|_| !outcome.tables.is_empty()) else {
            continue;
        };
        // Commits that are not synced are not yet on the disk: that is what it is about.
        let durable = (scenario.id != "wal_normal_loses_answers").then_some(&last.durable);
        for rows in [Some(&last.seen), durable].into_iter().flatten() {
            let Rows::Tables(tables) = &**rows else {
                panic!("{}: {rows:?}", scenario.id);
            };
            let left: Vec<&Table> = tables
                .iter()
                .filter(|table| outcome.tables.iter().any(|other| other.name == table.name))
                .collect();
            assert!(
                left == outcome.tables.iter().collect::<Vec<_>>(),
                "{}: {left:?}",
                scenario.id
            );
        }
    }
}

/// A ticket is seen by others, and survives, from its commit on and never before; while the commit writes, a reader waits.
#[test]
fn a_ticket_appears_with_its_commit() {
    let (outcome, steps) = run("naive_retry");
    let events = &outcome.trace.events;
    let after = events
        .iter()
        .position(|event| matches!(event.what, What::Reached(point) if point.0 == "after_commit"))
        .unwrap();
    let insert = events
        .iter()
        .position(|event| matches!(&event.what, What::Sql(sql) if sql.starts_with("INSERT")))
        .unwrap();
    // The one before it ended the opening.
    let is_commit = |event: &Event| event.what == What::Sql("COMMIT".to_owned());
    let commit = insert + events[insert..].iter().position(is_commit).unwrap();
    assert_eq!(count(&steps[insert].seen, "tickets"), Some(0));
    assert_eq!(count(&steps[commit].seen, "tickets"), Some(0));
    assert_eq!(count(&steps[commit].durable, "tickets"), Some(0));
    assert_eq!(count(&steps[after].seen, "tickets"), Some(1));
    assert_eq!(count(&steps[after].durable, "tickets"), Some(1));
    let busy = steps[commit..after].iter().filter(|step| matches!(&*step.seen, Rows::None(why) if why == "SQLITE_BUSY: a reader waits, agent holds EXCLUSIVE.")).count();
    assert!(busy > 5, "{busy} steps at which a reader waits");
    // The order in which it becomes durable, then visible: nobody sees what a power cut would take back.
    for step in &steps {
        let (Some(seen), Some(durable)) = (
            count(&step.seen, "tickets"),
            count(&step.durable, "tickets"),
        ) else {
            continue;
        };
        assert!(seen <= durable, "{seen} seen, {durable} durable");
    }
}

/// What each caller knows follows its calls.
#[test]
fn callers_know_what_they_were_told() {
    let (outcome, steps) = run("stable_key_retry");
    let at = |wanted: &dyn Fn(&What) -> bool| {
        outcome
            .trace
            .events
            .iter()
            .position(|event| wanted(&event.what))
            .unwrap()
    };
    let knows = |step: usize| -> Vec<String> {
        steps[step]
            .callers
            .iter()
            .flat_map(|(_, known)| known.clone())
            .collect()
    };
    let called = at(&|what| matches!(what, What::Called { .. }));
    assert!(knows(called - 1).is_empty());
    assert_eq!(knows(called), ["create_ticket: no answer yet"]);
    let failed = at(&|what| matches!(what, What::Failed { .. }));
    assert_eq!(
        knows(failed),
        ["create_ticket: ✗ timeout: no answer arrived"]
    );
    assert_eq!(
        knows(steps.len() - 1),
        [
            "create_ticket: ✗ timeout: no answer arrived",
            "create_ticket: answer {\"ticket_id\":1}",
            "create_ticket: answer {\"ticket_id\":1}",
        ]
    );
    let (_, steps) = run("resumed_node_without_key");
    assert!(steps.iter().any(|step| {
        step.callers
            .iter()
            .any(|(_, known)| known == &["dead: knows nothing any more"])
    }));
}

/// Locks stand as the trace says, and are gone at the end.
#[test]
fn locks_are_those_of_the_step() {
    let (outcome, steps) = run("concurrent_same_key");
    let waits = outcome
        .trace
        .events
        .iter()
        .position(|event| event.what == What::Waits)
        .unwrap();
    assert_eq!(
        steps[waits].locks[0],
        "caller 1 holds RESERVED on tickets.db"
    );
    assert!(steps.last().unwrap().locks.is_empty());
}

/// Pages repeat no text, and say for each step what the step holds.
#[test]
fn pages_are_the_steps() {
    let world = World::new();
    world.keep_history();
    let outcome = (find("stable_key_retry").unwrap().play)(&world, &Fixture::committed()).unwrap();
    let history = world.take_history();
    let pages = timeline::pages(&outcome, &history);
    assert_eq!(pages.steps.len(), outcome.trace.events.len());
    let mut sorted = pages.texts.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!(sorted.len(), pages.texts.len());
    let last = pages.steps.last().unwrap();
    let part = |name| {
        let part = timeline::PARTS
            .iter()
            .position(|other| *other == name)
            .unwrap();
        &pages.texts[last[part] as usize]
    };
    assert_eq!(
        part("event"),
        "15 ms observer lock on tickets.db: SHARED to UNLOCKED"
    );
    assert!(part("rows").contains("approved-ticket-001"));
    assert_eq!(part("durable"), "<p>The same rows.</p>");
    assert_eq!(part("locks"), "<p>Nobody holds one.</p>");
}

/// What a moment says of a power cut is what the cut leaves.
#[test]
fn a_moment_after_a_power_cut_is_the_disk_after_it() {
    let world = World::new();
    world.keep_history();
    let writer = world.start("writer");
    let connection = writer.connect("t.db").unwrap();
    connection.execute_batch("PRAGMA synchronous = EXTRA; CREATE TABLE t(a); INSERT INTO t VALUES (1); BEGIN IMMEDIATE; INSERT INTO t VALUES (2);").unwrap();
    let history = world.take_history();
    let (_, moment) = history.last().unwrap();
    world.cut_power(Loss::Everything);
    assert_eq!(World::after_power_cut(moment).files(), world.files());
    assert_eq!(moment.locks().len(), 1);
    assert!(
        World::seen(moment)
            .start("other")
            .connect("t.db")
            .unwrap()
            .execute_batch("BEGIN IMMEDIATE")
            .is_err()
    );
}
