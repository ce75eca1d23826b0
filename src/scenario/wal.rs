//! The same desk on a database in WAL mode: a snapshot that is too old, and what a power cut takes back.

use std::cell::Cell;

use rusqlite::{Connection, ffi};

use crate::json::{self, Canonical, Value};
use crate::key::OperationKey;
use crate::sim::disk::{DiskError, DiskStrike, Loss};
use crate::sim::trace::What;
use crate::sim::{Journal, Process, World, is_busy};
use crate::tool::tickets::TicketDesk;

use super::lab::call;
use super::stage::DATABASE;
use super::sweep::{Stretch, Sweep, sweep};
use super::{Fixture, RunError};
use crate::outcome::{Checks, Outcome, Premise, Table, Witness};

type Desk = TicketDesk<Process>;

/// How often the refused statement is repeated.
const REPEATED: usize = 3;

/// A database in WAL mode with the desk's tables in it, all of it synced.
fn prepare(world: &World) -> Result<(), RunError> {
    let process = world.start("setup");
    let connection = process.connect(DATABASE)?;
    Journal::WalFull.set(&connection)?;
    let created = world.run(&process, async {
        TicketDesk::open(connection, process.clone())
            .await?
            .create_tables()
            .await
    })?;
    // The last connection to close moves the WAL into the file.
    Ok(created.ok_or(RunError::NoEnd)??)
}

fn open(world: &World, name: &str, journal: Journal) -> Result<Desk, RunError> {
    let process = world.start(name);
    let opens = TicketDesk::open(process.connect(DATABASE)?, process.clone());
    let desk = world.run(&process, opens)?.ok_or(RunError::NoEnd)??;
    desk.connection().execute_batch(journal.synchronous())?;
    Ok(desk)
}

/// The ticket that a call opens or finds; the call must succeed.
fn ticket(
    world: &World,
    desk: &Desk,
    payload: &Value,
    key: &OperationKey,
) -> Result<i64, RunError> {
    let answer = world.run(desk.host(), call::<World>(desk, payload, Some(key)))?;
    Ok(answer.ok_or(RunError::NoEnd)??.id)
}

/// How many tickets and replay records there are.
fn rows(connection: &Connection) -> rusqlite::Result<(i64, i64)> {
    let count = |sql| connection.query_row(sql, [], |row| row.get(0));
    Ok((
        count("SELECT count(*) FROM tickets")?,
        count("SELECT count(*) FROM requests")?,
    ))
}

fn happened(world: &World, what: &str, times: usize, is_it: impl Fn(&What) -> bool) -> Premise {
    Premise::happened(&world.trace(), what, times, |event| is_it(&event.what))
}

fn outcome(
    world: &World,
    checks: Checks,
    connection: &Connection,
    values: impl Into<Vec<(&'static str, Value)>>,
) -> Result<Outcome, RunError> {
    let trace = world.trace();
    let tables = ["tickets", "requests"].map(|name| Table::read(connection, name));
    Ok(Outcome {
        values: json::object(values.into()),
        checks: checks.into_vec(),
        tables: tables.into_iter().collect::<rusqlite::Result<_>>()?,
        plots: Vec::new(),
        trace,
    })
}

/// A transaction reads, another one commits, and the first then wants to write.
pub(super) fn wal_snapshot_too_old(world: &World, fixture: &Fixture) -> Result<Outcome, RunError> {
    prepare(world)?;
    let desk = open(world, "agent", Journal::WalFull)?;
    let reader = world.start("reader").connect(DATABASE)?;
    let payload = fixture.payload();
    reader.execute_batch("BEGIN DEFERRED; SELECT count(*) FROM tickets")?;
    let opened = ticket(world, &desk, &payload, fixture.operation_key())?;
    let text = payload.compact();
    let write = || reader.execute("INSERT INTO tickets(payload) VALUES (?1)", [&text]);
    let mut refused = 0;
    for _ in 0..REPEATED {
        refused += usize::from(matches!(write(), Err(error) if is_busy(&error)
            && error.sqlite_error().is_some_and(|error| error.extended_code == ffi::SQLITE_BUSY_SNAPSHOT)));
    }
    reader.execute_batch("ROLLBACK; BEGIN DEFERRED; SELECT count(*) FROM tickets")?;
    let begun_again = write().is_ok();
    reader.execute_batch("COMMIT")?;
    let committed = happened(world, "another call committed meanwhile", 1, |what| {
        matches!(what, What::Answered { .. })
    });
    let mut checks = Checks::default();
    checks.check(
        committed.clone(),
        "the write is refused at once, however often it is repeated",
        REPEATED,
        refused,
    );
    checks.check(
        committed.clone(),
        "in a transaction that begins again it goes through",
        true,
        begun_again,
    );
    checks.check(committed, "both tickets are there", 2_i64, rows(&reader)?.0);
    let values = [
        ("refused", refused.into()),
        ("first_ticket", opened.into()),
        ("tickets", rows(&reader)?.0.into()),
    ];
    outcome(world, checks, &reader, values)
}

/// A ticket is answered for, the power fails, another caller comes first, and then the retry.
fn power_cut(world: &World, fixture: &Fixture, journal: Journal) -> Result<Outcome, RunError> {
    prepare(world)?;
    let (payload, key) = (fixture.payload(), fixture.operation_key());
    let other_key = OperationKey::new("another-operation")?;
    let desk = open(world, "agent", journal)?;
    let first = ticket(world, &desk, &payload, key)?;
    world.cut_power(Loss::Everything);
    drop(desk);
    let desk = open(world, "agent", journal)?;
    let after = rows(desk.connection())?;
    let other = ticket(world, &desk, &payload, &other_key)?;
    let retry = ticket(world, &desk, &payload, key)?;

    let lost = happened(world, "the power failed after an answer", 1, |what| {
        matches!(what, What::PowerLost(_))
    });
    let called = happened(
        world,
        "the key was sent again",
        2,
        |what| matches!(what, What::Called { key: Some(sent), .. } if sent == key.as_str()),
    );
    let kept = journal == Journal::WalFull;
    let [there, answered, elsewhere] = if kept {
        [
            "the answered ticket is there",
            "the retry has its ticket",
            "no other call has that ticket's id",
        ]
    } else {
        [
            "the answered ticket is gone, and its record too",
            "the retry opens a new one",
            "and the id of the first answer is another call's ticket",
        ]
    };
    let mut checks = Checks::default();
    checks.check(lost, there, i64::from(kept), after.0);
    checks.check(called.clone(), answered, kept, retry == first);
    checks.check(called, elsewhere, !kept, other == first);
    let values = [
        ("answered_ticket", first.into()),
        ("tickets_after_power_cut", after.0.into()),
        ("ticket_of_another_call", other.into()),
        ("ticket_of_retry", retry.into()),
    ];
    outcome(world, checks, desk.connection(), values)
}

/// Every commit synced.
pub(super) fn wal_full_keeps_answers(
    world: &World,
    fixture: &Fixture,
) -> Result<Outcome, RunError> {
    power_cut(world, fixture, Journal::WalFull)
}

/// What many services run, since it is faster.
pub(super) fn wal_normal_loses_answers(
    world: &World,
    fixture: &Fixture,
) -> Result<Outcome, RunError> {
    power_cut(world, fixture, Journal::WalNormal)
}

/// One run of the sweep.
struct Crash {
    journal: Journal,
    power: bool,
    /// Whether the strike came about.
    struck: bool,
    /// Whether a second one did, in the recovery.
    struck_again: bool,
    answered: bool,
    /// Tickets and replay records before the retry.
    left: (i64, i64),
    /// The same after it, with a sound database.
    sound_in_the_end: bool,
}

struct Crashes(Vec<Crash>);

impl Witness for Crashes {
    type Event = Crash;

    fn count(&self, is_it: &dyn Fn(&Crash) -> bool) -> usize {
        self.0.iter().filter(|crash| is_it(crash)).count()
    }
}

/// Kills and power cuts before every operation of the disk in a call, in the checkpoint after it, and in the recovery and
/// the checkpoint of whoever comes next.
pub(super) fn wal_crashes(world: &World, fixture: &Fixture) -> Result<Outcome, RunError> {
    prepare(world)?;
    let (payload, key) = (fixture.payload(), fixture.operation_key());
    let desk = open(world, "agent", Journal::WalFull)?;
    let undisturbed = ticket(world, &desk, &payload, key)?;
    let answered = happened(world, "a call was answered", 1, |what| {
        matches!(what, What::Answered { .. })
    });

    let crashes = crash_everywhere(&payload, key)?;
    let count = |is_it: &dyn Fn(&Crash) -> bool| crashes.count(is_it);
    let lost = |crash: &Crash| crash.answered && crash.left == (0, 0);
    let half = |crash: &Crash| crash.left.0 != crash.left.1;
    let normal_power = |crash: &Crash| crash.power && crash.journal == Journal::WalNormal;
    let struck = |what: &str, is_it: &dyn Fn(&Crash) -> bool| {
        Premise::happened(&crashes, what, 1, |crash| crash.struck && is_it(crash))
    };
    let mut checks = Checks::default();
    checks.check(
        answered,
        "a call that nothing disturbs opens the ticket",
        1_i64,
        undisturbed,
    );
    checks.check(
        struck("a strike fell on a call or on its checkpoint", &|_| true),
        "ticket and record are there both or not at all",
        0_usize,
        count(&half),
    );
    checks.check(
        struck("a second strike fell on whoever came next", &|crash| {
            crash.struck_again
        }),
        "the retry leaves one ticket, one record and a sound database",
        0_usize,
        count(&|crash| !crash.sound_in_the_end),
    );
    checks.check(
        struck("a call was answered before the strike", &|crash| {
            crash.answered && !normal_power(crash)
        }),
        "with every commit synced, or only killed, no answer is taken back",
        0_usize,
        count(&|crash| lost(crash) && !normal_power(crash)),
    );
    checks.check(
        struck("a call was answered before a power cut", &|crash| {
            crash.answered && normal_power(crash)
        }),
        "with commits that are not synced a power cut takes some back",
        true,
        count(&|crash| lost(crash) && normal_power(crash)) > 0,
    );
    let values = [
        ("runs", crashes.0.len().into()),
        ("struck_twice", count(&|crash| crash.struck_again).into()),
        (
            "broken",
            count(&|crash| half(crash) || !crash.sound_in_the_end).into(),
        ),
        (
            "answers_lost_full",
            count(&|crash| lost(crash) && crash.journal == Journal::WalFull).into(),
        ),
        (
            "answers_lost_normal",
            count(&|crash| lost(crash) && crash.journal == Journal::WalNormal).into(),
        ),
    ];
    outcome(world, checks, desk.connection(), values)
}

fn crash_everywhere(payload: &Value, key: &OperationKey) -> Result<Crashes, RunError> {
    const STRIKES: [DiskStrike; 3] = [
        DiskStrike::Kill,
        DiskStrike::PowerCut(Loss::Everything),
        DiskStrike::PowerCut(Loss::Torn { seed: 1 }),
    ];
    let mut crashes = Vec::new();
    for journal in [Journal::WalFull, Journal::WalNormal] {
        for strike in STRIKES {
            let mut first = 1;
            loop {
                let mut second = 0;
                let struck = loop {
                    let crash = crash(journal, strike, [first, second], payload, key)?;
                    let (struck, again) = (crash.struck, crash.struck_again);
                    crashes.push(crash);
                    if !struck || second > 0 && !again {
                        break struck;
                    }
                    second += 1;
                };
                if !struck {
                    break;
                }
                first += 1;
            }
        }
    }
    Ok(Crashes(crashes))
}

/// Strikes before operation `first` of a call and its checkpoint, and, unless it is 0, before operation `second` of whoever
/// comes next.
fn crash(
    journal: Journal,
    strike: DiskStrike,
    [first, second]: [u64; 2],
    payload: &Value,
    key: &OperationKey,
) -> Result<Crash, RunError> {
    let world = World::unwatched();
    prepare(&world)?;
    let desk = open(&world, "agent", journal)?;
    world.strike_disk(world.disk_operations() + first, strike);
    let answer = Cell::new(false);
    let work = async {
        let answered = desk.create_ticket(payload, Some(key)).await.is_ok();
        answer.set(answered && desk.host().is_alive());
        let _ = desk
            .connection()
            .execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
    };
    world.run(desk.host(), work)?;
    let struck = !desk.host().is_alive();
    drop(desk);
    let mut struck_again = false;
    if second > 0 {
        let process = world.start("agent");
        world.strike_disk(world.disk_operations() + second, strike);
        if let Ok(connection) = process.connect(DATABASE) {
            let _ = rows(&connection);
            let _ = connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
        }
        struck_again = !process.is_alive();
        world.repair_disk();
    }
    let desk = open(&world, "agent", journal)?;
    let left = rows(desk.connection())?;
    let done = world.run(desk.host(), desk.create_ticket(payload, Some(key)))?;
    done.ok_or(RunError::NoEnd)??;
    let integrity: String = desk
        .connection()
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    Ok(Crash {
        journal,
        power: strike != DiskStrike::Kill,
        struck,
        struck_again,
        answered: answer.get(),
        left,
        sound_in_the_end: rows(desk.connection())? == (1, 1) && integrity == "ok",
    })
}

/// Every error at every access of a call, an opening, a recovery and a checkpoint.
pub(super) fn wal_disk_errors(world: &World, fixture: &Fixture) -> Result<Outcome, RunError> {
    prepare(world)?;
    let (payload, key) = (fixture.payload(), fixture.operation_key());
    let desk = open(world, "agent", Journal::WalFull)?;
    let undisturbed = ticket(world, &desk, &payload, key)?;
    let answered = happened(world, "a call was answered", 1, |what| {
        matches!(what, What::Answered { .. })
    });
    let mut swept = Sweep::default();
    for journal in [Journal::WalFull, Journal::WalNormal] {
        for stretch in [
            Stretch::Call,
            Stretch::Opening,
            Stretch::Recovery,
            Stretch::Checkpoint,
        ] {
            swept.join(sweep(
                stretch,
                journal,
                DiskError::is_reported,
                &payload,
                key,
            )?);
        }
    }
    let lost = |journal: Journal| swept.count(|run| run.lost && run.journal == journal);
    let answered_and_cut = |journal: Journal| {
        let what = "the disk failed, the call was answered, and the power failed";
        Premise::happened(&swept, what, 1, |run| {
            run.journal == journal && run.struck && run.told.is_answered() && run.after_power_cut
        })
    };
    let mut checks = Checks::default();
    checks.check(
        answered,
        "a call that nothing disturbs opens the ticket",
        1_i64,
        undisturbed,
    );
    let answered = "whoever has an answer has the ticket, and so has the retry, but for what a power cut takes";
    swept.check(answered, &mut checks);
    checks.check(
        answered_and_cut(Journal::WalFull),
        "with every commit synced no answer is taken back",
        0,
        lost(Journal::WalFull),
    );
    checks.check(
        answered_and_cut(Journal::WalNormal),
        "with commits that are not synced a power cut takes some back",
        true,
        lost(Journal::WalNormal) > 0,
    );
    let mut values = Vec::from(swept.values());
    values.extend([
        ("answers_lost_full", lost(Journal::WalFull).into()),
        ("answers_lost_normal", lost(Journal::WalNormal).into()),
    ]);
    outcome(world, checks, desk.connection(), values)
}
