//! Sequence diagrams: complete, in order, named, and never markup from data.
#![cfg(not(target_family = "wasm"))]

use std::rc::Rc;
use std::time::Duration;

use tool_retries::diagram;
use tool_retries::scenario::{Fixture, all, find};
use tool_retries::sim::Point;
use tool_retries::sim::trace::{Event, Fate, LockLevel, Loss, Trace, What};

fn event(at_ms: u64, who: &str, what: What) -> Event {
    Event {
        at: Duration::from_millis(at_ms),
        who: Rc::from(who),
        what,
    }
}

fn called(key: &str) -> What {
    What::Called {
        tool: "pay",
        key: Some(key.to_owned()),
        payload: "{}".to_owned(),
    }
}

fn lock(from: LockLevel, to: LockLevel) -> What {
    What::Lock {
        file: Rc::from("pay.db"),
        from,
        to,
        held: to,
    }
}

fn draw(events: Vec<Event>) -> String {
    diagram::sequence(&Trace { events }).expect("something is drawn")
}

/// Look and label of each line, from top to bottom.
fn lines(svg: &str) -> Vec<String> {
    svg.split("<g class=\"")
        .skip(1)
        .map(|group| {
            let look = group.split('"').next().unwrap();
            let texts = group.split("<text ").skip(1).map(|text| {
                let text = text.split_once('>').unwrap();
                (text.0.contains("time"), text.1.split('<').next().unwrap())
            });
            let label = texts.filter(|(time, _)| !time).map(|(_, text)| text);
            format!("{look}: {}", label.last().unwrap_or_default())
        })
        .collect()
}

fn lanes(svg: &str) -> Vec<&str> {
    let title = svg.split("<title>Sequence diagram: ").nth(1).unwrap();
    title.split('<').next().unwrap().split(", ").collect()
}

/// How many bars of a class are drawn.
fn bars(svg: &str, class: &str) -> usize {
    svg.split(&format!("<path class=\"{class}\" d=\""))
        .skip(1)
        .map(|path| path.split('"').next().unwrap().matches('M').count())
        .sum()
}

/// The run of the article's claim, line by line.
#[test]
fn a_lost_answer_and_its_retry() {
    let outcome = find("stable_key_retry")
        .unwrap()
        .run(&Fixture::committed())
        .unwrap();
    let svg = diagram::sequence(&outcome.trace).unwrap();
    assert_eq!(lanes(&svg), ["agent", "create_ticket", "tickets.db"]);
    assert_eq!(
        lines(&svg)[..9],
        [
            "call: create_ticket, key approved-ticket-001",
            "call: BEGIN IMMEDIATE",
            "call: SELECT … FROM requests",
            "call: INSERT INTO tickets",
            "call: INSERT INTO requests",
            "commit: COMMIT",
            "fault: ✗ fault at after_commit",
            "lost: ✗ timeout: no answer arrived",
            "call: create_ticket, key approved-ticket-001",
        ]
    );
    assert_eq!(
        lines(&svg).last().unwrap(),
        "answer: {&quot;ticket_id&quot;:1}"
    );
}

/// Every scenario is drawn, the same each time, each line with a step of its own trace.
#[test]
fn every_scenario_is_drawn() {
    for scenario in all() {
        let outcome = scenario.run(&Fixture::committed()).unwrap();
        let svg = diagram::sequence(&outcome.trace)
            .unwrap_or_else(|| panic!("{}: nothing drawn", scenario.id));
        assert_eq!(Some(&svg), diagram::sequence(&outcome.trace).as_ref());
        let steps: Vec<usize> = svg
            .split("data-step=\"")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap().parse().unwrap())
            .collect();
        assert!(steps.is_sorted(), "{}", scenario.id);
        assert!(
            *steps.last().unwrap() < outcome.trace.events.len(),
            "{}",
            scenario.id
        );
        for banned in [" style=", " id=", "<style", "NaN"] {
            assert!(!svg.contains(banned), "{}: {banned}", scenario.id);
        }
    }
}

/// Waits and locks are bars.
#[test]
fn eight_callers_wait_for_one_lock() {
    let outcome = find("concurrent_same_key")
        .unwrap()
        .run(&Fixture::committed())
        .unwrap();
    let svg = diagram::sequence(&outcome.trace).unwrap();
    assert_eq!(lanes(&svg).len(), 10);
    assert_eq!(bars(&svg, "waiting"), 7);
    assert_eq!(bars(&svg, "held"), 8);
    assert!(svg.contains("<title>caller 3 waits for the lock</title>"));
    assert!(lines(&svg).contains(&"fault: caller 2: SQLITE_BUSY".to_owned()));
}

/// Crashes, power cuts, recovery, and what the network does are named.
#[test]
fn crashes_and_recoveries_are_named() {
    let message = |to: &str, fate| What::Message {
        to: Rc::from(to),
        fate,
    };
    let svg = draw(vec![
        event(1, "agent", called("k")),
        event(1, "agent", message("shop", Fate::Arrives)),
        event(2, "shop", lock(LockLevel::Shared, LockLevel::Reserved)),
        event(3, "shop", What::Killed),
        event(4, "agent", called("k")),
        event(4, "agent", message("shop", Fate::Refused)),
        event(
            5,
            "agent",
            What::Failed {
                error: "refused".to_owned(),
            },
        ),
        event(6, "agent", called("k")),
        event(6, "agent", message("shop", Fate::Lost)),
        event(7, "shop", lock(LockLevel::Shared, LockLevel::Exclusive)),
        event(8, "world", What::PowerLost(Loss::Everything)),
        event(9, "shop", message("agent", Fate::Lost)),
        event(9, "shop", message("agent", Fate::Arrives)),
        event(
            10,
            "agent",
            What::Answered {
                answer: "paid".to_owned(),
            },
        ),
    ]);
    assert_eq!(lanes(&svg), ["agent", "shop", "pay.db"]);
    assert_eq!(
        lines(&svg),
        [
            "call: pay, key k",
            "fault: ✗ shop is killed",
            "error: pay, key k: refused",
            "fault: ✗ refused",
            "lost: pay, key k: lost",
            "recovery: rolls back the hot journal",
            "world: ✗ the power fails: everything unsynced is lost",
            "lost: its answer: lost",
            "answer: paid",
        ]
    );
    assert_eq!(bars(&svg, "held"), 2);
}

/// A second payload under a first key shows.
#[test]
fn another_payload_under_one_key_is_named() {
    let second = What::Called {
        tool: "pay",
        key: Some("k".to_owned()),
        payload: "{\"a\":1}".to_owned(),
    };
    let svg = draw(vec![
        event(0, "agent", called("k")),
        event(1, "agent", second),
    ]);
    assert_eq!(
        lines(&svg),
        ["call: pay, key k", "call: pay, key k, other payload"]
    );
}

#[test]
fn long_runs_are_cut_and_say_so() {
    let point = What::Printed("x".to_owned());
    let notes = draw(
        (0..40)
            .map(|at| event(at, "agent", point.clone()))
            .collect(),
    );
    assert_eq!(lines(&notes).len(), 16);
    assert_eq!(
        lines(&notes)[9],
        "cut: … 25 lines left out: the trace has them"
    );
    let calls = draw((0..100).map(|at| event(at, "agent", called("k"))).collect());
    assert_eq!(lines(&calls).len(), 26);
    assert_eq!(
        lines(&calls)[19],
        "cut: … 75 lines left out: the trace has them"
    );
}

#[test]
fn nothing_is_drawn_of_nothing() {
    assert_eq!(diagram::sequence(&Trace::default()), None);
    let events = vec![event(0, "a", What::Reached(Point("p")))];
    assert_eq!(diagram::sequence(&Trace { events }), None);
}

/// A crowd has no lane each: the first callers stand for all, and the rest are counted.
#[test]
fn of_a_crowd_the_first_are_drawn() {
    let crowd = |callers: usize| {
        let sent = |caller| {
            let message = What::Message {
                to: Rc::from("service"),
                fate: Fate::Refused,
            };
            event(1, &format!("client {caller}"), message)
        };
        draw((1..=callers).map(sent).collect())
    };
    assert_eq!(lanes(&crowd(24)).len(), 25);
    for (callers, expected) in [
        (25, "… 22 callers left out"),
        (100, "… 97 callers left out"),
    ] {
        let svg = crowd(callers);
        assert_eq!(lanes(&svg), ["client 1", "client 2", "client 3", "service"]);
        let lines = lines(&svg);
        assert_eq!(lines.len(), 4);
        assert!(lines[3].contains(expected), "{lines:?}");
    }
    let outcome = find("lockstep_stampede")
        .unwrap()
        .run(&Fixture::committed())
        .unwrap();
    let lines = lines(&diagram::sequence(&outcome.trace).unwrap());
    let cut = lines.iter().find(|line| line.starts_with("cut")).unwrap();
    assert!(cut.contains(" lines and 97 callers left out"), "{cut}");
}

/// Whatever a run holds stays text.
#[test]
fn hostile_texts_stay_text() {
    let bad = "</text></svg><script>alert(1)</script>&\"'";
    let svg = draw(vec![
        event(
            0,
            bad,
            What::Called {
                tool: "pay",
                key: Some(bad.to_owned()),
                payload: bad.to_owned(),
            },
        ),
        event(
            0,
            bad,
            What::Answered {
                answer: bad.to_owned(),
            },
        ),
        event(0, bad, What::Printed(bad.to_owned())),
        event(
            0,
            bad,
            What::Failed {
                error: bad.to_owned(),
            },
        ),
    ]);
    assert!(
        !svg.contains("<script") && svg.matches("</svg>").count() == 1,
        "{svg}"
    );
}
