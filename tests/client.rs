//! The client: delays, headers, timeouts, retries and the breaker.
#![cfg(not(target_family = "wasm"))]

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::{Future, pending, poll_fn};
use std::num::NonZeroU32;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::Union;
use tool_retries::client::{
    Backoff, Breaker, Cause, CircuitOpen, Class, Clock, Effect, Elapsed, Failure, GaveUp, Health,
    Jitter, Permit, Policy, Refused, RetryAfter, Retrying, State, Why, ceiling, http_class,
    http_effect, retry, timeout,
};
use tool_retries::sim::{NetworkError, Rng};

const JITTERS: [Jitter; 4] = [
    Jitter::None,
    Jitter::Full,
    Jitter::Equal,
    Jitter::Decorrelated,
];

/// 6 November 1994, 08:49:37 GMT, the RFC's own example, in seconds since the epoch.
const EXAMPLE_DATE: u64 = 784_111_777;

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn count(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).unwrap()
}

/// Time stands still until everything waits, and then moves on to the end of the first wait.
#[derive(Default)]
struct TestClock {
    now: Cell<Duration>,
    /// The time at the [`EXAMPLE_DATE`].
    start: Duration,
    /// How much longer than asked every sleep takes.
    late: Duration,
    waits: RefCell<Vec<Duration>>,
}

impl TestClock {
    fn started_at(start: Duration) -> Self {
        Self {
            now: Cell::new(start),
            start,
            ..Self::default()
        }
    }

    /// Runs a future to its end; `None` when it waits for something that never comes.
    fn run<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(done) = future.as_mut().poll(&mut context) {
                return Some(done);
            }
            let first = self.waits.take().into_iter().min()?;
            assert!(
                first > self.now.get(),
                "a wait that is over is still waited on"
            );
            self.now.set(first);
        }
    }

    fn jump(&self, by: Duration) {
        self.now.set(self.now.get().saturating_add(by));
    }
}

impl Clock for TestClock {
    fn now(&self) -> Duration {
        self.now.get()
    }

    fn since_epoch(&self) -> Duration {
        secs(EXAMPLE_DATE).saturating_add(self.now.get() - self.start)
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> {
        let ends = self
            .now
            .get()
            .saturating_add(duration)
            .saturating_add(self.late);
        poll_fn(move |_| {
            if self.now.get() >= ends {
                return Poll::Ready(());
            }
            self.waits.borrow_mut().push(ends);
            Poll::Pending
        })
    }
}

/// A failure of a call: which one it was, and what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Failed {
    attempt: u32,
    class: Class,
    effect: Effect,
    retry_after: Option<String>,
}

impl Failed {
    fn retryable(attempt: u32) -> Self {
        Self {
            attempt,
            class: Class::Retryable,
            effect: Effect::MayBeDone,
            retry_after: None,
        }
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "failure {}", self.attempt)
    }
}

impl Failure for Failed {
    fn class(&self) -> Class {
        self.class
    }

    fn effect(&self) -> Effect {
        self.effect
    }

    fn retry_after(&self) -> Option<&str> {
        self.retry_after.as_deref()
    }
}

// Backoff.

/// Any duration, the extremes often.
fn any_duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::ZERO),
        Just(Duration::from_nanos(1)),
        Just(Duration::MAX),
        (0u64..10_000).prop_map(ms),
        (any::<u64>(), 0u32..1_000_000_000).prop_map(|(s, ns)| Duration::new(s, ns)),
    ]
}

fn any_retry() -> impl Strategy<Value = u32> {
    prop_oneof![0u32..140, any::<u32>(), Just(u32::MAX)]
}

/// The ceiling by doubling step by step, without any arithmetic on bits.
fn doubled(base: Duration, cap: Duration, retry: u32) -> Duration {
    let mut delay = base;
    // A base of one nanosecond has outgrown every duration after 94 doublings.
    for _ in 0..retry.min(100) {
        delay = delay.saturating_mul(2);
    }
    delay.min(cap)
}

proptest! {
    #[test]
    fn ceilings_are_the_base_doubled_and_capped(
        base in any_duration(), cap in any_duration(), retry in any_retry(),
    ) {
        prop_assert_eq!(ceiling(base, cap, retry), doubled(base, cap, retry));
    }

    #[test]
    fn delays_stay_in_their_bounds(
        base in any_duration(), cap in any_duration(), seed in any::<u64>(),
        retries in prop::collection::vec(any_retry(), 1..8),
    ) {
        for jitter in JITTERS {
            let mut backoff = Backoff::new(base, cap, jitter, Rng::new(seed));
            let mut previous = base;
            for &retry in &retries {
                let most = doubled(base, cap, retry);
                if retry == 0 {
                    previous = base;
                }
                let (low, high) = match jitter {
                    Jitter::None => (most, most),
                    Jitter::Full => (Duration::ZERO, most),
                    Jitter::Equal => (most / 2, most),
                    Jitter::Decorrelated => {
                        (base.min(cap), previous.saturating_mul(3).max(base).min(cap))
                    }
                };
                let delay = backoff.delay(retry);
                prop_assert!(
                    (low..=high).contains(&delay),
                    "{jitter:?}: {delay:?} outside {low:?} to {high:?}"
                );
                previous = delay;
            }
        }
    }
}

#[test]
fn jitter_reaches_both_ends() {
    for (base, cap) in [
        (ms(100), secs(10)),
        (Duration::from_nanos(3), Duration::from_nanos(3_000)),
        (secs(1 << 40), Duration::MAX),
        (Duration::MAX / 8, Duration::MAX),
    ] {
        for (jitter, retry) in [
            (Jitter::Full, 2),
            (Jitter::Equal, 2),
            (Jitter::Decorrelated, 0),
        ] {
            let most = ceiling(base, cap, retry);
            let (low, high) = match jitter {
                Jitter::None => unreachable!(),
                Jitter::Full => (Duration::ZERO, most),
                Jitter::Equal => (most / 2, most),
                Jitter::Decorrelated => (base, base * 3),
            };
            let near = (high - low) / 50;
            let mut backoff = Backoff::new(base, cap, jitter, Rng::new(7));
            let delays: Vec<Duration> = (0..2_000).map(|_| backoff.delay(retry)).collect();
            let (least, most) = (delays.iter().min().unwrap(), delays.iter().max().unwrap());
            assert!(
                *least <= low + near,
                "{jitter:?}: {least:?} is far from {low:?}"
            );
            assert!(
                *most >= high - near,
                "{jitter:?}: {most:?} is far from {high:?}"
            );
        }
    }
}

#[test]
fn both_ends_themselves_can_be_drawn() {
    let nanos = Duration::from_nanos;
    for (jitter, expected) in [
        (Jitter::Full, vec![0, 1, 2, 3, 4]),
        (Jitter::Equal, vec![2, 3, 4]),
        (Jitter::Decorrelated, vec![4, 5, 6, 7, 8, 9, 10, 11, 12]),
    ] {
        let mut backoff = Backoff::new(nanos(4), nanos(100), jitter, Rng::new(1));
        let mut seen: Vec<Duration> = (0..500).map(|_| backoff.delay(0)).collect();
        seen.sort();
        seen.dedup();
        let expected: Vec<Duration> = expected.into_iter().map(nanos).collect();
        assert_eq!(seen, expected, "{jitter:?}");
    }
}

#[test]
fn decorrelated_delays_grow_from_the_one_before_and_start_afresh() {
    let mut backoff = Backoff::new(ms(10), secs(60), Jitter::Decorrelated, Rng::new(3));
    let grown = (0..200).map(|retry| backoff.delay(retry)).max().unwrap();
    assert!(grown > secs(10), "{grown:?}");
    assert!(backoff.delay(0) <= ms(30));
}

#[test]
fn the_same_seed_gives_the_same_delays() {
    for jitter in JITTERS {
        let delays = |seed| {
            let mut backoff = Backoff::new(ms(100), secs(10), jitter, Rng::new(seed));
            (0..5).map(|retry| backoff.delay(retry)).collect::<Vec<_>>()
        };
        assert_eq!(delays(1), delays(1));
        assert_eq!(delays(1) == delays(2), jitter == Jitter::None);
    }
}

// Retry-After.

#[test]
fn retry_after_is_read_as_the_rfc_says() {
    let seconds = |number| Some(RetryAfter::Seconds(secs(number)));
    let at = |number| Some(RetryAfter::At(secs(number)));
    let nines = "9".repeat(10_000);
    let zeros = format!("{}7", "0".repeat(10_000));
    let letters = "x".repeat(10_000);
    let leaps = "23:59:60".repeat(100_000);
    let spaces = format!("{0}5{0}", " ".repeat(10_000));
    let cases: &[(&str, Option<RetryAfter>)] = &[
        // Seconds.
        ("0", seconds(0)),
        ("120", seconds(120)),
        ("007", seconds(7)),
        ("86400", seconds(86_400)),
        ("18446744073709551614", seconds(u64::MAX - 1)),
        ("18446744073709551615", seconds(u64::MAX)),
        ("18446744073709551616", seconds(u64::MAX)),
        ("99999999999999999999999999", seconds(u64::MAX)),
        (&nines, seconds(u64::MAX)),
        (&zeros, seconds(7)),
        // White space around.
        (" 5", seconds(5)),
        ("5 ", seconds(5)),
        ("\t 5 \t", seconds(5)),
        (&spaces, seconds(5)),
        ("5\n", None),
        ("5\r\n", None),
        ("\u{b}5", None),
        ("\u{a0}5", None),
        ("\u{2003}5", None),
        ("1 2", None),
        // What is no number of seconds.
        ("", None),
        (" ", None),
        ("+5", None),
        ("-5", None),
        ("-0", None),
        ("1.5", None),
        ("1,5", None),
        ("5s", None),
        ("5, 10", None),
        ("1e3", None),
        ("0x10", None),
        ("1_000", None),
        ("\"5\"", None),
        ("٣", None),
        ("５", None),
        ("²", None),
        ("5\0", None),
        ("NaN", None),
        ("inf", None),
        ("soon", None),
        (&letters, None),
        // Dates.
        ("Sun, 06 Nov 1994 08:49:37 GMT", at(EXAMPLE_DATE)),
        ("Sunday, 06-Nov-94 08:49:37 GMT", at(EXAMPLE_DATE)),
        ("Sun Nov  6 08:49:37 1994", at(EXAMPLE_DATE)),
        ("Sun Nov 06 08:49:37 1994", at(EXAMPLE_DATE)),
        ("\tSun, 06 Nov 1994 08:49:37 GMT  ", at(EXAMPLE_DATE)),
        (
            "Wednesday, 09-Nov-94 08:49:37 GMT",
            at(EXAMPLE_DATE + 3 * 86_400),
        ),
        ("Thu, 01 Jan 1970 00:00:00 GMT", at(0)),
        ("Tue, 29 Feb 2000 00:00:00 GMT", at(951_782_400)),
        ("Tue, 19 Jan 2038 03:14:08 GMT", at(1 << 31)),
        ("Fri, 31 Dec 9999 23:59:59 GMT", at(253_402_300_799)),
        // Centuries of a year of two digits.
        ("Thursday, 01-Jan-70 00:00:00 GMT", at(0)),
        ("Tuesday, 01-Jan-69 00:00:00 GMT", at(3_124_224_000)),
        ("Wednesday, 01-Jan-69 00:00:00 GMT", None),
        // Leap seconds.
        ("Sat, 31 Dec 2016 23:59:60 GMT", at(1_483_228_800)),
        ("Saturday, 31-Dec-16 23:59:60 GMT", at(1_483_228_800)),
        ("Sat Dec 31 23:59:60 2016", at(1_483_228_800)),
        ("Fri, 31 Dec 9999 23:59:60 GMT", at(253_402_300_800)),
        ("Sat, 31 Dec 2016 22:59:60 GMT", None),
        ("Sat, 31 Dec 2016 23:59:61 GMT", None),
        ("23:59:60", None),
        ("23:59:6023:59:60", None),
        (&leaps, None),
        // What is no date.
        ("Mon, 06 Nov 1994 08:49:37 GMT", None),
        ("Wed, 31 Feb 2024 00:00:00 GMT", None),
        ("Mon, 29 Feb 1999 00:00:00 GMT", None),
        ("Sun, 06 Nov 1994 24:00:00 GMT", None),
        ("Sun, 06 Nov 1994 08:60:00 GMT", None),
        ("Sun, 00 Nov 1994 08:49:37 GMT", None),
        ("Wed, 31 Dec 1969 23:59:59 GMT", None),
        ("Sun, 06 Nov 1994 08:49:37 UTC", None),
        ("Sun, 06 Nov 1994 08:49:37 EST", None),
        ("Sun, 06 Nov 1994 08:49:37 CET", None),
        ("Sun, 06 Nov 1994 08:49:37 +0000", None),
        ("Sun, 06 Nov 1994 08:49:37 +0100", None),
        ("Sun, 06 Nov 1994 08:49:37 Z", None),
        ("Sun, 06 Nov 1994 08:49:37", None),
        ("Sun, 06 Nov 1994 08:49:37 gmt", None),
        ("sun, 06 nov 1994 08:49:37 GMT", None),
        ("Sunday, 06-Nov-94 08:49:37 PST", None),
        ("Sun Nov  6 08:49:37 1994 GMT", None),
        ("Sun, 6 Nov 1994 08:49:37 GMT", None),
        ("Sun,  06 Nov 1994 08:49:37 GMT", None),
        ("Sun, 06 Nov 1994 08:49:37 GMT\n", None),
        ("\u{c}Sun, 06 Nov 1994 08:49:37 GMT", None),
        ("Sun, 06 Nov 1994 08:49:37 GMT, 5", None),
        ("06 Nov 1994 08:49:37 GMT", None),
        ("1994-11-06T08:49:37Z", None),
        ("Sün, 06 Nov 1994 08:49:37 GMT", None),
        ("784111777.0", None),
    ];
    assert!(cases.len() >= 40);
    for (header, expected) in cases {
        let shown: String = header.chars().take(40).collect();
        assert_eq!(RetryAfter::parse(header), *expected, "{shown:?}");
    }
}

#[test]
fn a_date_is_waited_for_and_a_past_one_is_not() {
    let at = RetryAfter::At(secs(100));
    assert_eq!(at.delay(ms(97_500)), ms(2_500));
    assert_eq!(at.delay(secs(100)), Duration::ZERO);
    assert_eq!(at.delay(secs(101)), Duration::ZERO);
    assert_eq!(at.delay(Duration::MAX), Duration::ZERO);
    let seconds = RetryAfter::Seconds(secs(u64::MAX));
    assert_eq!(seconds.delay(Duration::MAX), secs(u64::MAX));
}

/// Fragments of valid headers, put together at random.
fn any_header() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "Sun", "Sunday", ",", ", ", " ", "06", "-", "Nov", "94", "1994", "08:49:37", "23:59:60",
        "GMT", "5", "٣", "+", "\n",
    ]);
    prop_oneof![
        any::<String>(),
        prop::collection::vec(part, 0..12).prop_map(|parts| parts.concat()),
    ]
}

proptest! {
    #[test]
    fn no_header_makes_the_parser_or_the_delay_panic(
        header in any_header(), now in any_duration(),
    ) {
        if let Some(read) = RetryAfter::parse(&header) {
            read.delay(now);
        }
    }

    #[test]
    fn every_date_is_read_in_all_three_formats(seconds in 0u64..253_402_300_800) {
        let time = std::time::UNIX_EPOCH + secs(seconds);
        let fixed = httpdate::fmt_http_date(time);
        let expected = Some(RetryAfter::At(secs(seconds)));
        prop_assert_eq!(RetryAfter::parse(&fixed), expected);
        let parts: Vec<&str> = fixed.split([' ', ',']).filter(|part| !part.is_empty()).collect();
        let [weekday, day, month, year, time, _] = parts[..] else {
            panic!("{fixed}");
        };
        let asctime = format!("{weekday} {month} {day} {time} {year}");
        prop_assert_eq!(RetryAfter::parse(&asctime), expected);
        let long = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
            .into_iter()
            .find(|long| long.starts_with(weekday))
            .unwrap();
        let short_year = format!("{long}, {day}-{month}-{} {time} GMT", &year[2..]);
        if (1970..2070).contains(&year.parse::<u32>().unwrap()) {
            prop_assert_eq!(RetryAfter::parse(&short_year), expected);
        }
    }
}

// Timeouts.

/// Sets a flag when dropped.
struct OnDrop<'a>(&'a Cell<bool>);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        self.0.set(true);
    }
}

#[test]
fn a_call_that_hangs_is_dropped_when_time_is_up() {
    let clock = TestClock::default();
    let dropped = Cell::new(false);
    let work = async {
        let _guard = OnDrop(&dropped);
        pending::<()>().await;
    };
    let result = clock.run(async {
        let result = timeout(&clock, secs(2), work).await;
        assert!(dropped.get(), "dropped by the time the caller hears of it");
        result
    });
    assert_eq!(result, Some(Err(Elapsed { limit: secs(2) })));
    assert_eq!(clock.now(), secs(2));
    assert_eq!(
        result.unwrap().unwrap_err().to_string(),
        "no answer within 2000 ms"
    );
}

#[test]
fn an_answer_in_time_costs_no_more_than_its_time() {
    let clock = TestClock::default();
    let work = async {
        clock.sleep(secs(1)).await;
        7
    };
    assert_eq!(clock.run(timeout(&clock, secs(2), work)), Some(Ok(7)));
    assert_eq!(clock.now(), secs(1));
}

#[test]
fn the_answer_wins_a_draw_and_needs_no_time() {
    let clock = TestClock::default();
    let work = clock.sleep(secs(2));
    assert_eq!(clock.run(timeout(&clock, secs(2), work)), Some(Ok(())));
    assert_eq!(
        clock.run(timeout(&clock, Duration::ZERO, async { 7 })),
        Some(Ok(7))
    );
    assert_eq!(
        clock.run(timeout(&clock, Duration::ZERO, pending::<()>())),
        Some(Err(Elapsed {
            limit: Duration::ZERO
        }))
    );
}

// Retries.

/// What one attempt does: it takes `takes`, unless it hangs, and then answers or fails.
#[derive(Debug, Clone)]
struct Attempt {
    takes: Option<Duration>,
    result: Result<(), (Class, Option<String>)>,
    /// What its failure tells.
    effect: Effect,
}

impl Attempt {
    fn fails(milliseconds: u64) -> Self {
        Self {
            takes: Some(ms(milliseconds)),
            result: Err((Class::Retryable, None)),
            effect: Effect::MayBeDone,
        }
    }

    fn asks(header: &str) -> Self {
        Self {
            takes: Some(Duration::ZERO),
            result: Err((Class::Retryable, Some(header.to_owned()))),
            effect: Effect::NotDone,
        }
    }

    fn hangs() -> Self {
        Self {
            takes: None,
            result: Ok(()),
            effect: Effect::MayBeDone,
        }
    }

    fn answers() -> Self {
        Self {
            takes: Some(Duration::ZERO),
            result: Ok(()),
            effect: Effect::MayBeDone,
        }
    }
}

fn policy(attempts: u32, total: Duration) -> Policy {
    Policy {
        max_attempts: count(attempts),
        total_time: total,
        attempt_timeout: None,
        max_retry_after: secs(3_600),
    }
}

/// A base of 100 ms without jitter: 100, 200, 400 ms and so on up to 10 s.
fn plain() -> Backoff {
    Backoff::new(ms(100), secs(10), Jitter::None, Rng::new(0))
}

/// What a caller saw of one retried operation.
#[derive(Debug)]
struct Seen {
    result: Result<u32, GaveUp<Failed>>,
    /// When each attempt began, counted from the start of the clock.
    began: Vec<Duration>,
    /// What `on_retry` was told: attempt, cause, delay.
    told: Vec<(u32, Cause<Failed>, Duration)>,
    ended: Duration,
}

impl Seen {
    fn delays(&self) -> Vec<Duration> {
        self.told.iter().map(|(_, _, delay)| *delay).collect()
    }

    fn gave_up(self) -> GaveUp<Failed> {
        self.result.unwrap_err()
    }
}

/// Retries a scripted call; the last entry repeats.
fn observe(clock: &TestClock, policy: &Policy, backoff: &mut Backoff, script: &[Attempt]) -> Seen {
    let began = RefCell::new(Vec::new());
    let mut told = Vec::new();
    let call = async |attempt: u32| {
        began.borrow_mut().push(clock.now() - clock.start);
        let index = (attempt as usize - 1).min(script.len() - 1);
        let Attempt {
            takes,
            result,
            effect,
        } = &script[index];
        match takes {
            Some(takes) => clock.sleep(*takes).await,
            None => pending().await,
        }
        match result {
            Ok(()) => Ok(attempt),
            Err((class, retry_after)) => Err(Failed {
                attempt,
                class: *class,
                effect: *effect,
                retry_after: retry_after.clone(),
            }),
        }
    };
    let on_retry = |retrying: &Retrying<'_, Failed>| {
        told.push((retrying.attempt, retrying.cause.clone(), retrying.delay));
    };
    let result = clock
        .run(retry(clock, policy, backoff, call, on_retry))
        .expect("every wait ends");
    Seen {
        result,
        began: began.into_inner(),
        told,
        ended: clock.now() - clock.start,
    }
}

fn run(policy: &Policy, script: &[Attempt]) -> Seen {
    observe(
        &TestClock::started_at(secs(9_999)),
        policy,
        &mut plain(),
        script,
    )
}

#[test]
fn it_retries_until_an_answer_comes() {
    let script = [Attempt::fails(0), Attempt::fails(0), Attempt::answers()];
    let seen = run(&policy(5, secs(60)), &script);
    assert_eq!(seen.result, Ok(3));
    assert_eq!(seen.began, [ms(0), ms(100), ms(300)]);
    let failed = |attempt| Cause::Failed(Failed::retryable(attempt));
    assert_eq!(
        seen.told,
        [(1, failed(1), ms(100)), (2, failed(2), ms(200))]
    );
}

#[test]
fn a_final_failure_ends_it_at_once() {
    let mut script = [Attempt::fails(0), Attempt::asks("5")];
    script[1].result = Err((Class::Final, Some("5".to_owned())));
    let seen = run(&policy(5, secs(60)), &script);
    assert_eq!(seen.began.len(), 2);
    assert_eq!(seen.told.len(), 1);
    let gave_up = seen.gave_up();
    assert_eq!((gave_up.attempts, gave_up.unknown_since), (2, Some(1)));
    assert!(matches!(&gave_up.why, Why::Final(failed) if failed.attempt == 2));
    assert_eq!(
        gave_up.to_string(),
        "gave up after attempt 2, no retry will help: failure 2; \
         an earlier attempt may have taken effect"
    );
}

#[test]
fn attempts_are_capped() {
    for attempts in [1, 2, 7] {
        let seen = run(&policy(attempts, secs(3_600)), &[Attempt::fails(0)]);
        assert_eq!(seen.began.len(), attempts as usize);
        assert_eq!(seen.told.len(), attempts as usize - 1);
        let gave_up = seen.gave_up();
        assert_eq!(
            gave_up,
            GaveUp {
                attempts,
                unknown_since: Some(1),
                why: Why::AttemptsUsedUp {
                    last: Cause::Failed(Failed::retryable(attempts))
                }
            }
        );
        assert_eq!(
            gave_up.to_string(),
            format!(
                "gave up after attempt {attempts}, the last one: failure {attempts}; \
                 {} attempt may have taken effect",
                if attempts == 1 { "this" } else { "an earlier" }
            )
        );
    }
}

#[test]
fn it_does_not_begin_a_sleep_that_the_total_time_would_not_survive() {
    // 100 ms and 200 ms fit, 400 ms would end at 700 ms.
    for (total, attempts) in [(ms(700), 3), (ms(701), 4), (ms(699), 3), (ms(100), 1)] {
        let seen = run(&policy(9, total), &[Attempt::fails(0)]);
        assert_eq!(seen.began.len(), attempts, "{total:?}");
        assert!(seen.ended < total);
        let attempts = attempts as u32;
        let gave_up = seen.gave_up();
        assert_eq!(
            gave_up,
            GaveUp {
                attempts,
                unknown_since: Some(1),
                why: Why::TimeUsedUp {
                    last: Cause::Failed(Failed::retryable(attempts)),
                    cut_short: false,
                }
            }
        );
        assert_eq!(
            gave_up.to_string(),
            format!(
                "gave up after attempt {attempts}, out of time: failure {attempts}; \
                 {} attempt may have taken effect",
                if attempts == 1 { "this" } else { "an earlier" }
            )
        );
    }
}

#[test]
fn an_attempt_has_its_own_limit() {
    let policy = Policy {
        attempt_timeout: Some(secs(2)),
        ..policy(2, secs(60))
    };
    let seen = run(&policy, &[Attempt::hangs()]);
    assert_eq!(seen.began, [ms(0), ms(2_100)]);
    let timed_out = Cause::TimedOut(Elapsed { limit: secs(2) });
    assert_eq!(seen.told, [(1, timed_out.clone(), ms(100))]);
    assert_eq!(
        seen.gave_up(),
        GaveUp {
            attempts: 2,
            unknown_since: Some(1),
            why: Why::AttemptsUsedUp { last: timed_out }
        }
    );
}

#[test]
fn an_attempt_has_no_more_than_what_is_left_in_total() {
    let policy = Policy {
        attempt_timeout: Some(secs(2)),
        ..policy(9, secs(3))
    };
    // The second attempt begins at 2.1 s and is cut at 3 s: the last failure is the first's.
    let seen = run(&policy, &[Attempt::hangs()]);
    assert_eq!(seen.ended, secs(3));
    let gave_up = seen.gave_up();
    assert_eq!(
        gave_up,
        GaveUp {
            attempts: 2,
            unknown_since: Some(1),
            why: Why::TimeUsedUp {
                last: Cause::TimedOut(Elapsed { limit: secs(2) }),
                cut_short: true,
            }
        }
    );
    assert_eq!(
        gave_up.to_string(),
        "gave up during attempt 2, out of time: no answer within 2000 ms; \
         an earlier attempt may have taken effect"
    );
}

#[test]
fn a_cut_attempt_reports_the_failure_before_it() {
    let script = [Attempt::fails(0), Attempt::hangs()];
    let seen = run(&policy(9, secs(3)), &script);
    assert_eq!(
        seen.gave_up(),
        GaveUp {
            attempts: 2,
            unknown_since: Some(1),
            why: Why::TimeUsedUp {
                last: Cause::Failed(Failed::retryable(1)),
                cut_short: true,
            }
        }
    );
    let seen = run(&policy(9, secs(3)), &[Attempt::hangs()]);
    assert_eq!(
        seen.gave_up(),
        GaveUp {
            attempts: 1,
            unknown_since: Some(1),
            why: Why::TimeUsedUp {
                last: Cause::TimedOut(Elapsed { limit: secs(3) }),
                cut_short: true,
            }
        }
    );
}

#[test]
fn without_any_time_there_is_one_attempt() {
    let seen = run(&policy(9, Duration::ZERO), &[Attempt::fails(0)]);
    assert_eq!(
        seen.gave_up(),
        GaveUp {
            attempts: 1,
            unknown_since: Some(1),
            why: Why::TimeUsedUp {
                last: Cause::Failed(Failed::retryable(1)),
                cut_short: false,
            }
        }
    );
    let seen = run(&policy(9, Duration::ZERO), &[Attempt::answers()]);
    assert_eq!(seen.result, Ok(1));
}

#[test]
fn a_clock_that_wakes_late_does_not_begin_another_attempt() {
    let clock = TestClock {
        late: secs(5),
        ..TestClock::default()
    };
    let script = [Attempt::asks("1")];
    let seen = observe(&clock, &policy(9, secs(10)), &mut plain(), &script);
    // Each attempt and each wait takes 5 s more: the second would begin at 11 s.
    assert_eq!(seen.began.len(), 1);
    let gave_up = seen.gave_up();
    assert_eq!((gave_up.attempts, gave_up.unknown_since), (1, None));
    assert!(matches!(
        gave_up.why,
        Why::TimeUsedUp {
            last: Cause::Failed(Failed { attempt: 1, .. }),
            cut_short: false
        }
    ));
}

#[test]
fn what_the_service_asks_for_overrides_the_backoff() {
    // The clock begins at 08:49:37.
    for (header, delay) in [
        ("7", secs(7)),
        ("0", secs(0)),
        (" 50 ", secs(50)),
        ("Sun, 06 Nov 1994 08:49:47 GMT", secs(10)),
        ("Sunday, 06-Nov-94 08:49:38 GMT", secs(1)),
        ("Sun Nov  6 08:49:30 1994", secs(0)),
    ] {
        let script = [Attempt::asks(header), Attempt::answers()];
        let seen = run(&policy(2, secs(60)), &script);
        assert_eq!(seen.delays(), [delay], "{header}");
        assert_eq!(seen.began, [secs(0), delay], "{header}");
        assert_eq!(seen.result, Ok(2));
    }
}

#[test]
fn what_cannot_be_read_falls_back_to_the_backoff() {
    for header in ["soon", "-5", "1.5", "", "Sun, 06 Nov 1994 08:49:47 CET"] {
        let script = [Attempt::asks(header), Attempt::answers()];
        let seen = run(&policy(2, secs(60)), &script);
        assert_eq!(seen.delays(), [ms(100)], "{header:?}");
        assert_eq!(seen.result, Ok(2));
    }
}

#[test]
fn who_is_asked_to_wait_too_long_gives_up_with_the_hint() {
    let policy = Policy {
        max_retry_after: secs(20),
        ..policy(3, secs(30))
    };
    for header in ["21", "Sun, 06 Nov 1994 08:49:58 GMT"] {
        let seen = run(&policy, &[Attempt::asks(header)]);
        assert_eq!(seen.began.len(), 1);
        assert!(seen.told.is_empty());
        assert_eq!(seen.ended, secs(0));
        let gave_up = seen.gave_up();
        assert!(
            matches!(&gave_up.why, Why::AskedToWaitTooLong { asked, last: Cause::Failed(_) }
            if *asked == secs(21))
        );
        assert_eq!(
            gave_up.to_string(),
            "gave up after attempt 1, the service asks to wait 21000 ms: failure 1"
        );
    }
    // The limit itself is allowed once; then 10 s are left, and a wait of as much leaves none.
    let seen = run(&policy, &[Attempt::asks("20"), Attempt::asks("10")]);
    assert_eq!(seen.delays(), [secs(20)]);
    assert!(
        matches!(seen.gave_up().why, Why::AskedToWaitTooLong { asked, .. } if asked == secs(10))
    );
    let seen = run(&policy, &[Attempt::asks(&"9".repeat(10_000))]);
    assert!(
        matches!(seen.gave_up().why, Why::AskedToWaitTooLong { asked, .. } if asked == secs(u64::MAX))
    );
}

#[test]
fn when_time_is_up_a_hint_goes_up_unless_it_asks_for_nothing() {
    let mut script = [Attempt::asks("5")];
    script[0].takes = Some(secs(30));
    let seen = run(&policy(3, secs(30)), &script);
    assert!(
        matches!(seen.gave_up().why, Why::AskedToWaitTooLong { asked, .. } if asked == secs(5))
    );
    script[0].result = Err((Class::Retryable, Some("0".to_owned())));
    let seen = run(&policy(3, secs(30)), &script);
    assert_eq!(seen.began.len(), 1);
    let gave_up = seen.gave_up();
    assert_eq!(gave_up.attempts, 1);
    assert!(matches!(
        gave_up.why,
        Why::TimeUsedUp {
            cut_short: false,
            ..
        }
    ));
}

#[test]
fn the_last_attempt_reports_that_it_was_the_last_whatever_it_asks() {
    let seen = run(&policy(1, secs(30)), &[Attempt::asks("9999")]);
    let gave_up = seen.gave_up();
    assert_eq!(gave_up.attempts, 1);
    assert!(matches!(gave_up.why, Why::AttemptsUsedUp { .. }));
}

#[test]
fn a_backoff_can_be_used_for_one_operation_after_another() {
    let mut backoff = Backoff::new(ms(10), secs(60), Jitter::Decorrelated, Rng::new(3));
    for _ in 0..20 {
        for retry in 0..50 {
            backoff.delay(retry);
        }
        let script = [Attempt::asks("0"), Attempt::fails(0), Attempt::answers()];
        let clock = TestClock::default();
        let seen = observe(&clock, &policy(3, secs(600)), &mut backoff, &script);
        assert!(seen.delays()[1] <= ms(30), "{:?}", seen.delays());
    }
}

#[test]
fn statuses_are_classed() {
    let retryable: Vec<u16> = (0..=u16::MAX)
        .filter(|status| http_class(*status) == Class::Retryable)
        .collect();
    let expected: Vec<u16> = [429]
        .into_iter()
        .chain((500..600).filter(|status| ![501, 505].contains(status)))
        .collect();
    assert_eq!(retryable, expected);
}

#[test]
fn a_status_says_that_nothing_was_done_only_where_that_is_documented() {
    let not_done: Vec<u16> = (0..=u16::MAX)
        .filter(|status| http_effect(*status) == Effect::NotDone)
        .collect();
    let expected: Vec<u16> = (400..500)
        .filter(|status| ![408, 409, 424].contains(status))
        .collect();
    assert_eq!(not_done, expected);
}

/// Failures that tell nothing of the effect may have had one.
#[test]
fn unless_overridden_a_failure_may_have_taken_effect() {
    let clock = TestClock::default();
    let call = async |_| Err::<(), _>(Shows(Health::Unknown));
    let gave_up = clock
        .run(retry(
            &clock,
            &policy(2, secs(9)),
            &mut plain(),
            call,
            |_| {},
        ))
        .unwrap()
        .unwrap_err();
    assert_eq!((gave_up.attempts, gave_up.unknown_since), (2, Some(1)));
    assert_eq!(Elapsed { limit: secs(1) }.effect(), Effect::MayBeDone);
    assert_eq!(NetworkError::ResponseLost.effect(), Effect::MayBeDone);
    assert_eq!(NetworkError::ConnectionRefused.effect(), Effect::NotDone);
}

/// Whatever comes after an attempt whose outcome is unknown, and however it ends: it is told.
#[test]
fn an_unknown_outcome_is_not_forgotten() {
    let refused = || Attempt {
        effect: Effect::NotDone,
        ..Attempt::fails(0)
    };
    let mut last_word = refused();
    last_word.result = Err((Class::Final, None));
    let script = |last: Attempt, unknown: Attempt| [refused(), unknown, last];
    let earlier = "; an earlier attempt may have taken effect";
    for (last, end) in [
        (
            refused(),
            "gave up after attempt 3, the last one: failure 3",
        ),
        (
            last_word.clone(),
            "gave up after attempt 3, no retry will help: failure 3",
        ),
        (
            Attempt::asks("9999"),
            "gave up after attempt 3, the service asks to wait 9999000 ms: failure 3",
        ),
    ] {
        let attempts = if end.contains("asks") { 4 } else { 3 };
        let policy = Policy {
            attempt_timeout: Some(secs(2)),
            ..policy(attempts, secs(60))
        };
        // A broken connection and a silent one are alike.
        for unknown in [Attempt::fails(0), Attempt::hangs()] {
            let gave_up = run(&policy, &script(last.clone(), unknown)).gave_up();
            assert_eq!((gave_up.attempts, gave_up.unknown_since), (3, Some(2)));
            assert_eq!(gave_up.to_string(), format!("{end}{earlier}"));
        }
        let gave_up = run(&policy, &script(last, refused())).gave_up();
        assert_eq!((gave_up.attempts, gave_up.unknown_since), (3, None));
        assert_eq!(gave_up.effect(), Effect::NotDone);
        assert_eq!(gave_up.to_string(), end);
    }
    // Out of time after the wait, and in the last attempt itself.
    let script = [refused(), Attempt::fails(0), refused()];
    let gave_up = run(&policy(9, ms(700)), &script).gave_up();
    assert_eq!(
        gave_up.to_string(),
        format!("gave up after attempt 3, out of time: failure 3{earlier}")
    );
    let gave_up = run(&policy(9, secs(3)), &[refused(), Attempt::hangs()]).gave_up();
    assert_eq!(
        gave_up.to_string(),
        "gave up during attempt 2, out of time: failure 1; this attempt may have taken effect"
    );
    // An answer settles it.
    let script = [Attempt::fails(0), refused(), Attempt::answers()];
    assert_eq!(run(&policy(3, secs(60)), &script).result, Ok(3));
}

fn any_attempt() -> impl Strategy<Value = Attempt> {
    let takes = prop_oneof![
        8 => (0u64..3_000).prop_map(|takes| Some(ms(takes))),
        1 => Just(None),
    ];
    let header = prop_oneof![
        4 => Just(None),
        2 => (0u64..15).prop_map(|seconds| Some(seconds.to_string())),
        1 => (0u64..15).prop_map(|seconds| {
            let then = std::time::UNIX_EPOCH + secs(EXAMPLE_DATE - 3 + seconds);
            Some(httpdate::fmt_http_date(then))
        }),
        1 => Just(Some("tomorrow".to_owned())),
    ];
    let result = prop_oneof![
        1 => Just(Ok(())),
        1 => header.clone().prop_map(|header| Err((Class::Final, header))),
        10 => header.prop_map(|header| Err((Class::Retryable, header))),
    ];
    let effect = prop::sample::select(vec![Effect::NotDone, Effect::MayBeDone]);
    (takes, result, effect).prop_map(|(takes, result, effect)| Attempt {
        takes,
        result,
        effect,
    })
}

fn any_policy() -> impl Strategy<Value = Policy> {
    (
        1u32..12,
        prop_oneof![1 => Just(0), 9 => 0u64..40_000],
        prop::option::of(0u64..4_000),
        0u64..12_000,
    )
        .prop_map(
            |(attempts, total, attempt_timeout, max_retry_after)| Policy {
                max_attempts: count(attempts),
                total_time: ms(total),
                attempt_timeout: attempt_timeout.map(ms),
                max_retry_after: ms(max_retry_after),
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// Follows what the caller saw with a clock of its own and asks of each step whether the policy
    /// allowed it and whether it was due.
    #[test]
    fn the_budget_holds_and_the_last_failure_is_reported(
        policy in any_policy(),
        script in prop::collection::vec(any_attempt(), 12),
        jitter in prop::sample::select(JITTERS.to_vec()),
        (base, cap) in (0u64..2_000, 0u64..8_000),
        seed in any::<u64>(),
        start in 0u64..1_000_000,
    ) {
        let (base, cap) = (ms(base), ms(cap));
        let mut backoff = Backoff::new(base, cap, jitter, Rng::new(seed));
        let clock = TestClock::started_at(ms(start));
        let seen = observe(&clock, &policy, &mut backoff, &script);
        let attempts = seen.began.len();

        prop_assert!(attempts <= policy.max_attempts.get() as usize);
        prop_assert_eq!(seen.told.len(), attempts - 1);
        prop_assert!(seen.delays().iter().sum::<Duration>() <= policy.total_time);
        prop_assert!(seen.ended <= policy.total_time);

        let mut now = Duration::ZERO;
        let mut last = None;
        let mut asked = None;
        let mut cut = false;
        let mut answered = false;
        let mut unknown_since = None;
        for (index, attempt) in script[..attempts].iter().enumerate() {
            prop_assert_eq!(seen.began[index], now);
            let left = policy.total_time - now;
            let limit = policy.attempt_timeout.unwrap_or(Duration::MAX).min(left);
            let over = index + 1 == attempts;
            asked = None;
            if attempt.takes.is_none_or(|takes| takes > limit) {
                now += limit;
                unknown_since = unknown_since.or(Some(index as u32 + 1));
                cut = policy.attempt_timeout.is_none_or(|own| own > left);
                if !cut || last.is_none() {
                    last = Some(Cause::TimedOut(Elapsed { limit }));
                }
                prop_assert!(over || !cut);
            } else {
                now += attempt.takes.unwrap();
                match &attempt.result {
                    Ok(()) => {
                        answered = true;
                        prop_assert!(over);
                    }
                    Err((class, retry_after)) => {
                        prop_assert!(over || *class == Class::Retryable);
                        asked = retry_after
                            .as_deref()
                            .and_then(RetryAfter::parse)
                            .map(|header| header.delay(secs(EXAMPLE_DATE) + now));
                        if attempt.effect == Effect::MayBeDone {
                            unknown_since = unknown_since.or(Some(index as u32 + 1));
                        }
                        last = Some(Cause::Failed(Failed {
                            attempt: index as u32 + 1,
                            class: *class,
                            effect: attempt.effect,
                            retry_after: retry_after.clone(),
                        }));
                    }
                }
            }
            if over {
                break;
            }
            let (attempt, cause, delay) = &seen.told[index];
            prop_assert_eq!(*attempt as usize, index + 1);
            prop_assert_eq!(Some(cause), last.as_ref());
            match asked {
                Some(asked) => {
                    prop_assert_eq!(*delay, asked);
                    prop_assert!(asked <= policy.max_retry_after);
                }
                None => prop_assert!(*delay <= cap),
            }
            now += *delay;
            prop_assert!(now < policy.total_time, "an attempt needs time");
        }
        prop_assert_eq!(seen.ended, now);

        let left = policy.total_time - now;
        match seen.result {
            Ok(attempt) => {
                prop_assert!(answered);
                prop_assert_eq!(attempt as usize, attempts);
            }
            Err(_) if answered => prop_assert!(false, "the answer is lost"),
            Err(gave_up) => {
                prop_assert_eq!(gave_up.attempts as usize, attempts);
                prop_assert_eq!(gave_up.unknown_since, unknown_since, "nothing is forgotten");
                let told = gave_up.to_string();
                prop_assert!(told.contains(&format!(" attempt {attempts}, ")), "{}", told);
                let unknown = gave_up.effect() == Effect::MayBeDone;
                prop_assert_eq!(told.ends_with(" attempt may have taken effect"), unknown);
                let is_final = matches!(gave_up.why, Why::Final(_));
                if !cut && let Some(Cause::Failed(failed)) = &last {
                    prop_assert_eq!(failed.class == Class::Final, is_final);
                }
                let reported = match gave_up.why {
                    Why::Final(error) => Cause::Failed(error),
                    Why::AttemptsUsedUp { last } => {
                        prop_assert_eq!(gave_up.attempts, policy.max_attempts.get());
                        last
                    }
                    Why::AskedToWaitTooLong { asked: said, last } => {
                        prop_assert_eq!(Some(said), asked);
                        prop_assert!(said > policy.max_retry_after || said >= left);
                        last
                    }
                    Why::TimeUsedUp { last, cut_short } => {
                        prop_assert_eq!(cut_short, cut);
                        if !left.is_zero() {
                            prop_assert_eq!(asked, None, "a hint goes up");
                            // No jitter waits longer than this.
                            let most = match jitter {
                                Jitter::Decorrelated => cap,
                                _ => ceiling(base, cap, gave_up.attempts - 1),
                            };
                            prop_assert!(most >= left);
                        }
                        last
                    }
                    other => panic!("{other:?}"),
                };
                prop_assert_eq!(Some(reported), last);
            }
        }
    }
}

#[test]
fn the_longest_policy_does_not_overflow() {
    let endless = Policy {
        max_attempts: NonZeroU32::MAX,
        total_time: Duration::MAX,
        attempt_timeout: Some(Duration::MAX),
        max_retry_after: Duration::MAX,
    };
    let script = [Attempt::fails(1), Attempt::asks("1"), Attempt::hangs()];
    for jitter in JITTERS {
        let mut backoff = Backoff::new(Duration::MAX / 2, Duration::MAX, jitter, Rng::new(9));
        let clock = TestClock::default();
        clock.jump(secs(1));
        let seen = observe(&clock, &endless, &mut backoff, &script);
        assert!(
            matches!(seen.gave_up().why, Why::TimeUsedUp { .. }),
            "{jitter:?}"
        );
    }
}

// The breaker.

fn breaker() -> Breaker {
    Breaker::new(count(2), secs(60))
}

fn admitted(breaker: &Breaker, now: Duration) -> Permit<'_> {
    breaker.admit(now).expect("a permit")
}

/// Why the breaker refuses at `now`.
fn refused(breaker: &Breaker, now: Duration) -> CircuitOpen {
    breaker.admit(now).expect_err("no permit")
}

/// Two failures at time zero.
fn opened(breaker: &Breaker) {
    admitted(breaker, secs(0)).failed(secs(0));
    admitted(breaker, secs(0)).failed(secs(0));
    assert_eq!(breaker.state(secs(0)), State::Open { until: secs(60) });
}

#[test]
fn it_opens_at_the_threshold_and_holds_for_the_cool_down() {
    let breaker = breaker();
    assert_eq!(breaker.state(secs(0)), State::Closed { failures: 0 });
    admitted(&breaker, secs(1)).failed(secs(1));
    assert_eq!(breaker.state(secs(1)), State::Closed { failures: 1 });
    admitted(&breaker, secs(2)).failed(secs(3));
    let until = secs(63);
    assert_eq!(breaker.state(secs(3)), State::Open { until });
    let almost = until - Duration::from_nanos(1);
    for now in [secs(3), secs(33), almost] {
        let retry_in = Some(until - now);
        assert_eq!(refused(&breaker, now), CircuitOpen { retry_in });
    }
    assert_eq!(breaker.state(until), State::HalfOpen);
    admitted(&breaker, until).succeeded();
}

#[test]
fn a_success_zeroes_the_count() {
    let breaker = breaker();
    for _ in 0..5 {
        admitted(&breaker, secs(0)).failed(secs(0));
        admitted(&breaker, secs(0)).succeeded();
        assert_eq!(breaker.state(secs(0)), State::Closed { failures: 0 });
    }
}

#[test]
fn a_trial_that_succeeds_closes_and_zeroes() {
    let breaker = breaker();
    opened(&breaker);
    admitted(&breaker, secs(60)).succeeded();
    assert_eq!(breaker.state(secs(60)), State::Closed { failures: 0 });
    admitted(&breaker, secs(60)).failed(secs(60));
    assert_eq!(breaker.state(secs(60)), State::Closed { failures: 1 });
}

#[test]
fn a_trial_that_fails_reopens_for_a_whole_cool_down() {
    let breaker = breaker();
    opened(&breaker);
    admitted(&breaker, secs(70)).failed(secs(75));
    assert_eq!(breaker.state(secs(75)), State::Open { until: secs(135) });
    assert_eq!(refused(&breaker, secs(134)).retry_in, Some(secs(1)));
    admitted(&breaker, secs(135)).succeeded();
}

#[test]
fn one_trial_at_a_time() {
    let breaker = breaker();
    opened(&breaker);
    let trial = admitted(&breaker, secs(60));
    assert_eq!(breaker.state(secs(60)), State::HalfOpen);
    for now in [secs(60), secs(1_000), Duration::MAX] {
        assert_eq!(refused(&breaker, now), CircuitOpen { retry_in: None });
    }
    drop(trial);
    assert_eq!(breaker.state(secs(60)), State::HalfOpen);
    let _trial = admitted(&breaker, secs(60));
    refused(&breaker, secs(60));
}

#[test]
fn results_from_before_the_opening_change_nothing() {
    let breaker = breaker();
    let mut early = (0..6)
        .map(|_| admitted(&breaker, secs(0)))
        .collect::<Vec<_>>();
    opened(&breaker);
    early.pop().unwrap().succeeded();
    early.pop().unwrap().failed(secs(30));
    assert_eq!(breaker.state(secs(30)), State::Open { until: secs(60) });
    let trial = admitted(&breaker, secs(60));
    early.pop().unwrap().succeeded();
    early.pop().unwrap().failed(secs(61));
    drop(early.pop());
    refused(&breaker, secs(61));
    trial.succeeded();
    early.pop().unwrap().failed(secs(62));
    assert_eq!(breaker.state(secs(62)), State::Closed { failures: 0 });
}

#[test]
fn a_permit_dropped_while_closed_counts_for_nothing() {
    let breaker = breaker();
    admitted(&breaker, secs(0)).failed(secs(0));
    drop(admitted(&breaker, secs(0)));
    assert_eq!(breaker.state(secs(0)), State::Closed { failures: 1 });
}

#[test]
fn extremes_of_time_are_held() {
    let breaker = Breaker::new(count(1), Duration::MAX);
    admitted(&breaker, secs(1)).failed(secs(1));
    assert_eq!(
        breaker.state(secs(2)),
        State::Open {
            until: Duration::MAX
        }
    );
    admitted(&breaker, Duration::MAX).failed(Duration::MAX);
    let breaker = Breaker::new(count(1), Duration::ZERO);
    admitted(&breaker, secs(1)).failed(secs(1));
    assert_eq!(breaker.state(secs(1)), State::HalfOpen);
}

/// The lesson's four calls: two touch the dead service, two are told to stop.
#[test]
fn four_calls_touch_a_dead_service_twice() {
    let (clock, breaker) = (TestClock::default(), breaker());
    let touches = Cell::new(0);
    let messages: Vec<String> = (1..=4)
        .map(|_| {
            let call = breaker.call(&clock, async || {
                touches.set(touches.get() + 1);
                Err::<(), _>(Failed::retryable(touches.get()))
            });
            clock.run(call).unwrap().unwrap_err().to_string()
        })
        .collect();
    let stop = "service unavailable (circuit open); do not retry now";
    assert_eq!(messages, ["failure 1", "failure 2", stop, stop]);
    assert_eq!(touches.get(), 2);
}

/// An error whose meaning for the breaker is stated.
#[derive(Debug, PartialEq)]
struct Shows(Health);

impl Failure for Shows {
    fn class(&self) -> Class {
        Class::Retryable
    }

    fn health(&self) -> Health {
        self.0
    }
}

#[test]
fn a_call_reports_what_its_result_shows() {
    let clock = TestClock::default();
    let call = |breaker: &Breaker, result: Result<(), Shows>| {
        clock
            .run(breaker.call(&clock, async || result))
            .expect("no wait")
    };
    let breaker = Breaker::new(count(3), secs(60));
    let failures = |count| State::Closed { failures: count };
    for (result, state) in [
        (Err(Shows(Health::Down)), failures(1)),
        (Err(Shows(Health::Unknown)), failures(1)),
        (Err(Shows(Health::Down)), failures(2)),
        (Err(Shows(Health::Up)), failures(0)),
        (Err(Shows(Health::Down)), failures(1)),
        (Ok(()), failures(0)),
    ] {
        let _ = call(&breaker, result);
        assert_eq!(breaker.state(clock.now()), state);
    }
    // Half-open, what shows nothing leaves the trial to the next call.
    opened_by(&breaker, 3);
    clock.jump(secs(60));
    let unknown = call(&breaker, Err(Shows(Health::Unknown)));
    assert_eq!(unknown, Err(Refused::Failed(Shows(Health::Unknown))));
    assert_eq!(breaker.state(clock.now()), State::HalfOpen);
    assert_eq!(call(&breaker, Ok(())), Ok(()));
    assert_eq!(breaker.state(clock.now()), failures(0));
}

fn opened_by(breaker: &Breaker, failures: u32) {
    for _ in 0..failures {
        admitted(breaker, secs(0)).failed(secs(0));
    }
}

#[test]
fn the_cool_down_counts_from_the_end_of_a_call() {
    let clock = TestClock::default();
    let breaker = Breaker::new(count(1), secs(60));
    let call = breaker.call(&clock, async || {
        clock.sleep(secs(5)).await;
        Err::<(), _>(Failed::retryable(1))
    });
    let _ = clock.run(call);
    assert_eq!(breaker.state(clock.now()), State::Open { until: secs(65) });
}

#[test]
fn unless_overridden_a_final_failure_is_an_answer() {
    let failed = |class| Failed {
        class,
        ..Failed::retryable(1)
    };
    assert_eq!(failed(Class::Retryable).health(), Health::Down);
    assert_eq!(failed(Class::Final).health(), Health::Up);
    assert_eq!(Elapsed { limit: secs(1) }.health(), Health::Down);
}

#[test]
fn a_call_dropped_before_its_end_frees_the_trial() {
    let (clock, breaker) = (TestClock::default(), breaker());
    opened(&breaker);
    clock.jump(secs(60));
    let hangs = breaker.call(&clock, async || {
        pending::<()>().await;
        Err::<(), _>(Failed::retryable(1))
    });
    let result = clock.run(timeout(&clock, secs(1), hangs)).unwrap();
    assert_eq!(result, Err(Elapsed { limit: secs(1) }));
    assert_eq!(breaker.state(clock.now()), State::HalfOpen);
    admitted(&breaker, clock.now()).succeeded();
}

#[test]
fn a_retry_around_a_breaker_stops_when_it_opens() {
    let (clock, breaker) = (TestClock::default(), breaker());
    let touches = Cell::new(0);
    let call = async |attempt| {
        breaker
            .call(&clock, async || {
                touches.set(touches.get() + 1);
                Err::<(), _>(Failed {
                    retry_after: Some("3".to_owned()),
                    ..Failed::retryable(attempt)
                })
            })
            .await
    };
    let policy = policy(9, secs(600));
    let mut delays = Vec::new();
    let result = clock
        .run(retry(&clock, &policy, &mut plain(), call, |retrying| {
            delays.push(retrying.delay);
        }))
        .unwrap();
    let retry_in = Some(secs(57));
    assert_eq!(
        result,
        Err(GaveUp {
            attempts: 3,
            unknown_since: Some(1),
            why: Why::Final(Refused::Open(CircuitOpen { retry_in }))
        })
    );
    assert_eq!(
        result.unwrap_err().to_string(),
        "gave up after attempt 3, no retry will help: service unavailable (circuit open); \
         do not retry now; an earlier attempt may have taken effect"
    );
    assert_eq!(touches.get(), 2);
    assert_eq!(delays, [secs(3), secs(3)]);
    let open: Refused<Failed> = Refused::Open(CircuitOpen { retry_in });
    assert_eq!((open.health(), open.retry_after()), (Health::Unknown, None));
    assert_eq!(open.effect(), Effect::NotDone);
    let failed = Refused::Failed(Failed::retryable(1));
    assert_eq!(failed.health(), Health::Down);
    assert_eq!(failed.effect(), Effect::MayBeDone);
}

/// What the breaker must do, told as a story rather than as a machine: every permit remembers how
/// many openings it was given after.
struct Model {
    threshold: u32,
    cool_down: Duration,
    openings: Vec<Duration>,
    is_open: bool,
    in_a_row: u32,
    trial: Option<usize>,
    /// For each permit ever given, the openings before it.
    given: Vec<usize>,
}

impl Model {
    fn cool_until(&self) -> Duration {
        self.openings[self.openings.len() - 1].saturating_add(self.cool_down)
    }

    fn admit(&mut self, now: Duration) -> Result<usize, Option<Duration>> {
        let id = self.given.len();
        if self.is_open {
            if self.trial.is_some() {
                return Err(None);
            }
            if now < self.cool_until() {
                return Err(Some(self.cool_until() - now));
            }
            self.trial = Some(id);
        }
        self.given.push(self.openings.len());
        Ok(id)
    }

    fn end(&mut self, id: usize, end: End, now: Duration) {
        if self.given[id] < self.openings.len() {
            return;
        }
        if self.trial == Some(id) {
            self.trial = None;
        }
        match end {
            End::Dropped => {}
            End::Succeeded => {
                self.is_open = false;
                self.in_a_row = 0;
            }
            End::Failed => {
                self.in_a_row += 1;
                if self.is_open || self.in_a_row == self.threshold {
                    self.is_open = true;
                    self.in_a_row = 0;
                    self.openings.push(now);
                }
            }
        }
    }

    fn state(&self, now: Duration) -> State {
        if !self.is_open {
            State::Closed {
                failures: self.in_a_row,
            }
        } else if self.trial.is_none() && now < self.cool_until() {
            State::Open {
                until: self.cool_until(),
            }
        } else {
            State::HalfOpen
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum End {
    Succeeded,
    Failed,
    Dropped,
}

#[derive(Debug, Clone)]
enum Step {
    Admit,
    /// Ends one of the permits in flight, whichever the index falls on.
    End(prop::sample::Index, End),
    /// The clock moves on.
    Pass(Duration),
    /// The clock jumps to any time, an earlier one too.
    Jump(Duration),
}

fn any_step() -> impl Strategy<Value = Step> {
    let end = |end| any::<prop::sample::Index>().prop_map(move |index| Step::End(index, end));
    Union::new_weighted(vec![
        (8, Just(Step::Admit).boxed()),
        (3, end(End::Succeeded).boxed()),
        (6, end(End::Failed).boxed()),
        (2, end(End::Dropped).boxed()),
        (3, (0u64..40).prop_map(|s| Step::Pass(secs(s))).boxed()),
        (1, any_duration().prop_map(Step::Jump).boxed()),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn the_breaker_does_what_the_model_does(
        threshold in 1u32..4,
        cool_down in prop_oneof![4 => (0u64..60).prop_map(secs), 1 => any_duration()],
        steps in prop::collection::vec(any_step(), 1..80),
    ) {
        let breaker = Breaker::new(count(threshold), cool_down);
        let mut model = Model {
            threshold,
            cool_down,
            openings: Vec::new(),
            is_open: false,
            in_a_row: 0,
            trial: None,
            given: Vec::new(),
        };
        let mut in_flight = Vec::new();
        let mut now = Duration::ZERO;
        for step in steps {
            match step {
                Step::Admit => match (breaker.admit(now), model.admit(now)) {
                    (Ok(permit), Ok(id)) => in_flight.push((permit, id)),
                    (Err(open), Err(retry_in)) => prop_assert_eq!(open.retry_in, retry_in),
                    (seen, expected) => prop_assert!(false, "{:?}, not {:?}", seen, expected),
                },
                Step::End(index, end) if !in_flight.is_empty() => {
                    let (permit, id) = in_flight.swap_remove(index.index(in_flight.len()));
                    match end {
                        End::Succeeded => permit.succeeded(),
                        End::Failed => permit.failed(now),
                        End::Dropped => drop(permit),
                    }
                    model.end(id, end, now);
                }
                Step::End(..) => {}
                Step::Pass(time) => now = now.saturating_add(time),
                Step::Jump(then) => now = then,
            }
            prop_assert_eq!(breaker.state(now), model.state(now));
        }
    }
}
