//! What several test files share. Each uses its own part of it.
#![allow(dead_code, unreachable_pub)]

pub mod real;

use tool_retries::json::{self, Canonical, Value};
use tool_retries::outcome::Outcome;
use tool_retries::scenario::{Fixture, Scenario, all};
use tool_retries::sim::{Process, World};
use tool_retries::tool::tickets::TicketDesk;

/// The tool with its tables, opened by `process`.
pub fn open_desk(world: &World, process: &Process) -> TicketDesk<Process> {
    let opens = async {
        let desk = TicketDesk::open(process.connect("tickets.db")?, process.clone()).await?;
        desk.create_tables().await?;
        Ok::<_, rusqlite::Error>(desk)
    };
    let opened = world.run(process, opens).unwrap();
    opened.expect("it comes to an end").expect("it opens")
}

/// The committed record.
pub fn recorded() -> Value {
    json::parse(include_str!("../../results.json")).expect("results.json is JSON")
}

/// The record without the part that names a machine and without searches and storms, which the
/// page's report has not: in the form that is compared.
pub fn less_runtime(report: &Value) -> String {
    let Value::Object(mut members) = report.clone() else {
        panic!("a report is an object");
    };
    members
        .remove("runtime")
        .expect("a report names its runtime");
    members.remove("matrix");
    members.remove("storm");
    Value::Object(members).pretty()
}

/// Runs every scenario in a world of its own.
pub fn run_all() -> Vec<(&'static str, Outcome)> {
    run_where(|_| true)
}

/// Runs every scenario of one group in a world of its own.
pub fn run_group(group: &str) -> Vec<(&'static str, Outcome)> {
    run_where(|scenario| scenario.group == group)
}

fn run_where(wanted: impl Fn(&Scenario) -> bool) -> Vec<(&'static str, Outcome)> {
    let fixture = Fixture::committed();
    all()
        .iter()
        .filter(|scenario| wanted(scenario))
        .map(|scenario| {
            let outcome = scenario.run(&fixture).unwrap_or_else(|error| {
                panic!("{}: {error}", scenario.id);
            });
            (scenario.id, outcome)
        })
        .collect()
}
