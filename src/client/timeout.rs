use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use super::Clock;

/// No answer came in time. Whether the call took effect is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elapsed {
    /// The time that the call had.
    pub limit: Duration,
}

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no answer within {} ms", millis(self.limit))
    }
}

impl std::error::Error for Elapsed {}

/// Runs `work` for at most `limit` by `clock`; then drops it.
///
/// The work is polled before the clock: it always begins, even with a limit of zero, and an answer
/// that is there when time is up still counts.
///
/// # Errors
///
/// [`Elapsed`] when time was up first.
pub async fn timeout<C: Clock, T>(
    clock: &C,
    limit: Duration,
    work: impl Future<Output = T>,
) -> Result<T, Elapsed> {
    let mut work = pin!(work);
    let mut time_is_up = pin!(clock.sleep(limit));
    poll_fn(|context| {
        if let Poll::Ready(done) = work.as_mut().poll(context) {
            return Poll::Ready(Ok(done));
        }
        time_is_up
            .as_mut()
            .poll(context)
            .map(|()| Err(Elapsed { limit }))
    })
    .await
}

/// Whole milliseconds for a message.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
