//! Evidence: complete, worded, and never markup from data.
#![cfg(not(target_family = "wasm"))]

use std::rc::Rc;
use std::time::Duration;

use tool_retries::diagram;
use tool_retries::evidence::{self, TraceAt};
use tool_retries::json::{Canonical, Value, parse};
use tool_retries::markup;
use tool_retries::outcome::{Check, Outcome, Plot, Premise, Table};
use tool_retries::scenario::{Fixture, all};
use tool_retries::sim::trace::{Event, Trace, What};
use tool_retries::timeline;

const EMPTY: Outcome = Outcome {
    values: Value::Null,
    checks: Vec::new(),
    tables: Vec::new(),
    plots: Vec::new(),
    trace: Trace { events: Vec::new() },
};

const HOSTILE: &str = "</code><script>alert(\"1\")</script>&<img src='x' onerror='y'>";

fn text(value: &str) -> Value {
    Value::String(value.to_owned())
}

/// A premise that is met or not.
fn premise(what: &str, met: bool) -> Premise {
    let trace = Trace {
        events: vec![Event {
            at: Duration::ZERO,
            who: Rc::from("a"),
            what: What::Waits,
        }],
    };
    Premise::happened(&trace, what, 1, |_| met)
}

/// Removes the tags that the room itself writes; what then still looks like a tag leaked from data.
fn without_own_tags(html: &str) -> String {
    let mut out = String::new();
    let mut rest = html;
    while let Some(start) = rest.find('<') {
        out.push_str(&rest[..start]);
        let end = rest[start..].find('>').expect("a tag is closed") + start;
        let tag = rest[start + 1..end].trim_start_matches('/');
        let name = tag.split([' ', '>']).next().unwrap_or_default();
        assert!(
            [
                "p", "ol", "li", "span", "dl", "div", "dt", "dd", "code", "table", "caption",
                "thead", "tbody", "tr", "th", "td", "details", "summary", "svg", "rect", "title",
                "text", "line", "path", "g", "desc", "a", "button",
            ]
            .contains(&name),
            "tag <{tag}>"
        );
        for attribute in tag[name.len()..].split("\" ") {
            let attribute = attribute.trim();
            assert!(
                attribute.is_empty()
                    || [
                        "class=",
                        "role=",
                        "transform=",
                        "scope=",
                        "data-label=",
                        "viewBox=",
                        "aria-label=",
                        "x=",
                        "y=",
                        "width=",
                        "height=",
                        "x1=",
                        "y1=",
                        "x2=",
                        "y2=",
                        "text-anchor=",
                        "d=",
                        "rx=",
                        "data-step=",
                        "tabindex=",
                        "href=",
                        "type=",
                    ]
                    .iter()
                    .any(|known| attribute.starts_with(known)),
                "attribute {attribute} in <{tag}>"
            );
        }
        rest = &rest[end + 1..];
    }
    out.push_str(rest);
    out
}

#[test]
fn no_tag_leaks_from_any_field() {
    let checks = [Check {
        premise: premise(HOSTILE, true),
        claim: HOSTILE.to_owned(),
        expected: text(HOSTILE),
        seen: Value::Array(vec![text(HOSTILE)]),
    }];
    let tables = [
        Table {
            name: HOSTILE.to_owned(),
            columns: vec![HOSTILE.to_owned()],
            rows: vec![vec![text(HOSTILE)], vec![Value::Array(vec![text(HOSTILE)])]],
        },
        Table {
            name: HOSTILE.to_owned(),
            columns: vec![],
            rows: vec![],
        },
    ];
    let plots = [2, 20].map(|bars| Plot {
        title: HOSTILE.to_owned(),
        unit: HOSTILE.to_owned(),
        labels: vec![HOSTILE.to_owned(); bars],
        bars: vec![7; bars],
    });
    let events = vec![
        Event {
            at: Duration::ZERO,
            who: Rc::from(HOSTILE),
            what: What::Printed(HOSTILE.to_owned()),
        };
        2
    ];
    let outcome = Outcome {
        checks: checks.into(),
        tables: tables.into(),
        plots: plots.into(),
        trace: Trace { events },
        ..EMPTY
    };
    for (trace_at, traced) in [(TraceAt::Here, 4), (TraceAt::Page(HOSTILE), 1)] {
        let html = evidence::html(&outcome, HOSTILE, trace_at);
        let shown = without_own_tags(&html);
        assert!(!shown.contains(['<', '>']), "{shown}");
        assert!(!html.contains("<script") && !html.contains("<img"));
        // claim, expected, seen, premise; name, caption of the empty one, heading, two labels, two cells; 11 of the plot with
        // two bars and 47 of the one with twenty; the diagram's; two in each event or one in the address; the
        // token
        let lines = diagram::sequence(&outcome.trace)
            .unwrap()
            .matches("&lt;script&gt;")
            .count();
        assert_eq!(
            html.matches("&lt;script&gt;").count(),
            11 + 11 + 47 + lines + traced + 1,
            "{html}"
        );
    }
}

#[test]
fn a_failing_check_says_so_in_words() {
    let check = |expected: i64, seen: i64, met: bool| Check {
        premise: premise("the answer was lost", met),
        claim: "one ticket".to_owned(),
        expected: Value::from(expected),
        seen: Value::from(seen),
    };
    let outcome = Outcome {
        checks: vec![check(1, 1, true), check(1, 2, true), check(1, 1, false)],
        ..EMPTY
    };
    let html = evidence::html(&outcome, "token", TraceAt::Here);
    assert_eq!(html.matches("✓ holds").count(), 1);
    assert_eq!(html.matches("✗ fails").count(), 2);
    let premise = |said: &str| format!("<dt>{said}</dt><dd>the answer was lost</dd>");
    assert_eq!(html.matches(&premise("happened")).count(), 2);
    assert_eq!(html.matches(&premise("did not happen")).count(), 1);
    assert!(html.contains("<dt>expected</dt><dd><code>1</code></dd>"));
    assert!(html.contains("<dt>seen</dt><dd><code>2</code></dd>"));
}

#[test]
fn an_empty_table_says_so_and_counts_agree_in_number() {
    let table = |rows: Vec<Vec<Value>>| Table {
        name: "requests".to_owned(),
        columns: vec!["key".to_owned()],
        rows,
    };
    let row = || vec![text("k")];
    let event = Event {
        at: Duration::ZERO,
        who: Rc::from("a"),
        what: What::Waits,
    };
    let html = |rows, events| {
        let outcome = Outcome {
            tables: vec![table(rows)],
            trace: Trace {
                events: vec![event.clone(); events],
            },
            ..EMPTY
        };
        evidence::html(&outcome, "token", TraceAt::Here)
    };
    assert!(html(vec![], 0).contains("<code>requests</code> is empty."));
    assert!(html(vec![], 0).contains("Trace: 0 events"));
    assert!(html(vec![row()], 1).contains("<code>requests</code>, 1 row<"));
    assert!(html(vec![row()], 1).contains("Trace: 1 event<"));
    assert!(html(vec![row(), row()], 2).contains(", 2 rows<"));
}

#[test]
fn text_cells_are_shown_as_stored() {
    let payload = r#"{"priority":"normal"}"#;
    let table = Table {
        name: "tickets".to_owned(),
        columns: vec!["payload".to_owned()],
        rows: vec![vec![text(payload)]],
    };
    let outcome = Outcome {
        tables: vec![table],
        ..EMPTY
    };
    let html = evidence::html(&outcome, "token", TraceAt::Here);
    assert!(html.contains("<code>{&quot;priority&quot;:&quot;normal&quot;}</code>"));
    assert!(parse(payload).is_ok());
}

#[test]
fn every_scenario_shows_all_its_checks_events_and_digests() {
    for scenario in all() {
        let outcome = scenario
            .run(&Fixture::committed())
            .unwrap_or_else(|error| panic!("{}: {error}", scenario.id));
        let html = evidence::html(&outcome, "token", TraceAt::Here);
        let again = evidence::html(&outcome, "token", TraceAt::Here);
        assert_eq!(html, again, "a pure function");
        assert_eq!(
            html.matches("class=\"claim\"").count(),
            outcome.checks.len()
        );
        assert_eq!(
            html.matches("class=\"premise\"").count(),
            outcome.checks.len()
        );
        assert!(html.contains(&outcome.trace_sha256()) && html.contains(&outcome.checks_sha256()));
        for event in &outcome.trace.events {
            let line = markup::escaped(&event.to_string());
            assert!(html.contains(&line), "{line}");
        }
        without_own_tags(&html);
    }
}

#[test]
fn members_join_to_the_values_again() {
    for values in [
        r#"{"attempts": 2, "tickets": 2}"#,
        r#"{"a": [1, 2], "b": ", "}"#,
        "{}",
        "",
    ] {
        let members: Vec<&str> = evidence::members(values).collect();
        assert_eq!(members.join(" "), values);
    }
    assert_eq!(
        evidence::members(r#"{"a": 1, "b": 2}"#).collect::<Vec<_>>(),
        [r#"{"a": 1,"#, r#""b": 2}"#]
    );
    assert_eq!(
        evidence::members(r#"{"a": "1, \"2, 3", "b": 2}"#).collect::<Vec<_>>(),
        [r#"{"a": "1, \"2, 3","#, r#""b": 2}"#]
    );
}

/// A plot says in words what it shows, keeps to its frame, and survives any heights.
#[test]
fn a_plot_keeps_to_its_frame() {
    for bars in [
        vec![],
        vec![0],
        vec![0, 0],
        vec![1, u64::MAX, 0],
        vec![3; 400],
    ] {
        let plot = Plot {
            title: "Load".to_owned(),
            unit: "requests".to_owned(),
            labels: (0..bars.len()).map(|n| format!("w{n}")).collect(),
            bars,
        };
        let svg = diagram::bars(&plot);
        assert!(svg.contains("aria-label=\"Load"), "{svg}");
        assert_eq!(svg.matches("<rect").count(), plot.bars.len());
        for rect in svg.split("<rect").skip(1) {
            let number = |name: &str| -> u64 {
                let (_, rest) = rect.split_once(&format!(" {name}=\"")).expect(name);
                rest.split('"')
                    .next()
                    .unwrap_or_default()
                    .parse()
                    .expect(name)
            };
            assert!(number("x") + number("width") <= 640 + 1, "{rect}");
            assert!(number("y") + number("height") <= 208, "{rect}");
        }
    }
}

/// Whatever a caller puts into a key, a payload or an answer: in what people read of it, on the
/// terminal and in the page, nothing acts on the text around it. The record keeps it as it is.
#[test]
fn nothing_that_a_caller_supplies_steers_what_shows_it() {
    let hostile = || "k\u{1b}]0;title\u{7}\u{9b}2J\u{202e}\u{2066}\u{2028}\r\n\0end".to_owned();
    let what = [
        What::Called {
            tool: "pay",
            key: Some(hostile()),
            payload: hostile(),
        },
        What::Called {
            tool: "pay",
            key: None,
            payload: hostile(),
        },
        What::Sql(format!("INSERT INTO t VALUES ('{}')", hostile())),
        What::Printed(hostile()),
        What::Answered { answer: hostile() },
        What::Failed { error: hostile() },
    ];
    let events: Vec<Event> = what
        .map(|what| Event {
            at: Duration::ZERO,
            who: Rc::from("agent"),
            what,
        })
        .into();
    let outcome = Outcome {
        trace: Trace { events },
        ..EMPTY
    };
    let acts = |text: char| {
        text != '\n' && text.is_control()
            || matches!(text, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let trace = outcome.trace.to_string();
    assert_eq!(trace.lines().count(), outcome.trace.events.len());
    assert_eq!(trace.matches("\\u{1b}]0;title").count(), 7);
    assert!(!trace.contains(acts), "{trace:?}");
    let html = evidence::html(&outcome, "token", TraceAt::Here);
    assert!(html.contains("\\u{1b}]0;title"), "{html:?}");
    assert!(!html.contains(acts), "{html:?}");
    for text in timeline::pages(&outcome, &[]).texts {
        assert!(!text.contains(acts), "{text:?}");
    }
    let line = outcome.trace.events[0].to_json().compact();
    let read = parse(&line).expect("a line of the record");
    assert_eq!(read.get("key"), Some(&Value::String(hostile())));
}
