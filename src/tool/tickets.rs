//! A tool that opens support tickets and replays the answer of a call made again.
//!
//! The ticket and its replay record are written in one transaction: either both exist or neither.

use rusqlite::{Connection, Transaction};

use super::replay::{self, ToolError};
use super::{AFTER_BEGIN, AFTER_COMMIT, BEFORE_BEGIN, BEFORE_COMMIT};
use crate::json::Value;
use crate::key::OperationKey;
use crate::sim::Host;

const SCHEMA: &str =
    "CREATE TABLE IF NOT EXISTS tickets(id INTEGER PRIMARY KEY, payload TEXT NOT NULL)";

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

    fn from_json(response: &Value) -> Option<Self> {
        let id = response.get("ticket_id")?.as_i64()?;
        Some(Self { id })
    }
}

/// The tool, on one connection of its own.
#[derive(Debug)]
pub struct TicketDesk<H> {
    connection: Connection,
    host: H,
}

impl<H: Host> TicketDesk<H> {
    /// Takes over a connection whose busy handler is off; the tool waits for locks itself.
    ///
    /// # Errors
    ///
    /// What SQLite says.
    pub fn new(connection: Connection, host: H) -> rusqlite::Result<Self> {
        replay::prepare(&connection)?;
        Ok(Self { connection, host })
    }

    /// Creates the two tables where they are missing.
    ///
    /// # Errors
    ///
    /// What SQLite says.
    pub fn create_tables(&self) -> rusqlite::Result<()> {
        self.connection.execute_batch(SCHEMA)?;
        self.connection.execute_batch(replay::SCHEMA)
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
    /// [`ToolError`]; after [`ToolError::TimedOut`] the ticket may exist.
    pub async fn create_ticket(
        &self,
        payload: &Value,
        key: Option<&OperationKey>,
    ) -> Result<Ticket, ToolError> {
        let payload = payload.compact();
        self.host.reach(BEFORE_BEGIN).await?;
        let transaction = replay::begin(&self.connection, &self.host).await?;
        self.host.reach(AFTER_BEGIN).await?;
        let ticket = match key {
            None => self.insert(&transaction, &payload).await?,
            Some(key) => match replay::recorded(&transaction, key, &payload)? {
                Some(response) => Ticket::from_json(&response)
                    .ok_or_else(|| ToolError::UnreadableRecord { key: key.clone() })?,
                None => {
                    let ticket = self.insert(&transaction, &payload).await?;
                    replay::record(&transaction, key, &payload, &ticket.to_json())?;
                    ticket
                }
            },
        };
        replay::commit(&transaction, &self.host).await?;
        self.host.reach(AFTER_COMMIT).await?;
        Ok(ticket)
    }

    async fn insert(
        &self,
        transaction: &Transaction<'_>,
        payload: &str,
    ) -> Result<Ticket, ToolError> {
        transaction
            .prepare("INSERT INTO tickets(payload) VALUES (?1)")?
            .execute([payload])?;
        let ticket = Ticket {
            id: transaction.last_insert_rowid(),
        };
        self.host.reach(BEFORE_COMMIT).await?;
        Ok(ticket)
    }
}
