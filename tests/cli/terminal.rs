//! Long work on a terminal, and Ctrl-C.

use std::fs::{self, File};
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use tool_retries::explore::{DESIGNS, FAULTS};
use tool_retries::json::{self, Canonical};
use tool_retries::sim::Journal;

use super::{PROGRAM, text, wait_until};

/// Longer than any test waits.
const LONG: &[&str] = &[
    "explore",
    "--design",
    "claim",
    "--fault",
    "killed",
    "--callers",
    "4",
    "--attempts",
    "3",
];
const LONG_STORM: &[&str] = &[
    "storm",
    "--server",
    "queue",
    "--clients",
    "500",
    "--capacity",
    "1",
    "--attempts",
    "1000",
    "--base",
    "0",
    "--cap",
    "0",
];

/// A program whose standard error is a terminal.
struct OnTerminal {
    child: Child,
    screen: Arc<Mutex<Vec<u8>>>,
}

impl OnTerminal {
    fn run(arguments: &[&str], stdout: impl Into<Stdio>) -> Self {
        Self::run_on("xterm", arguments, stdout)
    }

    fn run_on(terminal_kind: &str, arguments: &[&str], stdout: impl Into<Stdio>) -> Self {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let size = Winsize {
            ws_row: 25,
            ws_col: 150,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&controller, size).unwrap();
        let name = ptsname(&controller, Vec::new()).unwrap();
        let terminal = File::options()
            .read(true)
            .write(true)
            .open(name.to_str().unwrap())
            .unwrap();
        let child = Command::new(PROGRAM)
            .args(arguments)
            .env("TERM", terminal_kind)
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(terminal)
            .spawn()
            .unwrap();
        let screen = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&screen);
        thread::spawn(move || {
            let mut controller = File::from(controller);
            let mut bytes = [0; 4096];
            // It ends with an error once the program has let go of the terminal.
            while let Ok(read @ 1..) = controller.read(&mut bytes) {
                seen.lock().unwrap().extend_from_slice(&bytes[..read]);
            }
        });
        Self { child, screen }
    }

    fn screen(&self) -> String {
        String::from_utf8_lossy(&self.screen.lock().unwrap()).into_owned()
    }

    fn shows(&self, part: &str) {
        wait_until(part, || self.screen().contains(part).then_some(()));
    }

    fn interrupt(&self) {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
    }

    /// The exit code and what went to standard output.
    fn end(&mut self) -> (Option<i32>, String) {
        let mut printed = String::new();
        if let Some(mut stdout) = self.child.stdout.take() {
            stdout.read_to_string(&mut printed).unwrap();
        }
        let code = wait_until("its end", || self.child.try_wait().unwrap());
        (code.code(), printed)
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_search_says_how_far_it_is_and_ends_with_what_it_found() {
    let mut search = OnTerminal::run(LONG, Stdio::piped());
    for part in [
        "1/1 claim × killed: ",
        " schedules, ",
        " runs/s, ",
        " % of the bound (",
        " states)",
    ] {
        search.shows(part);
    }
    search.interrupt();
    let (code, printed) = search.end();
    assert_eq!(code, Some(130));
    let lines: Vec<&str> = printed.lines().collect();
    assert!(
        lines[0].starts_with("claim ") && lines[0].ends_with(", so far"),
        "{printed}"
    );
    let words = "0 of 1 searches are complete, claim × killed in part";
    assert_eq!(lines.last(), Some(&&*format!("NOT COMPLETE: {words}")));
    search.shows(&format!("error: interrupted: {words}"));
    // The line is gone before anything else is said.
    let screen = search.screen();
    let (before, _) = screen.split_once("error: ").unwrap();
    assert!(before.ends_with("\r\u{1b}[2K"), "{before:?}");
}

#[test]
fn an_interrupted_search_is_one_json_document() {
    let mut search = OnTerminal::run(&[LONG, &["--json"]].concat(), Stdio::piped());
    search.shows("1/1 claim × killed: ");
    search.interrupt();
    let (code, printed) = search.end();
    assert_eq!(code, Some(130));
    let found = json::parse(&printed).unwrap();
    let interrupted = r#"{"complete": 0, "design": "claim", "fault": "killed", "of": 1}"#;
    assert_eq!(found.get("interrupted").unwrap().spaced(), interrupted);
    let cell = found.get("claim").and_then(|cells| cells.get("killed"));
    assert_eq!(cell.unwrap().get("safe").unwrap().as_bool(), Some(false));
}

/// The time that it worked, however often the system lets others go first.
#[cfg(target_os = "linux")]
#[test]
fn the_line_comes_within_half_a_second() {
    let worked = || {
        let search = OnTerminal::run(LONG, Stdio::null());
        search.shows("1/1 claim × killed: ");
        let schedstat = format!("/proc/{}/schedstat", search.child.id());
        let times = fs::read_to_string(schedstat).unwrap();
        let nanoseconds = times.split_whitespace().next().unwrap();
        Duration::from_nanos(nanoseconds.parse().unwrap())
    };
    // This test may itself be late to look.
    let seen: Vec<Duration> = (0..20).map(|_| worked()).collect();
    let limit = Duration::from_millis(500);
    assert!(seen.iter().any(|worked| *worked <= limit), "{seen:?}");
}

#[test]
fn a_storm_says_how_far_it_is_and_prints_nothing_of_a_part() {
    let mut storm = OnTerminal::run(LONG_STORM, Stdio::piped());
    storm.shows("run 1 of 100: ");
    storm.interrupt();
    assert_eq!(storm.end(), (Some(130), String::new()));
    storm.shows("error: interrupted: the storm was not over");
}

#[test]
fn a_run_says_how_far_it_is_and_leaves_nothing_of_a_part() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("record.json");
    fs::write(&file, "precious").unwrap();
    let mut run = OnTerminal::run(&["--output", file.to_str().unwrap()], Stdio::piped());
    let searches = Journal::ALL.len() * DESIGNS.len() * FAULTS.len();
    run.shows(&format!("/{searches} "));
    run.interrupt();
    let (code, printed) = run.end();
    assert_eq!(code, Some(130));
    assert!(!printed.contains("PASS"));
    run.shows("error: interrupted: no record was written");
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// Whoever writes to it waits for as long as nobody reads.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let flags = fcntl_getfl(&writer).unwrap();
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK).unwrap();
    while writer.write(&[b' '; 4096]).is_ok() {}
    fcntl_setfl(&writer, flags).unwrap();
    (reader, writer)
}

/// A program that waits for a reader of what it found is ended by the second.
#[test]
fn a_second_interrupt_ends_at_once() {
    let (_reader, writer) = full_pipe();
    let mut search = OnTerminal::run(LONG, writer);
    search.shows("1/1 claim × killed: ");
    search.interrupt();
    wait_until("an end by another interrupt", || {
        let ended = search.child.try_wait().unwrap();
        if ended.is_none() {
            search.interrupt();
        }
        ended
    });
    assert_eq!(search.end().0, Some(130));
}

/// What has nothing to finish is ended by the first.
#[cfg(target_os = "linux")]
#[test]
fn an_interrupt_ends_a_short_command_at_once() {
    let (_reader, writer) = full_pipe();
    let mut list = OnTerminal::run(&["list"], writer);
    // Until it listens, the system ends it its own way.
    let status = format!("/proc/{}/status", list.child.id());
    wait_until("that it listens for SIGINT", || {
        let status = fs::read_to_string(&status).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = u64::from_str_radix(caught.unwrap().trim(), 16).unwrap();
        (caught & 1 << (Signal::INT.as_raw() - 1) != 0).then_some(())
    });
    wait_until("an end by an interrupt", || {
        list.interrupt();
        list.child.try_wait().unwrap()
    });
    assert_eq!(list.end().0, Some(130));
}

/// Runs such a command for longer than the line waits, with so many more runs each time.
fn for_long_enough(run: impl Fn(&[&str])) {
    let mut runs = 500_u32;
    loop {
        let begun = Instant::now();
        run(&[LONG, &["--random", &runs.to_string()]].concat());
        if begun.elapsed() > Duration::from_secs(1) {
            break;
        }
        runs *= 2;
    }
}

#[test]
fn a_pipe_sees_nothing_of_it() {
    for_long_enough(|arguments| {
        let output = super::run(arguments);
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(text(&output.stderr), "");
        assert!(!text(&output.stdout).contains(['\r', '\u{1b}']));
    });
}

#[test]
fn a_terminal_that_cannot_take_it_back_sees_nothing_of_it() {
    for_long_enough(|arguments| {
        let mut search = OnTerminal::run_on("dumb", arguments, Stdio::piped());
        assert_eq!(search.end().0, Some(0));
        assert_eq!(search.screen(), "");
    });
}

#[test]
fn a_short_command_shows_no_line() {
    let mut list = OnTerminal::run(&["list"], Stdio::piped());
    assert_eq!(list.end().0, Some(0));
    assert_eq!(list.screen(), "");
}
