//! A tool that opens support tickets and replays the answer of a call made again.
//!
//! The ticket and its replay record are written in one transaction: either both exist or neither.

use std::fmt;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};

use crate::json::{self, Value};
use crate::key::OperationKey;
use crate::sim::{Host, Point, Struck};

/// Before the transaction begins.
pub const BEFORE_BEGIN: Point = Point("before_begin");
/// The write lock is held, nothing is read or written yet.
pub const AFTER_BEGIN: Point = Point("after_begin");
/// Between the two inserts: the ticket is written, its replay record is not.
pub const BEFORE_COMMIT: Point = Point("before_commit");
/// The transaction is durable and the answer has not left.
pub const AFTER_COMMIT: Point = Point("after_commit");

/// Every point that a call can pass, in order.
pub const POINTS: [Point; 4] = [BEFORE_BEGIN, AFTER_BEGIN, BEFORE_COMMIT, AFTER_COMMIT];

/// How long a call waits for another writer, in all, each time it needs the lock.
pub const LOCK_WAIT_LIMIT: Duration = Duration::from_secs(10);

const SCHEMA: &str = "\
CREATE TABLE IF NOT EXISTS tickets(id INTEGER PRIMARY KEY, payload TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS requests(key TEXT PRIMARY KEY, payload TEXT NOT NULL, response TEXT NOT NULL);";

/// The answer to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    /// Row id of the ticket, from 1.
    pub id: i64,
}

impl Ticket {
    /// The answer as the replay record keeps it: `{"ticket_id": N}`.
    pub fn to_json(self) -> Value {
        Value::object([("ticket_id", Value::from(self.id))])
    }

    fn from_response(response: &str) -> Option<Self> {
        let response = json::parse(response).ok()?;
        let id = response.get("ticket_id")?.as_i64()?;
        Some(Self { id })
    }
}

/// Why a call gave no ticket.
#[derive(Debug)]
#[non_exhaustive]
pub enum TicketError {
    /// The key belongs to a call with another payload. Nothing was written.
    PayloadConflict {
        /// The key.
        key: OperationKey,
    },
    /// No answer came in time. The ticket may exist.
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

impl fmt::Display for TicketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PayloadConflict { key } => {
                write!(f, "conflict: key {key} was used with another payload")
            }
            Self::TimedOut => f.write_str("timeout: no answer arrived"),
            Self::Interrupted(point) => write!(f, "the process failed at {point}"),
            Self::UnreadableRecord { key } => {
                write!(f, "the replay record of key {key} holds no ticket")
            }
            Self::Database(error) => write!(f, "database: {error}"),
        }
    }
}

impl std::error::Error for TicketError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Database(error) => Some(error),
            _ => None,
        }
    }
}

impl From<rusqlite::Error> for TicketError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error)
    }
}

impl From<Struck> for TicketError {
    fn from(struck: Struck) -> Self {
        if struck.point == AFTER_COMMIT {
            Self::TimedOut
        } else {
            Self::Interrupted(struck.point)
        }
    }
}

/// The tool, on one connection of its own.
#[derive(Debug)]
pub struct TicketDesk<H> {
    connection: Connection,
    host: H,
}

impl<H: Host> TicketDesk<H> {
    /// Takes over a connection whose busy handler is off; waiting for locks is done here.
    ///
    /// # Errors
    ///
    /// What SQLite says.
    pub fn new(connection: Connection, host: H) -> rusqlite::Result<Self> {
        // EXTRA, not FULL: with a rollback journal the commit is the deletion of the journal, and
        // only EXTRA makes that deletion durable before COMMIT returns
        // (https://www.sqlite.org/pragma.html#pragma_synchronous).
        connection.execute_batch("PRAGMA synchronous = EXTRA")?;
        Ok(Self { connection, host })
    }

    /// Creates the two tables where they are missing.
    ///
    /// # Errors
    ///
    /// What SQLite says.
    pub fn create_tables(&self) -> rusqlite::Result<()> {
        self.connection.execute_batch(SCHEMA)
    }

    /// Who runs this tool.
    pub fn host(&self) -> &H {
        &self.host
    }

    /// The tool's own connection.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Opens a ticket. With a key, the same call made again returns the first answer and opens
    /// nothing. Dropping the future before it is done rolls back what is not committed.
    ///
    /// # Errors
    ///
    /// [`TicketError`]; after [`TicketError::TimedOut`] the ticket may exist.
    pub async fn create_ticket(
        &self,
        payload: &Value,
        key: Option<&OperationKey>,
    ) -> Result<Ticket, TicketError> {
        let payload = payload.compact();
        self.host.reach(BEFORE_BEGIN).await?;
        let transaction = self
            .wait_for_lock(|| {
                Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)
            })
            .await?;
        self.host.reach(AFTER_BEGIN).await?;
        let ticket = match key {
            None => self.insert(&transaction, &payload).await?,
            Some(key) => match recorded(&transaction, key, &payload)? {
                Some(ticket) => ticket,
                None => {
                    let ticket = self.insert(&transaction, &payload).await?;
                    record(&transaction, key, &payload, ticket)?;
                    ticket
                }
            },
        };
        // Not Transaction::commit, which gives up the transaction when a reader delays it. Should
        // the wait fail, dropping the transaction rolls it back.
        self.wait_for_lock(|| transaction.execute_batch("COMMIT"))
            .await?;
        self.host.reach(AFTER_COMMIT).await?;
        Ok(ticket)
    }

    async fn insert(
        &self,
        transaction: &Transaction<'_>,
        payload: &str,
    ) -> Result<Ticket, TicketError> {
        transaction
            .prepare_cached("INSERT INTO tickets(payload) VALUES (?1)")?
            .execute([payload])?;
        let ticket = Ticket {
            id: transaction.last_insert_rowid(),
        };
        self.host.reach(BEFORE_COMMIT).await?;
        Ok(ticket)
    }

    /// Makes `attempt` until SQLite is not busy or [`LOCK_WAIT_LIMIT`] is over.
    async fn wait_for_lock<T>(
        &self,
        mut attempt: impl FnMut() -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let deadline = self.host.now() + LOCK_WAIT_LIMIT;
        loop {
            match attempt() {
                Err(error) if is_busy(&error) && self.host.now() < deadline => {
                    self.host.lock_freed(deadline).await;
                }
                result => return result,
            }
        }
    }
}

/// The recorded answer to `key`, if there is one for this payload.
fn recorded(
    transaction: &Transaction<'_>,
    key: &OperationKey,
    payload: &str,
) -> Result<Option<Ticket>, TicketError> {
    let record: Option<(String, String)> = transaction
        .prepare_cached("SELECT payload, response FROM requests WHERE key = ?1")?
        .query_row([key.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    match record {
        None => Ok(None),
        Some((recorded, _)) if recorded != payload => {
            Err(TicketError::PayloadConflict { key: key.clone() })
        }
        Some((_, response)) => Ticket::from_response(&response)
            .map(Some)
            .ok_or_else(|| TicketError::UnreadableRecord { key: key.clone() }),
    }
}

fn record(
    transaction: &Transaction<'_>,
    key: &OperationKey,
    payload: &str,
    ticket: Ticket,
) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("INSERT INTO requests(key, payload, response) VALUES (?1, ?2, ?3)")?
        .execute([key.as_str(), payload, &ticket.to_json().compact()])?;
    Ok(())
}

fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy)
}
