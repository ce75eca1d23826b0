//! The contracts: every rule of the three models, what the traces show, and the article's table.
#![cfg(not(target_family = "wasm"))]

mod common;

use std::time::Duration;

use common::run_group;
use tool_retries::outcome::Outcome;
use tool_retries::sim::trace::What;
use tool_retries::tool::contracts::{Answer, Contract, Course, Draft, Service, StripeV1, StripeV2};

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
const AT_ONCE: Duration = Duration::ZERO;
const DRAFT: Draft = Draft { expiry: DAY };

/// What the second request gets: the first went `first`, the second would go `second`.
fn second(
    contract: &dyn Contract,
    first: Course,
    (second, payload, later): (Course, &str, Duration),
) -> Answer {
    let mut service = Service::new(contract);
    service.request("key", "payload", first, AT_ONCE);
    service.request("key", payload, second, later)
}

/// Each course of the first request, then the same payload and another one: three answers a
/// contract, in the order draft, v1, v2.
#[test]
fn every_rule_answers_as_its_document_says() {
    use Answer::*;
    let same = (Course::Succeeds, "payload", HOUR);
    let other = (Course::Succeeds, "another", HOUR);
    for (first, then, expected) in [
        (Course::Succeeds, same, [Replays, Replays, Replays]),
        (Course::Succeeds, other, [Rejected422, Rejected, Unknown]),
        (Course::Fails500, same, [Replays500, Replays500, Executes]),
        (Course::Fails500, other, [Rejected422, Rejected, Unknown]),
        (Course::Invalid, same, [Unknown, Executes, Executes]),
        (Course::Invalid, other, [Rejected422, Executes, Unknown]),
        (Course::Lasts, same, [Conflict409, Conflict409, Unknown]),
        (Course::Lasts, other, [Unknown, Unknown, Unknown]),
    ] {
        let contracts: [&dyn Contract; 3] = [&DRAFT, &StripeV1, &StripeV2];
        let seen = contracts.map(|contract| second(contract, first, then));
        assert_eq!(seen, expected, "{first:?}, then {then:?}");
    }
}

/// A key counts to the last moment of its time, and after it as each document says.
#[test]
fn a_key_lasts_as_long_as_documented() {
    let tick = Duration::from_nanos(1);
    let at = |contract: &dyn Contract, later| {
        second(
            contract,
            Course::Succeeds,
            (Course::Succeeds, "payload", later),
        )
    };
    for (contract, last, after) in [
        (&StripeV1 as &dyn Contract, DAY - tick, Answer::Executes),
        (&StripeV2, 30 * DAY, Answer::Executes),
        (&DRAFT, DAY - tick, Answer::Unknown),
    ] {
        assert_eq!(at(contract, last), Answer::Replays);
        assert_eq!(at(contract, last + tick), after);
    }
    // Another expiry that a server may publish.
    assert_eq!(at(&Draft { expiry: HOUR }, HOUR), Answer::Unknown);
    assert_eq!(at(&Draft { expiry: 2 * HOUR }, HOUR), Answer::Replays);
}

/// What is taken up again goes its own way, as often as it comes, and its end is what counts.
#[test]
fn failed_work_of_v2_is_taken_up_until_it_succeeds() {
    let mut service = Service::new(&StripeV2);
    let mut request = |course| service.request("key", "payload", course, AT_ONCE);
    assert_eq!(request(Course::Fails500), Answer::Fails500);
    assert_eq!(request(Course::Fails500), Answer::Fails500);
    assert_eq!(request(Course::Succeeds), Answer::Executes);
    assert_eq!(request(Course::Fails500), Answer::Replays);
}

#[test]
fn first_requests_get_what_their_course_gives() {
    let contracts: [&dyn Contract; 3] = [&DRAFT, &StripeV1, &StripeV2];
    for contract in contracts {
        let mut service = Service::new(contract);
        for (key, course, expected) in [
            ("a", Course::Succeeds, Answer::Executes),
            ("b", Course::Fails500, Answer::Fails500),
            ("c", Course::Invalid, Answer::Invalid),
            ("d", Course::Lasts, Answer::Runs),
        ] {
            let seen = service.request(key, "payload", course, AT_ONCE);
            assert_eq!(seen, expected, "keys do not meet");
        }
        assert_eq!(service.finish("a"), None, "it does not run");
        assert_eq!(service.finish("nobody's"), None);
        assert_eq!(service.finish("d"), Some(Answer::Executes));
        assert_eq!(service.finish("d"), None, "it has ended");
        let after = service.request("d", "payload", Course::Fails500, AT_ONCE);
        assert_eq!(after, Answer::Replays);
    }
}

/// Nobody writes whether a known key or an invalid payload is looked at first.
#[test]
fn an_invalid_payload_under_a_known_key_is_unknown() {
    let invalid = (Course::Invalid, "invalid", AT_ONCE);
    let contracts: [&dyn Contract; 3] = [&DRAFT, &StripeV1, &StripeV2];
    for contract in contracts {
        assert_eq!(second(contract, Course::Succeeds, invalid), Answer::Unknown);
    }
}

/// Who did what, in the words of the trace.
fn told<'a>(outcome: &'a Outcome, who: &str) -> Vec<&'a str> {
    let told = |what: &'a What| match what {
        What::Called { tool, .. } => Some(*tool),
        What::Answered { answer } => Some(answer.trim_matches('"')),
        What::Failed { error } => Some(error.as_str()),
        What::Waits => Some("waits"),
        _ => None,
    };
    let events = outcome.trace.events.iter();
    let own = events.filter(|event| &*event.who == who);
    own.filter_map(|event| told(&event.what)).collect()
}

/// Every contract is a process of its own, and the last thing that it says is the value.
#[test]
fn the_trace_holds_every_request_and_answer() {
    let outcomes = run_group("contracts");
    assert_eq!(outcomes.len(), 5);
    for (id, outcome) in &outcomes {
        for name in ["draft", "stripe_v1", "stripe_v2"] {
            let told = told(outcome, name);
            let value = outcome.values.get(name).and_then(|value| value.as_str());
            let expected: &[&str] = match *id {
                "contract_500_then_retry" => &["POST", "fails_500", "POST"],
                "contract_invalid_then_corrected" => &["POST", "invalid", "POST"],
                "contract_changed_payload" => &["POST", "executes", "POST"],
                // The first one's answer comes last.
                "contract_second_while_first_runs" => &["POST", "POST"],
                "contract_retry_after_retention" => &["POST", "executes", "POST, 31 days later"],
                _ => panic!("{id} is new"),
            };
            let (begin, rest) = told.split_at(expected.len());
            assert_eq!(begin, expected, "{id}, {name}");
            assert_eq!(rest.first().copied(), value, "{id}, {name}");
            let ends = *id == "contract_second_while_first_runs";
            assert_eq!(rest[1..], ["executes"][..usize::from(ends)], "{id}, {name}");
        }
        assert!(told(outcome, "observer").is_empty());
    }
    let (_, second_while_first_runs) = &outcomes[3];
    let ticket = r#"{"ticket_id":1}"#;
    assert_eq!(
        told(second_while_first_runs, "lab first"),
        ["create_ticket", ticket]
    );
    assert_eq!(
        told(second_while_first_runs, "lab second"),
        ["create_ticket", "waits", ticket]
    );
}

/// The words of the values, and what the article's table has for each.
const WORDS: [(&str, &str); 7] = [
    ("executes", "carried out"),
    ("replays_500", "the same 500"),
    ("rejected", "refused"),
    ("rejected_422", "refused, 422"),
    ("conflict_409", "refused, 409"),
    ("waits_then_replays", "waits, then the first answer"),
    ("unknown", "unknown"),
];

/// Each cell is what the scenario saw, and links to the source that the scenario names for it.
#[test]
fn the_articles_table_is_what_the_scenarios_saw() {
    let article = include_str!("../article.md");
    let (_, section) = article.split_once("<!-- scenarios: contracts |").unwrap();
    let mut lines = section
        .lines()
        .skip_while(|line| !line.starts_with("| Situation"));
    assert_eq!(
        lines.next(),
        Some("| Situation | Stripe v1 | Stripe v2 | Draft 07 | This tool |")
    );
    assert_eq!(lines.next(), Some("| --- | --- | --- | --- | --- |"));
    let rows: Vec<&str> = lines.take_while(|line| line.starts_with('|')).collect();
    let outcomes = run_group("contracts");
    assert_eq!(rows.len(), outcomes.len());
    for ((id, outcome), row) in outcomes.iter().zip(rows) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 5, "{row}");
        let names = ["stripe_v1", "stripe_v2", "draft", "lab"];
        for (name, cell) in names.into_iter().zip(&cells[1..]) {
            let value = outcome.values.get(name).and_then(|value| value.as_str());
            let (_, words) = WORDS
                .into_iter()
                .find(|(word, _)| Some(*word) == value)
                .unwrap_or_else(|| panic!("{id}: {name} has no words for {value:?}"));
            let address = if name == "lab" {
                format!("#{id}")
            } else {
                let claim = outcome
                    .checks
                    .iter()
                    .find_map(|check| check.claim.strip_prefix(&format!("{name}: ")))
                    .unwrap_or_else(|| panic!("{id}: {name} has no source"));
                claim.rsplit_once(", ").unwrap().1.to_owned()
            };
            assert_eq!(*cell, format!("[{words}]({address})"), "{id}, {name}");
        }
    }
}
