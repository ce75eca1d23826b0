//! A tool that opens support tickets and replays the answer of a call made again.
//!
//! The ticket and its replay record are written in one transaction: either both exist or neither.

use rusqlite::Connection;

use super::database::{Database, Writing};
use super::record::Records;
use super::{AFTER_BEGIN, AFTER_COMMIT, BEFORE_BEGIN, BEFORE_COMMIT, ToolError};
use crate::json::{self, Canonical, Value};
use crate::key::OperationKey;
use crate::sim::Host;

const SCHEMA: &str =
    "CREATE TABLE IF NOT EXISTS tickets(id INTEGER PRIMARY KEY, payload TEXT NOT NULL)";

/// The tables as the lab publishes them.
const RECORDS: Records = Records {
    table: "requests",
    schema: "CREATE TABLE IF NOT EXISTS requests(key TEXT PRIMARY KEY, payload TEXT NOT NULL, response TEXT NOT NULL)",
    select: "SELECT payload, response FROM requests WHERE key = ?1",
    insert: "INSERT INTO requests(key, payload, response) VALUES (?1, ?2, ?3)",
};

/// The answer to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    /// Row id of the ticket, from 1. It names the ticket as long as that exists: SQLite gives the id
    /// of a deleted last row to the next one (<https://www.sqlite.org/autoinc.html>), and then a replay
    /// names a stranger. A tool whose tickets may be deleted needs `AUTOINCREMENT`, or ids of its own.
    pub id: i64,
}

impl Ticket {
    /// The answer as the replay record keeps it: `{"ticket_id": N}`.
    pub fn to_json(self) -> Value {
        json::object([("ticket_id", Value::from(self.id))])
    }

    fn from_json(response: &Value) -> Option<Self> {
        let id = response.get("ticket_id")?.as_i64()?;
        Some(Self { id })
    }
}

/// The tool, on one connection of its own. Calls on it may overlap: their transactions wait for each
/// other as those of two connections do.
#[derive(Debug)]
pub struct TicketDesk<H> {
    database: Database,
    host: H,
}

impl<H: Host> TicketDesk<H> {
    /// Takes over a connection and its busy handler: the tool waits for locks itself, here already.
    ///
    /// # Errors
    ///
    /// What SQLite says, SQLITE_BUSY after [`LOCK_WAIT_LIMIT`](super::LOCK_WAIT_LIMIT) included.
    pub async fn open(connection: Connection, host: H) -> rusqlite::Result<Self> {
        let database = Database::open(connection, &host).await?;
        Ok(Self { database, host })
    }

    /// Creates the two tables where they are missing.
    ///
    /// # Errors
    ///
    /// As [`TicketDesk::open`].
    pub async fn create_tables(&self) -> rusqlite::Result<()> {
        self.database.prepare(SCHEMA, &self.host).await?;
        self.database.prepare(RECORDS.schema, &self.host).await
    }

    /// Who runs this tool.
    pub fn host(&self) -> &H {
        &self.host
    }

    /// The tool's own connection.
    pub fn connection(&self) -> &Connection {
        self.database.connection()
    }

    /// Opens a ticket. With a key, the same call made again returns the first answer and opens
    /// nothing. Dropping the future before it is done rolls back what is not committed.
    ///
    /// # Errors
    ///
    /// [`ToolError`], which tells whether [the ticket may exist](ToolError::may_have_taken_effect).
    pub async fn create_ticket(
        &self,
        payload: &Value,
        key: Option<&OperationKey>,
    ) -> Result<Ticket, ToolError> {
        let payload = payload.compact();
        self.host.reach(BEFORE_BEGIN).await?;
        let writing = self.database.begin(&self.host).await?;
        self.host.reach(AFTER_BEGIN).await?;
        let ticket = match key {
            None => self.insert(&writing, &payload).await?,
            Some(key) => match RECORDS.find(&writing, key, &[key.as_str()], &payload)? {
                Some(response) => Ticket::from_json(&response)
                    .ok_or_else(|| ToolError::UnreadableRecord { key: key.clone() })?,
                None => {
                    let ticket = self.insert(&writing, &payload).await?;
                    RECORDS.add(&writing, &[key.as_str()], &payload, &ticket.to_json())?;
                    ticket
                }
            },
        };
        writing.commit(&self.host).await?;
        self.host.reach(AFTER_COMMIT).await?;
        Ok(ticket)
    }

    async fn insert(&self, writing: &Writing<'_>, payload: &str) -> Result<Ticket, ToolError> {
        let sql = "INSERT INTO tickets(payload) VALUES (?1)";
        writing.insert("tickets", sql, [payload])?;
        let ticket = Ticket {
            id: writing.last_insert_rowid(),
        };
        self.host.reach(BEFORE_COMMIT).await?;
        Ok(ticket)
    }
}
