use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::types::ValueRef;
use tokio::sync::{Mutex, oneshot};

use super::call::{Call, Sent, mixed, prune};
use super::case::{Case, Fault};
use super::design::Key;
use super::{ExploreError, Invariant, Invariants};
use crate::outcome::Table;
use crate::search::{Forks, Seen};
use crate::sim::disk::{Access, DiskFaults, DiskStrike, Failing, Image, Loss};
use crate::sim::trace::{Fate, Trace, What};
use crate::sim::{Journal, LockWait, Process, Script, World};
use crate::tool::LOCK_WAIT_LIMIT;

/// How long a claim is good for. So short that no caller who waits for it, however often, sees
/// another's [`LOCK_WAIT_LIMIT`](crate::tool::LOCK_WAIT_LIMIT) end.
pub(super) const LEASE: Duration = Duration::from_millis(500);

/// How often a caller without an answer calls again when all faults are over.
const LAST_ATTEMPTS: u8 = 3;

const DATABASE: &str = "tickets.db";

const PAYLOAD: &str = r#"{"priority":"normal"}"#;
const CHANGED_PAYLOAD: &str = r#"{"priority":"high"}"#;
const INTENTION_KEYS: [&str; 2] = ["intention-1", "intention-2"];

/// Whole milliseconds; more than SQLite's integers hold count as the most that they do.
pub(super) fn whole_ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// One request of one caller.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub(super) caller: usize,
    pub(super) intention: usize,
    attempt: u8,
    changed: bool,
}

impl Request {
    pub(super) const FIRST: Self = Self {
        caller: 0,
        intention: 0,
        attempt: 1,
        changed: false,
    };

    pub(super) fn payload(self) -> &'static str {
        if self.changed {
            CHANGED_PAYLOAD
        } else {
            PAYLOAD
        }
    }

    pub(super) fn number(self) -> u64 {
        (self.caller as u64) << 8 | u64::from(self.attempt)
    }
}

/// What a caller gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Success(i64),
    Conflict,
    InProgress,
    Failed,
    /// The commit reported an error.
    Unknown,
    /// The worker died, and the connection to it broke.
    Broken,
}

impl Answer {
    fn number(self) -> u64 {
        match self {
            Self::Success(ticket) => ticket as u64,
            Self::Conflict => 2 << 40,
            Self::InProgress => 3 << 40,
            Self::Failed => 4 << 40,
            Self::Broken => 5 << 40,
            Self::Unknown => 6 << 40,
        }
    }
}

/// An answer that a worker gave, whether or not it arrived.
#[derive(Debug, Clone, Copy)]
struct Given {
    request: Request,
    answer: Answer,
}

/// A process of the tool, with its connection and what it remembers.
pub(super) struct Worker {
    pub(super) process: Process,
    connection: RefCell<Option<Rc<Connection>>>,
    /// How that connection waits for locks.
    waits: RefCell<Option<LockWait>>,
    /// Held by the call whose transaction is open, where calls take turns.
    pub(super) turn: Arc<Mutex<()>>,
    /// How many calls it works on.
    calls: Cell<u8>,
    pub(super) memory: RefCell<Vec<Remembered>>,
}

/// A key, the payload that came with it, and the ticket.
type Remembered = (Cow<'static, str>, &'static str, i64);

impl Worker {
    fn start(world: &World, name: &str) -> Self {
        Self {
            process: world.start(name),
            connection: RefCell::default(),
            waits: RefCell::default(),
            turn: Arc::default(),
            calls: Cell::default(),
            memory: RefCell::default(),
        }
    }

    fn is_idle(&self) -> bool {
        self.calls.get() == 0
    }

    /// A call begins on it.
    fn enter(&self) {
        self.calls.set(self.calls.get() + 1);
    }

    /// A call on it has ended.
    pub(super) fn leave(&self) {
        self.calls.set(self.calls.get() - 1);
    }

    pub(super) fn is_open(&self) -> bool {
        self.connection.borrow().is_some()
    }

    pub(super) fn connection(&self) -> Rc<Connection> {
        let connection = self.connection.borrow();
        Rc::clone(connection.as_ref().expect("a call connects first"))
    }

    pub(super) fn waits(&self) -> LockWait {
        self.waits.borrow().clone().expect("a call connects first")
    }

    pub(super) fn connect(&self) -> rusqlite::Result<()> {
        let mut connection = self.process.connect(DATABASE)?;
        let waits = LockWait::on(&mut connection, LOCK_WAIT_LIMIT)?;
        *self.connection.borrow_mut() = Some(Rc::new(connection));
        *self.waits.borrow_mut() = Some(waits);
        Ok(())
    }

    /// Closes its connection.
    pub(super) fn disconnect(&self) {
        self.waits.take();
        self.connection.take();
    }

    /// Starts it again if it is dead: it remembers nothing and is not connected.
    fn revive(&self) {
        if !self.process.is_alive() {
            self.disconnect();
            self.memory.borrow_mut().clear();
            self.process.restart();
        }
    }

    /// Connects it if it is not connected, which is what this tells.
    fn reopen(&self, journal: Journal) -> rusqlite::Result<bool> {
        self.revive();
        let closed = !self.is_open();
        if closed {
            self.connect()?;
            let connection = self.connection();
            connection.execute_batch(journal.synchronous())?;
            if journal.is_wal() {
                // The first read, which opens the WAL and maps its index.
                connection.execute_batch("PRAGMA schema_version")?;
            }
        }
        Ok(closed)
    }
}

/// The sum of the mixed histories of all that is under way: it does not depend on their order.
#[derive(Debug, Default)]
pub(super) struct Live(Cell<u64>);

impl Live {
    pub(super) fn add(&self, history: u64) {
        self.0
            .set(self.0.get().wrapping_add(mixed(history, history)));
    }

    pub(super) fn remove(&self, history: u64) {
        self.0
            .set(self.0.get().wrapping_sub(mixed(history, history)));
    }

    pub(super) fn replace(&self, old: u64, new: u64) {
        self.remove(old);
        self.add(new);
    }
}

/// Where the faults of a run come from: its forks.
struct Risk {
    fault: Fault,
    forks: RefCell<Forks>,
    faults_left: Cell<u8>,
    struck: Cell<bool>,
    /// How the disk fails from now on, until the faults are over.
    lasting: Cell<Option<Failing>>,
    /// Which accesses of the disk failed, and how.
    failed: Cell<u64>,
}

impl Risk {
    /// Whether one of so many faults strikes here, counted from 1; 0 for none.
    fn choose(&self, kinds: usize) -> usize {
        if self.faults_left.get() == 0 {
            return 0;
        }
        let chosen = self.forks.borrow().strikes(kinds);
        if chosen > 0 {
            self.faults_left.set(self.faults_left.get() - 1);
        }
        chosen
    }

    fn strike(&self, number: u64) -> Option<DiskStrike> {
        let strike = match self.fault {
            Fault::Killed => (self.choose(1) > 0).then_some(DiskStrike::Kill),
            Fault::PowerLost => match self.choose(2) {
                0 => None,
                1 => Some(DiskStrike::PowerCut(Loss::Everything)),
                _ => Some(DiskStrike::PowerCut(Loss::Torn { seed: number })),
            },
            _ => None,
        };
        self.struck.set(self.struck.get() || strike.is_some());
        strike
    }
}

impl DiskFaults for Risk {
    fn before(&self, number: u64) -> Option<DiskStrike> {
        self.strike(number)
    }

    fn fails(&self, number: u64, access: Access) -> Option<Failing> {
        if self.fault != Fault::DiskError {
            return None;
        }
        let lasting = self.lasting.get();
        if let Some(failing) = lasting.filter(|failing| failing.fits(access)) {
            return Some(failing);
        }
        let failings = || access.failings().filter(|one| one.error.is_reported());
        // First each failing once, then each from then on.
        let kinds = failings().count();
        let chosen = self.choose(2 * kinds).checked_sub(1)?;
        self.struck.set(true);
        self.failed
            .set(mixed(self.failed.get(), number << 8 | chosen as u64));
        let failing = failings().nth(chosen % kinds);
        if chosen >= kinds {
            self.lasting.set(failing);
        }
        failing
    }
}

/// The machine that all runs of one search share: processes, connections and disk are restored
/// between runs, never built anew.
pub(super) struct Stage {
    pub(super) case: Case,
    pub(super) world: World,
    image: Image,
    pub(super) workers: Vec<Worker>,
    pub(super) callers: Vec<Process>,
    auditor: Worker,
    risk: Rc<Risk>,
    pub(super) live: Live,
    /// What befell the disk and whoever died, in order.
    befallen: Cell<u64>,
    given: RefCell<Vec<Given>>,
    /// How often the tool was asked for each intention.
    asked: Cell<[u32; 2]>,
    /// How many callers will not call again by themselves.
    returned: Cell<usize>,
    /// A bit for each caller that has its answer.
    answered: Cell<u8>,
    broken: Cell<Invariants>,
    marks: Cell<Invariants>,
}

/// Rows that were left.
#[derive(Debug, Default)]
struct Rows {
    /// Id, and whether the payload is the changed one.
    tickets: Vec<(i64, bool)>,
    records: Vec<Option<i64>>,
}

impl Stage {
    pub(super) fn new(case: Case, watched: bool) -> Result<Rc<Self>, ExploreError> {
        let world = World::timeless(watched);
        let maker = Worker::start(&world, "maker");
        maker.connect()?;
        // The least that SQLite allows: every restoring copies the whole database.
        maker.connection().execute_batch("PRAGMA page_size = 512")?;
        case.journal.set(&maker.connection())?;
        maker.connection().execute_batch(case.design.schema())?;
        let image = {
            drop(maker);
            world.image()
        };
        let bounds = case.bounds;
        // A fault leaves at most one more call under way than there are callers; one prunes.
        let workers = 1..=bounds.callers + bounds.faults + 1;
        let callers = 1..=bounds.callers;
        let risk = Rc::new(Risk {
            fault: case.class.fault,
            forks: RefCell::default(),
            faults_left: Cell::default(),
            struck: Cell::default(),
            lasting: Cell::default(),
            failed: Cell::default(),
        });
        if matches!(
            case.class.fault,
            Fault::Killed | Fault::PowerLost | Fault::DiskError
        ) {
            world.put_disk_at_risk(Rc::clone(&risk) as Rc<dyn DiskFaults>);
        }
        Ok(Rc::new(Self {
            workers: workers
                .map(|number| Worker::start(&world, &format!("worker {number}")))
                .collect(),
            callers: callers
                .map(|number| world.start_elsewhere(&format!("caller {number}")))
                .collect(),
            auditor: Worker::start(&world, "auditor"),
            case,
            world,
            image,
            risk,
            live: Live::default(),
            befallen: Cell::default(),
            given: RefCell::default(),
            asked: Cell::default(),
            returned: Cell::default(),
            answered: Cell::default(),
            broken: Cell::default(),
            marks: Cell::default(),
        }))
    }

    /// No fault strikes from now on.
    pub(super) fn end_faults(&self) {
        self.risk.faults_left.set(0);
        self.risk.lasting.set(None);
    }

    /// Restores the machine, and lets everybody begin.
    pub(super) fn begin(self: &Rc<Self>, forks: &Forks) -> Result<(), ExploreError> {
        self.restore()?;
        self.risk.forks.replace(forks.clone());
        self.risk.faults_left.set(self.case.bounds.faults);
        for (index, caller) in self.callers.iter().enumerate() {
            caller.spawn(call_and_retry(Rc::clone(self), index));
        }
        if self.case.class.fault == Fault::RecordPruned {
            let last = self.workers.len() - 1;
            self.workers[last].enter();
            let pruner = &self.workers[last].process;
            pruner.spawn(prune(Rc::clone(self), last));
        }
        Ok(())
    }

    /// Nobody can move any more: holds what is left to the invariants, lets those without an answer call again, and does so
    /// once more.
    pub(super) fn finish(self: &Rc<Self>) -> Result<(), ExploreError> {
        if self.returned.get() < self.callers.len() {
            self.break_invariant(Invariant::NobodyWaits);
        }
        self.end_faults();
        self.audit()?;
        if self.settle()? {
            self.audit()?;
        }
        Ok(())
    }

    pub(super) fn seen(&self) -> Seen<Invariants> {
        Seen {
            broken: self.broken.get(),
            did_happen: self.marks.get(),
            struck: self.risk.struck.get(),
        }
    }

    fn restore(&self) -> Result<(), ExploreError> {
        self.risk.failed.set(0);
        // After a disk error: what a connection read before would spare it an access, and what failed may have left it in
        // any state. In WAL mode: connections share the index of the WAL, which is no part of the image.
        let begins_anew = self.case.class.fault == Fault::DiskError || self.case.journal.is_wal();
        for worker in self.workers.iter().chain([&self.auditor]) {
            if !worker.process.is_alive() {
                worker.revive();
            } else if !begins_anew && worker.is_open() && !worker.connection().is_autocommit() {
                worker.connection().execute_batch("ROLLBACK")?;
            }
            if begins_anew {
                worker.disconnect();
            }
            worker.calls.set(0);
            worker.memory.borrow_mut().clear();
        }
        self.world.restore(&self.image);
        let mut reopened = false;
        for worker in self.workers.iter().chain([&self.auditor]) {
            reopened |= worker.reopen(self.case.journal)?;
        }
        if reopened {
            // That belongs to no run. A WAL that is open by now stays.
            self.world.restore(&self.world.image());
        }
        self.live.0.set(0);
        self.befallen.set(0);
        self.given.borrow_mut().clear();
        self.asked.set([0; 2]);
        self.returned.set(0);
        self.answered.set(0);
        self.risk.struck.set(false);
        self.broken.set(Invariants::default());
        self.marks.set(Invariants::default());
        Ok(())
    }

    /// The number of the state that the run has come to. Everything that the future depends on
    /// follows from what it mixes: every process does what its history makes it do, the disk holds
    /// what was done to it in this order, and locks are held by those whose histories got them.
    pub(super) fn state(&self) -> u64 {
        let few = u64::from(self.risk.faults_left.get())
            | u64::from(self.risk.struck.get()) << 8
            | u64::from(self.broken.get().bits()) << 16;
        let failed = self.risk.failed.get();
        [self.befallen.get(), self.now_ms() as u64, few, failed]
            .into_iter()
            .fold(self.live.0.get(), mixed)
    }

    pub(super) fn now_ms(&self) -> i64 {
        whole_ms(self.world.now())
    }

    pub(super) fn disk_operations(&self) -> u64 {
        self.world.disk_operations()
    }

    /// Something befell the disk, or a process died.
    pub(super) fn befall(&self, what: u64) {
        let done = mixed(what, self.disk_operations());
        self.befallen.set(mixed(self.befallen.get(), done));
    }

    /// The fault that this search is about has struck.
    pub(super) fn strike(&self) {
        self.risk.struck.set(true);
    }

    pub(super) fn break_invariant(&self, invariant: Invariant) {
        let mut broken = self.broken.get();
        broken.insert(invariant);
        self.broken.set(broken);
    }

    pub(super) fn mark(&self, invariant: Invariant) {
        let mut marks = self.marks.get();
        marks.insert(invariant);
        self.marks.set(marks);
    }

    /// The caller has an answer for good; `retried` when it had called in vain before.
    fn answer(&self, caller: usize, retried: bool) {
        self.answered.set(self.answered.get() | 1 << caller);
        if retried {
            self.mark(Invariant::RetryAnswered);
        }
    }

    pub(super) fn asked(&self, intention: usize) {
        let mut asked = self.asked.get();
        asked[intention] += 1;
        self.asked.set(asked);
    }

    /// The worker that serves the next request: the first idle one, started again if it was dead, or
    /// one that is at work, if the forks say so.
    pub(super) fn take_worker(&self) -> usize {
        let idle = self.workers.iter().position(Worker::is_idle);
        let idle = idle.expect("there are workers for all callers and faults");
        let busy = |&index: &usize| {
            let worker = &self.workers[index];
            !worker.is_idle() && worker.process.is_alive()
        };
        let busy: Vec<usize> = (0..self.workers.len() - self.pruners())
            .filter(busy)
            .collect();
        let taken = match busy.len() {
            0 => idle,
            others => match self.risk.forks.borrow().pick(1 + others) {
                0 => idle,
                other => busy[other - 1],
            },
        };
        self.workers[taken].enter();
        self.workers[taken].revive();
        taken
    }

    /// How many workers, the last ones, prune records and serve nobody.
    fn pruners(&self) -> usize {
        usize::from(self.case.class.fault == Fault::RecordPruned)
    }

    /// Lets a fault strike at a point that `process` has reached, if the forks say so.
    pub(super) fn strikes_at_point(&self, process: &Process) -> bool {
        match self.risk.strike(0) {
            None => return false,
            Some(DiskStrike::Kill) => process.kill(),
            Some(DiskStrike::PowerCut(loss)) => self.world.cut_power(loss),
        }
        true
    }

    pub(super) fn forget(&self) -> usize {
        let forget = |worker: &Worker| {
            let mut memory = worker.memory.borrow_mut();
            let forgotten = memory.len();
            memory.clear();
            forgotten
        };
        self.workers.iter().map(forget).sum()
    }

    pub(super) fn key(&self, request: Request) -> Option<Cow<'static, str>> {
        Some(match self.case.design.key {
            Key::None => return None,
            Key::Attempt => Cow::Owned(format!(
                "caller-{}-attempt-{}",
                request.caller + 1,
                request.attempt
            )),
            Key::Body => Cow::Borrowed(request.payload()),
            Key::Intention => Cow::Borrowed(INTENTION_KEYS[request.intention]),
        })
    }

    /// A worker gives this answer, whether or not it arrives.
    pub(super) fn give(&self, request: Request, answer: Answer, wrote: bool) {
        let given = mixed(request.number() << 1 | u64::from(wrote), answer.number());
        self.live.add(given);
        if !matches!(answer, Answer::Success(_) | Answer::Unknown) {
            self.mark(Invariant::RefusalWritesNothing);
            if wrote {
                self.break_invariant(Invariant::RefusalWritesNothing);
            }
        }
        self.given.borrow_mut().push(Given { request, answer });
    }

    /// Reads what is left and holds it to the invariants.
    fn audit(&self) -> Result<(), ExploreError> {
        let rows = self.rows()?;
        let intentions = self.intentions();
        if rows.tickets.len() > intentions {
            self.break_invariant(Invariant::OneEffect);
        }
        if self.asked.get().iter().any(|&asked| asked > 1) {
            self.mark(Invariant::OneEffect);
        }
        let mut named = [None; 2];
        for given in self.given.borrow().iter() {
            let Answer::Success(ticket) = given.answer else {
                continue;
            };
            let found = rows.tickets.iter().find(|&&(id, _)| id == ticket);
            if found.is_some() {
                self.mark(Invariant::Done);
            } else {
                self.break_invariant(Invariant::Done);
            }
            let before = named[given.request.intention].replace(ticket);
            if found.is_some_and(|&(_, changed)| changed != given.request.changed)
                || before.is_some_and(|before| before != ticket)
            {
                self.break_invariant(Invariant::SameTicket);
            } else if before.is_some() {
                self.mark(Invariant::SameTicket);
            }
        }
        if intentions == 2
            && let [Some(first), Some(second)] = named
        {
            self.mark(Invariant::TwoEffects);
            if first == second {
                self.break_invariant(Invariant::TwoEffects);
            }
        }
        if self.keeps_records() {
            let named = |&(ticket, _): &(i64, bool)| rows.records.contains(&Some(ticket));
            let is_there = |record: &Option<i64>| {
                record.is_some_and(|of| rows.tickets.iter().any(|&(ticket, _)| ticket == of))
            };
            // A claim names nothing yet, and is no record.
            let mut records = rows.records.iter().filter(|record| record.is_some());
            if !rows.tickets.iter().all(named) || !records.all(is_there) {
                self.break_invariant(Invariant::RecordWithEffect);
            } else if !rows.tickets.is_empty() {
                self.mark(Invariant::RecordWithEffect);
            }
        }
        Ok(())
    }

    fn intentions(&self) -> usize {
        1 + usize::from(self.case.class.fault == Fault::TwoIntentions)
    }

    fn keeps_records(&self) -> bool {
        self.case.design.records() && self.case.class.fault != Fault::RecordPruned
    }

    /// Whether the case can break this invariant at all.
    pub(super) fn asks_for(&self, invariant: Invariant) -> bool {
        match invariant {
            Invariant::RecordWithEffect => self.keeps_records(),
            Invariant::TwoEffects => self.intentions() == 2,
            _ => true,
        }
    }

    fn rows(&self) -> rusqlite::Result<Rows> {
        self.auditor.reopen(self.case.journal)?;
        let connection = self.auditor.connection();
        let mut rows = Rows::default();
        let mut statement = connection.prepare_cached("SELECT id, payload FROM tickets")?;
        let mut found = statement.query([])?;
        while let Some(row) = found.next()? {
            let changed = row.get_ref(1)?.as_str() == Ok(CHANGED_PAYLOAD);
            rows.tickets.push((row.get(0)?, changed));
        }
        let mut statement = connection.prepare_cached("SELECT response FROM requests")?;
        let mut found = statement.query([])?;
        while let Some(row) = found.next()? {
            rows.records.push(ticket_in(row.get_ref(0)?));
        }
        Ok(rows)
    }

    /// Lets every caller that has no answer call again, now that no fault strikes any more. True
    /// when there was one.
    fn settle(self: &Rc<Self>) -> Result<bool, ExploreError> {
        let mut settled = false;
        for caller in 0..self.callers.len() {
            if self.answered.get() & 1 << caller == 0 {
                settled = true;
                self.callers[caller].spawn(call_at_last(Rc::clone(self), caller));
                self.world.run_spawned(&mut Script::default())?;
                if self.answered.get() & 1 << caller == 0 {
                    self.break_invariant(Invariant::RetryAnswered);
                }
            }
        }
        Ok(settled)
    }

    /// The rows of both tables, and what happened.
    pub(super) fn evidence(&self) -> Result<(Vec<Table>, Trace), ExploreError> {
        let trace = self.world.trace();
        let connection = self.auditor.connection();
        let tables = ["tickets", "requests"].map(|name| Table::read(&connection, name));
        let [tickets, requests] = tables;
        Ok((vec![tickets?, requests?], trace))
    }

    /// Sends a request on its way, to become what the forks say. A request that arrives late is
    /// handed back.
    fn send(self: &Rc<Self>, request: Request) -> (Sent, Option<oneshot::Receiver<Answer>>) {
        let sent = match Sent::by(self.case.class.fault) {
            Some(sent) if self.risk.choose(1) > 0 => sent,
            _ => Sent::Delivered,
        };
        if sent != Sent::Delivered && self.case.class.fault != Fault::RecordPruned {
            self.strike();
        }
        let caller = &self.callers[request.caller];
        if self.world.is_watched() {
            caller.record(What::Called {
                tool: "create_ticket",
                key: self.key(request).map(Cow::into_owned),
                payload: request.payload().to_owned(),
            });
        }
        match sent {
            Sent::Late => (sent, None),
            Sent::RequestLost => {
                caller.record(What::Message {
                    to: self.workers[0].process.name(),
                    fate: Fate::Lost,
                });
                (sent, None)
            }
            Sent::ResponseLost => {
                Call::deliver(self, request, 0, None);
                (sent, None)
            }
            Sent::Delivered | Sent::Twice => {
                let (reply, told) = oneshot::channel();
                Call::deliver(self, request, 0, Some(reply));
                if sent == Sent::Twice {
                    Call::deliver(self, request, 1, None);
                }
                (sent, Some(told))
            }
        }
    }

    /// Sends a request and waits for what comes of it; `None` when nobody will answer. A late
    /// request arrives as soon as the next is sent.
    async fn call(self: &Rc<Self>, request: Request, late: &mut Option<Request>) -> Option<Answer> {
        let (sent, reply) = self.send(request);
        if let Some(earlier) = late.take() {
            Call::deliver(self, earlier, 2, None);
        }
        if sent == Sent::Late {
            *late = Some(request);
        }
        let caller = &self.callers[request.caller];
        let answer = match reply {
            None => None,
            // A worker that died at its work let go of the other end.
            Some(told) => Some(told.await.unwrap_or(Answer::Broken)),
        };
        if self.world.is_watched() {
            caller.record(match answer {
                Some(Answer::Success(ticket)) => What::Answered {
                    answer: response(ticket),
                },
                other => What::Failed {
                    error: match other {
                        Some(Answer::Conflict) => "conflict: the key has another payload",
                        Some(Answer::InProgress) => "the first call is still in progress",
                        Some(Answer::Failed) => "the database refused",
                        Some(Answer::Broken) => "the connection broke",
                        Some(Answer::Unknown) => "outcome unknown: the commit reported an error",
                        _ => "timeout: no answer arrived",
                    }
                    .to_owned(),
                },
            });
        }
        answer
    }
}

/// A caller: calls, and calls again while it has no answer, as often as the bounds say.
async fn call_and_retry(stage: Rc<Stage>, caller: usize) {
    let changes = stage.case.class.fault == Fault::ChangedPayload;
    let attempts = stage.case.bounds.attempts;
    let mut late = None;
    let mut failed = false;
    let mut history = caller as u64 + 1;
    stage.live.add(history);
    for attempt in 1..=attempts {
        let request = Request {
            caller,
            intention: caller % stage.intentions(),
            attempt,
            changed: changes && attempt > 1,
        };
        if attempt > 1 {
            stage.callers[caller].let_others_move().await;
        }
        let answer = stage.call(request, &mut late).await;
        let seen = match answer {
            None => 1 << 40,
            Some(answer) => answer.number(),
        };
        let next = mixed(history, seen);
        stage.live.replace(history, next);
        history = next;
        match answer {
            Some(Answer::Success(_) | Answer::Conflict) => {
                stage.answer(caller, failed);
                if !changes {
                    break;
                }
            }
            Some(Answer::InProgress) => {
                stage.world.pass(LEASE);
                failed = true;
            }
            _ => failed = true,
        }
    }
    if let Some(earlier) = late {
        Call::deliver(&stage, earlier, 2, None);
    }
    stage.returned.set(stage.returned.get() + 1);
}

/// A caller without an answer, when all faults are over.
async fn call_at_last(stage: Rc<Stage>, caller: usize) {
    for attempt in 1..=LAST_ATTEMPTS {
        stage.world.pass(LEASE);
        let request = Request {
            caller,
            intention: caller % stage.intentions(),
            attempt: stage.case.bounds.attempts + attempt,
            changed: false,
        };
        if let Some(Answer::Success(_)) = stage.call(request, &mut None).await {
            stage.answer(caller, true);
            return;
        }
    }
}

/// The response that names a ticket, as the lab's tool records it.
pub(super) fn response(ticket: i64) -> String {
    format!("{{\"ticket_id\":{ticket}}}")
}

/// The ticket that a recorded response names.
pub(super) fn ticket_in(response: ValueRef<'_>) -> Option<i64> {
    let text = response.as_str().ok()?;
    let digits = text.strip_prefix("{\"ticket_id\":")?.strip_suffix('}')?;
    // Not str::parse, which nothing else in the module needs for this type.
    digits.bytes().try_fold(0, |number, digit| {
        let digit = i64::from(digit.checked_sub(b'0').filter(|&digit| digit < 10)?);
        Some(number * 10 + digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_end_where_the_integers_of_sqlite_end() {
        assert_eq!(whole_ms(Duration::from_micros(1_999)), 1);
        assert_eq!(whole_ms(Duration::MAX), i64::MAX);
    }
}
