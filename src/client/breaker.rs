use std::cell::Cell;
use std::error::Error;
use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use super::{Class, Clock, Effect, Failure, Health};

/// A circuit breaker: what callers of one dependency share, so that none of them keeps calling a
/// service that is down.
///
/// Failures in a row are counted; at the threshold the breaker opens, and calls fail at once until
/// the cool-down is over. Then one call at a time goes through as a trial. Its success closes the
/// breaker and zeroes the count; its failure opens the breaker again for a whole cool-down.
///
/// A call that was admitted before the breaker last opened tells of a time that is over: its
/// result, good or bad, changes nothing.
///
/// Use one breaker for each dependency. It is shared by reference, within one thread.
#[derive(Debug)]
pub struct Breaker {
    threshold: NonZeroU32,
    cool_down: Duration,
    circuit: Cell<Circuit>,
    /// How often the breaker has opened.
    openings: Cell<u64>,
}

#[derive(Debug, Clone, Copy)]
enum Circuit {
    Closed {
        /// invariant: below the threshold
        failures: u32,
    },
    Open {
        until: Duration,
        /// Whether a permit for a trial is out.
        trial: bool,
    },
}

/// What a [`Breaker`] does with the next call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It lets every call through.
    Closed {
        /// How many calls in a row have failed; below the threshold.
        failures: u32,
    },
    /// It lets no call through.
    Open {
        /// When the cool-down is over, on the scale of [`Clock::now`].
        until: Duration,
    },
    /// The cool-down is over: it lets one call through as a trial, unless one is under way.
    HalfOpen,
}

impl Breaker {
    /// A closed breaker that opens after `threshold` failures in a row, for `cool_down`.
    pub fn new(threshold: NonZeroU32, cool_down: Duration) -> Self {
        Self {
            threshold,
            cool_down,
            circuit: Cell::new(Circuit::Closed { failures: 0 }),
            openings: Cell::new(0),
        }
    }

    /// The state at the time `now`, on the scale of [`Clock::now`].
    pub fn state(&self, now: Duration) -> State {
        match self.circuit.get() {
            Circuit::Closed { failures } => State::Closed { failures },
            Circuit::Open {
                until,
                trial: false,
            } if now < until => State::Open { until },
            Circuit::Open { .. } => State::HalfOpen,
        }
    }

    /// Asks to make a call at the time `now`, on the scale of [`Clock::now`]. [`Breaker::call`]
    /// does this, makes the call and reports its result.
    ///
    /// # Errors
    ///
    /// [`CircuitOpen`] while the breaker is open, or half-open with a trial under way.
    pub fn admit(&self, now: Duration) -> Result<Permit<'_>, CircuitOpen> {
        if let Circuit::Open { until, trial } = self.circuit.get() {
            if trial {
                return Err(CircuitOpen { retry_in: None });
            }
            if now < until {
                return Err(CircuitOpen {
                    retry_in: Some(until - now),
                });
            }
            self.circuit.set(Circuit::Open { until, trial: true });
        }
        Ok(Permit {
            breaker: self,
            openings: self.openings.get(),
        })
    }

    /// Makes a call if the breaker admits it, and reports its result to the breaker.
    ///
    /// Success counts as success. Of a failure [`Failure::health`] decides: [`Health::Down`] counts
    /// as a failure, [`Health::Up`] as a success, [`Health::Unknown`] as nothing. So does a call
    /// that is dropped before its end: put a [`timeout`](super::timeout()) inside `work`, not around
    /// this.
    ///
    /// # Errors
    ///
    /// [`Refused::Open`] when `work` was not called, [`Refused::Failed`] with its error when it was.
    pub async fn call<C: Clock, T, E: Failure>(
        &self,
        clock: &C,
        work: impl AsyncFnOnce() -> Result<T, E>,
    ) -> Result<T, Refused<E>> {
        let permit = self.admit(clock.now()).map_err(Refused::Open)?;
        let result = work().await;
        match result.as_ref().map_err(Failure::health) {
            Ok(_) | Err(Health::Up) => permit.succeeded(),
            Err(Health::Down) => permit.failed(clock.now()),
            Err(Health::Unknown) => drop(permit),
        }
        result.map_err(Refused::Failed)
    }

    fn open(&self, now: Duration) {
        self.openings.set(self.openings.get() + 1);
        self.circuit.set(Circuit::Open {
            until: now.saturating_add(self.cool_down),
            trial: false,
        });
    }
}

/// Leave to make one call. Dropped without a result it changes nothing, and a trial's place is
/// free again.
#[derive(Debug)]
#[must_use = "a permit that is dropped reports no result"]
pub struct Permit<'a> {
    breaker: &'a Breaker,
    /// How often the breaker had opened when the call was admitted.
    openings: u64,
}

impl Permit<'_> {
    /// Reports that the call succeeded.
    pub fn succeeded(self) {
        if self.is_current() {
            self.breaker.circuit.set(Circuit::Closed { failures: 0 });
        }
    }

    /// Reports that the call failed, at the time `now` on the scale of [`Clock::now`].
    pub fn failed(self, now: Duration) {
        if !self.is_current() {
            return;
        }
        match self.breaker.circuit.get() {
            Circuit::Closed { failures } if failures + 1 < self.breaker.threshold.get() => {
                self.breaker.circuit.set(Circuit::Closed {
                    failures: failures + 1,
                });
            }
            Circuit::Closed { .. } | Circuit::Open { .. } => self.breaker.open(now),
        }
    }

    /// Whether the breaker has not opened since. While it is open, only the trial is current.
    fn is_current(&self) -> bool {
        self.openings == self.breaker.openings.get()
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        // After a result there is nothing left to free: the breaker has closed, or opened anew.
        if let Circuit::Open { until, trial: true } = self.breaker.circuit.get()
            && self.is_current()
        {
            self.breaker.circuit.set(Circuit::Open {
                until,
                trial: false,
            });
        }
    }
}

/// The breaker let no call through. Its message tells whoever reads it, a model for one, to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CircuitOpen {
    /// How long until a trial is admitted; `None` while one is under way.
    pub retry_in: Option<Duration>,
}

impl fmt::Display for CircuitOpen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("service unavailable (circuit open); do not retry now")
    }
}

impl Error for CircuitOpen {}

/// Why [`Breaker::call`] has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused<E> {
    /// No call was made: the breaker is open.
    Open(CircuitOpen),
    /// The call was made and failed.
    Failed(E),
}

impl<E: fmt::Display> fmt::Display for Refused<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(open) => open.fmt(f),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl<E: Error> Error for Refused<E> {}

/// An open breaker is final, so that a [`retry`](super::retry()) around it stops, and shows nothing
/// of the service; this attempt did nothing. A failure of the call stays what it was.
impl<E: Failure> Failure for Refused<E> {
    fn class(&self) -> Class {
        match self {
            Self::Open(_) => Class::Final,
            Self::Failed(error) => error.class(),
        }
    }

    fn retry_after(&self) -> Option<&str> {
        match self {
            Self::Open(_) => None,
            Self::Failed(error) => error.retry_after(),
        }
    }

    fn health(&self) -> Health {
        match self {
            Self::Open(_) => Health::Unknown,
            Self::Failed(error) => error.health(),
        }
    }

    fn effect(&self) -> Effect {
        match self {
            Self::Open(_) => Effect::NotDone,
            Self::Failed(error) => error.effect(),
        }
    }
}
