use std::fmt;

use super::AFTER_COMMIT;
use crate::key::OperationKey;
use crate::sim::{Point, Struck};

/// Why a call gave no answer.
///
/// [`ToolError::may_have_taken_effect`] tells the errors after which the effect may stand from those
/// that leave nothing of their call behind.
#[derive(Debug)]
#[non_exhaustive]
pub enum ToolError {
    /// The key belongs to a call with another payload. Nothing was written.
    PayloadConflict {
        /// The key.
        key: OperationKey,
    },
    /// No answer came in time. The effect may exist.
    TimedOut,
    /// The process failed at this point, before any commit. Nothing was written.
    Interrupted(Point),
    /// The effect is committed, and its replay record could not be: the retry will not find it.
    Unrecorded(Box<ToolError>),
    /// The replay record holds something that is no answer of this tool. Nothing was written.
    UnreadableRecord {
        /// The key.
        key: OperationKey,
    },
    /// A statement that had to write one row wrote another number of them, as a trigger can bring
    /// about. Nothing was written.
    NotWritten {
        /// The table.
        table: &'static str,
        /// How many rows the statement wrote.
        rows: usize,
    },
    /// SQLite refused before the commit, or was busy for longer than
    /// [`LOCK_WAIT_LIMIT`](super::LOCK_WAIT_LIMIT). Nothing was written.
    Database(rusqlite::Error),
    /// `COMMIT` failed with another error than SQLITE_BUSY. The transaction may have been committed,
    /// may be undone by the next who opens the database, or may be lost with the power. A retry with
    /// the key finds out and settles it.
    OutcomeUnknown(rusqlite::Error),
}

impl ToolError {
    /// Whether the effect may exist although there is no answer.
    pub fn may_have_taken_effect(&self) -> bool {
        match self {
            Self::TimedOut | Self::Unrecorded(_) | Self::OutcomeUnknown(_) => true,
            Self::PayloadConflict { .. }
            | Self::Interrupted(_)
            | Self::UnreadableRecord { .. }
            | Self::NotWritten { .. }
            | Self::Database(_) => false,
        }
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PayloadConflict { key } => {
                write!(f, "conflict: key {key} was used with another payload")
            }
            Self::TimedOut => f.write_str("timeout: no answer arrived"),
            Self::Interrupted(point) => write!(f, "the process failed at {point}"),
            Self::Unrecorded(cause) => {
                write!(f, "the effect is committed without its record: {cause}")
            }
            Self::UnreadableRecord { key } => {
                write!(f, "the replay record of key {key} holds no answer")
            }
            Self::NotWritten { table, rows } => {
                write!(f, "database: one row for {table}, {rows} written")
            }
            Self::Database(error) => write!(f, "database: {error}"),
            Self::OutcomeUnknown(error) => {
                write!(f, "outcome unknown, the commit reported: {error}")
            }
        }
    }
}

impl std::error::Error for ToolError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Database(error) | Self::OutcomeUnknown(error) => Some(error),
            Self::Unrecorded(cause) => Some(cause),
            _ => None,
        }
    }
}

impl From<rusqlite::Error> for ToolError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error)
    }
}

impl From<Struck> for ToolError {
    fn from(struck: Struck) -> Self {
        if struck.point == AFTER_COMMIT {
            Self::TimedOut
        } else {
            Self::Interrupted(struck.point)
        }
    }
}
