//! `results.json`: the record of an observed run.

use crate::explore::{self, Cell};
use crate::json::{self, Canonical, Value};
use crate::outcome::{Check, Outcome, Table};
use crate::sim::trace::Event;

/// The experiment that the record belongs to.
pub const EXPERIMENT: &str = "local-sqlite-tool-retries-v1";

/// The record of `outcomes`, scenario id and outcome each. Its pretty form is `results.json`.
///
/// A whole record also has the searches, see [`with_matrix`], and the storms, see [`with_storm`]. Everything but `runtime` is the same on every target.
pub fn report(outcomes: &[(&str, Outcome)]) -> Value {
    let passed = outcomes.iter().all(|(_, outcome)| outcome.passed());
    let scenarios = outcomes
        .iter()
        .map(|(id, outcome)| (*id, outcome.values.clone()));
    let digests = outcomes.iter().map(|(id, outcome)| (*id, digests(outcome)));
    json::object([
        ("experiment", Value::from(EXPERIMENT)),
        ("sqlite_version", Value::from(rusqlite::version())),
        ("passed", Value::from(passed)),
        ("scenarios", json::object(scenarios)),
        ("digests", json::object(digests)),
        ("runtime", runtime()),
    ])
}

/// One record of two. Where both hold a scenario, `later` counts.
pub fn merged(mut earlier: Value, later: Value) -> Value {
    let (Value::Object(record), Value::Object(later)) = (&mut earlier, later) else {
        return earlier;
    };
    for (name, value) in later {
        match (record.get_mut(&name), value) {
            (Some(Value::Object(members)), Value::Object(later)) => {
                for (id, value) in later {
                    members.insert(id, value);
                }
            }
            // Whether all of it passed.
            (Some(Value::Bool(earlier)), Value::Bool(later)) => *earlier &= later,
            // The same in both.
            _ => {}
        }
    }
    earlier
}

/// The record with what the searches of every design said, the cells of each journal together.
pub fn with_matrix(report: Value, cells: &[Cell]) -> Value {
    let journals = cells.chunk_by(|one, other| one.journal == other.journal);
    let matrices = journals.map(|cells| (cells[0].journal.id(), explore::to_json(cells)));
    with(report, "matrix", json::object(matrices))
}

/// The record with [`crate::storm::record`].
pub fn with_storm(report: Value, storms: Value) -> Value {
    with(report, "storm", storms)
}

fn with(report: Value, name: &str, value: Value) -> Value {
    let mut members = match report {
        Value::Object(members) => members,
        other => return other,
    };
    members.insert(name.to_owned(), value);
    Value::Object(members)
}

/// What names this machine's build; the one part in which two targets differ.
fn runtime() -> Value {
    let known = |name: &str| Value::from(if name.is_empty() { "unknown" } else { name });
    json::object([
        ("architecture", known(std::env::consts::ARCH)),
        ("operating_system", known(std::env::consts::OS)),
        ("pointer_width_bits", Value::from(u64::from(usize::BITS))),
    ])
}

/// The line that the command line prints for one scenario.
pub fn line(id: &str, outcome: &Outcome) -> String {
    format!("{id}: {}", outcome.values.spaced())
}

/// Everything that one run of one scenario shows, for reading by programs.
pub fn evidence(id: &str, outcome: &Outcome) -> Value {
    let events = &outcome.trace.events;
    let list = |values: Vec<Value>| Value::from(values);
    json::object([
        ("scenario", Value::from(id)),
        ("passed", Value::from(outcome.passed())),
        ("values", outcome.values.clone()),
        (
            "checks",
            list(outcome.checks.iter().map(Check::to_json).collect()),
        ),
        (
            "tables",
            list(outcome.tables.iter().map(Table::to_json).collect()),
        ),
        ("trace", list(events.iter().map(Event::to_json).collect())),
        ("digests", digests(outcome)),
    ])
}

fn digests(outcome: &Outcome) -> Value {
    json::object([
        ("checks", Value::from(outcome.checks_sha256())),
        ("trace", Value::from(outcome.trace_sha256())),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;

    fn joined(earlier: &str, later: &str) -> Value {
        merged(parse(earlier).unwrap(), parse(later).unwrap())
    }

    #[test]
    fn two_records_make_one() {
        let one =
            r#"{"passed": true, "scenarios": {"a": {"n": 1}}, "digests": {"a": {"trace": "1"}}}"#;
        let other =
            r#"{"passed": false, "scenarios": {"b": {"n": 2}}, "digests": {"b": {"trace": "2"}}}"#;
        let both = r#"{"digests": {"a": {"trace": "1"}, "b": {"trace": "2"}}, "passed": false,
            "scenarios": {"a": {"n": 1}, "b": {"n": 2}}}"#;
        assert_eq!(joined(one, other), parse(both).unwrap());
        assert_eq!(joined(other, one), parse(both).unwrap());
    }

    #[test]
    fn of_a_scenario_that_ran_twice_the_later_run_stays_whole() {
        let one = r#"{"scenarios": {"a": {"n": 1, "old": true}}}"#;
        let other = r#"{"scenarios": {"a": {"n": 2}}}"#;
        assert_eq!(joined(one, other), parse(other).unwrap());
    }
}
