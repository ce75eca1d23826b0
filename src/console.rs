//! SQL as text against a fresh database on a simulated disk, statement by statement.

use std::fmt::{self, Write as _};

use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::types::Value;
use rusqlite::{Batch, Connection};

use crate::sim::{Journal, World};

/// A database of its own in a world of its own.
#[derive(Debug)]
pub struct Console {
    connection: Connection,
}

impl Console {
    /// An empty database.
    ///
    /// # Errors
    ///
    /// What SQLite says.
    pub fn open(journal: Journal) -> rusqlite::Result<Self> {
        let connection = World::new().start("console").connect("console.db")?;
        journal.set(&connection)?;
        Ok(Self { connection })
    }

    /// Runs the statements of `sql` in order; what the last of them answers.
    ///
    /// # Errors
    ///
    /// What SQLite says of the first that fails; those after it are not run.
    pub fn run(&self, sql: &str) -> rusqlite::Result<Table> {
        let mut last = Table::default();
        let mut batch = Batch::new(&self.connection, sql);
        while let Some(mut statement) = batch.next()? {
            let width = statement.column_count();
            last = Table::default();
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                last.rows.push(
                    (0..width)
                        .map(|column| row.get(column))
                        .collect::<Result<_, _>>()?,
                );
            }
        }
        Ok(last)
    }
}

/// An answer as text: a line a row, values as SQL literals with `|` between, or one line with SQLite's
/// extended result code and message. The same answer is the same text on every target.
pub fn printed(answer: &rusqlite::Result<Table>) -> String {
    match answer {
        Ok(table) => table.to_string(),
        Err(error) => {
            let code = error.sqlite_error().map(|error| error.extended_code);
            format!("error {}: {error}", code.unwrap_or_default())
        }
    }
}

/// The rows that a statement answered with.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Table {
    /// Row by row, column by column.
    pub rows: Vec<Vec<Value>>,
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, row) in self.rows.iter().enumerate() {
            if index > 0 {
                f.write_char('\n')?;
            }
            for (index, value) in row.iter().enumerate() {
                if index > 0 {
                    f.write_char('|')?;
                }
                match value {
                    Value::Null => f.write_str("NULL")?,
                    Value::Integer(number) => write!(f, "{number}")?,
                    // The shortest digits that read back as this number.
                    Value::Real(number) => write!(f, "{number:?}")?,
                    Value::Text(text) => write!(f, "'{}'", text.replace('\'', "''"))?,
                    Value::Blob(bytes) => {
                        f.write_str("x'")?;
                        bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
                        f.write_char('\'')?;
                    }
                }
            }
        }
        Ok(())
    }
}
