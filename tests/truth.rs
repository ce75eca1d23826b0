//! The simulation against the real thing: real files, real threads, real SIGKILL.
#![cfg(all(unix, not(target_family = "wasm")))]

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::real::{RealFiles, block_on, connect};
use common::{open_desk, run_group};
use tool_retries::json::{self, Value};
use tool_retries::key::OperationKey;
use tool_retries::outcome::Outcome;
use tool_retries::scenario::{Fixture, RunError, contracts, lab};
use tool_retries::sim::{Host, Point, Strike, Struck, World};
use tool_retries::tool::POINTS;
use tool_retries::tool::tickets::TicketDesk;

/// The lab's very scenarios, and those of the contracts, on real files; the eight callers are eight
/// OS threads, of which seven find SQLite busy. Each check holds for the same reason as in the
/// simulation: what it takes for granted happened as often here.
#[test]
fn real_files_and_threads_give_the_same_outcomes() {
    type Run = fn(&RealFiles, &Fixture) -> Result<Outcome, RunError>;
    let runs: [Run; 12] = [
        lab::naive_retry,
        lab::stable_key_retry,
        lab::changed_payload,
        lab::failure_before_commit,
        lab::concurrent_same_key,
        lab::new_key_same_payload,
        lab::deleted_replay_record,
        contracts::contract_500_then_retry,
        contracts::contract_invalid_then_corrected,
        contracts::contract_changed_payload,
        contracts::contract_second_while_first_runs,
        contracts::contract_retry_after_retention,
    ];
    let mut simulated = run_group("lab");
    simulated.extend(run_group("contracts"));
    assert_eq!(simulated.len(), runs.len());
    for ((id, simulated), run) in simulated.iter().zip(runs) {
        let real = run(&RealFiles::new(), &Fixture::committed()).unwrap();
        assert_eq!(real.values, simulated.values, "{id}");
        assert_eq!(real.checks, simulated.checks, "{id}");
        assert_eq!(real.tables, simulated.tables, "{id}");
    }
}

/// Set for the child process: where its database is, and the point at which it stands still.
const DATABASE: &str = "TOOL_RETRIES_TEST_DATABASE";
const STANDS_AT: &str = "TOOL_RETRIES_TEST_STANDS_AT";

/// The same test runs as parent and, with the environment above, as the child that is killed.
#[test]
fn sigkill_leaves_what_the_simulated_kill_leaves() {
    if let (Ok(database), Ok(point)) = (std::env::var(DATABASE), std::env::var(STANDS_AT)) {
        stand_still_at(Path::new(&database), &point);
    }
    for point in POINTS {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("tickets.db");
        kill_child_at(&database, point);
        let world = kill_simulated_at(point);

        let mut real: Vec<(String, Vec<u8>)> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let bytes = fs::read(entry.path()).unwrap();
                (entry.file_name().into_string().unwrap(), bytes)
            })
            .collect();
        let mut simulated = world.files();
        real.sort();
        simulated.sort();
        for (name, bytes) in real.iter_mut().chain(&mut simulated) {
            if name.ends_with("-journal") {
                blank_nonce(bytes);
            }
        }
        let names = |files: &[(String, Vec<u8>)]| -> Vec<(String, usize)> {
            files
                .iter()
                .map(|(name, bytes)| (name.clone(), bytes.len()))
                .collect()
        };
        assert_eq!(names(&real), names(&simulated), "killed at {point}");
        assert!(real == simulated, "killed at {point}: bytes differ");

        // And recovery finds the same rows in both.
        let real = connect(&database).unwrap();
        let simulated = world.start("observer").connect("tickets.db").unwrap();
        for table in ["tickets", "requests"] {
            let read = |connection| tool_retries::outcome::Table::read(connection, table).unwrap();
            assert_eq!(read(&real), read(&simulated), "killed at {point}");
        }
    }
}

fn payload() -> Value {
    json::object([("title", Value::from("killed"))])
}

fn key() -> OperationKey {
    OperationKey::new("killed").unwrap()
}

fn kill_simulated_at(point: Point) -> World {
    let world = World::new();
    drop(open_desk(&world, &world.start("setup")));
    let agent = world.start("agent");
    world.strike("agent", point, 1, Strike::Kill);
    let desk = open_desk(&world, &agent);
    let answer = world
        .run(&agent, desk.create_ticket(&payload(), Some(&key())))
        .unwrap();
    assert!(answer.is_none(), "killed at {point}, and yet it answers");
    world
}

/// Runs this test's child until it stands at `point`, then sends SIGKILL.
fn kill_child_at(database: &Path, point: Point) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture"])
        .arg("sigkill_leaves_what_the_simulated_kill_leaves")
        .env(DATABASE, database)
        .env(STANDS_AT, point.0)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let stands = lines.any(|line| line.unwrap().ends_with(STANDS_AT));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(stands, "the child never came to {point}");
}

/// The child: calls the tool and stands still at the point until it is killed.
fn stand_still_at(database: &Path, point: &str) -> ! {
    struct StandsAt<'a>(&'a str);

    impl Host for StandsAt<'_> {
        async fn reach(&self, point: Point) -> Result<(), Struck> {
            if point.0 == self.0 {
                println!("{STANDS_AT}");
                // Longer than any parent takes; it ends by itself should the parent be gone.
                std::thread::sleep(Duration::from_secs(60));
            }
            Ok(())
        }

        fn now(&self) -> Duration {
            Duration::ZERO
        }

        async fn lock_freed(&self, _: Duration) {}

        async fn turn<T>(&self, turn: impl Future<Output = T>, _: Duration) -> Option<T> {
            Some(turn.await)
        }
    }

    let setup = block_on(TicketDesk::open(connect(database).unwrap(), StandsAt(""))).unwrap();
    block_on(setup.create_tables()).unwrap();
    drop(setup);
    let desk = block_on(TicketDesk::open(
        connect(database).unwrap(),
        StandsAt(point),
    ))
    .unwrap();
    let answer = block_on(desk.create_ticket(&payload(), Some(&key())));
    panic!("nobody killed the child; it answers {answer:?}");
}

/// Blanks what SQLite draws at random in a rollback journal: the nonce in the header, and the
/// checksum that follows from it after each page (sqlite.org/fileformat2.html, section 3).
fn blank_nonce(journal: &mut [u8]) {
    const HEADER_BYTES: usize = 512;
    const PAGE_BYTES: usize = 4096;
    journal[12..16].fill(0);
    for record in journal[HEADER_BYTES..].chunks_mut(4 + PAGE_BYTES + 4) {
        if let Some(checksum) = record.get_mut(4 + PAGE_BYTES..) {
            checksum.fill(0);
        }
    }
}
