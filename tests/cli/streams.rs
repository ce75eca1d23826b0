//! What a command does and how it ends does not depend on who reads.

use std::fs;
use std::process::{Command, Stdio};

use super::{PROGRAM, fails_with, run, text};

/// What runs, and how it ends where everybody reads.
const COMMANDS: [(&[&str], i32); 11] = [
    (&["--group", "lab"], 0),
    (&["list"], 0),
    (&["show", "naive_retry"], 0),
    (&["explore", "--design", "no_key", "--fault", "none"], 0),
    (
        &["explore", "--design", "no_key", "--fault", "none", "--json"],
        0,
    ),
    (&["replay", "no_key.response_lost.121.1"], 0),
    (&["storm", "--runs", "1"], 0),
    (&["help"], 0),
    (&["--version"], 0),
    (&["nonsense"], 2),
    (&["--fixture", "/"], 1),
];

/// With these redirections of a shell.
fn redirected(arguments: &[&str], redirections: &str) -> std::process::Output {
    Command::new("sh")
        .args(["-c", &format!("exec \"$0\" \"$@\" {redirections}"), PROGRAM])
        .args(arguments)
        .output()
        .unwrap()
}

/// With a standard output that nobody reads any more.
fn unread(arguments: &[&str]) -> std::process::Output {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    Command::new(PROGRAM)
        .args(arguments)
        .stdout(writer)
        .stderr(Stdio::piped())
        .output()
        .unwrap()
}

#[test]
fn no_reader_changes_how_a_command_ends() {
    for (arguments, code) in COMMANDS {
        let output = unread(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        assert_eq!(output.stderr.is_empty(), code == 0, "{arguments:?}");
        for redirections in [">&-", "2>&-", ">&- 2>&-", "2>/dev/full"] {
            let output = redirected(arguments, redirections);
            let at = format!("{arguments:?} {redirections}: {output:?}");
            assert_eq!(output.status.code(), Some(code), "{at}");
        }
    }
}

/// That output did not arrive is a failure where nobody chose it, but no other failure is lost.
#[test]
fn a_full_standard_output_is_said() {
    for (arguments, code) in COMMANDS {
        let output = redirected(arguments, ">/dev/full");
        match code {
            0 => fails_with(&output, 1, "standard output: "),
            code => assert_eq!(output.status.code(), Some(code), "{arguments:?}"),
        }
        let output = redirected(arguments, ">/dev/full 2>/dev/full");
        assert_eq!(output.status.code(), Some(code.max(1)), "{arguments:?}");
    }
}

#[test]
fn the_record_is_written_whatever_becomes_of_standard_output() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("record.json");
    let arguments = ["--group", "lab", "--output", file.to_str().unwrap()];
    assert!(run(&arguments).status.success());
    let record = fs::read_to_string(&file).unwrap();
    type Run = fn(&[&str]) -> std::process::Output;
    for (run, code) in [
        (unread as Run, 0),
        (|arguments| redirected(arguments, ">&-"), 0),
        (|arguments| redirected(arguments, ">/dev/full"), 1),
        (|arguments| redirected(arguments, ">/dev/full 2>&-"), 1),
    ] {
        fs::remove_file(&file).unwrap();
        let output = run(&arguments);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        assert_eq!(fs::read_to_string(&file).unwrap(), record);
    }
    // And that it was not is a failure, whoever reads.
    let missing = folder.path().join("missing/record.json");
    let output = unread(&["--group", "lab", "--output", missing.to_str().unwrap()]);
    fails_with(&output, 1, "record.json: cannot be written");
}

/// A reader that closes the pipe early is no failure.
#[test]
fn a_closed_pipe_is_quiet() {
    let script = format!("set -o pipefail; '{PROGRAM}' show concurrent_same_key | head -1");
    let output = Command::new("bash").args(["-c", &script]).output().unwrap();
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
    assert!(output.status.success());
}
