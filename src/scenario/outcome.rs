use rusqlite::Connection;
use rusqlite::types::ValueRef;

use crate::digest::{hex, sha256_hex};
use crate::json::{Finite, Value};
use crate::sim::trace::Trace;

/// What one run of a scenario left.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The summary, an object of what was observed: what `results.json` records.
    pub values: Value,
    /// Each assertion with what was expected and what was seen.
    pub checks: Vec<Check>,
    /// The rows left in each table.
    pub tables: Vec<Table>,
    /// What is a curve.
    pub plots: Vec<Plot>,
    /// What happened.
    pub trace: Trace,
}

/// One assertion.
#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    /// What is claimed, as a short sentence.
    pub claim: String,
    /// What must be seen.
    pub expected: Value,
    /// What was seen.
    pub seen: Value,
}

/// The assertions of a scenario in progress.
#[derive(Debug, Default)]
pub struct Checks(Vec<Check>);

impl Checks {
    /// Adds an assertion; it holds when `seen` is `expected`.
    pub fn check(
        &mut self,
        claim: impl Into<String>,
        expected: impl Into<Value>,
        seen: impl Into<Value>,
    ) {
        self.push(claim.into(), expected.into(), seen.into());
    }

    // Apart, so that it is compiled once and not for every kind of argument.
    fn push(&mut self, claim: String, expected: Value, seen: Value) {
        self.0.push(Check {
            claim,
            expected,
            seen,
        });
    }

    /// The assertions, in the order in which they were made.
    pub fn into_vec(self) -> Vec<Check> {
        self.0
    }
}

/// The rows of one table.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// Its columns.
    pub columns: Vec<String>,
    /// Its rows, ordered by the first column.
    pub rows: Vec<Vec<Value>>,
}

/// A row of bars.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plot {
    /// What it shows.
    pub title: String,
    /// The unit of `bars`.
    pub unit: String,
    /// What each bar stands for.
    pub labels: Vec<String>,
    /// Height of each bar.
    pub bars: Vec<u64>,
}

impl Outcome {
    /// Whether every check held. A run without checks proves nothing and has not passed.
    pub fn passed(&self) -> bool {
        !self.checks.is_empty() && self.checks.iter().all(Check::holds)
    }

    /// SHA-256, in hex, of the trace's canonical form.
    pub fn trace_sha256(&self) -> String {
        sha256_hex(&self.trace.canonical())
    }

    /// SHA-256, in hex, of the checks as a compact JSON array.
    pub fn checks_sha256(&self) -> String {
        let checks: Vec<Value> = self.checks.iter().map(Check::to_json).collect();
        sha256_hex(&Value::from(checks).compact())
    }
}

impl Check {
    /// Whether what was seen is what was expected.
    pub fn holds(&self) -> bool {
        self.expected == self.seen
    }

    /// `{"claim", "expected", "seen"}`.
    pub fn to_json(&self) -> Value {
        Value::object([
            ("claim", Value::from(self.claim.as_str())),
            ("expected", self.expected.clone()),
            ("seen", self.seen.clone()),
        ])
    }
}

impl Table {
    /// Reads a whole table. Blobs are shown in hex, numbers that are not finite as null.
    ///
    /// # Errors
    ///
    /// What SQLite says.
    pub fn read(connection: &Connection, name: &str) -> rusqlite::Result<Self> {
        let quoted = name.replace('"', "\"\"");
        let mut statement =
            connection.prepare(&format!("SELECT * FROM \"{quoted}\" ORDER BY 1"))?;
        let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
        let rows = statement
            .query_map([], |row| {
                (0..columns.len())
                    .map(|column| Ok(to_value(row.get_ref(column)?)))
                    .collect()
            })?
            .collect::<rusqlite::Result<_>>()?;
        Ok(Self {
            name: name.to_owned(),
            columns,
            rows,
        })
    }

    /// `{"name", "columns", "rows"}`.
    pub fn to_json(&self) -> Value {
        let columns: Vec<Value> = self
            .columns
            .iter()
            .map(|name| Value::from(name.as_str()))
            .collect();
        let rows: Vec<Value> = self.rows.iter().cloned().map(Value::from).collect();
        Value::object([
            ("name", Value::from(self.name.as_str())),
            ("columns", Value::from(columns)),
            ("rows", Value::from(rows)),
        ])
    }
}

fn to_value(cell: ValueRef<'_>) -> Value {
    match cell {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::from(number),
        ValueRef::Real(number) => Finite::try_from(number).map_or(Value::Null, Value::Float),
        ValueRef::Text(text) => Value::from(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => Value::from(hex(bytes)),
    }
}
