//! The file of `--output`.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::{PROGRAM, fails_with, run, text};

fn lab_to(path: &Path) -> Output {
    run(&["--group", "lab", "--output", path.to_str().unwrap()])
}

#[track_caller]
fn succeeds(output: &Output) {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_file_keeps_its_mode_and_a_new_one_has_that_of_any() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("record.json");
    for kept in [0o600, 0o640, 0o666, 0o755] {
        fs::write(&file, "older").unwrap();
        fs::set_permissions(&file, PermissionsExt::from_mode(kept)).unwrap();
        succeeds(&lab_to(&file));
        assert_eq!(mode(&file), kept);
        assert!(fs::read_to_string(&file).unwrap().starts_with('{'));
    }
    for (umask, expected) in [("022", 0o644), ("077", 0o600), ("002", 0o664)] {
        fs::remove_file(&file).unwrap();
        let script = format!("umask {umask}; exec \"$0\" --group lab --output \"$1\"");
        let output = Command::new("sh")
            .args(["-c", &script, PROGRAM, file.to_str().unwrap()])
            .output()
            .unwrap();
        succeeds(&output);
        assert_eq!(mode(&file), expected, "{umask}");
    }
}

/// A link stays a link, and what it leads to is replaced or made.
#[test]
fn links_are_followed() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("below")).unwrap();
    symlink("below/second", at("first")).unwrap();
    symlink("../record.json", at("below/second")).unwrap();
    for _ in ["dangling", "leading to a file"] {
        succeeds(&lab_to(&at("first")));
        for link in ["first", "below/second"] {
            assert!(fs::symlink_metadata(at(link)).unwrap().is_symlink());
        }
        assert!(fs::symlink_metadata(at("record.json")).unwrap().is_file());
        assert!(
            fs::read_to_string(at("record.json"))
                .unwrap()
                .starts_with('{')
        );
        fs::write(at("record.json"), "older").unwrap();
    }
    symlink("round", at("round")).unwrap();
    fails_with(&lab_to(&at("round")), 1, "round: cannot be written");
}

/// The new text is renamed into place: whoever holds the old file still reads the old text.
#[test]
fn the_record_is_replaced_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (file, held) = (folder.path().join("file"), folder.path().join("held"));
    fs::write(&file, "older").unwrap();
    fs::hard_link(&file, &held).unwrap();
    succeeds(&lab_to(&file));
    assert_eq!(fs::read_to_string(&held).unwrap(), "older");
    assert!(fs::read_to_string(&file).unwrap().starts_with('{'));
    // A name as long as one can be leaves room for the file beside it.
    succeeds(&lab_to(&folder.path().join("x".repeat(255))));
}

/// What a stream or a descriptor goes to gets the record too, and is not replaced.
#[test]
fn what_is_open_is_written_to() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let own = file.to_str().unwrap();
    let printed = text(&run(&["--group", "lab"]).stdout).to_owned();
    let (lines, pass) = printed.split_at(printed.find("PASS").unwrap());
    for (output, redirection) in [
        ("/dev/stdout", ">"),
        ("/dev/stdout", ">>"),
        ("/proc/self/fd/1", ">"),
        (own, ">"),
        ("/dev/stderr", "2>"),
        ("/dev/fd/3", "3>"),
        ("/dev/fd/3", "3>>"),
    ] {
        fs::write(&file, "older\n").unwrap();
        let before = fs::metadata(&file).unwrap().ino();
        let script = format!("exec \"$0\" --group lab --output {output} {redirection} \"$1\"");
        let ended = Command::new("sh")
            .args(["-c", &script, PROGRAM, own])
            .output()
            .unwrap();
        let at = format!("{output} {redirection}");
        assert_eq!(ended.status.code(), Some(0), "{at}");
        assert_eq!(fs::metadata(&file).unwrap().ino(), before, "{at}");
        let written = fs::read_to_string(&file).unwrap();
        let older = if redirection.ends_with(">>") {
            "older\n"
        } else {
            ""
        };
        let record = written.strip_prefix(older).expect(&at);
        if redirection.starts_with('>') {
            let record = record.strip_prefix(lines).expect(&at);
            let record = record.strip_suffix(pass).expect(&at);
            assert!(record.starts_with("{\n") && record.ends_with("}\n"), "{at}");
        } else {
            assert!(record.starts_with("{\n") && record.ends_with("}\n"), "{at}");
            assert_eq!(text(&ended.stdout), printed, "{at}");
        }
    }
}

#[test]
fn a_pipe_with_a_name_is_written_to() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let mut child = Command::new(PROGRAM)
        .args(["--group", "lab", "--output", pipe.to_str().unwrap()])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut record = String::new();
    File::open(&pipe)
        .unwrap()
        .read_to_string(&mut record)
        .unwrap();
    assert!(child.wait().unwrap().success());
    assert!(record.starts_with("{\n") && record.ends_with("}\n"));
    assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
}

/// One line, before the run: nothing was printed yet.
#[test]
fn what_cannot_be_written_is_refused_before_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("locked"), "precious").unwrap();
    fs::set_permissions(at("locked"), PermissionsExt::from_mode(0o444)).unwrap();
    symlink("missing/record.json", at("astray")).unwrap();
    for name in [
        "missing/record.json",
        "",
        "new/",
        "locked",
        "locked/x",
        "astray",
    ] {
        let output = lab_to(&at(name));
        fails_with(&output, 1, ": cannot be written: ");
        fails_with(&output, 1, at(name).to_str().unwrap());
        assert!(
            !text(&output.stderr).contains(".tool-retries"),
            "{output:?}"
        );
        assert!(output.stdout.is_empty(), "{name}: it ran");
    }
    fails_with(&run(&["--output", ""]), 1, "cannot be written");
    assert_eq!(fs::read_to_string(at("locked")).unwrap(), "precious");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "leftovers");
}

/// A run that is at work for long enough to be killed. It has printed: its file stands beside the
/// record and is locked, and Ctrl-C ends it in good order.
fn long_run_to(path: &Path) -> Child {
    let mut child = Command::new(PROGRAM)
        .args(["--output", path.to_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = child.stdout.as_mut().unwrap();
    stdout.read_exact(&mut [0]).unwrap();
    child
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn what_a_killed_run_left_is_taken_away_by_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("record.json");
    fs::write(&file, "older").unwrap();
    let mut child = long_run_to(&file);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(names(folder.path()).len(), 2, "it left nothing");
    assert_eq!(fs::read_to_string(&file).unwrap(), "older");
    // Another record's run leaves it.
    let other = folder.path().join("other.json");
    succeeds(&lab_to(&other));
    assert_eq!(names(folder.path()).len(), 3);
    succeeds(&lab_to(&file));
    assert_eq!(names(folder.path()), ["other.json", "record.json"]);
}

/// And what a run that lives needs is not; ended by Ctrl-C, it takes it away itself.
#[test]
fn a_run_that_lives_keeps_what_it_needs() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("record.json");
    let child = long_run_to(&file);
    let beside = names(folder.path());
    succeeds(&lab_to(&file));
    assert!(names(folder.path()).contains(&beside[0]));
    let record = fs::read_to_string(&file).unwrap();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    fails_with(&output, 130, "interrupted: no record was written");
    assert_eq!(names(folder.path()), ["record.json"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), record);
}

#[test]
fn a_fixture_that_is_too_large_is_told_its_size() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("large.json");
    fs::write(&file, vec![b' '; 10 << 20]).unwrap();
    let name = file.to_str().unwrap();
    let expected = "large.json: the file has 10485760 bytes; at most 1048576 are read";
    fails_with(&run(&["--fixture", name]), 1, expected);
    let mut child = Command::new(PROGRAM)
        .args(["--fixture", "/dev/stdin"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // It does not read to the end.
    let _ = stdin.write_all(&vec![b' '; 10 << 20]);
    drop(stdin);
    let expected = "/dev/stdin: the file has more than 1048576 bytes; at most 1048576 are read";
    fails_with(&child.wait_with_output().unwrap(), 1, expected);
}
