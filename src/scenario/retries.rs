//! Retries: what may be retried, when, how often, and what happens to the service meanwhile.
//!
//! Clients, service and network are processes of the world; what they did is read from its trace.

use std::cell::{Cell, RefCell};
use std::num::NonZeroU32;
use std::rc::Rc;
use std::time::Duration;

use super::refunds::{RUN, Shop, TOOL, order, refund_id, the_key};
use super::{Fixture, RunError};
use crate::client::{
    Backoff, Class, Clock, Effect, Failure, GaveUp, Jitter, Policy, Retrying, Why, ceiling,
    http_class, http_effect, retry, timeout,
};
use crate::json::{self, Canonical, Finite, Value};
use crate::key::action_key;
use crate::outcome::{Checks, Outcome, Plot, Premise};
use crate::sim::trace::{Event, Fate, Trace, What};
use crate::sim::{
    Host, Network, NetworkError, Point, Process, Rng, Script, Strike, Verdict, World,
};
use crate::tool::refunds::{Recording, RefundRequest};

const BASE: Duration = Duration::from_millis(100);
const CAP: Duration = Duration::from_secs(1);

/// Where the service is when a request has reached it, and where it fails.
const AT_WORK: Point = Point("at_work");
const SERVICE: &str = "service";

/// How an answered call failed, and the answer's `Retry-After` if it has one.
#[derive(Debug, Clone, Copy)]
enum Fails {
    Network(NetworkError),
    Validation,
    Status(u16),
    Busy { retry_after: &'static str },
}

impl std::fmt::Display for Fails {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Network(error) => error.fmt(f),
            Self::Validation => f.write_str("validation"),
            Self::Status(status) => write!(f, "{status}"),
            Self::Busy { retry_after } => write!(f, "429, Retry-After: {retry_after}"),
        }
    }
}

impl Failure for Fails {
    fn class(&self) -> Class {
        match self {
            Self::Network(error) => error.class(),
            Self::Busy { .. } => Class::Retryable,
            Self::Validation => Class::Final,
            Self::Status(status) => http_class(*status),
        }
    }

    fn effect(&self) -> Effect {
        match self {
            Self::Network(error) => error.effect(),
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
    let broken = [
        ("timeout", Verdict::LoseRequest),
        ("reset", Verdict::BreakAfterwards),
    ];
    for (name, verdict) in broken {
        let seen = run
            .retried_over(&Network::new(verdict), &policy(), &[])?
            .attempts;
        let lost = run.lost();
        run.checks
            .check(lost, format!("attempts after a {name}"), 3, seen);
        attempts.push((name.to_owned(), Value::from(seen)));
    }
    for (failure, expected) in [
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
        let seen = run.retried(&policy(), &[failure; 3])?.attempts;
        let failed = run.failed(1);
        run.checks
            .check(failed, format!("attempts after {failure}"), expected, seen);
        attempts.push((failure.to_string(), Value::from(seen)));
    }
    let (conflict, refused) = changed_payload_attempts(world)?;
    let claim = "attempts after a conflict of payloads";
    run.checks.check(refused, claim, 1, conflict);
    attempts.push(("409".to_owned(), conflict.into()));
    // Two for each kind of failure that is tried three times.
    run.check_waits(14);
    Ok(run.outcome(attempts))
}

/// How often a retry tries a key that the service knows with another payload, and that it was
/// refused.
fn changed_payload_attempts(world: &World) -> Result<(usize, Premise), RunError> {
    let shop = Shop::open(world, Recording::WithEffect)?;
    let agent = shop.agent();
    let key = action_key(RUN, TOOL, &order().to_json())?;
    let half = RefundRequest {
        amount: Finite::try_from(24.5).expect("24.5 is finite"),
        ..order()
    };
    let mut backoff = Backoff::new(BASE, CAP, Jitter::None, Rng::new(7));
    let work = async {
        let _ = shop.attempt(&order(), Some(&key)).await;
        let again = async |_| shop.attempt(&half, Some(&key)).await;
        retry(&agent, &policy(), &mut backoff, again, |_| {}).await
    };
    let _ = world.run(&agent, work)?.ok_or(RunError::NoEnd)?;
    let changed = half.to_json().compact();
    let is_changed =
        |event: &Event| matches!(&event.what, What::Called { payload, .. } if *payload == changed);
    let attempts = world
        .trace()
        .events
        .iter()
        .filter(|one| is_changed(one))
        .count();
    let refused = shop.happened(
        "the service refused the changed payload",
        1,
        |event| matches!(&event.what, What::Failed { error } if error.starts_with("conflict")),
    );
    Ok((attempts, refused))
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

/// A client that makes five retries, and another one whose random numbers are its own.
fn delays(world: &World, jitter: Jitter) -> Result<Outcome, RunError> {
    let mut run = Run::open(world);
    let policy = Policy {
        max_attempts: const { NonZeroU32::new(6).expect("five retries") },
        ..policy()
    };
    let down = [Fails::Status(503); 6];
    let mut delays = Vec::new();
    for (name, seed) in [("client", 7), ("another client", 8)] {
        run.client = world.start(name);
        let backoff = Backoff::new(BASE, CAP, jitter, Rng::new(seed));
        let usual = Network::new(Verdict::Deliver);
        delays.push(run.retried_with(&usual, &policy, backoff, &down)?.announced);
    }
    let (own, others) = (&delays[0], &delays[1]);
    let mut previous = BASE;
    for (n, &delay) in own.iter().enumerate() {
        let bound = ceiling(BASE, CAP, n as u32);
        let (from, to) = match jitter {
            Jitter::None => (bound, bound),
            Jitter::Full => (Duration::ZERO, bound),
            Jitter::Equal => (bound / 2, bound),
            Jitter::Decorrelated => (BASE, CAP.min(previous * 3)),
        };
        let claim = format!(
            "delay {}, {} ms, is from {} to {} ms",
            n + 1,
            millis(delay),
            millis(from),
            millis(to)
        );
        let waited = run.announced_by("client", n + 1);
        run.checks
            .check(waited, claim, true, (from..=to).contains(&delay));
        previous = delay;
    }
    let differs = own != others;
    let both = run.announced_by("another client", 5);
    run.checks.check(
        both,
        "another client has other delays",
        jitter != Jitter::None,
        differs,
    );
    run.check_waits(10);
    let shown: Vec<u64> = own.iter().copied().map(millis).collect();
    let plot = Plot {
        title: "Delay before each retry".to_owned(),
        unit: "ms".to_owned(),
        labels: (1..=shown.len()).map(|n| format!("retry {n}")).collect(),
        bars: shown.clone(),
    };
    let shown: Vec<Value> = shown.into_iter().map(Value::from).collect();
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
    let done = run.retried(&policy(), &[busy; 3])?;
    let asked = match done.result.as_ref().map_err(|gave_up| &gave_up.why) {
        Err(Why::AskedToWaitTooLong { asked, .. }) => Value::from(asked.as_secs()),
        _ => Value::Null,
    };
    let failed = run.failed(1);
    run.checks.check(
        failed.clone(),
        "the error carries the hint, in seconds",
        3600,
        asked.clone(),
    );
    run.checks
        .check(failed.clone(), "it was called once", 1, done.attempts);
    run.checks.check(
        failed,
        "it gave up within 10 ms, without a wait",
        true,
        Clock::now(&run.client) <= AT_ONCE,
    );
    Ok(run.outcome([
        ("asked_s", asked),
        ("attempts", done.attempts.into()),
        ("slept_ms", done.slept_ms().into()),
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
    let done = run.retried(&policy(), &[busy])?;
    let failed = run.failed(1);
    run.checks.check(
        failed.clone(),
        "the second attempt succeeds",
        true,
        done.result.is_ok(),
    );
    match expected_ms {
        Some(expected) => {
            run.checks
                .check(failed, "milliseconds slept", expected, done.slept_ms());
        }
        None => {
            let date = Duration::from_secs(3);
            let trace = world.trace();
            let came = trace
                .events
                .iter()
                .rfind(|one| is_call(one))
                .map(|one| one.at);
            run.checks.check(
                failed,
                "it came at the date or up to 10 ms later",
                true,
                came.is_some_and(|came| (date..=date + AT_ONCE).contains(&came)),
            );
        }
    }
    run.check_waits(1);
    Ok(run.outcome([
        ("attempts", done.attempts.into()),
        ("slept_ms", done.slept_ms().into()),
    ]))
}

/// Three attempts and no more, whatever time is left.
pub(super) fn attempts_capped(world: &World, _: &Fixture) -> Result<Outcome, RunError> {
    let mut run = Run::open(world);
    let done = run.retried(&policy(), &[Fails::Status(503); 4])?;
    let error = done.error();
    let failed = run.failed(3);
    run.checks
        .check(failed.clone(), "three attempts were made", 3, done.attempts);
    run.checks.check(
        failed,
        "the error tells attempts, cause and what may be done",
        "gave up after attempt 3, the last one: 503; an earlier attempt may have taken effect",
        error.as_str(),
    );
    run.check_waits(2);
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
    let mut down = [Fails::Status(503); 8];
    down[4..].fill(Fails::Status(502));
    let done = run.retried(&policy, &down)?;
    let error = done.error();
    let failed = run.failed(5);
    run.checks
        .check(failed.clone(), "attempts made", 5, done.attempts);
    run.checks.check(
        failed.clone(),
        "milliseconds slept: the next wait of 1000 would pass the budget of 2000",
        1_500,
        done.slept_ms(),
    );
    run.checks.check(
        failed,
        "the error is the last real one, and tells what may be done",
        "gave up after attempt 5, out of time: 502; an earlier attempt may have taken effect",
        error.as_str(),
    );
    run.check_waits(4);
    Ok(run.outcome([
        ("attempts", done.attempts.into()),
        ("error", error.into()),
        ("slept_ms", done.slept_ms().into()),
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
    let broke = shop.answer_lost();
    shop.checks.check(
        broke.clone(),
        "the error tells attempts, cause and what may be done",
        "gave up after attempt 3, the last one: connection refused; \
         an earlier attempt may have taken effect",
        error.clone(),
    );
    let claim = "and it was done: one refund, one replay record";
    shop.check_rows(&broke, claim, 1, 1)?;
    let settled = shop.retried(&|_| Some(key.clone()))?;
    let again = shop.called_with(&key, 4);
    let claim = "the key settles it, with the first answer";
    shop.check_answer(&again, claim, "R1", &settled);
    shop.check_rows(&again, "still one refund, one replay record", 1, 1)?;
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

fn layers(world: &World, layers: u32, expected: usize) -> Result<Outcome, RunError> {
    let mut run = Run::open(world);
    let done = world.run(&run.client, layered(&run, layers))?;
    let failed = run.failed(1);
    run.checks.check(
        failed.clone(),
        "nobody has an answer",
        true,
        done.ok_or(RunError::NoEnd)?.is_err(),
    );
    let calls = arrivals(&world.trace()).count();
    run.checks
        .check(failed, "calls to the service", expected, calls);
    // Between the calls, each layer's own.
    run.check_waits(expected - 1);
    Ok(run.outcome([("calls", calls.into()), ("layers", layers.into())]))
}

/// What the layer above calls: itself a retry over the layer below.
async fn layered(run: &Run<'_>, layers: u32) -> Result<(), Fails> {
    let down = Fails::Status(503);
    if layers == 0 {
        let usual = Network::new(Verdict::Deliver);
        return run.attempt(&usual, Some(down)).await;
    }
    let mut backoff = Backoff::new(BASE, CAP, Jitter::Full, Rng::new(u64::from(layers)));
    let below = async |_| Box::pin(layered(run, layers - 1)).await;
    let patient = Policy {
        total_time: Duration::from_secs(3600),
        ..policy()
    };
    let client = &run.client;
    let announce = |retrying: &Retrying<'_, Fails>| run.announce(client, retrying);
    match retry(client, &patient, &mut backoff, below, announce).await {
        Ok(()) => Ok(()),
        Err(_) => Err(down),
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
    let client = run.client.clone();
    let network = Network::new(Verdict::LoseRequest);
    let call = network.call(&client, &run.service.process, async {});
    let returned = match limit {
        None => world.run(&client, call)?.is_some(),
        Some(limit) => {
            let done = world.run(&client, timeout(&client, limit, call))?;
            matches!(done, Some(Err(_)))
        }
    };
    let lost = run.lost();
    run.checks.check(
        lost.clone(),
        "the call comes back",
        limit.is_some(),
        returned,
    );
    run.checks
        .check(lost.clone(), "the caller is alive", true, client.is_alive());
    let mut values = vec![("returned", Value::from(returned))];
    if returned {
        let after_ms = millis(Clock::now(&client));
        run.checks.check(
            lost,
            "it comes back after its second, or up to 10 ms later",
            true,
            (1_000..=1_010).contains(&after_ms),
        );
        values.push(("after_ms", after_ms.into()));
    }
    Ok(run.outcome(values))
}

const CLIENTS: u32 = 100;
const RETRIES: u32 = 5;
const WINDOW_MS: u64 = 100;

/// A hundred clients fail at one moment and back off without jitter: all of them come back at
/// one moment, again and again.
pub(super) fn lockstep_stampede(world: &World, _: &Fixture) -> Result<Outcome, RunError> {
    let all = u64::from(CLIENTS);
    stampede(world, Jitter::None, |peak| peak == all, "all at once")
}

/// The same clients with full jitter: no window sees a fifth of them.
pub(super) fn jitter_spreads_load(world: &World, _: &Fixture) -> Result<Outcome, RunError> {
    let spread = |peak| peak < u64::from(CLIENTS) / 5;
    stampede(world, Jitter::Full, spread, "less than a fifth at once")
}

/// Every client loses its service in one moment: nobody listens there. When they come back it
/// listens, and fails, so that each of them makes all its retries. What arrives at the service is
/// counted per window; base 1 s, cap 8 s.
fn stampede(
    world: &World,
    jitter: Jitter,
    is_right: impl Fn(u64) -> bool,
    claim: &str,
) -> Result<Outcome, RunError> {
    let mut run = Run::open(world);
    let network = Network::new(Verdict::Deliver);
    for first in 1..=CLIENTS {
        network.place(first, Verdict::Refuse);
    }
    let policy = Policy {
        max_attempts: const { NonZeroU32::new(1 + RETRIES).expect("one and the retries") },
        total_time: Duration::from_secs(3600),
        attempt_timeout: None,
        ..policy()
    };
    let clients: Vec<Process> = (1..=CLIENTS)
        .map(|number| world.start(&format!("client {number}")))
        .collect();
    {
        let (run, policy, network) = (&run, &policy, &network);
        let tasks = clients.iter().zip(0..).map(|(client, seed)| {
            let (base, cap) = (Duration::from_secs(1), Duration::from_secs(8));
            let mut backoff = Backoff::new(base, cap, jitter, Rng::new(seed));
            let work = async move {
                let call = async |_| {
                    let overloaded = Some(Fails::Status(503));
                    run.service.call(client, network, overloaded).await
                };
                let announce = |retrying: &Retrying<'_, Fails>| run.announce(client, retrying);
                retry(client, policy, &mut backoff, call, announce).await
            };
            (client.clone(), Box::pin(work))
        });
        world.run_together(tasks, &mut Script::default())?;
    }
    let trace = world.trace();
    let mut bars: Vec<u64> = Vec::new();
    for arrival in arrivals(&trace) {
        let window = (millis(arrival.at) / WINDOW_MS) as usize;
        if bars.len() <= window {
            bars.resize(window + 1, 0);
        }
        bars[window] += 1;
    }
    let peak = bars.iter().copied().max().unwrap_or(0);
    let what = "a client lost its service in the first moment";
    let at_once = Premise::happened_to(&trace, what, CLIENTS as usize, |event| {
        let refused = matches!(
            event.what,
            What::Message {
                fate: Fate::Refused,
                ..
            }
        );
        refused && event.at.is_zero()
    });
    let retries = CLIENTS * RETRIES;
    run.checks.check(
        at_once,
        "every retry of every client arrives",
        retries,
        bars.iter().sum::<u64>(),
    );
    let failed = run.failed(retries as usize);
    run.checks.check(
        failed,
        format!("the fullest window: {claim}"),
        true,
        is_right(peak),
    );
    run.check_waits(retries as usize);
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

/// How much later than due something may be here: a few moves of the processes.
const AT_ONCE: Duration = Duration::from_millis(10);

/// The requests that have come to the service.
fn arrivals(trace: &Trace) -> impl Iterator<Item = &Event> {
    let arrives = |event: &&Event| *event.who == *SERVICE && event.what == What::Reached(AT_WORK);
    trace.events.iter().filter(arrives)
}

fn is_call(event: &Event) -> bool {
    matches!(event.what, What::Called { .. })
}

/// What a client says before it waits.
const WAITS: &str = "; waits ";

fn is_announcement(event: &Event) -> bool {
    matches!(&event.what, What::Printed(line) if line.contains(WAITS))
}

/// What a retried call came to.
struct Done {
    /// How often the client called.
    attempts: usize,
    /// The waits that it was told of.
    announced: Vec<Duration>,
    result: Result<(), GaveUp<Fails>>,
}

impl Done {
    fn error(&self) -> String {
        match &self.result {
            Ok(()) => String::new(),
            Err(gave_up) => gave_up.to_string(),
        }
    }

    /// The waits that were announced, each of which [`Run::check_waits`] finds slept.
    fn slept_ms(&self) -> u64 {
        self.announced.iter().copied().map(millis).sum()
    }
}

/// A service that fails as it is told to.
struct Service {
    world: World,
    process: Process,
    visits: Rc<Cell<u32>>,
}

impl Service {
    fn start(world: &World) -> Self {
        Self {
            world: world.clone(),
            process: world.start(SERVICE),
            visits: Rc::default(),
        }
    }

    /// A request, which ends in this failure if it reaches the service and its fault strikes.
    async fn call(
        &self,
        client: &Process,
        network: &Network,
        failure: Option<Fails>,
    ) -> Result<(), Fails> {
        let (world, at) = (self.world.clone(), self.process.clone());
        let visits = Rc::clone(&self.visits);
        let work = async move {
            visits.set(visits.get() + 1);
            if failure.is_some() {
                world.strike(SERVICE, AT_WORK, visits.get(), Strike::Fail);
            }
            let struck = at.reach(AT_WORK).await.is_err();
            failure.filter(|_| struck).map_or(Ok(()), Err)
        };
        match network.call(client, &self.process, work).await {
            Ok(answer) => answer,
            Err(error) => Err(Fails::Network(error)),
        }
    }
}

/// A client, the service that it calls, and what was checked so far.
struct Run<'a> {
    world: &'a World,
    client: Process,
    service: Service,
    checks: Checks,
    /// Each client that was to wait, and how long.
    announced: RefCell<Vec<(Rc<str>, Duration)>>,
    /// How many events there were before what is looked at now.
    before: usize,
}

impl<'a> Run<'a> {
    fn open(world: &'a World) -> Self {
        Self {
            world,
            client: world.start("client"),
            service: Service::start(world),
            checks: Checks::default(),
            announced: RefCell::default(),
            before: 0,
        }
    }

    /// One attempt of the client.
    async fn attempt(&self, network: &Network, failure: Option<Fails>) -> Result<(), Fails> {
        self.client.record(What::Called {
            tool: "ping",
            key: None,
            payload: "{}".to_owned(),
        });
        let result = self.service.call(&self.client, network, failure).await;
        self.client.record(match &result {
            Ok(()) => What::Answered {
                answer: "ok".to_owned(),
            },
            Err(failure) => What::Failed {
                error: failure.to_string(),
            },
        });
        result
    }

    fn announce(&self, client: &Process, retrying: &Retrying<'_, Fails>) {
        let (attempt, cause) = (retrying.attempt, retrying.cause);
        let wait_ms = millis(retrying.delay);
        client.record(What::Printed(format!(
            "attempt {attempt}: {cause}{WAITS}{wait_ms} ms"
        )));
        let mut announced = self.announced.borrow_mut();
        announced.push((client.name(), retrying.delay));
    }

    /// Retries a call whose attempts fail as `failures` says, one after the other; no jitter.
    fn retried(&mut self, policy: &Policy, failures: &[Fails]) -> Result<Done, RunError> {
        self.retried_over(&Network::new(Verdict::Deliver), policy, failures)
    }

    fn retried_over(
        &mut self,
        network: &Network,
        policy: &Policy,
        failures: &[Fails],
    ) -> Result<Done, RunError> {
        let backoff = Backoff::new(BASE, CAP, Jitter::None, Rng::new(7));
        self.retried_with(network, policy, backoff, failures)
    }

    fn retried_with(
        &mut self,
        network: &Network,
        policy: &Policy,
        mut backoff: Backoff,
        failures: &[Fails],
    ) -> Result<Done, RunError> {
        self.before = self.world.trace().events.len();
        let waits_before = self.announced.borrow().len();
        let run = &*self;
        let mut failures = failures.iter().copied();
        let attempt = async |_| run.attempt(network, failures.next()).await;
        let announce = |retrying: &Retrying<'_, Fails>| run.announce(&run.client, retrying);
        let work = retry(&run.client, policy, &mut backoff, attempt, announce);
        let result = run.world.run(&run.client, work)?.ok_or(RunError::NoEnd)?;
        let announced = self.announced.borrow();
        let waits = announced[waits_before..].iter();
        Ok(Done {
            attempts: self
                .events()
                .events
                .iter()
                .filter(|one| is_call(one))
                .count(),
            announced: waits.map(|&(_, wait)| wait).collect(),
            result,
        })
    }

    /// What happened since the last retried call began.
    fn events(&self) -> Trace {
        let mut trace = self.world.trace();
        trace.events.drain(..self.before.min(trace.events.len()));
        trace
    }

    /// That the service failed `times` times since the last retried call began.
    fn failed(&self, times: usize) -> Premise {
        let what = "the service failed at a request";
        Premise::happened(&self.events(), what, times, |event| {
            *event.who == *SERVICE && event.what == What::Struck(AT_WORK)
        })
    }

    /// That a message was lost since the last retried call began.
    fn lost(&self) -> Premise {
        Premise::happened(&self.events(), "a message was lost", 1, |event| {
            matches!(
                event.what,
                What::Message {
                    fate: Fate::Lost,
                    ..
                }
            )
        })
    }

    /// That this client announced `times` waits.
    fn announced_by(&self, client: &str, times: usize) -> Premise {
        let what = format!("{client} announced a wait");
        Premise::happened(&self.world.trace(), what, times, |event| {
            *event.who == *client && is_announcement(event)
        })
    }

    /// Compares every wait that was announced with the time that passed until that client called
    /// again.
    fn check_waits(&mut self, waits: usize) {
        let trace = self.world.trace();
        let announced = std::mem::take(&mut *self.announced.borrow_mut());
        let mut clients: Vec<Rc<str>> = announced.iter().map(|(who, _)| Rc::clone(who)).collect();
        clients.sort_unstable();
        clients.dedup();
        let mut slept = 0_usize;
        for client in clients {
            let of_client = announced.iter().filter(|(who, _)| *who == client);
            slept += of_client
                .zip(times_slept(&trace, &client))
                .filter(|((_, wait), slept)| (*wait..=*wait + AT_ONCE).contains(slept))
                .count();
        }
        let premise = Premise::happened(&trace, "a wait was announced", waits, is_announcement);
        let claim = "waits that were slept as announced, or up to 10 ms longer";
        self.checks.check(premise, claim, waits, slept);
    }

    fn outcome(&mut self, values: impl IntoIterator<Item = (impl Into<String>, Value)>) -> Outcome {
        Outcome {
            values: json::object(values),
            checks: std::mem::take(&mut self.checks).into_vec(),
            tables: Vec::new(),
            plots: Vec::new(),
            trace: self.world.trace(),
        }
    }
}

/// How long it took from each announced wait of `client` to its next call.
fn times_slept(trace: &Trace, client: &str) -> Vec<Duration> {
    let mut slept = Vec::new();
    let mut since = None;
    for event in trace.events.iter().filter(|event| *event.who == *client) {
        match event.what {
            What::Called { .. } | What::Message { .. } => {
                slept.extend(since.take().map(|since| event.at - since));
            }
            _ if is_announcement(event) => since = Some(event.at),
            _ => {}
        }
    }
    slept
}
