use std::cell::Cell;
use std::ops::Deref;
use std::time::Duration;

use rusqlite::{Connection, Params, Transaction, TransactionBehavior, ffi};
use tokio::sync::{Mutex, MutexGuard};

use super::ToolError;
use crate::sim::{Host, LockWait, is_busy};

/// How long a call waits for another writer, each time that it needs the lock.
pub const LOCK_WAIT_LIMIT: Duration = Duration::from_secs(10);

/// A tool's connection, on which one transaction runs at a time: SQLite has one transaction for each
/// connection, so that a second call on it would begin inside the first one's, and end it.
#[derive(Debug)]
pub(super) struct Database {
    connection: Connection,
    waits: LockWait,
    turn: Mutex<()>,
    /// A commit reported an error. It may have taken effect, and yet be undone by a power cut: what is
    /// read of it may be answered only once a commit that wrote has succeeded, whose sync of the
    /// directory covers it.
    unsettled: Cell<bool>,
}

impl Database {
    /// Takes over a connection, and its waiting for locks.
    pub(super) async fn open(
        mut connection: Connection,
        host: &impl Host,
    ) -> rusqlite::Result<Self> {
        let database = Self {
            waits: LockWait::on(&mut connection, LOCK_WAIT_LIMIT)?,
            connection,
            turn: Mutex::default(),
            unsettled: Cell::default(),
        };
        // EXTRA, not FULL: with a rollback journal the commit is the deletion of the journal, and only
        // EXTRA makes that deletion durable before COMMIT returns
        // (https://www.sqlite.org/pragma.html#pragma_synchronous).
        let deadline = database.waits.deadline(host);
        let set = || {
            database
                .connection
                .execute_batch("PRAGMA synchronous = EXTRA")
        };
        database.waits.run(host, deadline, set).await?;
        Ok(database)
    }

    /// Runs a statement that prepares the database, such as `CREATE TABLE`.
    pub(super) async fn prepare(&self, sql: &str, host: &impl Host) -> rusqlite::Result<()> {
        let deadline = self.waits.deadline(host);
        let _turn = self.turn(deadline, host).await?;
        // It takes no lock yet.
        let transaction = self.connection.unchecked_transaction()?;
        let run = || transaction.execute_batch(sql);
        self.waits.run(host, deadline, run).await?;
        let commit = || transaction.execute_batch("COMMIT");
        self.waits
            .run(host, self.waits.deadline(host), commit)
            .await
    }

    /// Begins a transaction that holds the write lock.
    pub(super) async fn begin(&self, host: &impl Host) -> rusqlite::Result<Writing<'_>> {
        let deadline = self.waits.deadline(host);
        let turn = self.turn(deadline, host).await?;
        let begin = || Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate);
        let transaction = self.waits.run(host, deadline, begin).await?;
        Ok(Writing {
            transaction,
            waits: &self.waits,
            unsettled: &self.unsettled,
            _turn: turn,
        })
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Waits until no other call uses the connection, first come, first served.
    async fn turn(
        &self,
        deadline: Duration,
        host: &impl Host,
    ) -> rusqlite::Result<MutexGuard<'_, ()>> {
        if let Ok(turn) = self.turn.try_lock() {
            return Ok(turn);
        }
        let turn = host.turn(self.turn.lock(), deadline).await;
        // What SQLite would say had the other call a connection of its own.
        turn.ok_or_else(|| {
            let busy = ffi::Error::new(ffi::SQLITE_BUSY);
            let message = "another call has this connection";
            rusqlite::Error::SqliteFailure(busy, Some(message.to_owned()))
        })
    }
}

/// A transaction with the write lock, on a connection that nobody else uses meanwhile. Dropped, it
/// rolls back what is not committed.
#[derive(Debug)]
pub(super) struct Writing<'a> {
    // invariant: dropped before the turn, so that the next call does not find it open.
    transaction: Transaction<'a>,
    waits: &'a LockWait,
    unsettled: &'a Cell<bool>,
    _turn: MutexGuard<'a, ()>,
}

impl Deref for Writing<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.transaction
    }
}

impl Writing<'_> {
    /// Commits, and lets the next call have the connection. Not `Transaction::commit`, which gives up
    /// the transaction when a reader delays it; should the wait fail, it is rolled back.
    pub(super) async fn commit(self, host: &impl Host) -> Result<(), ToolError> {
        if self.unsettled.get() {
            // Writes the first page, whatever else this transaction does.
            let version: i64 =
                self.query_row("PRAGMA user_version", [], |version| version.get(0))?;
            self.execute_batch(&format!("PRAGMA user_version = {version}"))?;
        }
        let commit = || self.transaction.execute_batch("COMMIT");
        let deadline = self.waits.deadline(host);
        match self.waits.run(host, deadline, commit).await {
            Ok(()) => {
                self.unsettled.set(false);
                Ok(())
            }
            // SQLite has written nothing and keeps the transaction open.
            Err(error) if is_busy(&error) => Err(error.into()),
            Err(error) => {
                self.unsettled.set(true);
                Err(ToolError::OutcomeUnknown(error))
            }
        }
    }

    /// Writes one row into `table`.
    pub(super) fn insert(
        &self,
        table: &'static str,
        sql: &str,
        values: impl Params,
    ) -> Result<(), ToolError> {
        match self.prepare(sql)?.execute(values)? {
            1 => Ok(()),
            rows => Err(ToolError::NotWritten { table, rows }),
        }
    }
}
