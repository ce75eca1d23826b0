//! Retry storms: what must hold in each of them, and that the committed record is what they come to.
#![cfg(not(target_family = "wasm"))]

mod common;

use common::recorded;
use tool_retries::json::Canonical;
use tool_retries::storm::{JITTERS, Server, Setup, Storm, Totals, finish, record};

fn setup(text: &str) -> Setup {
    Setup::parse(text).unwrap()
}

fn totals(text: &str) -> Totals {
    finish(&setup(text), |storm| storm.totals())
}

/// Set-ups of every kind.
fn all() -> Vec<String> {
    let mut all = Vec::new();
    for start in [
        "preset=aws runs=3 clients=20",
        "preset=aws runs=2 attempts=3",
        "preset=aws runs=2 breaker=on base=0 cap=0",
        "preset=grpc",
        "preset=grpc runs=2 clients=37 capacity=3",
        "preset=grpc runs=2 clients=500 breaker=on attempts=10",
        "preset=grpc cap=60000 base=60000 attempts=1000 capacity=1000",
    ] {
        for jitter in JITTERS {
            for budget in ["none", "10:0.1", "1:1000", "1000:0.001"] {
                for seed in [0, u32::MAX] {
                    all.push(format!(
                        "{start} jitter={jitter} budget={budget} seed={seed}"
                    ));
                }
            }
        }
    }
    all
}

#[test]
fn nothing_is_lost_and_nothing_counted_twice() {
    for text in all() {
        let setup = setup(&text);
        finish(&setup, |storm| {
            let seen = storm.totals();
            let (plot, served) = storm.load();
            assert_eq!(seen.calls, seen.successes + seen.failures, "{text}");
            assert_eq!(seen.operations, seen.successes + seen.given_up, "{text}");
            assert!(seen.stopped <= seen.given_up, "{text}");
            assert!(seen.in_vain <= seen.failures, "{text}");
            assert_eq!(plot.bars.iter().sum::<u64>(), seen.calls, "{text}");
            let done = seen.successes + seen.in_vain;
            assert_eq!(served.iter().sum::<u64>(), done, "{text}");
            assert_eq!(plot.bars.len(), served.len(), "{text}");
            if setup.server == Server::Row {
                assert_eq!(seen.in_vain, 0, "{text}");
            }
        });
    }
}

#[test]
fn no_slot_holds_more_than_the_capacity() {
    for capacity in [1, 3, 7, 15, 64, 99, 1_000] {
        let text = format!("preset=grpc budget=none clients=500 capacity={capacity}");
        finish(&setup(&text), |storm| {
            let (plot, served) = storm.load();
            assert_eq!(plot.title, "Calls in each 100 ms");
            let most = served.iter().copied().max();
            assert!(most <= Some(capacity), "{text}: {most:?}");
            // Or the bound would mean nothing.
            if capacity < 100 {
                assert_eq!(most, Some(capacity), "{text}");
            }
        });
    }
}

/// Every retry needs more than half of the tokens after its failure took one, so there are no more
/// retries than half the tokens and what the successes returned.
#[test]
fn the_budget_lets_no_more_than_its_share() {
    for tokens in [1_u64, 2, 10, 1_000] {
        for ratio_thousandths in [1_u64, 100, 1_000] {
            for start in ["preset=grpc attempts=1000", "preset=aws runs=1 clients=60"] {
                let (whole, part) = (ratio_thousandths / 1_000, ratio_thousandths % 1_000);
                let text = format!("{start} budget={tokens}:{whole}.{part:03}");
                let seen = totals(&text);
                let retries = seen.calls - seen.operations;
                let share = tokens * 500 + ratio_thousandths * seen.successes;
                assert!(retries * 1_000 < share, "{text}: {retries} retries");
                if tokens == 1_000 {
                    assert!(retries > 0, "{text}: nothing to limit");
                }
            }
        }
    }
    let without = totals("preset=grpc budget=none");
    let with = totals("preset=grpc");
    assert!(with.calls < without.calls / 3 && with.successes > 2 * without.successes);
}

#[test]
fn the_breaker_stops_calls_before_they_are_made() {
    let without = totals("preset=grpc budget=none");
    let with = totals("preset=grpc budget=none breaker=on");
    assert_eq!(without.stopped, 0);
    assert!(with.stopped > 100 && with.calls < without.calls / 2);
    assert!(with.successes > without.successes);
    // A row that refuses a write is up.
    assert_eq!(totals("preset=aws runs=2 breaker=on").stopped, 0);
}

#[test]
fn jitter_spares_calls_and_time_and_a_lone_client_needs_one_call() {
    let none = totals("preset=aws jitter=none");
    for jitter in &JITTERS[1..] {
        let some = totals(&format!("preset=aws jitter={jitter}"));
        assert!(some.calls < none.calls * 6 / 10, "{jitter}");
        assert!(some.time_us < none.time_us / 5, "{jitter}");
        assert_eq!(some.given_up, 0, "{jitter}");
    }
    let alone = totals("preset=aws clients=1 jitter=none");
    assert_eq!((alone.calls, alone.failures), (100, 0));
    // Four ways of 10 ms.
    let mean_us = alone.time_us / 100;
    assert!((39_000..41_000).contains(&mean_us), "{mean_us}");
}

#[test]
fn a_seed_says_everything_and_slices_change_nothing() {
    for text in [
        "preset=grpc",
        "preset=aws runs=1",
        "preset=aws runs=5 jitter=equal",
    ] {
        let end = |text: &str| finish(&setup(text), |storm| storm.to_json().pretty());
        assert_eq!(end(text), end(text));
        assert_ne!(end(text), end(&format!("{text} seed=8")), "{text}");
    }
    let setup = setup("preset=grpc");
    let breakers = setup.breakers();
    let mut storm = Storm::new(&setup, &breakers);
    let (mut slices, mut before) = (1, 0);
    while storm.advance() {
        slices += 1;
        let calls = storm.totals().calls;
        assert!(calls >= before && calls - before < 100, "a slice too long");
        before = calls;
    }
    assert!(slices > 100, "{slices}");
}

#[test]
fn a_value_out_of_bounds_is_refused_with_what_would_do() {
    for (name, good, bad) in [
        ("base", "0 60000", "60001 -1 1.5 x"),
        ("cap", "0 60000", "60001"),
        ("attempts", "1 1000", "0 1001"),
        ("clients", "1 500", "0 501 4294967296"),
        ("capacity", "1 1000", "0 1001"),
        ("runs", "1 100", "0 101"),
        ("seed", "0 4294967295", "4294967296"),
        ("jitter", "none full equal decorrelated", "half"),
        ("server", "row queue", "rows"),
        ("breaker", "on off", "yes"),
        ("preset", "aws grpc", "azure"),
        (
            "budget",
            "none 10:0.1 1:1 1000:1000 1:0.001",
            "10 :1 10: 0:1 1001:1 10:0 10:0.0001 10:-1 10:1.2.3 10:0.+1",
        ),
    ] {
        for value in good.split(' ') {
            assert_eq!({ Setup::AWS }.set(name, value), Ok(()), "{name} {value}");
        }
        for value in bad.split(' ') {
            let mut setup = Setup::AWS;
            assert!(setup.set(name, value).is_err(), "{name} {value}");
            assert!(setup == Setup::AWS, "{name} {value} changed something");
        }
    }
    let mut setup = Setup::AWS;
    assert_eq!(
        setup.set("clients", "0"),
        Err("a whole number from 1 to 500".to_owned())
    );
    assert_eq!(Setup::parse("clients=3 seed").err().unwrap(), "seed");
}

#[test]
fn the_committed_storms_are_these() {
    assert!(
        recorded().get("storm") == record(|_| true).unwrap().as_ref(),
        "record the run again: `cargo run -q -- --output results.json`"
    );
}
