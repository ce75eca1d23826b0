//! When SQLite waits for a lock and when it refuses at once: the same on real files with threads and real busy
//! timeouts, on real files with a handler that only notes that it was asked, and on the simulated disk with that
//! handler.
#![cfg(not(target_family = "wasm"))]

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ffi};
use tool_retries::sim::{LockWait, World};

const SCHEMA: &str = "CREATE TABLE t(x); INSERT INTO t VALUES (0)";

/// What reads, writes and begins.
const READ: &str = "SELECT * FROM t";
const WRITE: &str = "INSERT INTO t VALUES (1)";
const READS: &[&str] = &["BEGIN", READ];
const WRITES: &[&str] = &["BEGIN IMMEDIATE", WRITE];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Waits,
    GoesOn,
    Refused(i32),
}
use Seen::{GoesOn, Waits};

const BUSY: Seen = Seen::Refused(ffi::SQLITE_BUSY);
const SNAPSHOT: Seen = Seen::Refused(ffi::SQLITE_BUSY_SNAPSHOT);

struct Case {
    mode: &'static str,
    /// What each connection has done before, the one that acts first. That a statement is refused is part of it.
    before: [&'static [&'static str]; 3],
    acts: &'static str,
    seen: Seen,
}

const fn case(
    mode: &'static str,
    before: [&'static [&'static str]; 3],
    acts: &'static str,
    seen: Seen,
) -> Case {
    Case {
        mode,
        before,
        acts,
        seen,
    }
}

/// A commit that is refused, by a reader, leaves PENDING.
const COMMITS: &[&str] = &["BEGIN IMMEDIATE", WRITE, "COMMIT"];
const BEGIN: &[&str] = &["BEGIN"];
const NONE: &[&str] = &[];

const CASES: &[Case] = &[
    case("DELETE", [READS, WRITES, NONE], WRITE, BUSY),
    case("DELETE", [READS, COMMITS, NONE], WRITE, BUSY),
    case("DELETE", [NONE, WRITES, NONE], "BEGIN IMMEDIATE", Waits),
    case("DELETE", [NONE, WRITES, NONE], "BEGIN EXCLUSIVE", Waits),
    case("DELETE", [NONE, WRITES, NONE], WRITE, Waits),
    case("DELETE", [BEGIN, WRITES, NONE], WRITE, Waits),
    case("DELETE", [BEGIN, WRITES, NONE], "CREATE TABLE u(y)", Waits),
    case("DELETE", [BEGIN, WRITES, NONE], READ, GoesOn),
    case("DELETE", [WRITES, READS, NONE], "COMMIT", Waits),
    case("DELETE", [NONE, READS, NONE], WRITE, Waits),
    case("DELETE", [NONE, &["BEGIN EXCLUSIVE"], NONE], READ, Waits),
    case("DELETE", [BEGIN, &["BEGIN EXCLUSIVE"], NONE], READ, Waits),
    case("DELETE", [NONE, COMMITS, READS], READ, Waits),
    case("DELETE", [NONE, COMMITS, READS], "BEGIN IMMEDIATE", Waits),
    case("DELETE", [READS, READS, NONE], WRITE, GoesOn),
    case("DELETE", [READS, &[WRITE], NONE], READ, GoesOn),
    case("WAL", [READS, WRITES, NONE], WRITE, BUSY),
    case("WAL", [READS, &[WRITE], NONE], WRITE, SNAPSHOT),
    case("WAL", [READS, &[WRITE], NONE], READ, GoesOn),
    case("WAL", [NONE, WRITES, NONE], "BEGIN IMMEDIATE", Waits),
    case("WAL", [NONE, WRITES, NONE], WRITE, Waits),
    case("WAL", [BEGIN, WRITES, NONE], WRITE, Waits),
    case("WAL", [BEGIN, WRITES, NONE], READ, GoesOn),
    case("WAL", [WRITES, READS, NONE], "COMMIT", GoesOn),
    case("WAL", [NONE, READS, NONE], WRITE, GoesOn),
    case("WAL", [NONE, &["BEGIN EXCLUSIVE"], NONE], READ, GoesOn),
];

impl Case {
    /// Brings connections to where the case begins.
    fn prepare(&self, mut connect: impl FnMut(usize) -> Connection) -> Vec<Connection> {
        let first = connect(0);
        first
            .execute_batch(&format!("PRAGMA journal_mode = {}; {SCHEMA}", self.mode))
            .unwrap();
        let mut connections = vec![first];
        connections.extend((1..self.before.len()).map(connect));
        for connection in &connections {
            connection.busy_timeout(Duration::ZERO).unwrap();
        }
        // Who reads comes before who writes.
        let reads_first = |&at: &usize| !self.before[at].ends_with(READS);
        let mut order: Vec<usize> = (0..connections.len()).collect();
        order.sort_by_key(reads_first);
        for at in order {
            for sql in self.before[at] {
                let _ = connections[at].execute_batch(sql);
            }
        }
        connections
    }

    /// With the handler that notes.
    fn noted(&self, connect: impl FnMut(usize) -> Connection) -> Seen {
        let mut connections = self.prepare(connect);
        let actor = &mut connections[0];
        let waits = LockWait::on(actor, Duration::ZERO).unwrap();
        match actor.execute_batch(self.acts) {
            Ok(()) => GoesOn,
            Err(_) if waits.was_asked() => Waits,
            Err(error) => refused(&error),
        }
    }

    /// With a busy timeout; the others let go a little later.
    fn timed(&self, connect: impl FnMut(usize) -> Connection) -> Seen {
        const HELD: Duration = Duration::from_millis(300);
        let mut connections = self.prepare(connect);
        let others = connections.split_off(1);
        let actor = &connections[0];
        actor.busy_timeout(Duration::from_secs(20)).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(HELD);
                for other in others {
                    let _ = other.execute_batch("ROLLBACK");
                }
            });
            let began = Instant::now();
            match actor.execute_batch(self.acts) {
                Ok(()) if began.elapsed() < HELD => GoesOn,
                Ok(()) => Waits,
                Err(error) => refused(&error),
            }
        })
    }
}

fn refused(error: &rusqlite::Error) -> Seen {
    let error = error.sqlite_error().expect("an error of SQLite's");
    Seen::Refused(error.extended_code)
}

fn on_files(folder: &Path) -> impl FnMut(usize) -> Connection {
    let path = folder.join("test.db");
    move |_| Connection::open(&path).unwrap()
}

#[test]
fn three_worlds_agree_on_who_waits() {
    thread::scope(|scope| {
        for (index, case) in CASES.iter().enumerate() {
            scope.spawn(move || {
                let named = format!(
                    "case {index}: {} {:?} {}",
                    case.mode, case.before, case.acts
                );
                let folder = tempfile::tempdir().unwrap();
                assert_eq!(
                    case.timed(on_files(folder.path())),
                    case.seen,
                    "threads, {named}"
                );
                let folder = tempfile::tempdir().unwrap();
                assert_eq!(
                    case.noted(on_files(folder.path())),
                    case.seen,
                    "files, {named}"
                );
                let world = World::new();
                let connect = |at: usize| world.start(&format!("process {at}")).connect("test.db");
                assert_eq!(
                    case.noted(|at| connect(at).unwrap()),
                    case.seen,
                    "world, {named}"
                );
            });
        }
    });
}

/// However often the statement is repeated; restarting the transaction is what helps.
#[test]
fn a_snapshot_that_is_too_old_stays_so() {
    let world = World::new();
    let [reader, other] =
        ["reader", "other"].map(|name| world.start(name).connect("t.db").unwrap());
    reader.execute_batch("PRAGMA journal_mode = WAL").unwrap();
    reader.execute_batch(SCHEMA).unwrap();
    reader.execute_batch("BEGIN; SELECT * FROM t").unwrap();
    other.execute_batch(WRITE).unwrap();
    for _ in 0..20 {
        let error = reader.execute_batch(WRITE).unwrap_err();
        assert_eq!(refused(&error), SNAPSHOT);
    }
    reader
        .execute_batch("ROLLBACK; BEGIN; SELECT * FROM t")
        .unwrap();
    reader.execute_batch(WRITE).unwrap();
    reader.execute_batch("COMMIT").unwrap();
    let count = |sql| reader.query_row(sql, [], |row| row.get::<_, i64>(0));
    assert_eq!(count("SELECT count(*) FROM t"), Ok(3));
}

/// It answers as SQLite does, and puts no handler in the place of ours.
#[test]
fn a_timeout_that_sql_sets_is_that_of_the_wait() {
    use tool_retries::sim::Host;
    let world = World::new();
    let process = world.start("one");
    let [db, holder] = [&process, &world.start("other")].map(|process| process.connect("t.db"));
    let (mut db, holder) = (db.unwrap(), holder.unwrap());
    db.execute_batch(SCHEMA).unwrap();
    let waits = LockWait::on(&mut db, Duration::from_secs(10)).unwrap();
    assert_eq!(waits.deadline(&process), Duration::from_secs(10));
    let pragma = |sql| {
        db.query_row(sql, [], |row| row.get::<_, String>(0))
            .unwrap()
    };
    assert_eq!(pragma("PRAGMA busy_timeout"), "0");
    assert_eq!(pragma("PRAGMA busy_timeout = 250"), "250");
    assert_eq!(pragma("PRAGMA Busy_Timeout"), "250");
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let wait = async {
        let deadline = waits.deadline(&process);
        waits
            .run(&process, deadline, || db.execute_batch(WRITE))
            .await
    };
    let began = Host::now(&process);
    let refused_with = world.run(&process, wait).unwrap().unwrap().unwrap_err();
    assert_eq!(refused(&refused_with), BUSY);
    let waited = Host::now(&process) - began;
    assert!(
        waited >= Duration::from_millis(250) && waited < Duration::from_millis(260),
        "{waited:?}"
    );
    assert_eq!(pragma("PRAGMA busy_timeout = -1"), "0");
    assert_eq!(process.busy_timeout(), Some(Duration::ZERO));
}
