use std::cell::Cell;
use std::time::Duration;

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
