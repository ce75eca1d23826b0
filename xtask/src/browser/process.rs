//! Child processes that leave nothing behind.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::tools;

/// How long a process may take to end by itself once asked to.
const GRACE: Duration = Duration::from_secs(3);

/// A child process with a home of its own; it and everything that it has started end when it is dropped.
pub struct Process {
    child: Child,
    name: String,
    home: TempDir,
}

impl Process {
    /// A home for a process that is yet to start.
    pub fn home() -> Result<TempDir> {
        Ok(tempfile::Builder::new().prefix("browser-").tempdir()?)
    }

    /// Starts a command in its home, with nothing of the user's own.
    pub fn start(command: &mut Command, home: TempDir) -> Result<Self> {
        let child = command
            .env("HOME", home.path())
            .env("TMPDIR", home.path())
            .env("XDG_CONFIG_HOME", home.path())
            .env("XDG_CACHE_HOME", home.path())
            .env("XDG_DATA_HOME", home.path())
            .env("XDG_RUNTIME_DIR", home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start `{}`", tools::shown(command)))?;
        Ok(Self {
            child,
            name: tools::shown(command),
            home,
        })
    }

    /// The process's home.
    pub fn place(&self) -> &Path {
        self.home.path()
    }

    /// Reads what the process prints up to the line in which `find` finds something. Call it once.
    pub fn told<T>(&mut self, find: impl Fn(&str) -> Option<T>) -> Result<T> {
        let output = self.child.stdout.take().context("no output is left")?;
        let mut lines = BufReader::new(output).lines();
        let told = lines
            .by_ref()
            .map_while(|line| line.ok())
            .find_map(|line| find(&line))
            .with_context(|| format!("`{}` did not say where it listens", self.name))?;
        // A full pipe would stop the process.
        thread::spawn(move || lines.for_each(drop));
        Ok(told)
    }

    /// Whether the process has ended by itself, and how.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Asked first: an X server that is killed leaves its lock and its socket.
        signal("TERM", self.child.id());
        let asked = Instant::now();
        while asked.elapsed() < GRACE && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        end_all(self.home.path());
    }
}

/// Kills what is at this home until nobody is there. One look is not enough: who is found may have started others since,
/// and whose program is just being replaced has no environment to be told by.
fn end_all(home: &Path) {
    let asked = Instant::now();
    while asked.elapsed() < GRACE {
        let found = at_home(home);
        if found.is_empty() {
            return;
        }
        for (pid, resident) in found {
            if resident == Resident::Surely {
                signal("KILL", pid);
            }
        }
        thread::sleep(Duration::from_millis(10));
    }
}

fn signal(name: &str, pid: u32) {
    let _ = Command::new("kill")
        .arg(format!("-{name}"))
        .arg(pid.to_string())
        .stderr(Stdio::null())
        .status();
}

/// What the environment of a process says of where it is at home.
#[derive(Debug, PartialEq, Eq)]
enum Resident {
    /// It names this home: nobody else's can.
    Surely,
    /// There is none yet: its program is just being replaced (or it was started without one, by whomever).
    Perhaps,
}

/// The processes that are, or may be, at this home.
fn at_home(home: &Path) -> Vec<(u32, Resident)> {
    let variable = format!("HOME={}", home.display()).into_bytes();
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let environment = fs::read(entry.path().join("environ")).ok()?;
            if environment
                .split(|byte| *byte == 0)
                .any(|found| found == variable)
            {
                Some((pid, Resident::Surely))
            } else if environment.is_empty() && fs::read_link(entry.path().join("exe")).is_ok() {
                // A thread of the kernel, and who has ended and was not waited for, have no program.
                Some((pid, Resident::Perhaps))
            } else {
                None
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_child_has_started_ends_with_it() {
        let mut shell = Command::new("sh");
        shell.args([
            "-c",
            "setsid sleep 600 & first=$!; sleep 600 & echo $first $!; wait",
        ]);
        let home = Process::home().unwrap();
        let place = home.path().to_owned();
        let mut process = Process::start(&mut shell, home).unwrap();
        let children: Vec<u32> = process
            .told(|line| line.split(' ').map(|pid| pid.parse().ok()).collect())
            .unwrap();
        assert_eq!(children.len(), 2);
        // Whether their programs run already is not waited for: it must not matter.
        drop(process);
        assert_eq!(at_home(&place), []);
        for child in children {
            assert!(fs::read_link(format!("/proc/{child}/exe")).is_err());
        }
        assert!(!place.exists());
    }

    #[test]
    fn a_silent_child_is_named() {
        let mut command = Command::new("true");
        let mut process = Process::start(&mut command, Process::home().unwrap()).unwrap();
        let message = process.told(|_| None::<()>).unwrap_err().to_string();
        assert!(message.contains("`true`"), "{message}");
    }
}
