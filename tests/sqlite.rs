//! What SQLite can do here: everything. The files of `tests/sql` are run in the finished module as well (the browsers'
//! checks), with the same answers.
#![cfg(not(target_family = "wasm"))]

use std::fs;
use std::time::Duration;

use tool_retries::console::Console;
use tool_retries::logic;
use tool_retries::sim::Journal;
use tool_retries::sim::World;

/// Every file of statements, by name.
const FILES: [&str; 3] = ["engineers", "utf16", "world"];

#[test]
fn what_engineers_write_is_answered_right() {
    let journals = [Journal::Rollback, Journal::WalFull];
    for (name, journal) in FILES
        .iter()
        .flat_map(|name| journals.map(|journal| (name, journal)))
    {
        let path = format!("{}/tests/sql/{name}.test", env!("CARGO_MANIFEST_DIR"));
        let text = fs::read_to_string(path).unwrap();
        let console = Console::open(journal).unwrap();
        let records = logic::parse(&text).unwrap();
        assert!(records.len() > 5, "{name}: {} records", records.len());
        let wrong: Vec<String> = records
            .iter()
            .filter_map(|record| {
                let told = record.judge(&console.run(&record.sql)).err()?;
                Some(format!(
                    "{journal:?}, {name}.test, line {}: {told}\n",
                    record.line
                ))
            })
            .collect();
        assert!(wrong.is_empty(), "{}", wrong.concat());
    }
}

#[test]
fn sql_reads_the_virtual_clock() {
    let world = World::new();
    let db = world.start("caller").connect("test.db").unwrap();
    let now = || db.query_row("SELECT unixepoch('subsec')", [], |row| row.get::<_, f64>(0));
    let begins = now().unwrap();
    world.pass(Duration::from_millis(1_250));
    assert_eq!(now().unwrap() - begins, 1.25);
}

/// Two worlds that do the same see the same; what one of them draws is nothing to the other.
#[test]
fn each_world_has_its_own_stream_of_chance() {
    let worlds = [World::new(), World::new()];
    let db = worlds.map(|world| world.start("caller").connect("test.db").unwrap());
    let draw = |of: usize| {
        db[of]
            .query_row("SELECT random()", [], |row| row.get::<_, i64>(0))
            .unwrap()
    };
    let first = [draw(0), draw(0), draw(0)];
    assert_eq!(first, [draw(1), draw(1), draw(1)]);
    assert_ne!(first[0], first[1]);
}
