//! The claims of the article, each a run with checks.

use crate::json::Value;

/// What one run of a scenario left.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The summary values, an object: what `results.json` records.
    pub values: Value,
    /// Each assertion with what was expected and what was seen.
    pub checks: Vec<Check>,
    /// Final rows of each table.
    pub tables: Vec<Table>,
}

/// One assertion.
#[derive(Debug, Clone)]
pub struct Check {
    /// What is claimed, as a short sentence.
    pub claim: String,
    /// What must be seen.
    pub expected: Value,
    /// What was seen.
    pub seen: Value,
}

/// The final rows of one table.
#[derive(Debug, Clone)]
pub struct Table {
    /// Table name.
    pub name: String,
    /// Column names.
    pub columns: Vec<String>,
    /// Rows in primary key order.
    pub rows: Vec<Vec<Value>>,
}
