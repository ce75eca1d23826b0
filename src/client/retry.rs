use std::error::Error;
use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use super::timeout::millis;
use super::{Backoff, Clock, Elapsed, RetryAfter, timeout};

/// Whether the same call may succeed later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// It may: a timeout, a reset connection, an overloaded or failing service.
    Retryable,
    /// It will not: the request itself is at fault, or its answer is an answer.
    Final,
}

/// What a failure shows of the service that was called, for a [`Breaker`](super::Breaker).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// The service answered; that the answer was not what the caller hoped for is no outage.
    Up,
    /// The service did not answer, or said that it fails.
    Down,
    /// Nothing, as when a request was refused before it was sent.
    Unknown,
}

/// What a failure tells of the effect of the attempt that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// This attempt did nothing, for certain: it was refused before anything was done, or what it
    /// did was undone.
    NotDone,
    /// The attempt may have done its work, as when its answer is missing.
    MayBeDone,
}

/// What a client must know of an error to act on it.
pub trait Failure {
    /// Whether the call may be repeated.
    fn class(&self) -> Class;

    /// What the failure tells of this one attempt's effect. Unless overridden, the call may have
    /// taken effect: say [`Effect::NotDone`] only of what is documented to have done nothing. Of
    /// other attempts a failure tells nothing.
    fn effect(&self) -> Effect {
        Effect::MayBeDone
    }

    /// The value of the `Retry-After` header that came with the failure, as it stood there.
    fn retry_after(&self) -> Option<&str> {
        None
    }

    /// What the failure shows of the service. Unless overridden, a retryable failure shows it down
    /// and a final one up: a 503 counts towards the opening of a breaker, a 404 does not.
    fn health(&self) -> Health {
        match self.class() {
            Class::Retryable => Health::Down,
            Class::Final => Health::Up,
        }
    }
}

/// A timeout may be retried. It does not say whether the call took effect: retry only calls that
/// are safe to repeat.
impl Failure for Elapsed {
    fn class(&self) -> Class {
        Class::Retryable
    }

    fn effect(&self) -> Effect {
        Effect::MayBeDone
    }
}

/// Whether a call may be repeated that failed with this HTTP status.
///
/// - 429 ([RFC 6585, section 4](https://www.rfc-editor.org/rfc/rfc6585#section-4)) and 500 to 599
///   are retryable, with two exceptions.
/// - 501 and 505 are final: the server does not support the method, or the version of HTTP, and
///   would not support it in the next attempt either ([RFC 9110, sections 15.6.2 and
///   15.6.6](https://www.rfc-editor.org/rfc/rfc9110#section-15.6.2)).
/// - Any other status is final. That includes 409: it can mean that a key was used before with
///   another payload, which no repetition cures. A caller whose service answers 409 while the
///   first request still runs classes that failure itself.
pub fn http_class(status: u16) -> Class {
    match status {
        501 | 505 => Class::Final,
        429 | 500..=599 => Class::Retryable,
        _ => Class::Final,
    }
}

/// What a failure with this HTTP status tells of the call's effect.
///
/// - 400 to 499 say that the request was at fault and was refused ([RFC 9110, section
///   15.5](https://www.rfc-editor.org/rfc/rfc9110#section-15.5)), with three exceptions.
/// - 408 is also sent for a request that was read and whose work took too long; 409 can mean that
///   the first request with this key still runs; with 424 ([RFC 4918, section
///   11.4](https://www.rfc-editor.org/rfc/rfc4918#section-11.4)) a part of the work was begun.
/// - Any other status, every 5xx among them, may come after the work was done.
///
/// A caller whose service documents more, such as a 503 that is sent before any work, says so in its
/// own [`Failure::effect`].
pub fn http_effect(status: u16) -> Effect {
    match status {
        408 | 409 | 424 => Effect::MayBeDone,
        400..=499 => Effect::NotDone,
        _ => Effect::MayBeDone,
    }
}

/// How long and how often to retry. There is no default: the numbers depend on the call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// The most attempts, the first one included.
    pub max_attempts: NonZeroU32,
    /// The time for everything: attempts and the waits between them.
    pub total_time: Duration,
    /// The most time for one attempt. Every attempt also ends with the total time.
    pub attempt_timeout: Option<Duration>,
    /// The longest wait that a service may ask for; one that asks for more is not retried.
    pub max_retry_after: Duration,
}

/// Why an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause<E> {
    /// The call returned this error.
    Failed(E),
    /// The call returned nothing in time, and was dropped.
    TimedOut(Elapsed),
}

impl<E: fmt::Display> fmt::Display for Cause<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => error.fmt(f),
            Self::TimedOut(elapsed) => elapsed.fmt(f),
        }
    }
}

impl<E: Failure> Cause<E> {
    /// What it tells of the attempt's effect.
    fn effect(&self) -> Effect {
        match self {
            Self::Failed(error) => error.effect(),
            Self::TimedOut(elapsed) => elapsed.effect(),
        }
    }
}

/// A retry that is about to be waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retrying<'a, E> {
    /// The attempt that failed, counted from 1.
    pub attempt: u32,
    /// Why it failed.
    pub cause: &'a Cause<E>,
    /// The wait before the next one.
    pub delay: Duration,
}

/// What came of attempts of which none succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GaveUp<E> {
    /// How many attempts were made.
    pub attempts: u32,
    /// The first attempt that may have taken effect, counted from 1. From there on it is unknown
    /// whether the work is done, whatever the attempts after it met; the same call with the same
    /// key settles it. `None` if every attempt failed without an effect.
    pub unknown_since: Option<u32>,
    /// Why there will be no further attempt.
    pub why: Why<E>,
}

/// Why there will be no further attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why<E> {
    /// A failure of [`Class::Final`].
    Final(E),
    /// The last attempt that [`Policy::max_attempts`] allows failed too.
    AttemptsUsedUp {
        /// Why the last one failed.
        last: Cause<E>,
    },
    /// [`Policy::total_time`] is over, or would be over before another attempt could begin.
    TimeUsedUp {
        /// Why the last one failed. When `cut_short`, why the one before it failed; if there was
        /// none, [`Cause::TimedOut`].
        last: Cause<E>,
        /// Whether time ran out during the last attempt, so that its effect is unknown.
        cut_short: bool,
    },
    /// The service asked for a wait longer than [`Policy::max_retry_after`], or one after which no
    /// time would be left. The caller may come back after it; earlier it should not.
    AskedToWaitTooLong {
        /// The wait that the service asked for, counted from its answer.
        asked: Duration,
        /// Why the last attempt failed.
        last: Cause<E>,
    },
}

impl<E> GaveUp<E> {
    /// What all attempts together tell of the effect, for a caller that has to report one failure.
    pub fn effect(&self) -> Effect {
        match self.unknown_since {
            None => Effect::NotDone,
            Some(_) => Effect::MayBeDone,
        }
    }
}

/// One line for whoever has to act on it, a model for one: how often it was tried, why that was
/// the end, the last real failure, and whether the work may have been done.
impl<E: fmt::Display> fmt::Display for GaveUp<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let attempts = self.attempts;
        match &self.why {
            Why::Final(error) => {
                write!(
                    f,
                    "gave up after attempt {attempts}, no retry will help: {error}"
                )
            }
            Why::AttemptsUsedUp { last } => {
                write!(f, "gave up after attempt {attempts}, the last one: {last}")
            }
            Why::TimeUsedUp {
                last,
                cut_short: false,
            } => write!(f, "gave up after attempt {attempts}, out of time: {last}"),
            Why::TimeUsedUp {
                last,
                cut_short: true,
            } => write!(f, "gave up during attempt {attempts}, out of time: {last}"),
            Why::AskedToWaitTooLong { asked, last } => write!(
                f,
                "gave up after attempt {attempts}, the service asks to wait {} ms: {last}",
                millis(*asked)
            ),
        }?;
        match self.unknown_since {
            None => Ok(()),
            Some(first) if first < attempts => {
                f.write_str("; an earlier attempt may have taken effect")
            }
            Some(_) => f.write_str("; this attempt may have taken effect"),
        }
    }
}

impl<E: Error> Error for GaveUp<E> {}

/// Calls until an attempt succeeds, a failure is final, or the policy allows no more.
///
/// `call` is given the number of the attempt, counted from 1. The first attempt is always made; a
/// further one only while time is left, and never more than [`Policy::max_attempts`]. An attempt is
/// dropped when [`Policy::attempt_timeout`] or what is left of [`Policy::total_time`] is over,
/// whichever is less.
///
/// Before each retry `on_retry` is told, and then the clock is waited on: as long as the failure's
/// [`Failure::retry_after`] asks, no shorter and no longer, or, where there is none that
/// [`RetryAfter::parse`] can read, as long as `backoff` says. A wait that would leave no time for
/// the next attempt is not begun.
///
/// Layers multiply: where each of three makes three attempts, the service sees 27. Retry in one.
///
/// An answer settles what earlier attempts left unknown only if all of them carried one key; without
/// a key the work may have been done more than once.
///
/// # Errors
///
/// [`GaveUp`], with the last failure that really happened, and with what may have been done: an
/// attempt that was refused makes nothing known of the one before it whose answer was lost.
pub async fn retry<C, T, E>(
    clock: &C,
    policy: &Policy,
    backoff: &mut Backoff,
    mut call: impl AsyncFnMut(u32) -> Result<T, E>,
    mut on_retry: impl FnMut(&Retrying<'_, E>),
) -> Result<T, GaveUp<E>>
where
    C: Clock,
    E: Failure,
{
    let began = clock.now();
    let time_left = || {
        let spent = clock.now().saturating_sub(began);
        policy.total_time.saturating_sub(spent)
    };
    backoff.restart();
    let mut attempt = 1;
    let mut before = None;
    let mut unknown_since = None;
    // Ends at `max_attempts` at the latest.
    loop {
        let left = time_left();
        let own = policy.attempt_timeout.filter(|own| *own <= left);
        let ended = timeout(clock, own.unwrap_or(left), call(attempt)).await;
        let cause = match ended {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => Cause::Failed(error),
            Err(elapsed) => Cause::TimedOut(elapsed),
        };
        if unknown_since.is_none() && cause.effect() == Effect::MayBeDone {
            unknown_since = Some(attempt);
        }
        let gave_up = |why| {
            Err(GaveUp {
                attempts: attempt,
                unknown_since,
                why,
            })
        };
        let cause = match cause {
            Cause::Failed(error) if error.class() == Class::Final => {
                return gave_up(Why::Final(error));
            }
            // Not the call's own failure: what is reported is the last one that was.
            Cause::TimedOut(_) if own.is_none() => {
                return gave_up(Why::TimeUsedUp {
                    last: before.unwrap_or(cause),
                    cut_short: true,
                });
            }
            cause => cause,
        };
        if attempt >= policy.max_attempts.get() {
            return gave_up(Why::AttemptsUsedUp { last: cause });
        }
        let out_of_time = |last| Why::TimeUsedUp {
            last,
            cut_short: false,
        };
        let left = time_left();
        let delay = match asked(&cause, clock) {
            Some(asked) if asked > policy.max_retry_after || !asked.is_zero() && asked >= left => {
                return gave_up(Why::AskedToWaitTooLong { asked, last: cause });
            }
            Some(asked) => asked,
            None => backoff.delay(attempt - 1),
        };
        if delay >= left {
            return gave_up(out_of_time(cause));
        }
        on_retry(&Retrying {
            attempt,
            cause: &cause,
            delay,
        });
        clock.sleep(delay).await;
        // A clock may wake its sleepers late.
        if time_left().is_zero() {
            return gave_up(out_of_time(cause));
        }
        before = Some(cause);
        attempt += 1;
    }
}

/// The wait that a failure's header asks for, if it can be read.
fn asked<E: Failure>(cause: &Cause<E>, clock: &impl Clock) -> Option<Duration> {
    let Cause::Failed(error) = cause else {
        return None;
    };
    let header = RetryAfter::parse(error.retry_after()?)?;
    Some(header.delay(clock.since_epoch()))
}
