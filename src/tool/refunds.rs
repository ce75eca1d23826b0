//! A service that refunds orders and replays the answer of a request made again.

use rusqlite::{Connection, params};

use super::database::{Database, Writing};
use super::record::Records;
use super::{AFTER_BEGIN, AFTER_COMMIT, BEFORE_BEGIN, BEFORE_RECORD, ToolError};
use crate::json::{self, Canonical, Finite, Value};
use crate::key::{OperationKey, Tenant};
use crate::sim::Host;

const SCHEMA: &str = "CREATE TABLE IF NOT EXISTS refunds(id INTEGER PRIMARY KEY, order_id TEXT NOT NULL, amount REAL NOT NULL)";

/// A key is one within its tenant; whoever names none has the keys of nobody.
const RECORDS: Records = Records {
    table: "refund_requests",
    schema: "CREATE TABLE IF NOT EXISTS refund_requests(key TEXT NOT NULL, tenant TEXT NOT NULL, payload TEXT NOT NULL, response TEXT NOT NULL, PRIMARY KEY (key, tenant))",
    select: "SELECT payload, response FROM refund_requests WHERE key = ?1 AND tenant = ?2",
    insert: "INSERT INTO refund_requests(key, tenant, payload, response) VALUES (?1, ?2, ?3, ?4)",
};

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
        json::object([
            ("amount", Value::from(self.amount)),
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

/// The service, on one connection of its own. Requests to it may overlap: their transactions wait for
/// each other as those of two connections do.
#[derive(Debug)]
pub struct RefundService<H> {
    database: Database,
    host: H,
    recording: Recording,
}

impl<H: Host> RefundService<H> {
    /// Takes over a connection and its busy handler, and creates what tables are missing. The
    /// service waits for locks itself, here already.
    ///
    /// # Errors
    ///
    /// What SQLite says, SQLITE_BUSY after [`LOCK_WAIT_LIMIT`](super::LOCK_WAIT_LIMIT) included.
    pub async fn open(
        connection: Connection,
        host: H,
        recording: Recording,
    ) -> rusqlite::Result<Self> {
        let database = Database::open(connection, &host).await?;
        database.prepare(SCHEMA, &host).await?;
        database.prepare(RECORDS.schema, &host).await?;
        Ok(Self {
            database,
            host,
            recording,
        })
    }

    /// The process that the service runs in.
    pub fn host(&self) -> &H {
        &self.host
    }

    /// Refunds, for nobody's key or for one that belongs to no tenant. See
    /// [`RefundService::refund_for`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn refund(
        &self,
        request: &RefundRequest,
        key: Option<&OperationKey>,
    ) -> Result<Value, ToolError> {
        self.serve(request, key, "").await
    }

    /// Refunds. Answers `{"amount": AMOUNT, "refund_id": "R<n>"}`. The same request made again with
    /// the same key of the same tenant gets the first answer and refunds nothing, as far as
    /// [`Recording`] keeps that promise.
    ///
    /// # Errors
    ///
    /// [`ToolError`], which tells whether [the refund may exist](ToolError::may_have_taken_effect).
    pub async fn refund_for(
        &self,
        tenant: &Tenant,
        request: &RefundRequest,
        key: &OperationKey,
    ) -> Result<Value, ToolError> {
        self.serve(request, Some(key), tenant.as_str()).await
    }

    async fn serve(
        &self,
        request: &RefundRequest,
        key: Option<&OperationKey>,
        tenant: &str,
    ) -> Result<Value, ToolError> {
        let payload = request.to_json().compact();
        self.host.reach(BEFORE_BEGIN).await?;
        let writing = self.database.begin(&self.host).await?;
        self.host.reach(AFTER_BEGIN).await?;
        let Some(key) = key else {
            let response = insert(&writing, request)?;
            self.host.reach(BEFORE_RECORD).await?;
            return self.commit(writing, response).await;
        };
        let columns = [key.as_str(), tenant];
        if let Some(response) = RECORDS.find(&writing, key, &columns, &payload)? {
            return self.commit(writing, response).await;
        }
        let response = insert(&writing, request)?;
        match self.recording {
            Recording::WithEffect => {
                self.host.reach(BEFORE_RECORD).await?;
                RECORDS.add(&writing, &columns, &payload, &response)?;
                self.commit(writing, response).await
            }
            Recording::Afterwards => {
                writing.commit(&self.host).await?;
                let recorded = self.record_afterwards(&columns, &payload, response).await;
                recorded.map_err(|error| match error.may_have_taken_effect() {
                    true => error,
                    false => ToolError::Unrecorded(Box::new(error)),
                })
            }
        }
    }

    async fn record_afterwards(
        &self,
        columns: &[&str],
        payload: &str,
        response: Value,
    ) -> Result<Value, ToolError> {
        self.host.reach(BEFORE_RECORD).await?;
        let writing = self.database.begin(&self.host).await?;
        RECORDS.add(&writing, columns, payload, &response)?;
        self.commit(writing, response).await
    }

    /// Commits, and answers.
    async fn commit(&self, writing: Writing<'_>, response: Value) -> Result<Value, ToolError> {
        writing.commit(&self.host).await?;
        self.host.reach(AFTER_COMMIT).await?;
        Ok(response)
    }
}

/// Makes the refund, and the answer that names it.
fn insert(writing: &Writing<'_>, request: &RefundRequest) -> Result<Value, ToolError> {
    let sql = "INSERT INTO refunds(order_id, amount) VALUES (?1, ?2)";
    let values = params![request.order_id, request.amount.get()];
    writing.insert("refunds", sql, values)?;
    let refund_id = format!("R{}", writing.last_insert_rowid());
    Ok(json::object([
        ("amount", Value::from(request.amount)),
        ("refund_id", Value::from(refund_id)),
    ]))
}
