use std::time::Duration;

use crate::sim::Rng;

/// How a delay is randomised, so that callers who failed together do not come back together.
///
/// With `v` the [`ceiling`] of a retry and `U(a, b)` a number drawn evenly between `a` and `b`,
/// both included. The rules are those of
/// <https://github.com/aws-samples/aws-arch-backoff-simulator>, its `ExpoBackoff` classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Jitter {
    /// `v`: not randomised.
    None,
    /// `U(0, v)`.
    Full,
    /// `v/2 + U(0, v/2)`.
    Equal,
    /// `min(cap, U(base, 3 * previous))`, where `previous` is the delay before and starts at
    /// `base`. It ignores how many retries there were.
    Decorrelated,
}

/// How long to wait before each retry of one operation.
#[derive(Debug, Clone)]
pub struct Backoff {
    base: Duration,
    cap: Duration,
    jitter: Jitter,
    rng: Rng,
    /// The delay before the next one, for [`Jitter::Decorrelated`].
    previous: Duration,
}

impl Backoff {
    /// Delays that grow from `base` and never exceed `cap`. Any two durations will do: a cap below
    /// the base makes every ceiling the cap.
    pub fn new(base: Duration, cap: Duration, jitter: Jitter, rng: Rng) -> Self {
        Self {
            base,
            cap,
            jitter,
            rng,
            previous: base,
        }
    }

    /// The delay before retry number `retry`, counted from 0: the wait between the first attempt
    /// and the second is `delay(0)`. Any number is allowed. `delay(0)` begins a new operation: it
    /// forgets the delay before it.
    ///
    /// It draws one random number, or none with [`Jitter::None`].
    pub fn delay(&mut self, retry: u32) -> Duration {
        if retry == 0 {
            self.restart();
        }
        let most = ceiling(self.base, self.cap, retry).as_nanos();
        let nanos = match self.jitter {
            Jitter::None => most,
            Jitter::Full => self.up_to(most),
            Jitter::Equal => most - most / 2 + self.up_to(most / 2),
            Jitter::Decorrelated => {
                let base = self.base.as_nanos();
                // With a cap below base / 3 the bounds cross; the minimum below is then the cap.
                let spread = (3 * self.previous.as_nanos()).saturating_sub(base);
                (base + self.up_to(spread)).min(self.cap.as_nanos())
            }
        };
        let delay = duration(nanos);
        self.previous = delay;
        delay
    }

    /// Forgets the delay before, as for a new operation.
    pub(super) fn restart(&mut self) {
        self.previous = self.base;
    }

    /// A number in `0..=most`, where `most` is at most three times the longest duration, in
    /// nanoseconds.
    fn up_to(&mut self, most: u128) -> u128 {
        match u64::try_from(most) {
            Ok(most) if most < u64::MAX => u128::from(self.rng.below(most + 1)),
            // Above 584 years 64 random bits are spread over the range, in even steps of some
            // nanoseconds or more. The product fits: 96 - 32 + 64 bits.
            _ => ((most >> 32) * u128::from(self.rng.next_u64())) >> 32,
        }
    }
}

/// The longest delay before retry number `retry`, counted from 0: `min(cap, base * 2^retry)`.
/// Exact for any arguments: a product too large for a [`Duration`] is above any cap.
pub fn ceiling(base: Duration, cap: Duration, retry: u32) -> Duration {
    let nanos = base.as_nanos();
    // Zero stays zero however often it is doubled; only other products outgrow the cap.
    if nanos == 0 {
        return Duration::ZERO;
    }
    if retry >= nanos.leading_zeros() {
        return cap;
    }
    duration((nanos << retry).min(cap.as_nanos()))
}

/// Nanoseconds, of which no caller has more than a `Duration` holds.
fn duration(nanos: u128) -> Duration {
    Duration::from_nanos_u128(nanos)
}
