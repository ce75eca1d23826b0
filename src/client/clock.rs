use std::future::Future;
use std::time::Duration;

/// Where a client gets the time, and what it waits on.
pub trait Clock {
    /// Time since some fixed moment of this clock. It may jump forward; it never goes back.
    fn now(&self) -> Duration;

    /// Time since the Unix epoch, which the dates in HTTP headers are compared with.
    fn since_epoch(&self) -> Duration;

    /// Waits until [`Clock::now`] has moved on by `duration` or more. A `duration` of zero may end
    /// at once. The wait must bear to be polled early, beside other futures of the same task, and
    /// to be dropped before its end.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()>;
}
