//! Every test of the project, counted and timed.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};

use crate::tools;
use crate::{browser, budget, install, lab, lighthouse, lint, site};
use browser::{Browser, Choice};

/// How many checks passed and failed. Several threads may report.
#[derive(Debug, Default)]
pub struct Tally {
    passed: AtomicU64,
    failed: AtomicU64,
}

impl Tally {
    /// Prints and counts one check.
    pub fn report(&self, name: &str, outcome: Result<()>) {
        match outcome {
            Ok(()) => {
                self.passed.fetch_add(1, Ordering::Relaxed);
                println!("test {name} ... ok");
            }
            Err(error) => {
                self.failed.fetch_add(1, Ordering::Relaxed);
                println!("test {name} ... FAILED\n    {error:#}");
            }
        }
    }

    /// How many have passed and failed so far.
    fn sums(&self) -> (u64, u64) {
        (
            self.passed.load(Ordering::Relaxed),
            self.failed.load(Ordering::Relaxed),
        )
    }

    /// Prints the sums and says whether nothing failed.
    fn end(&self) -> bool {
        let (passed, failed) = self.sums();
        println!("{passed} passed, {failed} failed");
        failed == 0
    }

    /// Counts what a line of `cargo test` sums up, if it does.
    fn read(&self, line: &str) {
        let Some(sums) = line.strip_prefix("test result: ") else {
            return;
        };
        let count = |what: &str| {
            let before = sums
                .split(';')
                .find_map(|part| part.trim().strip_suffix(what))?;
            before.split_whitespace().next_back()?.parse::<u64>().ok()
        };
        for (sum, what) in [(&self.passed, " passed"), (&self.failed, " failed")] {
            sum.fetch_add(count(what).unwrap_or(0), Ordering::Relaxed);
        }
    }
}

/// What each part of a run took, by the clock. Parts overlap, so their sum is not what all of them took.
pub struct Parts {
    begun: Instant,
    took: Mutex<Vec<(String, Duration)>>,
}

impl Parts {
    /// From now on.
    fn begin() -> Self {
        Self {
            begun: Instant::now(),
            took: Mutex::default(),
        }
    }

    /// Does a part and notes what it took.
    pub fn time<T>(&self, name: &str, work: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let result = work();
        let mut took = self.took.lock().unwrap_or_else(PoisonError::into_inner);
        took.push((name.to_owned(), begun.elapsed()));
        result
    }

    /// The parts in the order in which they ended, then all.
    fn table(&self) -> String {
        let took = self.took.lock().unwrap_or_else(PoisonError::into_inner);
        let all = ("all".to_owned(), self.begun.elapsed());
        let lines = || took.iter().chain([&all]);
        let width = lines().map(|(name, _)| name.len()).max().unwrap_or(0);
        let mut table = String::new();
        for (name, took) in lines() {
            let seconds = took.as_secs_f64().round() as u64;
            let _ = writeln!(
                table,
                "{name:width$}  {:3} min {:02} s",
                seconds / 60,
                seconds % 60
            );
        }
        table
    }
}

/// Runs everything, in these browsers, and says whether all of it passed.
///
/// Two lanes, for machines with two cores: one lints and tries the lab, whose tests are the native tests; the other builds
/// the site and opens it in browsers. What is missing of the tools is installed meanwhile. What measures time comes last,
/// alone.
pub fn run(browsers: &[Browser]) -> Result<bool> {
    let (tally, parts) = (Arc::new(Tally::default()), Arc::new(Parts::begin()));
    let installs = install::begin(browsers, &parts);
    let (site_is, is_site) = mpsc::channel();
    let lane = {
        let (tally, parts) = (Arc::clone(&tally), Arc::clone(&parts));
        thread::spawn(move || {
            tally.report("lint", parts.time("lint", lint::run));
            lab::checks(&tally, &parts, || is_site.recv() == Ok(true));
        })
    };
    let join = || {
        parts
            .time("waiting for the other lane", || lane.join())
            .map_err(|_| anyhow!("lint, the native tests or those of the lab panicked"))
    };
    // Before the build, which without it makes a module above its limit.
    let built = parts.time("site", || {
        tools::node()?;
        site::build(None, None)
    });
    let stands = built.is_ok();
    tally.report("site::builds", built);
    // That lane has ended only if it panicked, which joining it tells.
    let _ = site_is.send(stands);
    let rest = if stands {
        for budget in budget::budgets(&site::static_files(&site::dist())?) {
            tally.report(&format!("budget::{}", budget.name), budget.check());
        }
        parts.time("waiting for tools", || installs.wait());
        let choice = Choice::all(browsers.to_vec());
        browser::test(&tally, &parts, &choice, || {
            join()?;
            parts.time("Lighthouse", || lighthouse::check(&tally));
            Ok(())
        })
    } else {
        // With no site there is nothing to look at, but what else fails still counts.
        join()
    };
    // Whoever stopped the browsers does not wait for the other lane: it ends with this program.
    rest.unwrap_or_else(|error| tally.report("browser", Err(error)));
    print!("{}", parts.table());
    Ok(tally.end())
}

/// Makes the chosen checks of browsers alone, on the site as it stands in `dist/`.
pub fn run_browsers(choice: &Choice) -> Result<bool> {
    let tally = Tally::default();
    browser::test(&tally, &Parts::begin(), choice, || Ok(()))?;
    Ok(tally.end())
}

/// Runs a command that runs tests, passes its output through and counts what it sums up. Answers how many suites passed.
pub fn count(tally: &Tally, command: &mut Command) -> Result<usize> {
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start `{}`", tools::shown(command)))?;
    let output = child.stdout.take().context("it has no output")?;
    let mut suites = 0;
    for line in BufReader::new(output).lines() {
        let line = line?;
        println!("{line}");
        tally.read(&line);
        suites += usize::from(line.starts_with("test result: ok. "));
    }
    let status = child.wait()?;
    ensure!(
        status.success(),
        "`{}` failed ({status})",
        tools::shown(command)
    );
    Ok(suites)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_cargo_test_are_counted() {
        let tally = Tally::default();
        tally.read("test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s");
        tally.read("test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s");
        tally.read("test sim::disk::survives ... ok");
        assert_eq!(tally.sums(), (15, 2));
    }

    #[test]
    fn suites_that_a_command_runs_are_counted() {
        let tally = Tally::default();
        let counted = |script: &str| count(&tally, Command::new("sh").args(["-c", script]));
        let passed = "echo 'test result: ok. 2 passed; 0 failed'; echo other";
        assert_eq!(counted(passed).unwrap(), 1);
        assert_eq!(counted("echo other").unwrap(), 0);
        assert!(counted("echo 'test result: FAILED. 1 passed; 1 failed'; exit 101").is_err());
        assert_eq!(tally.sums(), (3, 1));
    }

    #[test]
    fn parts_stand_in_a_table_that_ends_in_all() {
        let parts = Parts::begin();
        assert_eq!(parts.time("first", || 7), 7);
        parts.time("the second", || ());
        let table = parts.table();
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(
            lines,
            [
                "first         0 min 00 s",
                "the second    0 min 00 s",
                "all           0 min 00 s"
            ]
        );
    }
}
