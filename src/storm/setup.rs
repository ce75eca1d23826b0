use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::client::{Backoff, Breaker, Jitter};
use crate::sim::Rng;

/// Milliseconds that base and cap may have.
pub const DELAY_MS: RangeInclusive<u32> = 0..=60_000;
/// Attempts that one operation may have. With up to 500 clients at one row the most is more than
/// any of them can need: each lost write means that another client's was taken.
pub const ATTEMPTS: RangeInclusive<u32> = 1..=1_000;
/// Clients that there may be.
pub const CLIENTS: RangeInclusive<u32> = 1..=500;
/// Requests that the queue's server may do in each 100 ms.
pub const CAPACITY: RangeInclusive<u32> = 1..=1_000;
/// Tokens that a budget may have.
pub const TOKENS: RangeInclusive<u32> = 1..=1_000;
/// How often the same may be run, each time with other random numbers.
pub const RUNS: RangeInclusive<u32> = 1..=100;

/// Failures in a row that open the breaker.
const BREAKER_THRESHOLD: NonZeroU32 = NonZeroU32::new(5).unwrap();
const BREAKER_COOL_DOWN: Duration = Duration::from_secs(1);

/// What the clients call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Server {
    /// A row under optimistic concurrency control: a client reads its version and writes with it,
    /// and of all writes with one version only the first is taken. Each client writes once.
    Row,
    /// A queue, first in, first out, with a fixed time for each request. See [`super::Storm`].
    Queue,
}

/// A retry budget as gRPC has it, shared by all clients as by all calls of one gRPC client to one
/// server name: a token bucket that begins full. A failed call takes a token, a successful one
/// returns a part of one, and while no more than half of them is left nothing is retried.
/// <https://github.com/grpc/proposal/blob/master/A6-client-retries.md>
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// `maxTokens`, in thousandths: A6 supports three decimal places.
    pub most_thousandths: u32,
    /// `tokenRatio`, in thousandths.
    pub ratio_thousandths: u32,
}

/// All that a storm follows from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Setup {
    /// What the clients call.
    pub server: Server,
    /// The backoff's base.
    pub base_ms: u32,
    /// The backoff's cap.
    pub cap_ms: u32,
    /// The backoff's jitter.
    pub jitter: Jitter,
    /// The most attempts of one operation, the first one included.
    pub attempts: u32,
    /// How many clients call.
    pub clients: u32,
    /// Requests that a [`Server::Queue`] does in each 100 ms.
    pub capacity: u32,
    /// The retry budget, if there is one.
    pub budget: Option<Budget>,
    /// Whether all calls pass one breaker: five failures in a row open it for a second.
    pub breaker: bool,
    /// How often it is run, each time with other random numbers.
    pub runs: u32,
    /// What the random numbers follow from.
    pub seed: u32,
}

impl Setup {
    /// The set-up of *Exponential Backoff And Jitter*, AWS Architecture Blog, 2015, with the
    /// numbers of the simulator that was used for it: base 5, cap 2000, 100 runs. Here with the
    /// clients for which the post compares the kinds of jitter.
    /// <https://github.com/aws-samples/aws-arch-backoff-simulator>
    pub const AWS: Self = Self {
        server: Server::Row,
        base_ms: 5,
        cap_ms: 2_000,
        jitter: Jitter::Full,
        attempts: *ATTEMPTS.end(),
        clients: 100,
        capacity: 15,
        budget: None,
        breaker: false,
        runs: 100,
        seed: 7,
    };

    /// The examples of gRPC's retry design, A6: four attempts, 0.1 s to 1 s with full jitter, ten
    /// tokens and a ratio of 0.1. How many clients call a server of what capacity is ours.
    pub const GRPC: Self = Self {
        server: Server::Queue,
        base_ms: 100,
        cap_ms: 1_000,
        attempts: 4,
        budget: Some(Budget {
            most_thousandths: 10_000,
            ratio_thousandths: 100,
        }),
        runs: 1,
        ..Self::AWS
    };

    /// The set-up that words of the form `name=value` describe, set one after the other on
    /// [`Setup::AWS`].
    ///
    /// # Errors
    ///
    /// The first word that does not fit.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut setup = Self::AWS;
        for word in text.split_ascii_whitespace() {
            let set = word
                .split_once('=')
                .map(|(name, value)| setup.set(name, value));
            if !matches!(set, Some(Ok(()))) {
                return Err(word.to_owned());
            }
        }
        Ok(setup)
    }

    /// Sets what is called `name` to what `text` says; `preset` sets everything.
    ///
    /// # Errors
    ///
    /// What would have been a good text.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), String> {
        match (name, text) {
            ("preset", "aws") => *self = Self::AWS,
            ("preset", "grpc") => *self = Self::GRPC,
            ("server", "row") => self.server = Server::Row,
            ("server", "queue") => self.server = Server::Queue,
            ("jitter", "none") => self.jitter = Jitter::None,
            ("jitter", "full") => self.jitter = Jitter::Full,
            ("jitter", "equal") => self.jitter = Jitter::Equal,
            ("jitter", "decorrelated") => self.jitter = Jitter::Decorrelated,
            ("breaker", "on") => self.breaker = true,
            ("breaker", "off") => self.breaker = false,
            ("budget", "" | "none") => self.budget = None,
            ("budget", _) => {
                self.budget = Some(
                    budget(text)
                        .ok_or("TOKENS:RATIO such as 10:0.1, with 1 to 1000 tokens, or none")?,
                );
            }
            ("base", _) => self.base_ms = number(text, DELAY_MS)?,
            ("cap", _) => self.cap_ms = number(text, DELAY_MS)?,
            ("attempts", _) => self.attempts = number(text, ATTEMPTS)?,
            ("clients", _) => self.clients = number(text, CLIENTS)?,
            ("capacity", _) => self.capacity = number(text, CAPACITY)?,
            ("runs", _) => self.runs = number(text, RUNS)?,
            ("seed", _) => self.seed = number(text, 0..=u32::MAX)?,
            ("preset", _) => return Err("aws or grpc".to_owned()),
            ("server", _) => return Err("row or queue".to_owned()),
            ("jitter", _) => return Err("none, full, equal or decorrelated".to_owned()),
            _ => return Err("on or off".to_owned()),
        }
        Ok(())
    }

    /// The breakers that a [`super::Storm`] needs: one for each run, or none.
    pub fn breakers(&self) -> Vec<Breaker> {
        let count = if self.breaker { self.runs } else { 0 };
        (0..count)
            .map(|_| Breaker::new(BREAKER_THRESHOLD, BREAKER_COOL_DOWN))
            .collect()
    }

    pub(super) fn backoff(&self, rng: Rng) -> Backoff {
        let ms = |ms: u32| Duration::from_millis(ms.into());
        Backoff::new(ms(self.base_ms), ms(self.cap_ms), self.jitter, rng)
    }
}

fn number(text: &str, range: RangeInclusive<u32>) -> Result<u32, String> {
    match text.parse() {
        Ok(number) if range.contains(&number) && !text.starts_with('+') => Ok(number),
        _ => Err(format!(
            "a whole number from {} to {}",
            range.start(),
            range.end()
        )),
    }
}

fn budget(text: &str) -> Option<Budget> {
    let (tokens, ratio) = text.split_once(':')?;
    let (whole, part) = ratio.split_once('.').unwrap_or((ratio, "0"));
    let digits = u32::try_from(part.len())
        .ok()
        .filter(|digits| *digits <= 3)?;
    let whole = number(whole, 0..=*TOKENS.end()).ok()?;
    let part = number(part, 0..=999).ok()? * 10_u32.pow(3 - digits);
    let budget = Budget {
        most_thousandths: number(tokens, TOKENS).ok()? * 1_000,
        ratio_thousandths: whole * 1_000 + part,
    };
    // A6: the ratio must be greater than zero.
    (budget.ratio_thousandths > 0).then_some(budget)
}
