use std::borrow::Cow;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::{OwnedMutexGuard, oneshot};

use super::Invariant;
use super::case::Fault;
use super::stage::{Answer, Request, Stage, response, ticket_in, whole_ms};
use crate::sim::trace::{Fate, What};
use crate::sim::{Host, Point, Process, is_busy};

/// Why a call ends without a ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The key belongs to another payload.
    Conflict,
    /// Another call works on it.
    InProgress,
    /// SQLite refused, or changed another number of rows than it was to.
    Failed,
    /// A commit reported an error: it may have taken effect.
    Unknown,
}

/// What a statement is given.
#[derive(Debug, Clone, Copy)]
pub(super) enum Parameter {
    /// The call's key.
    Key,
    /// Its payload, in canonical form.
    Payload,
    /// The answer that names this ticket, as the lab's tool records it.
    Response(i64),
    /// A number.
    Number(i64),
}

/// A replay record.
#[derive(Debug)]
pub(super) struct Record {
    /// Whether it is of the payload that is asked for.
    same_payload: bool,
    pub(super) response: Option<i64>,
    pub(super) claims: i64,
    pub(super) leased_until_ms: i64,
}

impl Record {
    pub(super) fn check_payload(&self, call: &Call) -> Result<(), Refusal> {
        if self.same_payload || !call.stage.case.design.compares_payload {
            Ok(())
        } else {
            Err(Refusal::Conflict)
        }
    }

    /// The recorded ticket, if the payload is not another one.
    pub(super) fn answer(&self, call: &Call) -> Result<i64, Refusal> {
        self.check_payload(call)?;
        self.response.ok_or(Refusal::Failed)
    }
}

/// One request in the hands of a worker: what a design needs to serve it. Everything that it learns
/// goes into its history, from which its state follows; see [`crate::search`].
pub(super) struct Call {
    stage: Rc<Stage>,
    worker: usize,
    request: Request,
    key: Option<Cow<'static, str>>,
    /// `None` where the response is lost.
    reply: Cell<Option<oneshot::Sender<Answer>>>,
    history: Cell<u64>,
    /// Held while it has a transaction open, where calls take turns.
    turn: Cell<Option<OwnedMutexGuard<()>>>,
    opened: Cell<bool>,
    /// The ticket that it opened is committed.
    wrote: Cell<bool>,
}

impl Call {
    /// Gives a request to the first worker that has nothing to do, after starting it again if it
    /// was dead. `copy` tells two deliveries of one request apart.
    pub(super) fn deliver(
        stage: &Rc<Stage>,
        request: Request,
        copy: u64,
        reply: Option<oneshot::Sender<Answer>>,
    ) {
        let worker = stage.take_worker();
        let call = Self {
            stage: Rc::clone(stage),
            worker,
            key: stage.key(request),
            request,
            reply: Cell::new(reply),
            history: Cell::new(0),
            turn: Cell::default(),
            opened: Cell::new(false),
            wrote: Cell::new(false),
        };
        stage.live.add(0);
        let place = (worker as u64) << 8 | u64::from(stage.workers[worker].is_open());
        call.observe(request.number() << 16 | place << 2 | copy);
        stage.asked(request.intention);
        let process = stage.workers[worker].process.clone();
        stage.callers[request.caller].record(What::Message {
            to: process.name(),
            fate: Fate::Arrives,
        });
        process.spawn(async move { call.handle().await });
    }

    async fn handle(self) {
        let answer = match self.serve().await {
            Ok(ticket) => Answer::Success(ticket),
            Err(refusal) => {
                if !self.connection().is_autocommit() {
                    let _ = self.run("ROLLBACK", &[]).await;
                }
                match refusal {
                    Refusal::Conflict => Answer::Conflict,
                    Refusal::InProgress => Answer::InProgress,
                    Refusal::Failed => Answer::Failed,
                    Refusal::Unknown => Answer::Unknown,
                }
            }
        };
        let stage = Rc::clone(&self.stage);
        stage.give(self.request, answer, self.wrote.get());
        let reply = self.reply.take();
        let fate = if reply.is_some() {
            Fate::Arrives
        } else {
            Fate::Lost
        };
        self.process().record(What::Message {
            to: stage.callers[self.request.caller].name(),
            fate,
        });
        let _ = reply.map(|reply| reply.send(answer));
        if stage.case.class.fault == Fault::PowerLost {
            // It can fail when the answer is on its way already.
            stage.strikes_at_point(self.process());
        }
    }

    async fn serve(&self) -> Result<i64, Refusal> {
        if !self.stage.workers[self.worker].is_open() {
            match self.stage.workers[self.worker].connect() {
                Ok(()) => {}
                Err(_) if !self.process().is_alive() => return self.process().hang().await,
                Err(_) => return Err(Refusal::Failed),
            }
            self.run(self.stage.case.journal.synchronous(), &[]).await?;
        }
        self.stage.case.design.serve(self).await
    }

    fn process(&self) -> &Process {
        &self.stage.workers[self.worker].process
    }

    fn connection(&self) -> Rc<Connection> {
        self.stage.workers[self.worker].connection()
    }

    /// Adds to its history what this call learned.
    fn observe(&self, seen: u64) {
        let next = mixed(self.history.get(), seen);
        self.stage.live.replace(self.history.replace(next), next);
    }

    pub(super) fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    pub(super) fn payload(&self) -> &'static str {
        self.request.payload()
    }

    pub(super) fn now_ms(&self) -> i64 {
        let now = self.stage.now_ms();
        self.observe(now as u64);
        now
    }

    pub(super) fn leased_until_ms(&self, lease: Option<Duration>) -> i64 {
        match lease {
            Some(lease) => self.now_ms().saturating_add(whole_ms(lease)),
            None => i64::MAX,
        }
    }

    /// Passes a named point: others may move, and a fault may strike.
    pub(super) async fn reach(&self, point: Point) {
        self.observe(1);
        self.process().record(What::Reached(point));
        self.process().let_others_move().await;
        if self.stage.strikes_at_point(self.process()) {
            self.process().hang().await
        }
    }

    pub(super) async fn open_ticket(&self) -> Result<i64, Refusal> {
        let sql = "INSERT INTO tickets(payload) VALUES (?1)";
        self.write(sql, &[Parameter::Payload]).await?;
        self.opened.set(true);
        let ticket = self.connection().last_insert_rowid();
        self.observe(ticket as u64);
        Ok(ticket)
    }

    /// What this process remembers under the key.
    pub(super) fn remembered(&self) -> Option<Record> {
        let memory = self.stage.workers[self.worker].memory.borrow();
        let (_, payload, ticket) = memory.iter().find(|(key, ..)| Some(&**key) == self.key())?;
        self.observe(*ticket as u64);
        Some(Record {
            same_payload: *payload == self.payload(),
            response: Some(*ticket),
            claims: 0,
            leased_until_ms: 0,
        })
    }

    pub(super) fn remember(&self, ticket: i64) {
        if let Some(key) = &self.key {
            self.stage.befall(self.history.get());
            let mut memory = self.stage.workers[self.worker].memory.borrow_mut();
            memory.push((key.clone(), self.payload(), ticket));
        }
    }

    /// Runs a statement and tells how many rows it changed. Where another connection holds the
    /// lock, it waits up to [`LOCK_WAIT_LIMIT`], as the lab's tool does.
    pub(super) async fn run(
        &self,
        sql: &'static str,
        parameters: &[Parameter],
    ) -> Result<usize, Refusal> {
        Ok(self.perform(sql, parameters).await?.0)
    }

    /// Runs a statement that must change one row.
    pub(super) async fn write(
        &self,
        sql: &'static str,
        parameters: &[Parameter],
    ) -> Result<(), Refusal> {
        match self.run(sql, parameters).await? {
            1 => Ok(()),
            _ => Err(Refusal::Failed),
        }
    }

    /// The record that a query finds.
    pub(super) async fn find(
        &self,
        sql: &'static str,
        parameters: &[Parameter],
    ) -> Result<Option<Record>, Refusal> {
        Ok(self.perform(sql, parameters).await?.1)
    }

    /// Runs a statement once: how many rows it changed, or the record that it found.
    fn once(
        &self,
        sql: &'static str,
        parameters: &[Parameter],
    ) -> rusqlite::Result<(usize, Option<Record>)> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached(sql)?;
        for (index, parameter) in parameters.iter().enumerate() {
            let place = index + 1;
            match *parameter {
                Parameter::Key => statement.raw_bind_parameter(place, self.key())?,
                Parameter::Payload => statement.raw_bind_parameter(place, self.payload())?,
                Parameter::Number(number) => statement.raw_bind_parameter(place, number)?,
                Parameter::Response(ticket) => {
                    statement.raw_bind_parameter(place, response(ticket))?;
                }
            }
        }
        let columns = statement.column_count();
        if columns == 0 {
            return Ok((statement.raw_execute()?, None));
        }
        let mut rows = statement.raw_query();
        let Some(row) = rows.next()? else {
            return Ok((0, None));
        };
        let (mut claims, mut leased_until_ms) = (0, 0);
        if columns > 2 {
            (claims, leased_until_ms) = (row.get(2)?, row.get(3)?);
        }
        let record = Record {
            same_payload: row.get_ref(0)?.as_str() == Ok(self.payload()),
            response: ticket_in(row.get_ref(1)?),
            claims,
            leased_until_ms,
        };
        Ok((1, Some(record)))
    }

    async fn perform(
        &self,
        sql: &'static str,
        parameters: &[Parameter],
    ) -> Result<(usize, Option<Record>), Refusal> {
        let deadline = self.stage.workers[self.worker]
            .waits()
            .deadline(self.process());
        let turn = match self.turn.take() {
            None if self.stage.case.design.takes_turns => Some(self.await_turn(deadline).await?),
            held => held,
        };
        let performed = self.perform_in_turn(sql, parameters, deadline).await;
        if !self.connection().is_autocommit() {
            self.turn.set(turn);
        }
        performed
    }

    /// Waits until no other call on this connection has a transaction open.
    async fn await_turn(&self, deadline: Duration) -> Result<OwnedMutexGuard<()>, Refusal> {
        let mutex = &self.stage.workers[self.worker].turn;
        if let Ok(turn) = Arc::clone(mutex).try_lock_owned() {
            return Ok(turn);
        }
        self.observe(5 << 32);
        // Who comes first is served first.
        self.stage.befall(self.history.get());
        match self
            .process()
            .turn(Arc::clone(mutex).lock_owned(), deadline)
            .await
        {
            Some(turn) => {
                self.observe(6 << 32);
                self.stage.mark(Invariant::NobodyWaits);
                Ok(turn)
            }
            None => {
                self.stage.break_invariant(Invariant::NobodyWaits);
                Err(Refusal::Failed)
            }
        }
    }

    async fn perform_in_turn(
        &self,
        sql: &'static str,
        parameters: &[Parameter],
        deadline: Duration,
    ) -> Result<(usize, Option<Record>), Refusal> {
        let process = self.process();
        let waits = self.stage.workers[self.worker].waits();
        let mut attempts = 0;
        let attempt = || {
            attempts += 1;
            let operations = self.stage.disk_operations();
            let result = self.once(sql, parameters);
            if self.stage.disk_operations() != operations {
                self.stage.befall(self.history.get());
            }
            if matches!(&result, Err(error) if process.is_alive() && is_busy(error)) {
                self.observe(2 << 32 | self.stage.now_ms() as u64);
            }
            if self.stage.case.journal.is_wal() && !self.connection().is_autocommit() {
                // What it will see depends on which commits came before it read for the first time.
                self.observe(operations);
            }
            result
        };
        let result = waits.run(process, deadline, attempt).await;
        if !process.is_alive() {
            return process.hang().await;
        }
        match result {
            Ok((changed, record)) => {
                self.observe(changed as u64);
                if let Some(record) = &record {
                    self.observe(u64::from(record.same_payload));
                    self.observe(record.response.unwrap_or_default() as u64);
                    self.observe(record.claims as u64);
                    self.observe(record.leased_until_ms as u64);
                }
                if attempts > 1 {
                    self.stage.mark(Invariant::NobodyWaits);
                }
                match sql {
                    "COMMIT" => self.wrote.set(self.opened.get()),
                    "ROLLBACK" => self.opened.set(self.wrote.get()),
                    _ => {}
                }
                Ok((changed, record))
            }
            Err(error) if is_busy(&error) => {
                if waits.was_asked() {
                    self.stage.break_invariant(Invariant::NobodyWaits);
                }
                Err(Refusal::Failed)
            }
            Err(_) => {
                self.observe(3 << 32);
                Err(match sql {
                    "COMMIT" => Refusal::Unknown,
                    _ => Refusal::Failed,
                })
            }
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.stage.live.remove(self.history.get());
        if !self.process().is_alive() {
            self.stage.befall(!self.history.get());
            self.stage.workers[self.worker].disconnect();
        }
        self.stage.workers[self.worker].leave();
    }
}

/// Deletes every replay record when the schedule says that their time is over.
pub(super) async fn prune(stage: Rc<Stage>, worker: usize) {
    // A request of nobody: what it says is not read.
    let call = Call {
        request: Request::FIRST,
        stage: Rc::clone(&stage),
        worker,
        key: None,
        reply: Cell::default(),
        history: Cell::new(0),
        turn: Cell::default(),
        opened: Cell::new(false),
        wrote: Cell::new(false),
    };
    stage.live.add(0);
    call.observe(4 << 32);
    let pruned = call
        .run("DELETE FROM requests WHERE response IS NOT NULL", &[])
        .await;
    let pruned = pruned.map_or(0, |pruned| pruned + stage.forget());
    stage.befall(4 << 32 | pruned as u64);
    if pruned > 0 {
        stage.strike();
    }
}

/// What a request that is sent becomes, where the class lets the network fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    Delivered,
    RequestLost,
    ResponseLost,
    Twice,
    Late,
}

impl Sent {
    /// What befalls where the fault strikes.
    pub(super) fn by(fault: Fault) -> Option<Self> {
        match fault {
            Fault::RequestLost => Some(Self::RequestLost),
            Fault::ResponseLost | Fault::RecordPruned | Fault::ChangedPayload => {
                Some(Self::ResponseLost)
            }
            Fault::DeliveredTwice => Some(Self::Twice),
            Fault::DeliveredLate => Some(Self::Late),
            _ => None,
        }
    }
}

/// Two numbers mixed into one (the finalizer of SplitMix64).
pub(super) fn mixed(history: u64, seen: u64) -> u64 {
    let mut bits = history.rotate_left(23) ^ seen.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
