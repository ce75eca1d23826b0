use std::fmt;
use std::future::Future;

use rusqlite::Connection;

use crate::key::KeyError;
use crate::sim::trace::{Trace, What};
use crate::sim::{Host, Point, Process, Script, Strike, World, WorldError};
use crate::tool::ToolError;

/// The file that every process of a scenario opens.
pub(super) const DATABASE: &str = "tickets.db";

/// Where a scenario plays: the simulated world, or, to test that world's truth, real files and
/// threads.
pub trait Stage {
    /// The process that a tool runs in.
    type Host: Host;

    /// Starts a process with a connection of its own to the scenario's database, and runs it alone
    /// until it has opened what it works with.
    ///
    /// # Errors
    ///
    /// What SQLite says, or [`RunError`] when it came to no end.
    fn enter<T>(
        &self,
        process: &str,
        open: impl AsyncFnOnce(Connection, Self::Host) -> rusqlite::Result<T>,
    ) -> Result<T, RunError>;

    /// Places an error at the `visit`-th time, from 1, that `process` passes `point`.
    fn fail_at(&self, process: &str, point: Point, visit: u32);

    /// Runs one process alone until `work` is done.
    ///
    /// # Errors
    ///
    /// [`RunError`] when it came to no end.
    fn run<T>(&self, host: &Self::Host, work: impl Future<Output = T>) -> Result<T, RunError>;

    /// Enters one process a name, lets `work` prepare each, and then releases all of them at
    /// once; results in the order of the names.
    ///
    /// # Errors
    ///
    /// [`RunError`] when one could not enter or came to no end.
    fn run_together<T, F>(
        &self,
        names: &[String],
        work: impl Fn(Connection, Self::Host) -> F + Sync,
    ) -> Result<Vec<T>, RunError>
    where
        T: Send,
        F: Future<Output = T>;

    /// Adds what a process did to the trace.
    fn record(host: &Self::Host, what: What);

    /// What happened, as far as this stage can see it: at least what was recorded, the faults that
    /// struck and the waits for a lock.
    fn trace(&self) -> Trace;
}

/// Why a scenario gave no outcome.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunError {
    /// The world came to no end.
    World(WorldError),
    /// SQLite refused outside the tool.
    Database(rusqlite::Error),
    /// A call that had to succeed for the scenario to go on did not.
    Call(ToolError),
    /// What a scenario derives a key from names nothing.
    Key(KeyError),
    /// A process died that no scenario kills, or waits for what never comes.
    NoEnd,
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::World(error) => error.fmt(f),
            Self::Database(error) => write!(f, "database: {error}"),
            Self::Call(error) => write!(f, "a call failed that had to succeed: {error}"),
            Self::Key(error) => error.fmt(f),
            Self::NoEnd => f.write_str("a process died or hangs that was to come to an end"),
        }
    }
}

impl std::error::Error for RunError {}

impl From<WorldError> for RunError {
    fn from(error: WorldError) -> Self {
        Self::World(error)
    }
}

impl From<rusqlite::Error> for RunError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error)
    }
}

impl From<KeyError> for RunError {
    fn from(error: KeyError) -> Self {
        Self::Key(error)
    }
}

impl From<ToolError> for RunError {
    fn from(error: ToolError) -> Self {
        Self::Call(error)
    }
}

impl Stage for World {
    type Host = Process;

    fn enter<T>(
        &self,
        process: &str,
        open: impl AsyncFnOnce(Connection, Process) -> rusqlite::Result<T>,
    ) -> Result<T, RunError> {
        let process = self.start(process);
        let opens = open(process.connect(DATABASE)?, process.clone());
        let opened = World::run(self, &process, opens)?;
        Ok(opened.ok_or(RunError::NoEnd)??)
    }

    fn fail_at(&self, process: &str, point: Point, visit: u32) {
        self.strike(process, point, visit, Strike::Fail);
    }

    fn run<T>(&self, host: &Process, work: impl Future<Output = T>) -> Result<T, RunError> {
        World::run(self, host, work)?.ok_or(RunError::NoEnd)
    }

    fn run_together<T, F>(
        &self,
        names: &[String],
        work: impl Fn(Connection, Process) -> F + Sync,
    ) -> Result<Vec<T>, RunError>
    where
        T: Send,
        F: Future<Output = T>,
    {
        let mut callers = Vec::new();
        for name in names {
            let process = self.start(name);
            let work = work(process.connect(DATABASE)?, process.clone());
            callers.push((process, work));
        }
        World::run_together(self, callers, &mut Script::default())?
            .into_iter()
            .map(|result| result.ok_or(RunError::NoEnd))
            .collect()
    }

    fn record(host: &Process, what: What) {
        host.record(what);
    }

    fn trace(&self) -> Trace {
        World::trace(self)
    }
}
