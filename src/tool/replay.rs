use std::fmt;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};

use super::AFTER_COMMIT;
use crate::json::{self, Value};
use crate::key::OperationKey;
use crate::sim::{Host, Point, Struck};

/// How long a call waits for another writer, each time that it needs the lock.
pub const LOCK_WAIT_LIMIT: Duration = Duration::from_secs(10);

/// The table of replay records: under each key, what was asked and what was answered.
pub(super) const SCHEMA: &str = "CREATE TABLE IF NOT EXISTS requests(key TEXT PRIMARY KEY, payload TEXT NOT NULL, response TEXT NOT NULL)";

/// Why a call gave no answer.
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
    /// The process failed at this point, before the commit. Nothing was written.
    Interrupted(Point),
    /// The replay record holds something that is no answer of this tool.
    UnreadableRecord {
        /// The key.
        key: OperationKey,
    },
    /// SQLite refused, SQLITE_BUSY after [`LOCK_WAIT_LIMIT`] included.
    Database(rusqlite::Error),
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PayloadConflict { key } => {
                write!(f, "conflict: key {key} was used with another payload")
            }
            Self::TimedOut => f.write_str("timeout: no answer arrived"),
            Self::Interrupted(point) => write!(f, "the process failed at {point}"),
            Self::UnreadableRecord { key } => {
                write!(f, "the replay record of key {key} holds no answer")
            }
            Self::Database(error) => write!(f, "database: {error}"),
        }
    }
}

impl std::error::Error for ToolError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Database(error) => Some(error),
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

/// Prepares a connection whose busy handler is off; waiting for locks is done here.
pub(super) fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    // EXTRA, not FULL: with a rollback journal the commit is the deletion of the journal, and only
    // EXTRA makes that deletion durable before COMMIT returns
    // (https://www.sqlite.org/pragma.html#pragma_synchronous).
    connection.execute_batch("PRAGMA synchronous = EXTRA")
}

/// Begins a transaction that holds the write lock. Dropped, it rolls back what is not committed.
pub(super) async fn begin<'a>(
    connection: &'a Connection,
    host: &impl Host,
) -> rusqlite::Result<Transaction<'a>> {
    wait_for_lock(host, || {
        Transaction::new_unchecked(connection, TransactionBehavior::Immediate)
    })
    .await
}

/// Commits. Not `Transaction::commit`, which gives up the transaction when a reader delays it;
/// should the wait fail, dropping the transaction rolls it back.
pub(super) async fn commit(
    transaction: &Transaction<'_>,
    host: &impl Host,
) -> rusqlite::Result<()> {
    wait_for_lock(host, || transaction.execute_batch("COMMIT")).await
}

/// Makes `attempt` until SQLite is not busy or [`LOCK_WAIT_LIMIT`] is over.
async fn wait_for_lock<T>(
    host: &impl Host,
    mut attempt: impl FnMut() -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let deadline = host.now().saturating_add(LOCK_WAIT_LIMIT);
    loop {
        match attempt() {
            Err(error) if is_busy(&error) && host.now() < deadline => {
                host.lock_freed(deadline).await;
            }
            result => return result,
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy)
}

/// The recorded answer to `key`, if there is one for this payload.
pub(super) fn recorded(
    connection: &Connection,
    key: &OperationKey,
    payload: &str,
) -> Result<Option<Value>, ToolError> {
    let record: Option<(String, String)> = connection
        .prepare("SELECT payload, response FROM requests WHERE key = ?1")?
        .query_row([key.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    match record {
        None => Ok(None),
        Some((recorded, _)) if recorded != payload => {
            Err(ToolError::PayloadConflict { key: key.clone() })
        }
        Some((_, response)) => json::parse(&response)
            .map(Some)
            .map_err(|_| ToolError::UnreadableRecord { key: key.clone() }),
    }
}

/// Records what was answered to `key`.
pub(super) fn record(
    connection: &Connection,
    key: &OperationKey,
    payload: &str,
    response: &Value,
) -> rusqlite::Result<()> {
    connection
        .prepare("INSERT INTO requests(key, payload, response) VALUES (?1, ?2, ?3)")?
        .execute([key.as_str(), payload, &response.compact()])?;
    Ok(())
}
