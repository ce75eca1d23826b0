//! The crash sweep: a kill and a power cut before every disk operation of one call.
#![cfg(not(target_family = "wasm"))]

use tool_retries::json::{self, Canonical, Value};
use tool_retries::key::OperationKey;
use tool_retries::sim::disk::{DiskStrike, Loss};
use tool_retries::sim::{Process, Strike, World};
use tool_retries::tool::tickets::{Ticket, TicketDesk};
use tool_retries::tool::{AFTER_COMMIT, ToolError};

type Desk = TicketDesk<Process>;

/// What was found after a crash, and after the retry.
#[derive(Debug, PartialEq)]
struct Aftermath {
    /// The answer that the first call's caller had.
    first: Option<Ticket>,
    /// Rows in `tickets` and `requests` after recovery, before the retry.
    before_retry: (i64, i64),
    /// The answer to the retry.
    retry: Ticket,
    /// Rows after the retry.
    after_retry: (i64, i64),
}

impl Aftermath {
    /// One intention has one ticket, one record, one id, whatever was answered stands.
    fn is_right(&self) -> bool {
        let all_or_nothing = match self.before_retry {
            (0, 0) => self.first.is_none(),
            other => other == (1, 1),
        };
        all_or_nothing
            && self.after_retry == (1, 1)
            && self.first.is_none_or(|first| first == self.retry)
    }
}

fn payload() -> Value {
    json::object([("title", Value::from("crash sweep"))])
}

fn key() -> OperationKey {
    OperationKey::new("sweep").unwrap()
}

/// The tool as it is.
async fn one_transaction(desk: &Desk) -> Result<Ticket, ToolError> {
    desk.create_ticket(&payload(), Some(&key())).await
}

/// The planted fault: the ticket commits before its record.
async fn two_transactions(desk: &Desk) -> Result<Ticket, ToolError> {
    let known = desk
        .connection()
        .query_row(
            "SELECT response FROM requests WHERE key = 'sweep'",
            [],
            |row| row.get::<_, String>(0),
        )
        .is_ok();
    if known {
        return desk.create_ticket(&payload(), Some(&key())).await;
    }
    let ticket = desk.create_ticket(&payload(), None).await?;
    desk.connection().execute(
        "INSERT INTO requests(key, payload, response) VALUES ('sweep', ?1, ?2)",
        [payload().compact(), ticket.to_json().compact()],
    )?;
    Ok(ticket)
}

/// The tool with the weaker setting.
async fn synchronous_full(desk: &Desk) -> Result<Ticket, ToolError> {
    desk.connection()
        .execute_batch("PRAGMA synchronous = FULL")?;
    one_transaction(desk).await
}

/// The tool in `process`; nothing when the process died of it.
fn open(world: &World, process: &Process) -> Option<Desk> {
    let opens = async { TicketDesk::open(process.connect("tickets.db")?, process.clone()).await };
    let opened = world.run(process, opens).unwrap();
    opened.map(|opened| opened.expect("only the dead fail here"))
}

fn enter(world: &World) -> (Process, Desk) {
    let process = world.start("agent");
    let desk = open(world, &process).expect("no strike is placed here");
    (process, desk)
}

fn world_with_tables() -> World {
    let world = World::new();
    let (_, desk) = enter(&world);
    world
        .run(desk.host(), desk.create_tables())
        .unwrap()
        .unwrap()
        .unwrap();
    world
}

/// How many disk operations an undisturbed call takes.
fn operations(call: impl AsyncFn(&Desk) -> Result<Ticket, ToolError>) -> u64 {
    let world = world_with_tables();
    let (process, desk) = enter(&world);
    let before = world.disk_operations();
    world.run(&process, call(&desk)).unwrap().unwrap().unwrap();
    world.disk_operations() - before
}

/// Where in a call a strike falls.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    /// Before the call's disk operation of this number, from 1.
    Before(u64),
    /// Committed, and the answer has not left.
    AfterCommit,
    /// The caller has its answer.
    AfterAnswer,
}

/// Every place of a call.
fn places(call: impl AsyncFn(&Desk) -> Result<Ticket, ToolError>) -> Vec<Place> {
    (1..=operations(call))
        .map(Place::Before)
        .chain([Place::AfterCommit, Place::AfterAnswer])
        .collect()
}

/// Calls once with a strike at `place`, and leaves what a restarted process finds.
fn crash(
    call: impl AsyncFn(&Desk) -> Result<Ticket, ToolError>,
    place: Place,
    strike: DiskStrike,
) -> (World, Option<Ticket>) {
    let world = world_with_tables();
    let (process, desk) = enter(&world);
    let at_point = match strike {
        DiskStrike::Kill => Strike::Kill,
        DiskStrike::PowerCut(loss) => Strike::PowerCut(loss),
    };
    match place {
        Place::Before(number) => world.strike_disk(world.disk_operations() + number, strike),
        Place::AfterCommit => world.strike("agent", AFTER_COMMIT, 1, at_point),
        Place::AfterAnswer => {}
    }
    let first = world.run(&process, call(&desk)).unwrap();
    let first = first.map(|answer| answer.expect("only the dead fail here"));
    assert_eq!(
        first.is_some(),
        place == Place::AfterAnswer,
        "{place:?} was missed"
    );
    if place == Place::AfterAnswer {
        match strike {
            DiskStrike::Kill => process.kill(),
            DiskStrike::PowerCut(loss) => world.cut_power(loss),
        }
    }
    assert!(!process.is_alive());
    (world, first)
}

fn rows(desk: &Desk) -> (i64, i64) {
    let count = |sql: &str| desk.connection().query_row(sql, [], |row| row.get(0));
    let integrity: String = desk
        .connection()
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(integrity, "ok");
    (
        count("SELECT count(*) FROM tickets").unwrap(),
        count("SELECT count(*) FROM requests").unwrap(),
    )
}

fn recover_and_retry(
    call: impl AsyncFn(&Desk) -> Result<Ticket, ToolError>,
    world: &World,
    first: Option<Ticket>,
) -> Aftermath {
    let (process, desk) = enter(world);
    let before_retry = rows(&desk);
    let retry = world.run(&process, call(&desk)).unwrap().unwrap().unwrap();
    Aftermath {
        first,
        before_retry,
        retry,
        after_retry: rows(&desk),
    }
}

/// A kill, a power cut that loses everything unsynced, one that loses nothing, and many that tear.
fn strikes() -> Vec<DiskStrike> {
    let torn = (0..16).map(|seed| Loss::Torn { seed });
    let cuts = [Loss::Everything, Loss::Nothing].into_iter().chain(torn);
    std::iter::once(DiskStrike::Kill)
        .chain(cuts.map(DiskStrike::PowerCut))
        .collect()
}

fn sweep(
    call: impl AsyncFn(&Desk) -> Result<Ticket, ToolError> + Copy,
) -> Vec<(Place, DiskStrike, Aftermath)> {
    let mut found = Vec::new();
    for strike in strikes() {
        for place in places(call) {
            let (world, first) = crash(call, place, strike);
            found.push((place, strike, recover_and_retry(call, &world, first)));
        }
    }
    found
}

#[test]
fn one_transaction_survives_every_crash() {
    let found = sweep(one_transaction);
    for (place, strike, aftermath) in &found {
        assert!(aftermath.is_right(), "{strike:?} {place:?}: {aftermath:?}");
    }
    // The sweep reached both sides of the commit, unanswered on either.
    let unanswered = |rows| {
        found
            .iter()
            .any(|(_, _, one)| one.first.is_none() && one.before_retry == rows)
    };
    assert!(unanswered((0, 0)), "no crash before the commit");
    assert!(unanswered((1, 1)), "no crash between commit and answer");
    assert_eq!(operations(one_transaction), 23, "operations of one call");
}

/// The recovery itself may crash, at any of its operations and those of the retry.
#[test]
fn recovery_survives_a_second_crash() {
    let mut struck_again = 0;
    for strike in [
        DiskStrike::Kill,
        DiskStrike::PowerCut(Loss::Everything),
        DiskStrike::PowerCut(Loss::Torn { seed: 3 }),
    ] {
        for place in places(one_transaction) {
            for second in 1.. {
                let (world, first) = crash(one_transaction, place, strike);
                world.strike_disk(world.disk_operations() + second, strike);
                let process = world.start("agent");
                // Opening reads the schema, and so may already roll back a hot journal.
                let answer = open(&world, &process)
                    .and_then(|desk| world.run(&process, one_transaction(&desk)).unwrap());
                if process.is_alive() {
                    break; // Recovery and retry have fewer operations than that.
                }
                let first = first.or(answer.map(Result::unwrap));
                let aftermath = recover_and_retry(one_transaction, &world, first);
                assert!(
                    aftermath.is_right(),
                    "{strike:?} {place:?}, again before operation {second}: {aftermath:?}"
                );
                struck_again += 1;
            }
        }
    }
    assert!(struck_again > 1_000, "only {struck_again} second crashes");
}

/// The same sweep finds the double ticket where record and effect are committed apart.
#[test]
fn two_transactions_are_caught() {
    let doubled = sweep(two_transactions)
        .into_iter()
        .filter(|(_, _, one)| one.after_retry == (2, 1))
        .count();
    assert!(doubled > 0, "the sweep cannot fail");
}

/// With a rollback journal, FULL leaves the journal's deletion unsynced: after the answer, a power
/// cut brings the journal back and the commit is undone. EXTRA is what the tool needs.
#[test]
fn synchronous_full_loses_an_answered_commit() {
    let cut = DiskStrike::PowerCut(Loss::Everything);
    let (world, first) = crash(synchronous_full, Place::AfterAnswer, cut);
    let aftermath = recover_and_retry(synchronous_full, &world, first);
    assert_eq!(aftermath.first, Some(Ticket { id: 1 }));
    assert_eq!(aftermath.before_retry, (0, 0));
}
