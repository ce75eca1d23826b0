use tool_retries::explore;
use tool_retries::json::{Canonical, Value};
use tool_retries::outcome::{Check, Outcome};
use tool_retries::report;
use tool_retries::scenario::{Fixture, Scenario};
use tool_retries::sim::Journal;
use tool_retries::storm;

use super::arguments::Options;
use super::explore::search;
use super::output_file::OutputFile;
use super::watch::Watch;
use super::{Failure, Printer, fixture_file};

/// Runs these scenarios, or those of one group, and writes the record.
pub(super) fn run(
    scenarios: &[Scenario],
    options: &Options,
    out: &mut Printer<'_>,
) -> Result<(), Failure> {
    let fixture = fixture_file::read(options.fixture.as_deref())?;
    // Before the work, which may be long: it would be in vain if its record could not be written.
    let output = match &options.output {
        Some(path) => Some(OutputFile::open(path)?),
        None => None,
    };
    let mut watch = Watch::new();
    let mut outcomes = Vec::new();
    let mut failed = Vec::new();
    let wanted = |one: &&Scenario| {
        options
            .group
            .as_deref()
            .is_none_or(|group| group == one.group)
    };
    for scenario in scenarios.iter().filter(wanted) {
        if !watch.goes_on(|| scenario.id.to_owned()) {
            return Err(interrupted());
        }
        let outcome = play(scenario, &fixture)?;
        watch.aside(|| out.line(report::line(scenario.id, &outcome)));
        failed.extend(broken_checks(scenario.id, &outcome));
        outcomes.push((scenario.id, outcome));
    }
    if !failed.is_empty() {
        return Err(Failure::checks(failed));
    }
    if let Some(output) = output {
        let mut record = report::report(&outcomes);
        if options.group.is_none() {
            record = with_searches(record, &mut watch)?;
            record = with_storms(record, &mut watch)?;
        }
        drop(watch);
        output.write(&(record.pretty() + "\n"), out)?;
    }
    out.line(format_args!("PASS: {} scenarios", outcomes.len()));
    Ok(())
}

fn interrupted() -> Failure {
    Failure::interrupted("no record was written")
}

fn with_searches(record: Value, watch: &mut Watch) -> Result<Value, Failure> {
    let cases: Vec<_> = Journal::ALL.into_iter().flat_map(explore::cases).collect();
    let of = cases.len();
    let mut cells = Vec::new();
    for (index, case) in cases.into_iter().enumerate() {
        let searched = search(case, None, (index + 1, of), watch)?;
        if !searched.whole {
            return Err(interrupted());
        }
        cells.push(searched.cell);
    }
    Ok(report::with_matrix(record, &cells))
}

fn with_storms(record: Value, watch: &mut Watch) -> Result<Value, Failure> {
    let storms = storm::record(|step| {
        watch.goes_on(|| {
            format!(
                "{}/{} storms: {} of {} runs",
                step.storm, step.storms, step.runs_done, step.runs
            )
        })
    });
    match storms.map_err(Failure::work)? {
        Some(storms) => Ok(report::with_storm(record, storms)),
        None => Err(interrupted()),
    }
}

/// Runs a scenario.
pub(super) fn play(scenario: &Scenario, fixture: &Fixture) -> Result<Outcome, Failure> {
    scenario
        .run(fixture)
        .map_err(|error| Failure::work(format_args!("{}: {error}", scenario.id)))
}

/// What does not hold, in words.
pub(super) fn broken_checks(id: &str, outcome: &Outcome) -> Vec<String> {
    if outcome.checks.is_empty() {
        return vec![format!("{id}: it checks nothing")];
    }
    let broken = |check: &Check| format!("{id}: check failed: {check}");
    outcome
        .checks
        .iter()
        .filter(|check| !check.holds())
        .map(broken)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{self, Write};
    use std::path::Path;

    use tool_retries::json;
    use tool_retries::scenario;

    use super::*;

    /// The first scenario with one check broken, or with none left.
    fn planted(check: Option<Check>) -> Scenario {
        thread_local! {
            static CHECKS: std::cell::RefCell<Vec<Check>> = const { std::cell::RefCell::new(Vec::new()) };
        }
        CHECKS.set(check.into_iter().collect());
        Scenario {
            play: |world, fixture| {
                let mut outcome = (scenario::all()[0].play)(world, fixture)?;
                outcome.checks = CHECKS.with_borrow(Clone::clone);
                Ok(outcome)
            },
            ..scenario::all()[0]
        }
    }

    fn broken() -> Check {
        let fixture = Fixture::committed();
        let outcome = scenario::all()[0].run(&fixture).expect("it runs");
        Check {
            premise: outcome.checks[0].premise.clone(),
            claim: "two and two".to_owned(),
            expected: json::Value::from(4),
            seen: json::Value::from(5),
        }
    }

    fn failure(scenario: Scenario, output: &Path, out: &mut dyn Write) -> String {
        let options = Options {
            output: Some(output.to_owned()),
            ..Options::default()
        };
        let mut out = Printer::new(out);
        let failure = run(&[scenario], &options, &mut out).expect_err("it fails");
        assert!(out.end().is_ok());
        failure.messages().join("\n")
    }

    /// A broken check is named, nothing passes, and an older record stays as it was.
    #[test]
    fn a_broken_check_is_named_and_the_record_unharmed() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("results.json");
        fs::write(&output, "precious").unwrap();
        for (check, expected) in [
            (
                Some(broken()),
                "naive_retry: check failed: two and two: expected 4, saw 5",
            ),
            (None, "naive_retry: it checks nothing"),
        ] {
            let mut printed = Vec::new();
            let message = failure(planted(check), &output, &mut printed);
            let printed = String::from_utf8(printed).unwrap();
            assert_eq!(message, expected);
            assert!(printed.starts_with("naive_retry: ") && !printed.contains("PASS"));
            assert_eq!(fs::read_to_string(&output).unwrap(), "precious");
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        }
    }

    struct Gone;

    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }

    #[test]
    fn a_broken_check_is_named_though_the_reader_left() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("results.json");
        let message = failure(planted(Some(broken())), &output, &mut Gone);
        assert!(message.contains("two and two"), "{message}");
    }
}
