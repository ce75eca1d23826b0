//! Every test of the project, counted.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};

use crate::tools;
use crate::{browser, budget, lab, lighthouse, site};
use browser::Browser;

/// How many checks passed and failed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tally {
    passed: u64,
    failed: u64,
}

impl Tally {
    /// Prints and counts one check.
    pub fn report(&mut self, name: &str, outcome: Result<()>) {
        match outcome {
            Ok(()) => {
                self.passed += 1;
                println!("test {name} ... ok");
            }
            Err(error) => {
                self.failed += 1;
                println!("test {name} ... FAILED\n    {error:#}");
            }
        }
    }

    /// Prints the sums and says whether nothing failed.
    fn end(&self) -> Result<bool> {
        println!("{} passed, {} failed", self.passed, self.failed);
        Ok(self.failed == 0)
    }

    /// Counts what a line of `cargo test` sums up, if it does.
    fn read(&mut self, line: &str) {
        let Some(sums) = line.strip_prefix("test result: ") else {
            return;
        };
        let count = |what: &str| {
            let before = sums
                .split(';')
                .find_map(|part| part.trim().strip_suffix(what))?;
            before.split_whitespace().next_back()?.parse::<u64>().ok()
        };
        self.passed += count(" passed").unwrap_or(0);
        self.failed += count(" failed").unwrap_or(0);
    }
}

/// Runs everything, in these browsers, and says whether all of it passed.
pub fn run(browsers: &[Browser]) -> Result<bool> {
    let mut tally = Tally::default();
    native(&mut tally)?;
    // Before the build, which without it makes a module above its limit.
    tools::node()?;
    // With no site there is nothing to look at, but what has failed so far still counts.
    match site::build(None, None) {
        Ok(()) => {
            tally.report("site::builds", Ok(()));
            for budget in budget::budgets(&site::static_files(&site::dist())?) {
                tally.report(&format!("budget::{}", budget.name), budget.check());
            }
            lab::checks(&mut tally);
            lighthouse::check(&mut tally);
            if let Err(error) = browser::test(&mut tally, browsers, "") {
                tally.report("browser", Err(error));
            }
        }
        Err(error) => tally.report("site::builds", Err(error)),
    }
    tally.end()
}

/// Runs the checks of these browsers alone on the site as it stands in `dist/`, those whose name has `part` in it.
pub fn run_browsers(browsers: &[Browser], part: &str) -> Result<bool> {
    let mut tally = Tally::default();
    browser::test(&mut tally, browsers, part)?;
    tally.end()
}

/// Runs the tests of both packages, passing their output through.
fn native(tally: &mut Tally) -> Result<()> {
    let mut command = tools::cargo();
    command.args(["test", "--workspace", "--locked", "--no-fail-fast"]);
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start cargo")?;
    let output = child.stdout.take().context("cargo has no output")?;
    let before = tally.failed;
    for line in BufReader::new(output).lines() {
        let line = line?;
        println!("{line}");
        tally.read(&line);
    }
    let status = child.wait()?;
    // A test that does not compile prints no sums.
    if !status.success() && tally.failed == before {
        tally.report(
            "cargo_test",
            (|| {
                ensure!(
                    status.success(),
                    "`{}` failed ({status})",
                    tools::shown(&command)
                );
                Ok(())
            })(),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_cargo_test_are_counted() {
        let mut tally = Tally::default();
        tally.read("test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s");
        tally.read("test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s");
        tally.read("test sim::disk::survives ... ok");
        assert_eq!(
            tally,
            Tally {
                passed: 15,
                failed: 2
            }
        );
    }
}
