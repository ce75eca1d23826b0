//! The article's exercises: the code of its answers runs, and what the answers quote was recorded.
#![cfg(not(target_family = "wasm"))]

use tool_retries::json::{Canonical, Value, parse};

/// The answers of the article, without the marks of their block quotes.
fn answers() -> Vec<String> {
    let article = include_str!("../article.md");
    let after_markers = article.split("<!-- answer -->\n").skip(1);
    after_markers
        .map(|rest| {
            let quoted = rest.lines().map_while(|line| line.strip_prefix('>'));
            let lines = quoted.map(|line| line.strip_prefix(' ').unwrap_or(line));
            lines.flat_map(|line| [line, "\n"]).collect()
        })
        .collect()
}

fn results() -> Value {
    parse(include_str!("../results.json")).expect("the record parses")
}

#[test]
fn delays_with_full_jitter() {
    // begin
    use std::time::Duration;
    use tool_retries::client::{Backoff, Jitter};
    use tool_retries::sim::Rng;

    let (base, cap) = (Duration::from_millis(100), Duration::from_secs(1));
    let mut backoff = Backoff::new(base, cap, Jitter::Full, Rng::new(7));
    let delays: Vec<_> = (0..5).map(|n| backoff.delay(n).as_millis()).collect();
    println!("{delays:?}");
    // end
    let printed = format!("{delays:?}");
    let results = results();
    let recorded = results
        .get("scenarios")
        .and_then(|scenarios| scenarios.get("backoff_full_jitter")?.get("delays_ms"))
        .expect("recorded delays");
    assert_eq!(printed, recorded.spaced());
    assert!(answers()[0].contains(&format!("this prints `{printed}`")));
}

#[test]
fn a_repeated_call_has_one_key_and_is_noticed() {
    // begin
    use std::collections::BTreeSet;
    use tool_retries::json::parse;
    use tool_retries::key::action_key;

    let mut used = BTreeSet::new();
    let mut flagged = 0;
    for arguments in [
        r#"{"order_id": "A-7", "amount": 49.0}"#,
        r#"{"amount": 49.0, "order_id": "A-7"}"#,
    ] {
        let arguments = parse(arguments).expect("valid JSON");
        let key = action_key("run-42", "issue_refund", &arguments);
        if !used.insert(key.expect("run and tool have names")) {
            flagged += 1;
        }
    }
    assert_eq!((used.len(), flagged), (1, 1));
    // end
}

/// The code between `begin` and `end` of the tests above is the Rust code of the answers, in order.
#[test]
fn the_article_shows_the_code_that_runs() {
    let blocks = |text: &str, begin: &str, end: &str| -> Vec<String> {
        let parts = text.split(begin).skip(1);
        parts
            .map(|part| part.split(end).next().unwrap_or_default().to_owned())
            .collect()
    };
    let here = include_str!("exercises.rs").replace("\n    ", "\n");
    let ran = blocks(&here, "\n// begin\n", "// end\n");
    assert_eq!(ran.len(), 2);
    assert_eq!(blocks(&answers().concat(), "```rust\n", "```\n"), ran);
}

/// Each scenario that an answer links to stands there with what it recorded.
#[test]
fn the_answers_quote_the_record() {
    let results = results();
    let answers = answers();
    assert_eq!(answers.len(), 3);
    for answer in answers {
        let mut linked = 0;
        for link in answer.split("](#").skip(1) {
            let (id, after) = link.split_once(')').expect("a whole link");
            let recorded = results
                .get("scenarios")
                .and_then(|scenarios| scenarios.get(id))
                .unwrap_or_else(|| panic!("{id} is recorded"));
            assert!(
                after.contains(&format!("recorded `{}`", recorded.spaced())),
                "{id}"
            );
            linked += 1;
        }
        assert!(linked > 0, "{answer}");
    }
}
