//! A database in WAL mode on the simulated disk: shared memory, recovery, and what a power cut takes back.
#![cfg(not(target_family = "wasm"))]

use rusqlite::Connection;
use tool_retries::sim::World;
use tool_retries::sim::disk::{DiskStrike, Loss};

const FILE: &str = "tickets.db";

fn count(db: &Connection) -> rusqlite::Result<i64> {
    db.query_row("SELECT count(*) FROM tickets", [], |row| row.get(0))
}

fn prepared(synchronous: &str) -> (World, Connection) {
    let world = World::new();
    let db = world.start("tool").connect(FILE).unwrap();
    let pragmas = format!("PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous}");
    db.execute_batch(&pragmas).unwrap();
    db.execute_batch("CREATE TABLE tickets(id INTEGER PRIMARY KEY, title TEXT)")
        .unwrap();
    // Into the file and synced, so that what is lost is of the work.
    db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    (world, db)
}

/// A ticket, another one, a checkpoint, a third: as many as were answered.
fn work(db: &Connection) -> i64 {
    let steps = [
        "INSERT INTO tickets(title) VALUES ('one')",
        "INSERT INTO tickets(title) VALUES ('two')",
        "PRAGMA wal_checkpoint(TRUNCATE)",
        "INSERT INTO tickets(title) VALUES (zeroblob(9000))",
    ];
    let mut answered = 0;
    for sql in steps {
        if db.execute_batch(sql).is_err() {
            break;
        }
        answered += i64::from(sql.starts_with("INSERT"));
    }
    answered
}

/// For each operation of the work, and each of the recovery after it: the strike before it, then what is found. How often
/// there was less than had been answered, and how often more.
fn sweep(synchronous: &str, strike: DiskStrike) -> (u64, u64, u64) {
    let (world, db) = prepared(synchronous);
    let before = world.disk_operations();
    assert_eq!(work(&db), 3);
    let operations = world.disk_operations() - before;
    let (mut runs, mut less, mut more) = (0, 0, 0);
    for first in 1..=operations + 1 {
        // Past the last of its operations the recovery has none that a strike could befall.
        for second in [None, Some(1), Some(2), Some(5)] {
            let (world, db) = prepared(synchronous);
            world.strike_disk(world.disk_operations() + first, strike);
            let answered = work(&db);
            if first > operations {
                world.cut_power(Loss::Everything);
            }
            if let Some(second) = second {
                world.strike_disk(world.disk_operations() + second, strike);
                let process = world.start("first to recover");
                if let Ok(db) = process.connect(FILE) {
                    let _ = count(&db);
                    let _ = db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
                }
            }
            let process = world.start("second to recover");
            let found = process.connect(FILE).unwrap();
            // A strike that the first one was spared.
            let left = match count(&found) {
                Ok(left) => left,
                Err(_) => count(&world.start("third").connect(FILE).unwrap()).unwrap(),
            };
            runs += 1;
            less += u64::from(left < answered);
            more += u64::from(left > answered);
            assert!(left <= answered + 1, "{left} tickets, {answered} answered");
            let last = world.start("last").connect(FILE).unwrap();
            let check: String = last
                .query_row("PRAGMA integrity_check", [], |row| row.get(0))
                .unwrap();
            assert_eq!(check, "ok");
        }
    }
    (runs, less, more)
}

#[test]
fn with_full_synchronisation_no_answer_is_taken_back() {
    for loss in [Loss::Everything, Loss::Torn { seed: 7 }, Loss::Nothing] {
        let (runs, less, _) = sweep("FULL", DiskStrike::PowerCut(loss));
        assert!(runs > 50, "{runs} runs");
        assert_eq!(less, 0, "{loss}");
    }
}

/// As SQLite documents it (<https://www.sqlite.org/pragma.html#pragma_synchronous>): consistent, not durable.
#[test]
fn with_normal_synchronisation_a_power_cut_takes_answers_back() {
    let (_, less, _) = sweep("NORMAL", DiskStrike::PowerCut(Loss::Everything));
    assert!(less > 0);
}

#[test]
fn a_killed_process_takes_nothing_back_however_it_synchronises() {
    for synchronous in ["FULL", "NORMAL", "OFF"] {
        let (world, db) = prepared(synchronous);
        let before = world.disk_operations();
        work(&db);
        for operation in 1..=world.disk_operations() - before {
            let (world, db) = prepared(synchronous);
            world.strike_disk(world.disk_operations() + operation, DiskStrike::Kill);
            let answered = work(&db);
            let left = count(&world.start("next").connect(FILE).unwrap()).unwrap();
            assert!(
                answered <= left && left <= answered + 1,
                "{synchronous}, operation {operation}: {left} tickets, {answered} answered"
            );
        }
    }
}

/// Those who live go on with the memory that they share with the dead, whose locks have fallen.
#[test]
fn a_killed_writer_leaves_the_memory_to_the_others() {
    let (world, other) = prepared("FULL");
    let process = world.start("killed");
    let db = process.connect(FILE).unwrap();
    work(&other);
    db.execute_batch("BEGIN IMMEDIATE; INSERT INTO tickets(title) VALUES ('of the dead')")
        .unwrap();
    assert!(other.execute_batch("BEGIN IMMEDIATE").is_err());
    process.kill();
    // Before the connection of the dead is closed, which would give its locks back by itself.
    other
        .execute_batch("INSERT INTO tickets(title) VALUES ('of the living')")
        .unwrap();
    drop(db);
    assert_eq!(count(&other), Ok(4));
    let late = world.start("late").connect(FILE).unwrap();
    assert_eq!(count(&late), Ok(4));
}

/// After the last connection the WAL is gone, and the file has all of it.
#[test]
fn the_last_to_leave_cleans_up() {
    let (world, db) = prepared("NORMAL");
    work(&db);
    let names = || -> Vec<String> { world.files().into_iter().map(|(name, _)| name).collect() };
    assert_eq!(names(), ["tickets.db", "tickets.db-wal"]);
    drop(db);
    assert_eq!(names(), ["tickets.db"]);
    let db = world.start("next").connect(FILE).unwrap();
    assert_eq!(count(&db), Ok(3));
}
