//! The command line as its user meets it.
#![cfg(not(target_family = "wasm"))]

mod common;

#[cfg(unix)]
#[path = "cli/files.rs"]
mod files;
#[cfg(unix)]
#[path = "cli/streams.rs"]
mod streams;
#[cfg(unix)]
#[path = "cli/terminal.rs"]
mod terminal;

use std::fs;
use std::process::{Command, Output};
#[cfg(unix)]
use std::time::{Duration, Instant};

use common::{less_runtime, recorded};
use tool_retries::json::{self, Canonical};
use tool_retries::scenario::all;

const PROGRAM: &str = env!("CARGO_BIN_EXE_tool-retries");

fn run(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Waits for a condition, and answers what it gives.
#[cfg(unix)]
#[track_caller]
fn wait_until<T>(what: &str, mut is_so: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = is_so() {
            return found;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "waited for {what:?}"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Asserts that the run failed with exactly one line on standard error that has `part`.
#[track_caller]
fn fails_with(output: &Output, code: i32, part: &str) {
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{error}");
    assert!(error.contains(part), "{error:?} lacks {part:?}");
    assert!(error.starts_with("error: "), "{error:?}");
    assert_eq!(error.trim_end().lines().count(), 1, "{error:?}");
}

#[test]
fn prints_the_block_of_the_article() {
    let article = include_str!("../article.md");
    let (_, block) = article.split_once("```text\n").expect("a printed block");
    let (block, _) = block.split_once("```").unwrap();
    let output = run(&["--group", "lab"]);
    assert_eq!(text(&output.stdout), block);
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty());
}

/// A line each, in the order of the registry, and how many there were; a group prints its own.
#[test]
fn prints_a_line_a_scenario_and_counts_them() {
    let groups = tool_retries::scenario::groups();
    for group in groups.into_iter().map(Some).chain([None]) {
        let ids: Vec<&str> = all()
            .iter()
            .filter(|scenario| group.is_none_or(|group| scenario.group == group))
            .map(|scenario| scenario.id)
            .collect();
        let output = match group {
            Some(group) => run(&["--group", group]),
            None => run(&[]),
        };
        assert_eq!(output.status.code(), Some(0), "{group:?}");
        assert!(output.stderr.is_empty(), "{group:?}");
        let mut lines: Vec<&str> = text(&output.stdout).lines().collect();
        let last = lines.pop();
        assert_eq!(last, Some(&*format!("PASS: {} scenarios", ids.len())));
        let printed: Vec<&str> = lines
            .iter()
            .filter_map(|line| Some(line.split_once(": ")?.0))
            .collect();
        assert_eq!(printed, ids);
    }
}

#[test]
fn writes_the_record_over_an_older_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("results.json");
    fs::write(&file, "older").unwrap();
    let output = run(&["--output", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let written = json::parse(&fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(less_runtime(&written), less_runtime(&recorded()));
    assert!(
        written.get("matrix") == recorded().get("matrix"),
        "if the change is meant: cargo run -q --release -- --output results.json"
    );
    assert!(written.get("storm") == recorded().get("storm"));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "leftovers");
}

#[test]
fn a_bad_fixture_is_refused_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("results.json");
    fs::write(&results, "precious").unwrap();
    let payload = r#""payload": {"project": "p", "title": "t", "priority": "normal"}"#;
    let deep = "[".repeat(10_000);
    let large = format!("\"{}\"", "x".repeat(10 << 20));
    let long_key = format!(r#"{{"operation_key": "{}", {payload}}}"#, "k".repeat(245));
    let cases: &[(&[u8], &str)] = &[
        (b"", "line 1, column 1"),
        (b"operation_key: yes", "line 1, column 1"),
        (b"{\"operation_key\": \"k\",\n", "line 2, column 1"),
        (b"\xff\xfe{}", "UTF-8"),
        (b"[]", "fixture: expected an object"),
        (b"{}", "operation_key: expected a string"),
        (br#"{"operation_key": 7}"#, "operation_key: expected a string"),
        (br#"{"operation_key": ""}"#, "operation_key: an operation key is empty"),
        (
            br#"{"operation_key": " \u2003"}"#,
            "operation_key: an operation key is blank",
        ),
        (
            br#"{"operation_key": "k\u001b[31m"}"#,
            "operation_key: an operation key has a control character at position 2: U+001B",
        ),
        (
            b"{\"operation_key\": \"k\xc2\x9b31m\"}",
            "operation_key: an operation key has a control character at position 2: U+009B",
        ),
        (
            br#"{"operation_key": "k\u202e"}"#,
            "operation_key: an operation key has a control character at position 2: U+202E",
        ),
        (br#"{"operation_key": "k"}"#, "payload: expected an object"),
        (br#"{"operation_key": "k", "payload": []}"#, "payload: expected an object"),
        (
            br#"{"operation_key": "k", "payload": {"project": "p", "title": "t"}}"#,
            "payload.priority: expected a string",
        ),
        (
            br#"{"operation_key": "k", "payload": {"project": "p", "title": "t", "priority": "urgent"}}"#,
            "payload.priority: expected another value than urgent",
        ),
        (
            br#"{"operation_key": "k", "payload": {"project": "p", "title": "t", "priority": "n"}, "x": 1}"#,
            "unknown member \"x\"",
        ),
        (long_key.as_bytes(), "operation_key: 245 characters; at most 244 may stand"),
        (
            b"{\"operation_key\": \"a\",\n \"operation_key\": \"b\"}",
            "line 2, column 2: duplicate name \"operation_key\"",
        ),
        (br#"{"payload": NaN}"#, "line 1, column 13"),
        (deep.as_bytes(), "128"),
        (large.as_bytes(), "the file has 10485762 bytes; at most 1048576 are read"),
    ];
    for (index, (bytes, part)) in cases.iter().enumerate() {
        let fixture = folder.path().join(format!("fixture-{index}.json"));
        fs::write(&fixture, bytes).unwrap();
        let output = run(&[
            "--fixture",
            fixture.to_str().unwrap(),
            "--output",
            results.to_str().unwrap(),
        ]);
        fails_with(&output, 1, part);
        fails_with(&output, 1, &format!("fixture-{index}.json: "));
        assert!(output.stdout.is_empty());
        assert_eq!(fs::read_to_string(&results).unwrap(), "precious");
    }
    let missing = folder.path().join("missing.json");
    fails_with(
        &run(&["--fixture", missing.to_str().unwrap()]),
        1,
        "missing.json: cannot be read",
    );
    let directory = folder.path().to_str().unwrap();
    fails_with(&run(&["--fixture", directory]), 1, "cannot be read");
}

#[test]
fn another_fixture_runs() {
    let folder = tempfile::tempdir().unwrap();
    let fixture = folder.path().join("fixture.json");
    fs::write(
        &fixture,
        r#"{"operation_key": "k", "payload": {"project": "é", "title": "", "priority": "low"}}"#,
    )
    .unwrap();
    let output = run(&["--fixture", fixture.to_str().unwrap()]);
    let passed = format!("PASS: {} scenarios\n", all().len());
    assert!(text(&output.stdout).ends_with(&passed));
    let output = run(&[
        "show",
        "naive_retry",
        "--fixture",
        fixture.to_str().unwrap(),
    ]);
    assert!(
        text(&output.stdout).contains(r"\\u00e9"),
        "the payload in canonical form"
    );
}

/// What hides in a key is shown, in errors and in the trace, and nothing of it steers a terminal.
#[test]
fn a_key_is_printed_so_that_it_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let fixture = folder.path().join("fixture.json");
    fs::write(
        &fixture,
        r#"{"operation_key": "ключ\u200b\u00a0'", "payload":
            {"project": "\u001b[31m", "title": "\u009b\u202e", "priority": "low"}}"#,
    )
    .unwrap();
    let path = fixture.to_str().unwrap();
    for id in ["stable_key_retry", "changed_payload"] {
        let output = run(&["show", id, "--fixture", path]);
        let shown = text(&output.stdout);
        let key = r"ключ\u{200b}\u{a0}'";
        assert!(shown.contains(&format!("with key {key}: {{")), "{shown}");
        assert!(shown.contains(&format!("VALUES ('{key}'', '{{")), "{shown}");
        if id == "changed_payload" {
            assert!(
                shown.contains(&format!("conflict: key {key} was used")),
                "{shown}"
            );
        }
        let hides = |text: char| {
            text != '\n' && text.is_control() || matches!(text, '\u{a0}' | '\u{200b}' | '\u{202e}')
        };
        assert!(!shown.contains(hides), "{shown:?}");
    }
}

#[test]
fn nonsense_on_the_command_line_is_one_line() {
    for (arguments, part) in [
        (
            &["--group", "nonsense"][..],
            "no group \"nonsense\"; there is lab",
        ),
        (&["--group"], "--group"),
        (&["--colour"], "--colour"),
        (&["--group", "lab", "--group", "lab"], "given twice"),
        (&["show"], "show wants the id"),
        (&["show", "nonsense"], "no scenario \"nonsense\""),
        (
            &["show", "naive_retry", "naive_retry"],
            "too many arguments",
        ),
        (
            &["show", "naive_retry", "--output", "x"],
            "--output does not go",
        ),
        (&["list", "--json"], "--json does not go"),
        (&["nonsense"], "unknown command \"nonsense\"; see"),
        (&["exploer"], "\"exploer\" (did you mean explore?)"),
        (&["help", "stom"], "\"stom\" (did you mean storm?)"),
        (&["show", "naive_rety"], "(did you mean naive_retry?)"),
        (&["--outptu", "x"], "'--outptu' (did you mean --output?)"),
        (&["storm", "--clinets"], "(did you mean --clients?)"),
        (&["--json", "storm"], "storm goes before its options"),
        (
            &["explore", "--design", "nonsense"],
            "no design \"nonsense\"; there is no_key, ",
        ),
        (
            &["explore", "--fault", "nonsense"],
            "no fault \"nonsense\"; there is none, ",
        ),
        (
            &["explore", "--fault", "none", "--faults", "1"],
            "faults: expected a number from 0 to 0",
        ),
        (
            &["explore", "--callers", "5"],
            "--callers: expected a number from 1 to 4, found \"5\"",
        ),
        (
            &["explore", "--callers", "many"],
            "from 1 to 4, found \"many\"",
        ),
        (
            &["explore", "--attempts", "0"],
            "--attempts: expected a number from 1 to 3",
        ),
        (
            &["explore", "--faults", "3"],
            "--faults: expected a number from 0 to 2",
        ),
        (&["explore", "--random", "0"], "--random: expected"),
        (&["explore", "--group", "lab"], "--group does not go"),
        (&["explore", "nonsense"], "too many arguments"),
        (&["replay"], "replay wants a token"),
        (&["replay", "nonsense"], "DESIGN.FAULT.BOUNDS.CHOICES"),
        (&["replay", "immediate.none.220.z"], "another run"),
        (&["list", "--design", "immediate"], "--design does not go"),
        (&["--json"], "--json does not go"),
    ] {
        fails_with(&run(arguments), 2, part);
    }
}

/// As a word and as an option, of everything and of one command.
#[test]
fn help_is_printed_however_it_is_asked_for() {
    let help = |arguments: &[&str]| {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        text(&output.stdout).to_owned()
    };
    let whole = help(&["help"]);
    assert_eq!(help(&["--help"]), whole);
    assert_eq!(help(&["-h"]), whole);
    for command in ["list", "show", "explore", "replay", "storm", "help"] {
        let part = help(&["help", command]);
        assert_eq!(help(&[command, "--help"]), part);
        assert!(
            part.starts_with(&format!("Usage:\n  tool-retries {command}")),
            "{part}"
        );
        assert!(
            part.lines()
                .all(|line| whole.lines().any(|known| known == line))
        );
        assert_eq!(part.contains("--callers"), command == "explore");
    }
    assert_eq!(help(&["storm", "-V"]), help(&["--version"]));
}

#[test]
fn list_names_every_scenario() {
    let output = run(&["list"]);
    for scenario in all() {
        assert!(
            text(&output.stdout).contains(&format!("\n  {} ", scenario.id)),
            "{}",
            scenario.id
        );
    }
}

#[test]
fn show_prints_checks_rows_and_trace() {
    let output = run(&["show", "stable_key_retry"]);
    for part in [
        "holds  the first call times out: {\"error\": \"timeout: no answer arrived\"}",
        "as it happened: a ticket was committed and its answer lost",
        "requests(key, payload, response)",
        "BEGIN IMMEDIATE",
        "a fault strikes at after_commit",
        "has the answer {\"ticket_id\":1}",
    ] {
        assert!(text(&output.stdout).contains(part), "lacks {part:?}");
    }
    let output = run(&["show", "stable_key_retry", "--json"]);
    let shown = json::parse(text(&output.stdout)).unwrap();
    let recorded = recorded();
    let digests = recorded.get("digests").unwrap();
    assert_eq!(shown.get("digests"), digests.get("stable_key_retry"));
    let values = recorded.get("scenarios").unwrap();
    assert_eq!(shown.get("values"), values.get("stable_key_retry"));
    let Some(json::Value::Array(checks)) = shown.get("checks") else {
        panic!("no checks");
    };
    assert_eq!(checks.len(), 4);
}

#[test]
fn explore_says_what_breaks_and_replay_shows_it() {
    let output = run(&["explore", "--design", "no_key", "--fault", "response_lost"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(
        text(&output.stdout)
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" "),
        "no_key response_lost 1 caller, 2 attempts, 1 fault two tickets for one intention in 845 of 846 schedules replay no_key.response_lost.121.1"
    );
    let output = run(&["replay", "no_key.response_lost.121.1"]);
    assert_eq!(output.status.code(), Some(0));
    for part in [
        "FAILS  one intention has at most one ticket: expected \"holds\", saw \"two tickets for one intention\"",
        "caller 1        sees an error: timeout: no answer arrived",
        "BEGIN IMMEDIATE",
    ] {
        assert!(text(&output.stdout).contains(part), "lacks {part:?}");
    }
    // A scenario's id is its token.
    let shown = run(&["show", "naive_retry"]).stdout;
    assert_eq!(text(&run(&["replay", "naive_retry"]).stdout), text(&shown));
    let output = run(&["replay", "no_key.response_lost.121.1", "--json"]);
    let shown = json::parse(text(&output.stdout)).unwrap();
    assert_eq!(
        shown.get("passed").and_then(json::Value::as_bool),
        Some(false)
    );
    let output = run(&[
        "explore",
        "--design",
        "immediate",
        "--fault",
        "none",
        "--json",
    ]);
    let found = json::parse(text(&output.stdout)).unwrap();
    let cell = |matrix: &json::Value| matrix.get("immediate")?.get("none").cloned();
    let recorded = recorded();
    assert_eq!(
        cell(&found),
        cell(recorded.get("matrix").unwrap().get("rollback").unwrap())
    );
    assert!(cell(&found).is_some());
}

#[test]
fn more_callers_and_random_schedules_are_asked_for() {
    let explore = |more: &[&str]| {
        let output = run(&[
            &["explore", "--design", "immediate", "--fault", "none"],
            more,
        ]
        .concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout).to_owned()
    };
    assert!(explore(&["--callers", "3", "--attempts", "1"]).contains("safe in "));
    assert!(explore(&["--random", "20"]).contains("nothing found in 20 schedules"));
}

#[test]
fn a_storm_prints_what_is_recorded_and_refuses_bad_values() {
    let output = run(&["storm", "--budget", "none", "--preset", "grpc", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let recorded = recorded();
    let case = recorded
        .get("storm")
        .and_then(|storm| storm.get("cases")?.get("grpc_no_budget"))
        .unwrap();
    assert_eq!(text(&output.stdout).trim_end(), case.pretty());
    let words = run(&["storm", "--preset", "grpc", "--budget", "none"]);
    let summary = case.get("summary").unwrap().as_str().unwrap();
    assert!(text(&words.stdout).starts_with(summary));

    for (arguments, message) in [
        (
            &["storm", "--clients", "501"][..],
            "--clients \"501\" is not a whole number from 1 to 500",
        ),
        (
            &["storm", "--jitter", "half"],
            "--jitter \"half\" is not none, full",
        ),
        (
            &["storm", "--budget", "10"],
            "--budget \"10\" is not TOKENS:RATIO",
        ),
        (
            &["storm", "--seed", "1", "--seed", "1"],
            "--seed is given twice",
        ),
        (&["storm", "--callers", "1"], "invalid option '--callers'"),
        (&["storm", "now"], "unexpected argument \"now\""),
        (&["storm", "--clients"], "missing argument"),
        (&["list", "storm"], "too many arguments"),
    ] {
        fails_with(&run(arguments), 2, message);
    }
}
