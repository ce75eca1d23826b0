//! The disk-error sweep: every access of the disk fails once, and from then on, with every error that
//! it can end in.
//!
//! Unlike a kill or a power cut, an error leaves the process alive: it has to roll back, tell its caller
//! the truth and serve the retry.

use std::cell::RefCell;

use crate::json::Value;
use crate::key::OperationKey;
use crate::sim::disk::{DiskError, DiskStrike, Failing, Lasting, Loss};
use crate::sim::{Process, World};
use crate::tool::ToolError;
use crate::tool::tickets::{Ticket, TicketDesk};

use super::{RunError, Witness};

type Desk = TicketDesk<Process>;

const DATABASE: &str = "tickets.db";

/// The disk operation of a call, counted from its first, with which it commits: the journal's deletion.
const COMMITS: u64 = 23;

/// What the disk's errors are put to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stretch {
    /// One call on a desk that is open.
    Call,
    /// The opening of a desk on an empty disk, its tables included.
    Opening,
    /// The opening of a desk whose process was killed at its commit, and the rollback of the journal
    /// that this left.
    Recovery,
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
    /// Whether the disk failed.
    pub(super) struck: bool,
    pub(super) told: Told,
    /// Whether the ticket was there before the retry.
    pub(super) done_before_retry: bool,
    /// Whether the process that failed is the one that retried.
    pub(super) same_process: bool,
    /// Whether a power cut after the retry's answer took ticket or record away.
    pub(super) undone_by_power: bool,
    /// What did not hold, in words.
    broken: Option<String>,
}

/// What all runs of a sweep came to: accesses by errors, once and from then on, by aftermaths.
#[derive(Debug)]
pub(super) struct Sweep {
    /// Accesses of the undisturbed run.
    pub(super) accesses: u64,
    runs: Vec<Swept>,
}

impl Sweep {
    /// How many runs are what is asked for.
    pub(super) fn count(&self, is_it: impl Fn(&Swept) -> bool) -> u64 {
        self.runs.iter().filter(|run| is_it(run)).count() as u64
    }

    /// How many of them broke something.
    pub(super) fn broken(&self, is_it: impl Fn(&Swept) -> bool) -> u64 {
        self.count(|run| run.broken.is_some() && is_it(run))
    }
}

impl Witness for Sweep {
    type Event = Swept;

    fn count(&self, is_it: &dyn Fn(&Swept) -> bool) -> usize {
        self.runs.iter().filter(|run| is_it(run)).count()
    }
}

/// Puts `stretch` to every error of the disk that is `wanted`.
pub(super) fn sweep(
    stretch: Stretch,
    wanted: fn(DiskError) -> bool,
    payload: &Value,
    key: &OperationKey,
) -> Result<Sweep, RunError> {
    let operation = Operation {
        stretch,
        payload,
        key,
    };
    let undisturbed = Run::prepare(&operation)?;
    let before = undisturbed.world.disk_accesses();
    undisturbed.world.keep_disk_log();
    undisturbed.attempt()?.1?;
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

    /// What does not hold of this: one ticket and one record in the end, a sound database, the truth in
    /// the first answer, and its ticket in the second.
    fn broken(&self) -> Option<String> {
        let done = match self.before_retry {
            (0, 0) => false,
            (1, 1) => true,
            rows => return Some(format!("{rows:?} rows before the retry")),
        };
        let told_the_truth = match &self.first {
            Ok(ticket) => done && *ticket == self.retry,
            Err(_) => self.told() == Told::Unknown || !done,
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
    payload: &'a Value,
    key: &'a OperationKey,
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
        if operation.stretch != Stretch::Opening {
            run.desk.replace(Some(run.open(&run.process)?));
        }
        if operation.stretch != Stretch::Recovery {
            return Ok(run);
        }
        let before = run.world.disk_operations();
        run.world.strike_disk(before + COMMITS, DiskStrike::Kill);
        let desk = run.desk.take().ok_or(RunError::NoEnd)?;
        if run.world.run(&run.process, run.request(&desk))?.is_some() {
            return Err(RunError::NoEnd);
        }
        drop(desk);
        Ok(Self {
            process: run.world.start("agent"),
            ..run
        })
    }

    fn swept(self, place: &Place, aftermath: Aftermath) -> Swept {
        match self.fail_and_retry(place, aftermath) {
            Ok(observed) => Swept {
                struck: observed.struck,
                told: observed.told(),
                done_before_retry: observed.before_retry.0 > 0,
                same_process: aftermath == Aftermath::SameProcess,
                undone_by_power: observed.after_power_cut != observed.after_retry,
                broken: observed.broken(),
            },
            Err(error) => Swept {
                struck: self.world.disk_failures() > 0,
                told: Told::Nothing,
                done_before_retry: false,
                same_process: aftermath == Aftermath::SameProcess,
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
        let before_retry = rows(&desk)?;
        let retry = self.call(&desk)?;
        drop(desk);
        let observer = self.open(&self.world.start("observer"))?;
        let integrity = observer
            .connection()
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
        let after_retry = rows(&observer)?;
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
            after_power_cut: rows(&observer)?,
        })
    }

    /// Opens the desk, unless it is open, and calls it.
    fn attempt(&self) -> Result<(Option<Desk>, Result<Ticket, ToolError>), RunError> {
        let work = async {
            let desk = match self.desk.take() {
                Some(desk) => desk,
                None => match opened(&self.process).await {
                    Ok(desk) => desk,
                    Err(error) => return (None, Err(error.into())),
                },
            };
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
        let done = self.world.run(process, opened(process))?;
        Ok(done.ok_or(RunError::NoEnd)??)
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

async fn opened(process: &Process) -> rusqlite::Result<Desk> {
    let desk = TicketDesk::open(process.connect(DATABASE)?, process.clone()).await?;
    desk.create_tables().await?;
    Ok(desk)
}

/// How many tickets and replay records there are.
fn rows(desk: &Desk) -> rusqlite::Result<(i64, i64)> {
    let count = |sql| desk.connection().query_row(sql, [], |row| row.get(0));
    Ok((
        count("SELECT count(*) FROM tickets")?,
        count("SELECT count(*) FROM requests")?,
    ))
}
