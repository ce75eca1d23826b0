use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode};

use super::Host;

/// Waiting for locks as SQLite does, on a simulated disk and on real files alike: without blocking.
///
/// SQLite asks a connection's busy handler only where waiting can help
/// (<https://www.sqlite.org/c3ref/busy_handler.html>): a reader that wants to write while another
/// connection has RESERVED or PENDING is refused at once, since that one may be waiting for the
/// reader. The handler put here notes that it was asked and gives up; the wait comes after, at an
/// await, and the statement is run again.
///
/// A real waiter at the commit of a statement that stands alone keeps its locks meanwhile, where this
/// one gives them back. Run such a statement between `BEGIN` and `COMMIT`, each with
/// [`LockWait::run`].
#[derive(Clone)]
pub struct LockWait {
    asked: Arc<AtomicBool>,
    limit: Duration,
}

impl fmt::Debug for LockWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LockWait({:?})", self.limit)
    }
}

impl LockWait {
    /// Puts the handler on a connection, in the place of the one that it has. Each wait lasts
    /// `limit` at most, unless [`Host::busy_timeout`] says otherwise.
    ///
    /// # Errors
    ///
    /// What SQLite says.
    pub fn on(connection: &mut Connection, limit: Duration) -> rusqlite::Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        let noted = Arc::clone(&asked);
        connection.busy_handler(Some(move |_| {
            noted.store(true, Ordering::Relaxed);
            false
        }))?;
        Ok(Self { asked, limit })
    }

    /// When a wait that begins now ends, on the scale of [`Host::now`].
    pub fn deadline(&self, host: &impl Host) -> Duration {
        let limit = host.busy_timeout().unwrap_or(self.limit);
        host.now().saturating_add(limit)
    }

    /// Makes `attempt`, again and again where SQLite would wait, until `deadline`.
    ///
    /// # Errors
    ///
    /// What `attempt` ends in: SQLITE_BUSY at once where SQLite would not wait, and at the deadline
    /// where it would.
    pub async fn run<T>(
        &self,
        host: &impl Host,
        deadline: Duration,
        mut attempt: impl FnMut() -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        loop {
            self.asked.store(false, Ordering::Relaxed);
            match attempt() {
                Err(error)
                    if is_busy(&error)
                        && self.asked.load(Ordering::Relaxed)
                        && host.now() < deadline =>
                {
                    host.lock_freed(deadline).await;
                }
                result => return result,
            }
        }
    }

    /// Whether SQLite would have waited in the last attempt.
    pub fn was_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }
}

/// Whether another connection has the lock.
pub fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
}
