use std::fmt;
use std::future::Future;
use std::time::Duration;

/// A named place in a call: the schedule may let others move there, and a fault may strike there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point(
    /// The name, in snake case, as it stands in a trace.
    pub &'static str,
);

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// A fault struck at a point; the code that reached it decides what its caller sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Struck {
    /// Where it struck.
    pub point: Point,
}

/// What a tool needs of whoever runs it. The simulated world is one host; a process on real files,
/// where waiting sleeps, is another.
pub trait Host {
    /// Passes a named point. Others may move before it returns.
    ///
    /// # Errors
    ///
    /// [`Struck`] when a fault was placed here. A host may also never return, when the process is
    /// killed at this point.
    fn reach(&self, point: Point) -> impl Future<Output = Result<(), Struck>>;

    /// Time since some fixed moment of this host; never goes back.
    fn now(&self) -> Duration;

    /// What SQL that this host has seen sets as the limit of a wait for a lock, with
    /// `PRAGMA busy_timeout`. On real files SQLite acts on it itself.
    fn busy_timeout(&self) -> Option<Duration> {
        None
    }

    /// Waits, where SQLite would wait for a lock, until it may be had or `deadline` (on the
    /// scale of [`Host::now`]) has come. It may return early; the caller tries again.
    fn lock_freed(&self, deadline: Duration) -> impl Future<Output = ()>;

    /// Waits for `turn`, for which another call on the same connection must end. `None` when
    /// `deadline` (on the scale of [`Host::now`]) came first.
    fn turn<T>(
        &self,
        turn: impl Future<Output = T>,
        deadline: Duration,
    ) -> impl Future<Output = Option<T>>;
}
