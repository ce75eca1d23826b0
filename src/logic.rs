//! SQL logic tests: files of statements and queries with their right answers, in the format of
//! SQLite's own (<https://www.sqlite.org/sqllogictest/doc/trunk/about.wiki>).

use std::fmt;

use md5::{Digest, Md5};
use rusqlite::Connection;
use rusqlite::types::Value;

use crate::console::Table;

/// What records about this engine name it.
const ENGINE: &str = "sqlite";

/// A statement or query of a file, with what must come of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The line on which it begins, from 1.
    pub line: usize,
    /// What to run.
    pub sql: String,
    expected: Expected,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Expected {
    Done,
    Error,
    Rows {
        /// A letter a column: `T`, `I` or `R`.
        types: String,
        sort: Sort,
        /// As they stand in the file: a value a line, or how many there are and their MD5.
        values: Vec<String>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    None,
    Rows,
    Values,
}

/// A file that is not in the format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogicError {
    /// From 1.
    pub line: usize,
    /// What stands there.
    pub found: String,
}

impl fmt::Display for LogicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: `{}` is no record", self.line, self.found)
    }
}

impl std::error::Error for LogicError {}

/// The records of a file that are meant for SQLite.
///
/// # Errors
///
/// [`LogicError`] for the first that is none.
pub fn parse(text: &str) -> Result<Vec<Record>, LogicError> {
    let mut records = Vec::new();
    let mut lines = (1..).zip(text.lines()).peekable();
    // Whether a condition ahead of the next record leaves it out.
    let mut left_out = false;
    while let Some((line, words)) = lines.next() {
        let words = words.split('#').next().unwrap_or_default().trim();
        let wrong = || LogicError {
            line,
            found: words.to_owned(),
        };
        let mut parts = words.split_whitespace();
        let expected = match (parts.next(), parts.next()) {
            (None, _) => continue,
            (Some("onlyif"), Some(engine)) => {
                left_out |= engine != ENGINE;
                continue;
            }
            (Some("skipif"), Some(engine)) => {
                left_out |= engine == ENGINE;
                continue;
            }
            (Some("halt"), _) if std::mem::take(&mut left_out) => continue,
            (Some("halt"), _) => break,
            // Whether the values are given or their MD5 can be seen.
            (Some("hash-threshold"), _) => continue,
            (Some("statement"), Some("ok")) => Expected::Done,
            (Some("statement"), Some("error")) => Expected::Error,
            (Some("query"), Some(types)) if types.chars().all(|letter| "TIR".contains(letter)) => {
                Expected::Rows {
                    types: types.to_owned(),
                    sort: match parts.next() {
                        None | Some("nosort") => Sort::None,
                        Some("rowsort") => Sort::Rows,
                        Some("valuesort") => Sort::Values,
                        Some(_) => return Err(wrong()),
                    },
                    values: Vec::new(),
                }
            }
            _ => return Err(wrong()),
        };
        let is_query = matches!(expected, Expected::Rows { .. });
        let mut text = |ends: fn(&str) -> bool| {
            let taken = std::iter::from_fn(|| lines.next_if(|(_, line)| !ends(line)));
            taken.map(|(_, line)| line.to_owned()).collect::<Vec<_>>()
        };
        let sql = text(|line| line.is_empty() || line == "----").join("\n");
        let results = if is_query {
            text(str::is_empty)
        } else {
            Vec::new()
        };
        if std::mem::take(&mut left_out) {
            continue;
        }
        let expected = match expected {
            Expected::Rows { types, sort, .. } => Expected::Rows {
                types,
                sort,
                values: results.into_iter().skip(1).collect(),
            },
            other => other,
        };
        records.push(Record {
            line,
            sql,
            expected,
        });
    }
    Ok(records)
}

impl Record {
    /// Whether `answer` is right.
    ///
    /// # Errors
    ///
    /// What was expected and what was seen.
    pub fn judge(&self, answer: &rusqlite::Result<Table>) -> Result<(), String> {
        match (&self.expected, answer) {
            (Expected::Done, Ok(_)) | (Expected::Error, Err(_)) => Ok(()),
            (Expected::Error, Ok(_)) => Err("expected an error, seen none".to_owned()),
            // SQLite's own runner asks no query how it ended, and its files count on that: a sum that
            // overflows stands in them as a query without an answer.
            (Expected::Rows { values, .. }, Err(_)) if values.is_empty() => Ok(()),
            (_, Err(error)) => Err(format!("expected an answer, seen an error: {error}")),
            (
                Expected::Rows {
                    types,
                    sort,
                    values,
                },
                Ok(table),
            ) => {
                let seen = shown(table, types, *sort)?;
                let digest = || [format!("{} values hashing to {}", seen.len(), md5(&seen))];
                if seen == *values || !seen.is_empty() && digest()[..] == values[..] {
                    return Ok(());
                }
                Err(format!(
                    "expected {}, seen {}",
                    values.join(" "),
                    seen.join(" ")
                ))
            }
        }
    }
}

/// The values of a table as the format prints them.
fn shown(table: &Table, types: &str, sort: Sort) -> Result<Vec<String>, String> {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for row in &table.rows {
        if row.len() != types.len() {
            return Err(format!(
                "expected {} columns, seen {}",
                types.len(),
                row.len()
            ));
        }
        let values = row.iter().zip(types.chars());
        let values: rusqlite::Result<_> =
            values.map(|(value, letter)| one(value, letter)).collect();
        rows.push(values.map_err(|error| error.to_string())?);
    }
    if sort == Sort::Rows {
        rows.sort();
    }
    let mut values: Vec<String> = rows.into_iter().flatten().collect();
    if sort == Sort::Values {
        values.sort();
    }
    Ok(values)
}

fn one(value: &Value, letter: char) -> rusqlite::Result<String> {
    // As sqlite3_column_int() and _double() take a text: its digits, or zero.
    let number = |text: &str| text.trim().parse::<f64>().unwrap_or(0.0);
    Ok(match (letter, value) {
        (_, Value::Null) => "NULL".to_owned(),
        ('I', Value::Integer(integer)) => integer.to_string(),
        ('I', Value::Real(real)) => (*real as i64).to_string(),
        ('I', Value::Text(text)) => (number(text) as i64).to_string(),
        ('R', Value::Integer(integer)) => three_decimals(*integer as f64)?,
        ('R', Value::Real(real)) => three_decimals(*real)?,
        ('R', Value::Text(text)) => three_decimals(number(text))?,
        (_, Value::Integer(integer)) => integer.to_string(),
        (_, Value::Real(real)) => real.to_string(),
        (_, Value::Text(text)) if text.is_empty() => "(empty)".to_owned(),
        (_, Value::Text(text)) => printable(text.bytes()),
        (_, Value::Blob(bytes)) => printable(bytes.iter().copied()),
    })
}

/// Three decimals by SQLite's own printf: it rounds halves up and shows no more than 16 digits.
fn three_decimals(number: f64) -> rusqlite::Result<String> {
    let db = Connection::open_in_memory()?;
    db.query_row("SELECT printf('%.3f', ?1)", [number], |row| row.get(0))
}

fn printable(bytes: impl Iterator<Item = u8>) -> String {
    let show = |byte| match byte {
        b' '..=b'~' => char::from(byte),
        _ => '@',
    };
    bytes.map(show).collect()
}

fn md5(values: &[String]) -> String {
    let mut digest = Md5::new();
    for value in values {
        digest.update(value);
        digest.update("\n");
    }
    let bytes = digest.finalize();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::Console;
    use crate::sim::Journal;

    fn judged(text: &str) -> Vec<Result<(), String>> {
        let console = Console::open(Journal::Rollback).unwrap();
        let judge = |record: &Record| record.judge(&console.run(&record.sql));
        parse(text).unwrap().iter().map(judge).collect()
    }

    #[test]
    fn what_another_engine_is_asked_does_not_count() {
        let text = "onlyif mssql\nhalt\n\nskipif sqlite\nstatement ok\nNONSENSE\n\n\
                    onlyif sqlite # only here\nquery I nosort\nSELECT 7\n----\n7\n\n\
                    halt\n\nstatement ok\nNONSENSE\n";
        assert_eq!(judged(text), [Ok(())]);
    }

    #[test]
    fn wrong_answers_are_told_apart_from_right_ones() {
        let text = "statement error\nSELECT 1\n\nstatement ok\nNONSENSE\n\n\
                    query I rowsort\nVALUES (2), (1)\n----\n1\n2\n\n\
                    query I nosort\nVALUES (2), (1)\n----\n1\n2\n\n\
                    query IT valuesort\nSELECT 2, '1'\n----\n1\n2\n\n\
                    query TR\nSELECT '', NULL\n----\n(empty)\nNULL\n\n\
                    query R\nSELECT -0.0625\n----\n-0.063\n\n\
                    query I\nSELECT 1, 2\n----\n1\n2\n\n\
                    query I\nSELECT 1 WHERE 0\n----\n\n\
                    query I\nSELECT abs(-9223372036854775807 - 1)\n----\n\n";
        let right: Vec<bool> = judged(text).iter().map(Result::is_ok).collect();
        let expected = [
            false, false, true, false, true, true, true, false, true, true,
        ];
        assert_eq!(right, expected);
    }

    /// The digest of `1`, `2` and `3`, a line each.
    #[test]
    fn many_values_are_known_by_their_digest() {
        let query = "query I\nVALUES (1), (2), (3)\n----\n3 values hashing to ";
        let right = [query, "c0710d6b4f15dfa88f600b0e6b624077"].concat();
        let wrong = [query, "c0710d6b4f15dfa88f600b0e6b624078"].concat();
        assert_eq!(judged(&right), [Ok(())]);
        assert!(judged(&wrong)[0].is_err());
    }

    #[test]
    fn what_is_no_record_is_named_with_its_line() {
        for (text, line) in [("\nquery X\nSELECT 1", 2), ("statement", 1), ("wonder", 1)] {
            assert_eq!(parse(text).unwrap_err().line, line);
        }
    }
}
