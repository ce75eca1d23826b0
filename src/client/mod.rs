//! What a caller does about a call that may fail: retry it, wait between attempts, limit its
//! time, and stop calling a service that is down.
//!
//! Nothing here sleeps or reads the time by itself: both come from a [`Clock`]. Nothing needs a
//! runtime: these are plain futures. Random numbers come from a seeded [`sim::Rng`](crate::sim::Rng).
//!
//! The parts fit into each other in one order: [`retry`] around [`Breaker::call`] around
//! [`timeout`] around the call. The timeout stands inside the breaker because a call that is
//! dropped, as an attempt's own time limit in [`Policy`] drops it, tells the breaker nothing.
//!
//! None of them finds out what became of a call. Once an attempt may have taken effect, [`GaveUp`]
//! says so whatever later attempts met; the same call with the same key settles it.
//!
//! ```
//! use std::num::NonZeroU32;
//! use std::time::Duration;
//! use tool_retries::client::{
//!     Backoff, Breaker, Class, Clock, Effect, Elapsed, Failure, GaveUp, Jitter, Policy, Refused,
//!     http_class, http_effect, retry, timeout,
//! };
//! use tool_retries::sim::Rng;
//!
//! #[derive(Debug)]
//! enum CallError {
//!     Status { code: u16, retry_after: Option<String> },
//!     Elapsed(Elapsed),
//! }
//!
//! impl Failure for CallError {
//!     fn class(&self) -> Class {
//!         match self {
//!             Self::Status { code, .. } => http_class(*code),
//!             Self::Elapsed(elapsed) => elapsed.class(),
//!         }
//!     }
//!
//!     fn effect(&self) -> Effect {
//!         match self {
//!             Self::Status { code, .. } => http_effect(*code),
//!             Self::Elapsed(elapsed) => elapsed.effect(),
//!         }
//!     }
//!
//!     fn retry_after(&self) -> Option<&str> {
//!         match self {
//!             Self::Status { retry_after, .. } => retry_after.as_deref(),
//!             Self::Elapsed(_) => None,
//!         }
//!     }
//! }
//!
//! # async fn send() -> Result<u64, CallError> { Ok(1) }
//! async fn open_ticket(clock: &impl Clock, desk: &Breaker) -> Result<u64, GaveUp<Refused<CallError>>> {
//!     let policy = Policy {
//!         max_attempts: NonZeroU32::new(3).unwrap(),
//!         total_time: Duration::from_secs(30),
//!         attempt_timeout: None,
//!         max_retry_after: Duration::from_secs(10),
//!     };
//!     let (base, cap) = (Duration::from_millis(100), Duration::from_secs(5));
//!     let mut backoff = Backoff::new(base, cap, Jitter::Full, Rng::new(7));
//!     let attempt = async |_| {
//!         desk.call(clock, async || {
//!             timeout(clock, Duration::from_secs(2), send())
//!                 .await
//!                 .unwrap_or_else(|elapsed| Err(CallError::Elapsed(elapsed)))
//!         })
//!         .await
//!     };
//!     retry(clock, &policy, &mut backoff, attempt, |_| {}).await
//! }
//! ```

mod backoff;
mod breaker;
mod clock;
mod process;
mod retry;
mod retry_after;
mod timeout;

pub use backoff::{Backoff, Jitter, ceiling};
pub use breaker::{Breaker, CircuitOpen, Permit, Refused, State};
pub use clock::Clock;
pub use retry::{
    Cause, Class, Effect, Failure, GaveUp, Health, Policy, Retrying, Why, http_class, http_effect,
    retry,
};
pub use retry_after::RetryAfter;
pub use timeout::{Elapsed, timeout};
