//! Retries: what may be retried, when, how often, and what happens to the service meanwhile.

use std::cell::Cell;
use std::num::NonZeroU32;
use std::time::Duration;

use super::refunds::{RUN, Shop, TOOL, order, refund_id, the_key};
use super::{Checks, Fixture, Outcome, Plot, RunError};
use crate::client::{
    Backoff, Class, Clock, Effect, Failure, GaveUp, Jitter, Policy, Why, ceiling, http_class,
    http_effect, retry, timeout,
};
use crate::json::{Finite, Value};
use crate::key::action_key;
use crate::sim::trace::What;
use crate::sim::{Network, Process, Rng, Verdict, World};
use crate::tool::refunds::{Recording, RefundRequest};

const BASE: Duration = Duration::from_millis(100);
const CAP: Duration = Duration::from_secs(1);

/// A call that fails in one way, and the answer's `Retry-After` if it has one.
#[derive(Debug, Clone, Copy)]
enum Fails {
    Timeout,
    Reset,
    Validation,
    Status(u16),
    Busy { retry_after: &'static str },
}

impl std::fmt::Display for Fails {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Timeout => f.write_str("timeout"),
            Self::Reset => f.write_str("reset"),
            Self::Validation => f.write_str("validation"),
            Self::Status(status) => write!(f, "{status}"),
            Self::Busy { retry_after } => write!(f, "429, Retry-After: {retry_after}"),
        }
    }
}

impl Failure for Fails {
    fn class(&self) -> Class {
        match self {
            Self::Timeout | Self::Reset | Self::Busy { .. } => Class::Retryable,
            Self::Validation => Class::Final,
            Self::Status(status) => http_class(*status),
        }
    }

    fn effect(&self) -> Effect {
        match self {
            Self::Timeout | Self::Reset => Effect::MayBeDone,
            Self::Validation => Effect::NotDone,
            Self::Status(status) => http_effect(*status),
            Self::Busy { .. } => http_effect(429),
        }
    }

    fn retry_after(&self) -> Option<&str> {
        match self {
            Self::Busy { retry_after } => Some(retry_after),
            _ => None,
        }
    }
}

/// Timeouts, resets, 429 and most 5xx are tried three times; the other failures once.
pub(super) fn retry_only_retryable(world: &World, _: &Fixture) -> Result<Outcome, RunError> {
    let mut run = Run::open(world);
    let mut attempts = Vec::new();
    for (failure, expected) in [
        (Fails::Timeout, 3),
        (Fails::Reset, 3),
        (Fails::Status(429), 3),
        (Fails::Status(500), 3),
        (Fails::Status(502), 3),
        (Fails::Status(503), 3),
        (Fails::Status(504), 3),
        (Fails::Status(400), 1),
        (Fails::Status(401), 1),
        (Fails::Status(403), 1),
        (Fails::Status(404), 1),
        (Fails::Status(422), 1),
        (Fails::Validation, 1),
    ] {
        let seen = run.retried(&policy(), &|_| Err(failure))?.attempts;
        run.checks
            .check(format!("attempts after {failure}"), expected, seen);
        attempts.push((failure.to_string(), Value::from(seen)));
    }
    let conflict = changed_payload_attempts(world)?;
    run.checks
        .check("attempts after a conflict of payloads", 1, conflict);
    attempts.push(("409".to_owned(), conflict.into()));
    Ok(run.outcome(attempts))
}

/// How often a retry tries a key that the service knows with another payload.
fn changed_payload_attempts(world: &World) -> Result<u32, RunError> {
    let shop = Shop::open(world, Recording::WithEffect)?;
    let agent = shop.agent();
    let key = action_key(RUN, TOOL, &order().to_json())?;
    let half = RefundRequest {
        amount: Finite::try_from(24.5).expect("24.5 is finite"),
        ..order()
    };
    let mut backoff = Backoff::new(BASE, CAP, Jitter::None, Rng::new(7));
    let mut attempts = 0;
    let work = async {
        let first = shop.attempt(&order(), Some(&key)).await;
        let again = async |attempt| {
            attempts = attempt;
            shop.attempt(&half, Some(&key)).await
        };
        let retried = retry(&agent, &policy(), &mut backoff, again, |_| {}).await;
        first.is_ok() && matches!(retried, Err(gave_up) if matches!(gave_up.why, Why::Final(_)))
    };
    let refused = world.run(&agent, work)?.ok_or(RunError::NoEnd)?;
    Ok(if refused { attempts } else { 0 })
}

/// Five delays that double up to the cap: clients that fail together come back together.
pub(super) fn backoff_without_jitter(world: &World, _: &Fixture) -> Result<Outcome, RunError> {
    delays(world, Jitter::None)
}

/// Five delays, each anywhere below the bound.
pub(super) fn backoff_full_jitter(world: &World, _: &Fixture) -> Result<Outcome, RunError> {
    delays(world, Jitter::Full)
}

/// Five delays, each in the upper half below the bound.
pub(super) fn backoff_equal_jitter(world: &World, _: &Fixture) -> Result<Outcome, RunError> {
    delays(world, Jitter::Equal)
}

/// Five delays, each between the base and three times the one before.
pub(super) fn backoff_decorrelated_jitter(world: &World, _: &Fixture) -> Result<Outcome, RunError> {
    delays(world, Jitter::Decorrelated)
}

fn delays(world: &World, jitter: Jitter) -> Result<Outcome, RunError> {
    let mut run = Run::open(world);
    let mut backoff = Backoff::new(BASE, CAP, jitter, Rng::new(7));
    let mut other = Backoff::new(BASE, CAP, jitter, Rng::new(8));
    let mut differs = false;
    let mut shown = Vec::new();
    let mut previous = BASE;
    for n in 0..5 {
        let bound = ceiling(BASE, CAP, n);
        let (from, to) = match jitter {
            Jitter::None => (bound, bound),
            Jitter::Full => (Duration::ZERO, bound),
            Jitter::Equal => (bound / 2, bound),
            Jitter::Decorrelated => (BASE, CAP.min(previous * 3)),
        };
        let delay = backoff.delay(n);
        let claim = format!(
            "delay {}, {} ms, is from {} to {} ms",
            n + 1,
            millis(delay),
            millis(from),
            millis(to)
        );
        run.checks.check(claim, true, (from..=to).contains(&delay));
        differs |= delay != other.delay(n);
        shown.push(Value::from(millis(delay)));
        previous = delay;
        world
            .run(&run.client, Clock::sleep(&run.client, delay))?
            .ok_or(RunError::NoEnd)?;
    }
    run.checks.check(
        "another client has other delays",
        jitter != Jitter::None,
        differs,
    );
    let plot = Plot {
        title: "Delay before each retry".to_owned(),
        unit: "ms".to_owned(),
        labels: (1..=5).map(|n| format!("retry {n}")).collect(),
        bars: shown
            .iter()
            .filter_map(Value::as_i64)
            .map(|ms| ms as u64)
            .collect(),
    };
    let values = [
        ("base_ms", millis(BASE).into()),
        ("cap_ms", millis(CAP).into()),
        ("delays_ms", Value::from(shown)),
    ];
    Ok(Outcome {
        plots: vec![plot],
        ..run.outcome(values)
    })
}

/// A server that asks for two seconds gets them.
pub(super) fn retry_after_seconds(world: &World, _: &Fixture) -> Result<Outcome, RunError> {
    asked_to_wait(world, "2", Some(2_000))
}

/// The same as a date: the world begins on 1 January 2026 at midnight.
pub(super) fn retry_after_date(world: &World, _: &Fixture) -> Result<Outcome, RunError> {
    asked_to_wait(world, "Thu, 01 Jan 2026 00:00:03 GMT", None)
}

/// More than the client is willing to wait: it never comes earlier, it gives up and says why.
pub(super) fn retry_after_over_cap(world: &World, _: &Fixture) -> Result<Outcome, RunError> {
    let mut run = Run::open(world);
    let busy = Fails::Busy {
        retry_after: "3600",
    };
    let done = run.retried(&policy(), &|_| Err(busy))?;
    let asked = match done.result.as_ref().map_err(|gave_up| &gave_up.why) {
        Err(Why::AskedToWaitTooLong { asked, .. }) => Value::from(asked.as_secs()),
        _ => Value::Null,
    };
    run.checks.check(
        "the error carries the hint, in seconds",
        3600,
        asked.clone(),
    );
    run.checks.check("it was called once", 1, done.attempts);
    run.checks.check("it did not sleep", 0, done.slept_ms);
    Ok(run.outcome([
        ("asked_s", asked),
        ("attempts", done.attempts.into()),
        ("slept_ms", done.slept_ms.into()),
    ]))
}

/// What cannot be read counts as not said: the backoff decides.
pub(super) fn retry_after_unreadable(world: &World, _: &Fixture) -> Result<Outcome, RunError> {
    asked_to_wait(world, "soon", Some(millis(BASE)))
}

/// The first answer is a 429 with this header, the second a success. With `expected_ms` the wait
/// must be exactly that, otherwise it must end at or after three seconds of the world.
fn asked_to_wait(
    world: &World,
    header: &'static str,
    expected_ms: Option<u64>,
) -> Result<Outcome, RunError> {
    let mut run = Run::open(world);
    let busy = Fails::Busy {
        retry_after: header,
    };
    let done = run.retried(&policy(), &|attempt| match attempt {
        1 => Err(busy),
        _ => Ok(()),
    })?;
    run.checks
        .check("the second attempt succeeds", true, done.result.is_ok());
    match expected_ms {
        Some(expected) => {
            run.checks
                .check("milliseconds slept", expected, done.slept_ms);
        }
        None => {
            let woke = millis(Clock::now(&run.client));
            run.checks.check(
                "it came at the date or up to 10 ms later",
                true,
                (3_000..=3_010).contains(&woke),
            );
        }
    }
    Ok(run.outcome([
        ("attempts", done.attempts.into()),
        ("slept_ms", done.slept_ms.into()),
    ]))
}

/// Three attempts and no more, whatever time is left.
pub(super) fn attempts_capped(world: &World, _: &Fixture) -> Result<Outcome, RunError> {
    let mut run = Run::open(world);
    let done = run.retried(&policy(), &|_| Err(Fails::Status(503)))?;
    let error = done.error();
    run.checks
        .check("three attempts were made", 3, done.attempts);
    run.checks.check(
        "the error tells attempts, cause and what may be done",
        "gave up after attempt 3, the last one: 503; an earlier attempt may have taken effect",
        error.as_str(),
    );
    Ok(run.outcome([("attempts", done.attempts.into()), ("error", error.into())]))
}

/// No sleep goes past the budget, and the error reported is the last real one.
pub(super) fn total_time_capped(world: &World, _: &Fixture) -> Result<Outcome, RunError> {
    let mut run = Run::open(world);
    let policy = Policy {
        max_attempts: NonZeroU32::MAX,
        total_time: Duration::from_secs(2),
        ..policy()
    };
    let done = run.retried(&policy, &|attempt| {
        Err(Fails::Status(if attempt < 5 { 503 } else { 502 }))
    })?;
    let error = done.error();
    run.checks.check("attempts made", 5, done.attempts);
    run.checks.check(
        "milliseconds slept: the next wait of 1000 would pass the budget of 2000",
        1_500,
        done.slept_ms,
    );
    run.checks.check(
        "the error is the last real one, and tells what may be done",
        "gave up after attempt 5, out of time: 502; an earlier attempt may have taken effect",
        error.as_str(),
    );
    Ok(run.outcome([
        ("attempts", done.attempts.into()),
        ("error", error.into()),
        ("slept_ms", done.slept_ms.into()),
    ]))
}

/// The first attempt breaks after the refund, nobody listens any more at the others: the error that
/// goes up does not forget the first. The same call with the same key settles it.
pub(super) fn unknown_outcome_is_told(world: &World, _: &Fixture) -> Result<Outcome, RunError> {
    let mut shop = Shop::open(world, Recording::WithEffect)?;
    shop.network.place(1, Verdict::BreakAfterwards);
    shop.network.place(2, Verdict::Refuse);
    shop.network.place(3, Verdict::Refuse);
    let key = the_key()?;
    let error = shop.retried(&|_| Some(key.clone()))?.err();
    let error = error.map_or(Value::Null, Value::from);
    shop.checks.check(
        "the error tells attempts, cause and what may be done",
        "gave up after attempt 3, the last one: connection refused; \
         an earlier attempt may have taken effect",
        error.clone(),
    );
    shop.check_rows("and it was done: one refund, one replay record", 1, 1)?;
    let settled = shop.retried(&|_| Some(key.clone()))?;
    shop.check_answer("the key settles it, with the first answer", "R1", &settled);
    shop.check_rows("still one refund, one replay record", 1, 1)?;
    shop.outcome([("error", error), ("refund_id", refund_id(&settled))])
}

/// Three layers that each make three attempts call the service 27 times.
pub(super) fn three_layers_multiply(world: &World, _: &Fixture) -> Result<Outcome, RunError> {
    layers(world, 3, 27)
}

/// One layer that retries calls it three times.
pub(super) fn one_layer_retries(world: &World, _: &Fixture) -> Result<Outcome, RunError> {
    layers(world, 1, 3)
}

fn layers(world: &World, layers: u32, expected: u32) -> Result<Outcome, RunError> {
    let mut run = Run::open(world);
    let calls = Cell::new(0_u32);
    world
        .run(&run.client, layered(&run.client, layers, &calls))?
        .ok_or(RunError::NoEnd)?
        .expect_err("the service is down");
    run.checks
        .check("calls to the service", expected, calls.get());
    Ok(run.outcome([("calls", calls.get().into()), ("layers", layers.into())]))
}

/// What the layer above calls: itself a retry over the layer below.
async fn layered(client: &Process, layers: u32, calls: &Cell<u32>) -> Result<(), Fails> {
    if layers == 0 {
        calls.set(calls.get() + 1);
        return Err(Fails::Status(503));
    }
    let mut backoff = Backoff::new(BASE, CAP, Jitter::Full, Rng::new(u64::from(layers)));
    let below = async |_| Box::pin(layered(client, layers - 1, calls)).await;
    let patient = Policy {
        total_time: Duration::from_secs(3600),
        ..policy()
    };
    match retry(client, &patient, &mut backoff, below, |_| {}).await {
        Ok(()) => Ok(()),
        Err(_) => Err(Fails::Status(503)),
    }
}

/// The request is lost, and nothing ever ends the wait.
pub(super) fn call_without_timeout_hangs(world: &World, _: &Fixture) -> Result<Outcome, RunError> {
    lost_request(world, None)
}

/// The same with a timeout of one second.
pub(super) fn call_with_timeout_returns(world: &World, _: &Fixture) -> Result<Outcome, RunError> {
    lost_request(world, Some(Duration::from_secs(1)))
}

fn lost_request(world: &World, limit: Option<Duration>) -> Result<Outcome, RunError> {
    let mut run = Run::open(world);
    let (client, service) = (run.client.clone(), world.start("service"));
    let network = Network::new(Verdict::LoseRequest);
    let call = network.call(&client, &service, async {});
    let returned = match limit {
        None => world.run(&client, call)?.is_some(),
        Some(limit) => {
            let done = world.run(&client, timeout(&client, limit, call))?;
            matches!(done, Some(Err(_)))
        }
    };
    run.checks
        .check("the call comes back", limit.is_some(), returned);
    run.checks
        .check("the caller is alive", true, client.is_alive());
    let mut values = vec![("returned", Value::from(returned))];
    if returned {
        let after_ms = millis(Clock::now(&client));
        run.checks.check(
            "it comes back after its second, or up to 10 ms later",
            true,
            (1_000..=1_010).contains(&after_ms),
        );
        values.push(("after_ms", after_ms.into()));
    }
    Ok(run.outcome(values))
}

const CLIENTS: u64 = 100;
const RETRIES: u32 = 5;
const WINDOW_MS: u64 = 100;

/// A hundred clients fail at one moment and back off without jitter: all of them come back at
/// one moment, again and again.
pub(super) fn lockstep_stampede(world: &World, _: &Fixture) -> Result<Outcome, RunError> {
    stampede(world, Jitter::None, |peak| peak == CLIENTS, "all at once")
}

/// The same clients with full jitter: no window sees a fifth of them.
pub(super) fn jitter_spreads_load(world: &World, _: &Fixture) -> Result<Outcome, RunError> {
    let spread = |peak| peak < CLIENTS / 5;
    stampede(world, Jitter::Full, spread, "less than a fifth at once")
}

/// Counts the arrivals of every client's retries per window; base 1 s, cap 8 s.
fn stampede(
    world: &World,
    jitter: Jitter,
    is_right: fn(u64) -> bool,
    claim: &str,
) -> Result<Outcome, RunError> {
    let mut run = Run::open(world);
    let (base, cap) = (Duration::from_secs(1), Duration::from_secs(8));
    let mut bars: Vec<u64> = Vec::new();
    for client in 0..CLIENTS {
        let mut backoff = Backoff::new(base, cap, jitter, Rng::new(client));
        let mut arrives = Duration::ZERO;
        let mut line = format!("client {} arrives after ms", client + 1);
        for retry in 0..RETRIES {
            arrives += backoff.delay(retry);
            line.push_str(&format!(" {}", millis(arrives)));
            let window = (millis(arrives) / WINDOW_MS) as usize;
            if bars.len() <= window {
                bars.resize(window + 1, 0);
            }
            bars[window] += 1;
        }
        run.client.record(What::Printed(line));
    }
    let peak = bars.iter().copied().max().unwrap_or(0);
    let arrivals: u64 = bars.iter().sum();
    run.checks.check(
        "every retry of every client arrives",
        CLIENTS * u64::from(RETRIES),
        arrivals,
    );
    run.checks
        .check(format!("the fullest window: {claim}"), true, is_right(peak));
    let labels = (0..bars.len() as u64)
        .map(|window| format!("{} ms", window * WINDOW_MS))
        .collect();
    let plot = Plot {
        title: "Arrivals in each 100 ms".to_owned(),
        unit: "requests".to_owned(),
        labels,
        bars,
    };
    let values = [
        ("clients", CLIENTS.into()),
        ("peak_per_100_ms", peak.into()),
    ];
    Ok(Outcome {
        plots: vec![plot],
        ..run.outcome(values)
    })
}

/// Three attempts, 100 ms to 1 s between them, ten seconds in all.
fn policy() -> Policy {
    Policy {
        max_attempts: const { NonZeroU32::new(3).expect("three attempts") },
        total_time: Duration::from_secs(10),
        attempt_timeout: Some(Duration::from_secs(1)),
        max_retry_after: Duration::from_secs(60),
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// What a retried call came to.
struct Done {
    attempts: u32,
    slept_ms: u64,
    result: Result<(), GaveUp<Fails>>,
}

impl Done {
    fn error(&self) -> String {
        match &self.result {
            Ok(()) => String::new(),
            Err(gave_up) => gave_up.to_string(),
        }
    }
}

/// A client in a world, and what was checked so far.
struct Run<'a> {
    world: &'a World,
    client: Process,
    checks: Checks,
    /// Whether the clock moved on by every wait so far.
    slept: Cell<bool>,
}

impl<'a> Run<'a> {
    fn open(world: &'a World) -> Self {
        Self {
            world,
            client: world.start("client"),
            checks: Checks::default(),
            slept: Cell::new(true),
        }
    }

    /// Retries a call that takes no time and ends as `call` says for each attempt; no jitter.
    fn retried(
        &self,
        policy: &Policy,
        call: &dyn Fn(u32) -> Result<(), Fails>,
    ) -> Result<Done, RunError> {
        let client = &self.client;
        let (mut attempts, mut slept_ms) = (0, 0);
        let began = Clock::now(client);
        let mut backoff = Backoff::new(BASE, CAP, Jitter::None, Rng::new(7));
        let work = retry(
            client,
            policy,
            &mut backoff,
            async |attempt| {
                attempts = attempt;
                let result = call(attempt);
                client.record(What::Printed(match &result {
                    Ok(()) => format!("attempt {attempt}: ok"),
                    Err(failure) => format!("attempt {attempt}: {failure}"),
                }));
                result
            },
            |retrying| slept_ms += millis(retrying.delay),
        );
        let result = self.world.run(client, work)?.ok_or(RunError::NoEnd)?;
        // What was announced was slept: the calls themselves take no time.
        let passed_ms = millis(Clock::now(client) - began);
        self.slept.set(self.slept.get() && passed_ms >= slept_ms);
        Ok(Done {
            attempts,
            slept_ms,
            result,
        })
    }

    fn outcome(&mut self, values: impl IntoIterator<Item = (impl Into<String>, Value)>) -> Outcome {
        let claim = "the clock moved on by every announced wait";
        self.checks.check(claim, true, self.slept.get());
        Outcome {
            values: Value::object(values),
            checks: std::mem::take(&mut self.checks).into_vec(),
            tables: Vec::new(),
            plots: Vec::new(),
            trace: self.world.trace(),
        }
    }
}
