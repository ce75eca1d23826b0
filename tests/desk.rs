//! The tools under what their users' reports describe: calls that overlap on one connection, commits
//! that report errors, databases that others use too.
#![cfg(not(target_family = "wasm"))]

mod common;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use common::open_desk;
use rusqlite::Connection;
use tool_retries::client::timeout;
use tool_retries::json::{self, Canonical, Finite, Value};
use tool_retries::key::{OperationKey, Tenant};
use tool_retries::sim::disk::{Access, DiskError, Done, Failing, Lasting};
use tool_retries::sim::trace::What;
use tool_retries::sim::{Chooser, Process, Schedule, Script, Seeded, Strike, World};
use tool_retries::tool::refunds::{Recording, RefundRequest, RefundService};
use tool_retries::tool::tickets::{Ticket, TicketDesk};
use tool_retries::tool::{AFTER_COMMIT, BEFORE_COMMIT, BEFORE_RECORD, LOCK_WAIT_LIMIT, ToolError};

type Desk = TicketDesk<Process>;
type Call<'a, T> = Pin<Box<dyn Future<Output = Result<T, ToolError>> + 'a>>;

fn payload() -> Value {
    json::object([("title", Value::from("desk"))])
}

fn key(text: &str) -> OperationKey {
    OperationKey::new(text).unwrap()
}

fn order(amount: f64) -> RefundRequest {
    RefundRequest {
        order_id: "A-7".to_owned(),
        amount: Finite::try_from(amount).unwrap(),
    }
}

fn desk(world: &World) -> Desk {
    open_desk(world, &world.start("desk"))
}

fn refunds(world: &World, recording: Recording) -> RefundService<Process> {
    let process = world.start("refunds");
    let connection = process.connect("tickets.db").unwrap();
    let opens = RefundService::open(connection, process.clone(), recording);
    world.run(&process, opens).unwrap().unwrap().unwrap()
}

fn run<T>(world: &World, process: &Process, work: impl Future<Output = T>) -> T {
    world.run(process, work).unwrap().expect("it ends")
}

fn count(connection: &Connection, table: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM {table}");
    connection.query_row(&sql, [], |row| row.get(0)).unwrap()
}

fn rows(desk: &Desk) -> (i64, i64) {
    let count = |table| count(desk.connection(), table);
    (count("tickets"), count("requests"))
}

/// Calls on one desk, one for each key, as `chooser` lets them move.
fn together(
    world: &World,
    desk: &Desk,
    keys: &[OperationKey],
    chooser: &mut dyn Chooser,
) -> Vec<Result<Ticket, ToolError>> {
    let payload = payload();
    let calls = keys.iter().map(|key| {
        let call: Call<'_, Ticket> = Box::pin(desk.create_ticket(&payload, Some(key)));
        (desk.host().clone(), call)
    });
    let answers = world.run_together(calls, chooser).unwrap();
    let answers = answers.into_iter();
    answers.map(|answer| answer.expect("it ends")).collect()
}

#[test]
fn eight_calls_on_one_desk_with_one_key_are_one_ticket() {
    for seed in 0..300 {
        let world = World::new();
        let desk = desk(&world);
        let keys = vec![key("one"); 8];
        let answers = together(&world, &desk, &keys, &mut Seeded::new(seed));
        for answer in answers {
            assert_eq!(answer.unwrap(), Ticket { id: 1 }, "seed {seed}");
        }
        assert_eq!(rows(&desk), (1, 1), "seed {seed}");
    }
}

/// The order that told a caller of a ticket which another call's end then took back.
#[test]
fn a_call_that_ends_does_not_end_the_other() {
    let world = World::new();
    let desk = desk(&world);
    let schedule: Schedule = "1001101".parse().unwrap();
    let keys = [key("one"), key("two")];
    let mut chooser = Script::new(schedule);
    let answers = together(&world, &desk, &keys, &mut chooser);
    let mut ids: Vec<i64> = answers.into_iter().map(|one| one.unwrap().id).collect();
    ids.sort_unstable();
    assert_eq!(ids, [1, 2]);
    assert_eq!(rows(&desk), (2, 2));
}

/// Whatever a caller is told of stands, on a service whose first answer to each is lost.
#[test]
fn nobody_is_told_of_a_refund_that_does_not_exist() {
    for seed in 0..500 {
        let world = World::new();
        let service = refunds(&world, Recording::WithEffect);
        let request = order(49.0);
        let keys = [key("one"), key("two"), key("three"), key("four")];
        world.strike("refunds", AFTER_COMMIT, 1, Strike::Fail);
        world.strike("refunds", BEFORE_RECORD, 2, Strike::Fail);
        let calls = keys.iter().map(|key| {
            let call: Call<'_, Value> = Box::pin(async {
                match service.refund(&request, Some(key)).await {
                    Ok(answer) => Ok(answer),
                    Err(_) => service.refund(&request, Some(key)).await,
                }
            });
            (service.host().clone(), call)
        });
        let answers = world.run_together(calls, &mut Seeded::new(seed)).unwrap();
        let reader = world.start("reader").connect("tickets.db").unwrap();
        let mut told: Vec<i64> = Vec::new();
        for answer in answers {
            let answer = answer.expect("it ends").unwrap();
            let id = answer.get("refund_id").and_then(Value::as_str).unwrap();
            told.push(id.trim_start_matches('R').parse().unwrap());
        }
        told.sort_unstable();
        assert_eq!(told, [1, 2, 3, 4], "seed {seed}");
        assert_eq!(count(&reader, "refunds"), 4, "seed {seed}");
        assert_eq!(count(&reader, "refund_requests"), 4, "seed {seed}");
    }
}

/// As long as a call on another connection would wait, and with SQLite's error.
#[test]
fn the_wait_for_a_turn_ends() {
    let world = World::new();
    let desk = desk(&world);
    let blocked = world.start("other");
    let other = open_desk(&world, &blocked);
    // Holds the write lock, so that the desk's first call waits with its turn.
    other.connection().execute_batch("BEGIN IMMEDIATE").unwrap();
    let keys = [key("one"), key("two")];
    let began = world.now();
    let answers = together(&world, &desk, &keys, &mut Script::default());
    let waited = world.now() - began;
    assert!(waited >= LOCK_WAIT_LIMIT && waited < LOCK_WAIT_LIMIT + Duration::from_secs(1));
    for answer in answers {
        let error = answer.unwrap_err();
        assert!(!error.may_have_taken_effect());
        let ToolError::Database(error) = error else {
            panic!("{error}");
        };
        assert_eq!(
            error.sqlite_error_code(),
            Some(rusqlite::ErrorCode::DatabaseBusy)
        );
    }
    other.connection().execute_batch("ROLLBACK").unwrap();
    assert_eq!(rows(&desk), (0, 0));
    // Nobody who gave up keeps the turn.
    let payload = payload();
    let again = desk.create_ticket(&payload, None);
    assert_eq!(run(&world, desk.host(), again).unwrap(), Ticket { id: 1 });
}

/// A call that is dropped, wherever it stands, leaves the connection to the next and nothing half done.
#[test]
fn a_dropped_call_gives_up_its_turn() {
    let mut left = Vec::new();
    for moves in 0..6 {
        let world = World::new();
        let desk = desk(&world);
        let payload = payload();
        let (one, two) = (key("one"), key("two"));
        let call = async {
            let first = desk.create_ticket(&payload, Some(&one));
            // One millisecond a move.
            let limit = Duration::from_millis(moves);
            let first = timeout(desk.host(), limit, first).await;
            let after = (first.is_ok(), rows(&desk));
            (after, desk.create_ticket(&payload, Some(&two)).await)
        };
        let ((answered, after), second) = run(&world, desk.host(), call);
        let done = after.0;
        assert_eq!(after, (done, done), "dropped after {moves} moves");
        assert!(!answered || done == 1);
        assert_eq!(second.unwrap(), Ticket { id: 1 + done });
        left.push((answered, done));
    }
    for outcome in [(false, 0), (false, 1), (true, 1)] {
        assert!(left.contains(&outcome), "{outcome:?} of {left:?}");
    }
}

const DELETED_AND_NOT_SYNCED: Failing = Failing {
    error: DiskError::Delete,
    done: Done::All,
};

#[test]
fn a_commit_that_took_effect_and_reports_an_error_is_unknown() {
    let world = World::new();
    let desk = desk(&world);
    world.fail_disk(
        world.disk_accesses() + 1,
        DELETED_AND_NOT_SYNCED,
        Lasting::FromThenOn,
    );
    let (payload, key) = (payload(), key("one"));
    let first = run(
        &world,
        desk.host(),
        desk.create_ticket(&payload, Some(&key)),
    );
    let error = first.unwrap_err();
    assert!(matches!(error, ToolError::OutcomeUnknown(_)), "{error}");
    assert!(error.may_have_taken_effect());
    assert_eq!(
        error.to_string(),
        "outcome unknown, the commit reported: disk I/O error"
    );
    world.repair_disk();
    assert_eq!(rows(&desk), (1, 1));
    let retry = run(
        &world,
        desk.host(),
        desk.create_ticket(&payload, Some(&key)),
    );
    assert_eq!(retry.unwrap(), Ticket { id: 1 });
    assert_eq!(rows(&desk), (1, 1));
}

/// An error before the commit is no doubt: nothing was done.
#[test]
fn an_error_before_the_commit_is_not_unknown() {
    let world = World::new();
    let desk = desk(&world);
    let full = Failing {
        error: DiskError::Full,
        done: Done::Half,
    };
    // The first write goes into the journal.
    world.fail_disk(world.disk_accesses() + 1, full, Lasting::FromThenOn);
    let first = run(&world, desk.host(), desk.create_ticket(&payload(), None));
    let error = first.unwrap_err();
    assert!(matches!(error, ToolError::Database(_)), "{error}");
    assert!(!error.may_have_taken_effect());
    world.repair_disk();
    assert_eq!(rows(&desk), (0, 0));
}

/// Every code that a read, a write and the others can end in stands for a code of SQLite.
#[test]
fn each_failing_reaches_its_caller() {
    let mut seen = Vec::new();
    for access in [
        Access::Read,
        Access::Write,
        Access::Sync,
        Access::Delete,
        Access::Lock,
    ] {
        for failing in access.failings() {
            let world = World::new();
            let desk = desk(&world);
            world.fail_disk(1, failing, Lasting::FromThenOn);
            let answer = run(&world, desk.host(), desk.create_ticket(&payload(), None));
            let failed = world.trace().count(
                |what| matches!(what, What::DiskFails { failing: seen, .. } if *seen == failing),
            );
            assert!(failed > 0, "{access:?} {failing:?}");
            if answer.is_err() {
                seen.push(failing.error);
            }
        }
    }
    seen.sort_unstable();
    seen.dedup();
    let expected = [
        DiskError::Write,
        DiskError::Sync,
        DiskError::Delete,
        DiskError::Lock,
        DiskError::Full,
        DiskError::NoMemory,
    ];
    for error in expected {
        assert!(seen.contains(&error), "{error:?} of {seen:?}");
    }
}

/// A desk that is opened while another process writes waits like a call, whoever opens.
#[test]
fn opening_waits_for_the_lock() {
    let world = World::new();
    let desk = desk(&world);
    let service = world.start("refunds");
    let process = service.clone();
    let payload = payload();
    let mut opened = None;
    let mut answer = None;
    {
        let call: Pin<Box<dyn Future<Output = ()> + '_>> =
            Box::pin(async { answer = Some(desk.create_ticket(&payload, None).await) });
        let open: Pin<Box<dyn Future<Output = ()> + '_>> = Box::pin(async {
            // Until the call has its transaction.
            for _ in 0..2 {
                process.let_others_move().await;
            }
            let connection = process.connect("tickets.db").unwrap();
            let recording = Recording::WithEffect;
            opened = Some(RefundService::open(connection, process.clone(), recording).await);
        });
        let work = [(desk.host().clone(), call), (service, open)];
        world.run_together(work, &mut Script::default()).unwrap();
    }
    assert_eq!(answer.unwrap().unwrap(), Ticket { id: 1 });
    assert!(opened.unwrap().is_ok());
    let waits = world.trace().count(|what| matches!(what, What::Waits));
    assert!(waits > 0, "nobody waited");
}

/// One key at two tools on one database, and in the hands of two tenants.
#[test]
fn a_key_belongs_to_one_operation_and_one_tenant() {
    let world = World::new();
    let desk = desk(&world);
    let service = refunds(&world, Recording::WithEffect);
    let key = key("one");
    let open = || {
        run(
            &world,
            desk.host(),
            desk.create_ticket(&payload(), Some(&key)),
        )
        .unwrap()
    };
    let refund = || {
        let request = order(49.0);
        let answer = run(&world, service.host(), service.refund(&request, Some(&key)));
        answer.unwrap().compact()
    };
    let refund_for = |tenant: &str, amount: f64| {
        let (tenant, request) = (Tenant::new(tenant).unwrap(), order(amount));
        let call = service.refund_for(&tenant, &request, &key);
        run(&world, service.host(), call).map(|answer| answer.compact())
    };
    for _ in 0..2 {
        assert_eq!(open(), Ticket { id: 1 });
        assert_eq!(refund(), r#"{"amount":49.0,"refund_id":"R1"}"#);
        assert_eq!(
            refund_for("a", 1.5).unwrap(),
            r#"{"amount":1.5,"refund_id":"R2"}"#
        );
        assert_eq!(
            refund_for("b", 2.5).unwrap(),
            r#"{"amount":2.5,"refund_id":"R3"}"#
        );
        let conflict = refund_for("a", 2.5).unwrap_err();
        assert!(matches!(conflict, ToolError::PayloadConflict { .. }));
    }
    assert_eq!(rows(&desk), (1, 1));
    assert_eq!(count(desk.connection(), "refunds"), 3);
}

/// An insert that a trigger turns into nothing is an error, whichever table it is, and leaves nothing.
#[test]
fn a_row_that_was_not_written_is_an_error() {
    for table in ["tickets", "requests", "refunds", "refund_requests"] {
        let world = World::new();
        let desk = desk(&world);
        let service = refunds(&world, Recording::WithEffect);
        let trigger = format!(
            "CREATE TRIGGER ignores BEFORE INSERT ON {table} BEGIN SELECT RAISE(IGNORE); END"
        );
        desk.connection().execute_batch(&trigger).unwrap();
        let key = key("one");
        let error = if table.starts_with("refund") {
            let request = order(49.0);
            run(&world, service.host(), service.refund(&request, Some(&key))).unwrap_err()
        } else {
            run(
                &world,
                desk.host(),
                desk.create_ticket(&payload(), Some(&key)),
            )
            .unwrap_err()
        };
        assert_eq!(
            error.to_string(),
            format!("database: one row for {table}, 0 written")
        );
        assert!(!error.may_have_taken_effect());
        assert_eq!(rows(&desk), (0, 0), "{table}");
        assert_eq!(count(desk.connection(), "refunds"), 0, "{table}");
    }
}

/// What fails between a committed refund and its record has not undone the refund, and says so.
#[test]
fn a_failure_after_the_effect_is_not_told_as_if_nothing_was_done() {
    let world = World::new();
    let service = refunds(&world, Recording::Afterwards);
    world.strike("refunds", BEFORE_RECORD, 1, Strike::Fail);
    let (request, key) = (order(49.0), key("one"));
    let answer = run(&world, service.host(), service.refund(&request, Some(&key)));
    let error = answer.unwrap_err();
    assert!(matches!(error, ToolError::Unrecorded(_)), "{error}");
    assert!(error.may_have_taken_effect());
    let reader = world.start("reader").connect("tickets.db").unwrap();
    assert_eq!(count(&reader, "refunds"), 1);
    assert_eq!(count(&reader, "refund_requests"), 0);
    // Once the record stands, a lost answer is a lost answer.
    world.strike("refunds", AFTER_COMMIT, 1, Strike::Fail);
    let answer = run(&world, service.host(), service.refund(&request, Some(&key)));
    assert!(matches!(answer.unwrap_err(), ToolError::TimedOut));
    assert_eq!(count(&reader, "refund_requests"), 1);
}

#[test]
fn an_interrupted_call_has_written_nothing() {
    let world = World::new();
    let desk = desk(&world);
    world.strike("desk", BEFORE_COMMIT, 1, Strike::Fail);
    let answer = run(&world, desk.host(), desk.create_ticket(&payload(), None));
    let error = answer.unwrap_err();
    assert!(matches!(error, ToolError::Interrupted(_)));
    assert!(!error.may_have_taken_effect());
    assert_eq!(rows(&desk), (0, 0));
}
