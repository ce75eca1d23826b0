//! The disk-error sweep: every access of the disk fails once, and from then on, with every error that
//! it can end in.
//!
//! Unlike a kill or a power cut, an error leaves the process alive: it has to roll back, tell its caller
//! the truth and serve the retry.

use std::cell::RefCell;

use crate::json::Value;
use crate::key::OperationKey;
use crate::sim::disk::{DiskError, DiskStrike, Failing, Lasting, Loss};
use crate::sim::{Journal, Process, World};
use crate::tool::ToolError;
use crate::tool::tickets::{Ticket, TicketDesk};

use super::RunError;
use crate::outcome::{Checks, Premise, Witness};

type Desk = TicketDesk<Process>;

const DATABASE: &str = "tickets.db";

/// What SQLite does by itself once the WAL is long, and when the last connection is closed.
const CHECKPOINT: &str = "PRAGMA wal_checkpoint(TRUNCATE)";

/// What the disk's errors are put to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stretch {
    /// One call on a desk that is open.
    Call,
    /// The opening of a desk on an empty disk, its tables included.
    Opening,
    /// The opening of a desk whose process was killed at its commit, and the rollback of the journal
    /// that this left, or its reading of the WAL.
    Recovery,
    /// A checkpoint of the WAL, with another ticket in it, and then one call on the same desk.
    Checkpoint,
}

/// What comes between a failed run and its retry. The disk is whole again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Aftermath {
    /// The same desk retries.
    SameProcess,
    /// The process is killed, and a new one retries.
    NewProcess,
    /// The power fails, what was not synced is lost, and a new process retries.
    PowerCut,
}

/// What a caller was told in one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    /// An answer.
    Answer,
    /// That nothing was done.
    NotDone,
    /// That nobody knows.
    Unknown,
    /// Nothing came of the run: what had to open or to answer did not.
    Nothing,
}

impl Told {
    pub(super) fn is_answered(self) -> bool {
        self == Self::Answer
    }

    pub(super) fn is_not_done(self) -> bool {
        self == Self::NotDone
    }

    pub(super) fn is_unknown(self) -> bool {
        self == Self::Unknown
    }
}

/// One run of a sweep.
#[derive(Debug)]
pub(super) struct Swept {
    pub(super) journal: Journal,
    /// Whether the disk failed.
    pub(super) struck: bool,
    pub(super) told: Told,
    /// Whether the ticket was there before the retry.
    pub(super) done_before_retry: bool,
    /// Whether the process that failed is the one that retried.
    pub(super) same_process: bool,
    /// Whether the power failed before the retry.
    pub(super) after_power_cut: bool,
    /// Whether what was answered for was gone before the retry.
    pub(super) lost: bool,
    /// Whether a power cut after the retry's answer took ticket or record away.
    pub(super) undone_by_power: bool,
    /// What did not hold, in words.
    broken: Option<String>,
}

/// What all runs of a sweep, or of several, came to: accesses by errors, once and from then on, by aftermaths.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    /// Accesses of the undisturbed run.
    accesses: u64,
    runs: Vec<Swept>,
}

impl Sweep {
    /// How many runs are what is asked for.
    pub(super) fn count(&self, is_it: impl Fn(&Swept) -> bool) -> u64 {
        self.runs.iter().filter(|run| is_it(run)).count() as u64
    }

    /// How many runs broke something.
    pub(super) fn broken(&self) -> u64 {
        self.broken_when(|_| true)
    }

    fn broken_when(&self, is_it: impl Fn(Told) -> bool) -> u64 {
        self.count(|run| run.broken.is_some() && is_it(run.told))
    }

    /// Adds the runs of another sweep.
    pub(super) fn join(&mut self, other: Self) {
        self.accesses += other.accesses;
        self.runs.extend(other.runs);
    }

    /// That whatever a caller was told is true, and that the retry leaves one ticket and one record. `answered` says what an
    /// answer is worth.
    pub(super) fn check(&self, answered: &str, checks: &mut Checks) {
        let struck = |what: &str, is_it: fn(Told) -> bool| {
            Premise::happened(self, what, 1, |run| run.struck && is_it(run.told))
        };
        checks.check(
            struck(
                "the disk failed, and the call was answered",
                Told::is_answered,
            ),
            answered,
            0,
            self.broken_when(Told::is_answered),
        );
        checks.check(
            struck("the disk failed, and nothing was done", Told::is_not_done),
            "what is told as not done is not there, and the retry does it once",
            0,
            self.broken_when(Told::is_not_done),
        );
        checks.check(
            struck("the disk failed in the commit", Told::is_unknown),
            "what nobody knows is whole or absent, and the retry leaves one",
            0,
            self.broken_when(Told::is_unknown),
        );
        checks.check(
            Premise::happened(self, "the disk failed", 1, |run| run.struck),
            "each run comes to its end",
            0,
            self.broken_when(|told| told == Told::Nothing),
        );
    }

    /// The counts that every sweep records.
    pub(super) fn values(&self) -> [(&'static str, Value); 7] {
        let told = |is_it: fn(Told) -> bool| self.count(|run| is_it(run.told)).into();
        let unknown_and_done = self.count(|run| run.told.is_unknown() && run.done_before_retry);
        [
            ("accesses", self.accesses.into()),
            ("runs", self.count(|_| true).into()),
            ("answered", told(Told::is_answered)),
            ("not_done", told(Told::is_not_done)),
            ("unknown", told(Told::is_unknown)),
            ("unknown_and_done", unknown_and_done.into()),
            ("broken", self.broken().into()),
        ]
    }
}

impl Witness for Sweep {
    type Event = Swept;

    fn count(&self, is_it: &dyn Fn(&Swept) -> bool) -> usize {
        self.runs.iter().filter(|run| is_it(run)).count()
    }
}

/// Puts `stretch`, with such a journal, to every error of the disk that is `wanted`.
pub(super) fn sweep(
    stretch: Stretch,
    journal: Journal,
    wanted: fn(DiskError) -> bool,
    payload: &Value,
    key: &OperationKey,
) -> Result<Sweep, RunError> {
    let mut operation = Operation {
        stretch: Stretch::Call,
        journal,
        payload,
        key,
        commits: 0,
        done_already: false,
    };
    operation.commits = Run::prepare(&operation)?.operations_of_a_call()?;
    operation.stretch = stretch;
    operation.done_already = stretch == Stretch::Recovery && Run::prepare(&operation)?.is_done()?;
    let undisturbed = Run::prepare(&operation)?;
    let before = undisturbed.world.disk_accesses();
    undisturbed.world.keep_disk_log();
    let (_open, answer) = undisturbed.attempt()?;
    answer?;
    let accesses = undisturbed.world.take_disk_log();
    let mut runs = Vec::new();
    let count = accesses.len() as u64;
    for (number, access) in (before + 1..).zip(accesses) {
        for failing in access.failings().filter(|one| wanted(one.error)) {
            for lasting in [Lasting::Once, Lasting::FromThenOn] {
                let place = Place {
                    number,
                    failing,
                    lasting,
                };
                let aftermaths = match lasting {
                    Lasting::Once => &AFTERMATHS[..],
                    // What fails from then on fails the rollback too: a new process finds its rest.
                    Lasting::FromThenOn => &[Aftermath::NewProcess],
                };
                for &aftermath in aftermaths {
                    runs.push(Run::prepare(&operation)?.swept(&place, aftermath));
                }
            }
        }
    }
    Ok(Sweep {
        accesses: count,
        runs,
    })
}

impl Observed {
    fn told(&self) -> Told {
        match &self.first {
            Ok(_) => Told::Answer,
            Err(error) if error.may_have_taken_effect() => Told::Unknown,
            Err(_) => Told::NotDone,
        }
    }

    /// Whether what was answered for is gone.
    fn lost(&self) -> bool {
        self.first.is_ok() && self.before_retry == (0, 0)
    }

    /// What does not hold of this: one ticket and one record in the end, a sound database, the truth in
    /// the first answer, and its ticket in the second.
    fn broken(&self, operation: &Operation<'_>, aftermath: Aftermath) -> Option<String> {
        let done = match self.before_retry {
            (0, 0) => false,
            (1, 1) => true,
            rows => return Some(format!("{rows:?} rows before the retry")),
        };
        let told_the_truth = match &self.first {
            Ok(_) if self.lost() => {
                operation.journal == Journal::WalNormal && aftermath == Aftermath::PowerCut
            }
            Ok(ticket) => *ticket == self.retry,
            Err(_) => self.told() == Told::Unknown || !done || operation.done_already,
        };
        if !told_the_truth {
            return Some(format!("told {:?}, and then {:?}", self.first, self.retry));
        }
        match (self.after_retry, &*self.integrity) {
            ((1, 1), "ok") => None,
            left => Some(format!("{left:?} rows and integrity in the end")),
        }
    }
}

/// What was seen around one failing.
struct Observed {
    struck: bool,
    first: Result<Ticket, ToolError>,
    /// Tickets and replay records.
    before_retry: (i64, i64),
    retry: Ticket,
    after_retry: (i64, i64),
    integrity: String,
    /// The rows once the power failed after all this, and what was not synced was lost.
    after_power_cut: (i64, i64),
}

const AFTERMATHS: [Aftermath; 3] = [
    Aftermath::SameProcess,
    Aftermath::NewProcess,
    Aftermath::PowerCut,
];

#[derive(Debug, Clone, Copy)]
struct Operation<'a> {
    stretch: Stretch,
    journal: Journal,
    payload: &'a Value,
    key: &'a OperationKey,
    /// The disk operation of a call, counted from its first, with which it commits: the last one, which deletes the rollback
    /// journal, or writes the end of the commit to the WAL or syncs that.
    commits: u64,
    /// In a recovery: the killed call had taken effect.
    done_already: bool,
}

#[derive(Debug)]
struct Place {
    number: u64,
    failing: Failing,
    lasting: Lasting,
}

/// A world in which the stretch is still to come.
struct Run<'a> {
    operation: &'a Operation<'a>,
    world: World,
    process: Process,
    /// Where it is open before the stretch begins.
    desk: RefCell<Option<Desk>>,
}

impl<'a> Run<'a> {
    fn prepare(operation: &'a Operation<'a>) -> Result<Self, RunError> {
        let world = World::unwatched();
        let run = Self {
            operation,
            process: world.start("agent"),
            world,
            desk: RefCell::default(),
        };
        if operation.stretch == Stretch::Opening {
            return Ok(run);
        }
        let desk = run.open(&run.process)?;
        match operation.stretch {
            Stretch::Opening | Stretch::Call => {}
            Stretch::Recovery => return run.killed_at_commit(desk),
            Stretch::Checkpoint => {
                let another = OperationKey::new("another-operation")?;
                let call = desk.create_ticket(operation.payload, Some(&another));
                run.world
                    .run(&run.process, call)?
                    .ok_or(RunError::NoEnd)??;
            }
        }
        run.desk.replace(Some(desk));
        Ok(run)
    }

    /// The call is killed at its commit, and a new process comes.
    fn killed_at_commit(self, desk: Desk) -> Result<Self, RunError> {
        let before = self.world.disk_operations();
        let commits = before + self.operation.commits;
        self.world.strike_disk(commits, DiskStrike::Kill);
        if self
            .world
            .run(&self.process, self.request(&desk))?
            .is_some()
        {
            return Err(RunError::NoEnd);
        }
        drop(desk);
        Ok(Self {
            process: self.world.start("agent"),
            ..self
        })
    }

    fn operations_of_a_call(&self) -> Result<u64, RunError> {
        let before = self.world.disk_operations();
        // A desk that is dropped closes its connection, which may be work for the disk.
        let (_open, answer) = self.attempt()?;
        answer?;
        Ok(self.world.disk_operations() - before)
    }

    fn is_done(&self) -> Result<bool, RunError> {
        Ok(self.rows(&self.open(&self.process)?)? != (0, 0))
    }

    fn swept(self, place: &Place, aftermath: Aftermath) -> Swept {
        match self.fail_and_retry(place, aftermath) {
            Ok(observed) => Swept {
                journal: self.operation.journal,
                struck: observed.struck,
                told: observed.told(),
                done_before_retry: observed.before_retry.0 > 0,
                same_process: aftermath == Aftermath::SameProcess,
                after_power_cut: aftermath == Aftermath::PowerCut,
                undone_by_power: observed.after_power_cut != observed.after_retry,
                broken: observed.broken(self.operation, aftermath),
                lost: observed.lost(),
            },
            Err(error) => Swept {
                journal: self.operation.journal,
                struck: self.world.disk_failures() > 0,
                told: Told::Nothing,
                done_before_retry: false,
                same_process: aftermath == Aftermath::SameProcess,
                after_power_cut: aftermath == Aftermath::PowerCut,
                lost: false,
                undone_by_power: false,
                broken: Some(error.to_string()),
            },
        }
    }

    fn fail_and_retry(&self, place: &Place, aftermath: Aftermath) -> Result<Observed, RunError> {
        self.world
            .fail_disk(place.number, place.failing, place.lasting);
        let (desk, first) = self.attempt()?;
        self.world.repair_disk();
        let struck = self.world.disk_failures() > 0;
        let desk = self.after(aftermath, desk)?;
        let before_retry = self.rows(&desk)?;
        let retry = self.call(&desk)?;
        drop(desk);
        let observer = self.open(&self.world.start("observer"))?;
        let integrity = observer
            .connection()
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
        let after_retry = self.rows(&observer)?;
        drop(observer);
        self.world.cut_power(Loss::Everything);
        let observer = self.open(&self.world.start("observer"))?;
        Ok(Observed {
            struck,
            first,
            before_retry,
            retry,
            after_retry,
            integrity,
            after_power_cut: self.rows(&observer)?,
        })
    }

    /// Opens the desk, unless it is open, and calls it.
    fn attempt(&self) -> Result<(Option<Desk>, Result<Ticket, ToolError>), RunError> {
        let work = async {
            let desk = match self.desk.take() {
                Some(desk) => desk,
                None => match opened(&self.process, self.operation.journal).await {
                    Ok(desk) => desk,
                    Err(error) => return (None, Err(error.into())),
                },
            };
            if self.operation.stretch == Stretch::Checkpoint {
                // It may fail: nothing waits for it.
                let _ = desk.connection().execute_batch(CHECKPOINT);
            }
            let answer = self.request(&desk).await;
            (Some(desk), answer)
        };
        let done = self.world.run(&self.process, work)?;
        done.ok_or(RunError::NoEnd)
    }

    async fn request(&self, desk: &Desk) -> Result<Ticket, ToolError> {
        let Operation { payload, key, .. } = self.operation;
        desk.create_ticket(payload, Some(key)).await
    }

    /// Calls a desk that has to answer.
    fn call(&self, desk: &Desk) -> Result<Ticket, RunError> {
        let done = self.world.run(desk.host(), self.request(desk))?;
        Ok(done.ok_or(RunError::NoEnd)??)
    }

    /// Opens a desk, which has to succeed.
    fn open(&self, process: &Process) -> Result<Desk, RunError> {
        let done = self
            .world
            .run(process, opened(process, self.operation.journal))?;
        Ok(done.ok_or(RunError::NoEnd)??)
    }

    /// How many tickets and replay records of the key there are. Every other record has a ticket of its own.
    fn rows(&self, desk: &Desk) -> rusqlite::Result<(i64, i64)> {
        let key = self.operation.key.as_str();
        let count = |sql| desk.connection().query_row(sql, [key], |row| row.get(0));
        Ok((
            count(
                "SELECT (SELECT count(*) FROM tickets) - (SELECT count(*) FROM requests WHERE key <> ?1)",
            )?,
            count("SELECT count(*) FROM requests WHERE key = ?1")?,
        ))
    }

    /// The desk that retries.
    fn after(&self, aftermath: Aftermath, desk: Option<Desk>) -> Result<Desk, RunError> {
        match (aftermath, desk) {
            (Aftermath::SameProcess, Some(desk)) => return Ok(desk),
            (Aftermath::SameProcess, None) => return self.open(&self.process),
            (Aftermath::NewProcess, _) => self.process.kill(),
            (Aftermath::PowerCut, _) => self.world.cut_power(Loss::Everything),
        }
        self.open(&self.world.start("agent"))
    }
}

async fn opened(process: &Process, journal: Journal) -> rusqlite::Result<Desk> {
    let connection = process.connect(DATABASE)?;
    if journal.is_wal() {
        journal.set(&connection)?;
    }
    let desk = TicketDesk::open(connection, process.clone()).await?;
    if journal.is_wal() {
        desk.connection().execute_batch(journal.synchronous())?;
    }
    desk.create_tables().await?;
    Ok(desk)
}
