use std::cell::Cell;
use std::time::Duration;

/// When a world begins: 1 January 2026, 00:00:00 UTC, since the Unix epoch.
const WORLD_BEGINS: Duration = Duration::from_secs(1_767_225_600);

/// The virtual clock: time since the world began. It moves only when told to.
#[derive(Debug, Default)]
pub struct Clock {
    now: Cell<Duration>,
}

impl Clock {
    /// Time since the world began.
    pub fn now(&self) -> Duration {
        self.now.get()
    }

    /// What a wall clock shows: time since the Unix epoch.
    pub fn since_epoch(&self) -> Duration {
        WORLD_BEGINS.saturating_add(self.now())
    }

    /// Moves the clock on by `step`; it stops at `Duration::MAX` rather than overflow.
    pub fn advance(&self, step: Duration) {
        self.now.set(self.now.get().saturating_add(step));
    }

    /// Begins again at time zero.
    pub(super) fn restart(&self) {
        self.now.set(Duration::ZERO);
    }

    /// Moves the clock on to `then`; a time that is past changes nothing.
    pub fn advance_to(&self, then: Duration) {
        self.now.set(self.now.get().max(then));
    }
}
