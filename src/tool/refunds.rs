//! A service that refunds orders and replays the answer of a request made again.

use rusqlite::{Connection, params};

use super::replay::{self, ToolError};
use super::{AFTER_BEGIN, AFTER_COMMIT, BEFORE_BEGIN, BEFORE_RECORD};
use crate::json::{Finite, Value};
use crate::key::OperationKey;
use crate::sim::Host;

const SCHEMA: &str = "CREATE TABLE IF NOT EXISTS refunds(id INTEGER PRIMARY KEY, order_id TEXT NOT NULL, amount REAL NOT NULL)";

/// A refund to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefundRequest {
    /// Which order.
    pub order_id: String,
    /// How much, in the order's currency.
    pub amount: Finite,
}

impl RefundRequest {
    /// `{"amount", "order_id"}`: the arguments of the tool.
    pub fn to_json(&self) -> Value {
        Value::object([
            ("amount", Value::Float(self.amount)),
            ("order_id", Value::from(self.order_id.as_str())),
        ])
    }
}

/// When the replay record is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recording {
    /// In the transaction of the refund.
    WithEffect,
    /// In a transaction of its own, after the refund is committed: the mistake.
    Afterwards,
}

/// The service, on one connection of its own.
#[derive(Debug)]
pub struct RefundService<H> {
    connection: Connection,
    host: H,
    recording: Recording,
}

impl<H: Host> RefundService<H> {
    /// Takes over a connection whose busy handler is off, and creates what tables are missing.
    ///
    /// # Errors
    ///
    /// What SQLite says.
    pub fn new(connection: Connection, host: H, recording: Recording) -> rusqlite::Result<Self> {
        replay::prepare(&connection)?;
        connection.execute_batch(SCHEMA)?;
        connection.execute_batch(replay::SCHEMA)?;
        Ok(Self {
            connection,
            host,
            recording,
        })
    }

    /// The process that the service runs in.
    pub fn host(&self) -> &H {
        &self.host
    }

    /// Refunds. Answers `{"amount": AMOUNT, "refund_id": "R<n>"}`. With a key, the same request made
    /// again gets the first answer and refunds nothing, as far as [`Recording`] keeps that promise.
    ///
    /// # Errors
    ///
    /// [`ToolError`]; after [`ToolError::TimedOut`] the refund may exist.
    pub async fn refund(
        &self,
        request: &RefundRequest,
        key: Option<&OperationKey>,
    ) -> Result<Value, ToolError> {
        let payload = request.to_json().compact();
        self.host.reach(BEFORE_BEGIN).await?;
        let mut transaction = replay::begin(&self.connection, &self.host).await?;
        self.host.reach(AFTER_BEGIN).await?;
        if let Some(key) = key
            && let Some(response) = replay::recorded(&transaction, key, &payload)?
        {
            replay::commit(&transaction, &self.host).await?;
            self.host.reach(AFTER_COMMIT).await?;
            return Ok(response);
        }
        transaction
            .prepare("INSERT INTO refunds(order_id, amount) VALUES (?1, ?2)")?
            .execute(params![request.order_id, request.amount.get()])?;
        let refund_id = format!("R{}", transaction.last_insert_rowid());
        let response = Value::object([
            ("amount", Value::Float(request.amount)),
            ("refund_id", Value::from(refund_id)),
        ]);
        if self.recording == Recording::Afterwards && key.is_some() {
            replay::commit(&transaction, &self.host).await?;
            drop(transaction);
            self.host.reach(BEFORE_RECORD).await?;
            transaction = replay::begin(&self.connection, &self.host).await?;
        } else {
            self.host.reach(BEFORE_RECORD).await?;
        }
        if let Some(key) = key {
            replay::record(&transaction, key, &payload, &response)?;
        }
        replay::commit(&transaction, &self.host).await?;
        self.host.reach(AFTER_COMMIT).await?;
        Ok(response)
    }
}
