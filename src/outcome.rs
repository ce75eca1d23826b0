//! What a run leaves: its values, checks with what makes them worth anything, rows, plots and trace.

use std::fmt;

use rusqlite::Connection;
use rusqlite::types::ValueRef;

use crate::digest::{hex, sha256_hex};
use crate::json::{self, Canonical, Finite, Value};
use crate::sim::trace::{Event, Trace};

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

/// One assertion. It holds when what it takes for granted happened and what was expected was seen.
#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    /// What must have happened for it to be worth anything.
    pub premise: Premise,
    /// What is claimed, as a short sentence.
    pub claim: String,
    /// What must be seen.
    pub expected: Value,
    /// What was seen.
    pub seen: Value,
}

/// What must have happened for a check to be worth anything: that no ticket was opened twice says
/// nothing where nobody called twice.
///
/// There is no way to state one but to count it in a [`Witness`], so none rests on what a scenario
/// believes of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Premise {
    what: String,
    counted: Counted,
    needed: usize,
    happened: usize,
}

/// What the numbers of a [`Premise`] count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counted {
    Times,
    Processes,
}

/// A record of what happened, such as a [`Trace`], that was kept while it happened.
pub trait Witness {
    /// One thing that happened.
    type Event;

    /// How many of the things that happened are what is asked for.
    fn count(&self, is_it: &dyn Fn(&Self::Event) -> bool) -> usize;
}

impl Witness for Trace {
    type Event = Event;

    fn count(&self, is_it: &dyn Fn(&Event) -> bool) -> usize {
        self.events.iter().filter(|event| is_it(event)).count()
    }
}

impl Premise {
    /// That `what`, a short sentence in the past, happened `needed` times or more: as often as
    /// `witness` has an event that `is_it`. Less than once is never enough.
    pub fn happened<W: Witness>(
        witness: &W,
        what: impl Into<String>,
        needed: usize,
        is_it: impl Fn(&W::Event) -> bool,
    ) -> Self {
        Self {
            what: what.into(),
            counted: Counted::Times,
            needed: needed.max(1),
            happened: witness.count(&is_it),
        }
    }

    /// That `what` happened to `needed` processes or more, however often to each.
    pub fn happened_to(
        trace: &Trace,
        what: impl Into<String>,
        needed: usize,
        is_it: impl Fn(&Event) -> bool,
    ) -> Self {
        let events = trace.events.iter().filter(|event| is_it(event));
        let mut processes: Vec<&str> = events.map(|event| &*event.who).collect();
        processes.sort_unstable();
        processes.dedup();
        Self {
            what: what.into(),
            counted: Counted::Processes,
            needed: needed.max(1),
            happened: processes.len(),
        }
    }

    /// Whether it happened, and often enough.
    pub fn is_met(&self) -> bool {
        self.happened >= self.needed
    }

    /// `{"counted", "happened", "needed", "what"}`.
    pub fn to_json(&self) -> Value {
        let counted = match self.counted {
            Counted::Times => "times",
            Counted::Processes => "processes",
        };
        json::object([
            ("counted", Value::from(counted)),
            ("happened", Value::from(self.happened)),
            ("needed", Value::from(self.needed)),
            ("what", Value::from(self.what.as_str())),
        ])
    }
}

/// What happened and how often; where that is not enough, how often it was needed too.
impl fmt::Display for Premise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        let of = |number: usize| match self.counted {
            Counted::Times if number == 2 => "twice".to_owned(),
            Counted::Times => format!("{number} times"),
            Counted::Processes => format!("{number} processes"),
        };
        match (self.happened, self.needed) {
            (0 | 1, 1) => Ok(()),
            (happened, needed) if happened < needed => write!(f, ", {happened} of {needed}"),
            (happened, _) => write!(f, ", {}", of(happened)),
        }
    }
}

/// The assertions of a scenario in progress.
#[derive(Debug, Default)]
pub struct Checks(Vec<Check>);

impl Checks {
    /// Adds an assertion; it holds when `premise` is met and `seen` is `expected`.
    pub fn check(
        &mut self,
        premise: Premise,
        claim: impl Into<String>,
        expected: impl Into<Value>,
        seen: impl Into<Value>,
    ) {
        self.push(Check {
            premise,
            claim: claim.into(),
            expected: expected.into(),
            seen: seen.into(),
        });
    }

    // Apart, so that it is compiled once and not for every kind of argument.
    fn push(&mut self, check: Check) {
        self.0.push(check);
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
    /// Whether its premise is met and what was seen is what was expected.
    pub fn holds(&self) -> bool {
        self.premise.is_met() && self.expected == self.seen
    }

    /// `{"claim", "expected", "premise", "seen"}`.
    pub fn to_json(&self) -> Value {
        json::object([
            ("claim", Value::from(self.claim.as_str())),
            ("expected", self.expected.clone()),
            ("premise", self.premise.to_json()),
            ("seen", self.seen.clone()),
        ])
    }
}

/// The claim, with what was seen, and where it fails why it does.
impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seen = self.seen.spaced();
        if self.expected == self.seen {
            write!(f, "{}: {seen}", self.claim)?;
        } else {
            let expected = self.expected.spaced();
            write!(f, "{}: expected {expected}, saw {seen}", self.claim)?;
        }
        if !self.premise.is_met() {
            write!(f, "; worth nothing, as it did not happen: {}", self.premise)?;
        }
        Ok(())
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
        json::object([
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
        ValueRef::Real(number) => Finite::try_from(number).map_or(Value::Null, Value::from),
        ValueRef::Text(text) => Value::from(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => Value::from(hex(bytes)),
    }
}
