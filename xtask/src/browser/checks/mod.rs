//! What must hold in every browser.

mod along;
mod axe;
mod explore;
mod failures;
mod permalinks;
mod reader;
mod results;
mod sql;
mod steps;
mod storm;

use std::collections::BTreeMap;
use std::fs;
use std::pin::Pin;
use std::thread;

use anyhow::{Context, Result, anyhow, bail, ensure};
use tool_retries::json::{self as strict, Canonical};
use tool_retries::sim::Journal;

use super::page::{Page, Row, Setup};
use crate::tools;

/// What a check returns while it runs.
pub type Running<'a> = Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

/// One named check.
pub struct Check {
    /// Its name in the list.
    pub name: &'static str,
    /// The site and browser that it needs.
    pub setup: Setup,
    /// The check, in a fresh browser that has not loaded the page.
    pub run: for<'a> fn(&'a Page, &'a Expected) -> Running<'a>,
    /// Whether it measures time, and so runs while no other check does.
    pub alone: bool,
}

impl Check {
    const fn alone(self) -> Self {
        Self {
            alone: true,
            ..self
        }
    }
}

/// A check of that name, or of another name by that function, on that setup.
macro_rules! check {
    ($function:ident, $setup:expr) => {
        $crate::browser::checks::check!(stringify!($function), $function, $setup)
    };
    ($name:expr, $function:ident, $setup:expr) => {
        $crate::browser::checks::Check {
            name: $name,
            setup: $setup,
            run: |page, expected| Box::pin($function(page, expected)),
            alone: false,
        }
    };
}
use check;

/// Every check, in the order in which they run: first those that take long, so that none of them is left at the end for
/// the others to wait for.
pub fn all() -> impl Iterator<Item = &'static Check> {
    [
        axe::ALL,
        explore::ALL,
        results::ALL,
        steps::ALL,
        along::ALL,
        reader::ALL,
        permalinks::ALL,
        failures::ALL,
        storm::ALL,
        sql::ALL,
    ]
    .into_iter()
    .flatten()
}

/// The committed record that the page must reproduce.
pub struct Expected {
    /// The record without `runtime`, as printed.
    report: String,
    /// The recorded values by scenario.
    scenarios: BTreeMap<String, strict::Value>,
    /// What the searches found, by design and fault.
    matrix: strict::Value,
}

impl Expected {
    /// Reads `results.json`.
    pub fn committed() -> Result<Self> {
        let text = fs::read_to_string(tools::root().join("results.json"))
            .context("cannot read results.json")?;
        let report = without_runtime(&text).context("results.json")?;
        let strict::Value::Object(fields) = parse(&report)? else {
            bail!("results.json is no object");
        };
        let Some(strict::Value::Object(scenarios)) = fields.get("scenarios") else {
            bail!("results.json has no object `scenarios`");
        };
        ensure!(scenarios.len() > 1, "results.json has no two scenarios");
        let scenarios = scenarios
            .iter()
            .map(|(id, values)| (id.to_string(), values.clone()))
            .collect();
        let recorded = parse(&text)?;
        let matrix = recorded
            .get("matrix")
            .and_then(|matrix| matrix.get(Journal::default().id()))
            .context("results.json has no matrix")?
            .clone();
        Ok(Self {
            report,
            scenarios,
            matrix,
        })
    }

    fn ids(&self) -> Vec<&str> {
        self.scenarios.keys().map(String::as_str).collect()
    }

    /// Some scenario, for checks that need any.
    fn any(&self) -> &str {
        self.ids()[0]
    }

    /// Another one.
    fn other(&self) -> &str {
        self.ids()[1]
    }
}

/// Runs the engine on this machine, away from the runtime that drives the browsers: tokio's locks, which the engine uses
/// too, make a task of a runtime wait now and then for no other reason than that it is fair, and the engine would take
/// that for a wait of its own.
pub fn natively<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    thread::scope(|scope| scope.spawn(work).join())
        .unwrap_or_else(|_| Err(anyhow!("the engine panicked")))
}

fn parse(text: &str) -> Result<strict::Value> {
    strict::parse(text).map_err(|error| anyhow!("{error}"))
}

/// A report as printed, less what names the machine, the searches and the storms, which the page's report has not. Fails on
/// a text in any other form than the printer's, so that two equal answers mean two texts equal to the byte.
fn without_runtime(text: &str) -> Result<String> {
    let value = parse(text)?;
    let printed = value.pretty();
    ensure!(
        text.trim_end() == printed.trim_end(),
        "expected the printer's own form, {}",
        difference(&printed, text)
    );
    let strict::Value::Object(mut fields) = value else {
        bail!("expected an object, seen {text}");
    };
    fields.remove("runtime");
    fields.remove("matrix");
    fields.remove("storm");
    Ok(strict::Value::Object(fields).pretty())
}

/// The reports of all tables as one, without `runtime`. Beside scenarios and digests they must agree.
fn joined(reports: &[String]) -> Result<String> {
    let mut whole: Option<strict::Members> = None;
    for report in reports {
        let strict::Value::Object(fields) = parse(&without_runtime(report)?)? else {
            bail!("expected an object, seen {report}");
        };
        let Some(whole) = &mut whole else {
            whole = Some(fields);
            continue;
        };
        for (name, value) in fields {
            match (whole.get_mut(&name), value) {
                (Some(strict::Value::Object(all)), strict::Value::Object(more)) => {
                    for (name, value) in more {
                        all.insert(name, value);
                    }
                }
                (Some(known), value) if *known == value => {}
                (_, value) => bail!("{name} differs between two tables: {}", value.pretty()),
            }
        }
    }
    Ok(strict::Value::Object(whole.context("no table has a report")?).pretty())
}

/// The first line in which two texts differ.
fn difference(expected: &str, seen: &str) -> String {
    let mut pairs = expected.lines().zip(seen.lines()).enumerate();
    match pairs.find(|(_, (expected, seen))| expected != seen) {
        Some((index, (expected, seen))) => {
            format!("line {}: expected `{expected}`, seen `{seen}`", index + 1)
        }
        None => format!(
            "expected {} lines, seen {}",
            expected.lines().count(),
            seen.lines().count()
        ),
    }
}

/// Every row must be one of the record's, and agree.
async fn every_row_agrees(page: &Page, expected: &Expected) -> Result<()> {
    let ids = expected.ids();
    page.rows(
        "every row of the record agrees, and there is no other",
        |rows| {
            let mut seen: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
            seen.sort_unstable();
            seen == ids && rows.iter().all(Row::agrees)
        },
    )
    .await
    .map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = all().map(|check| check.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn a_difference_is_named_by_its_line() {
        assert_eq!(
            difference("a\nb\n", "a\nc\n"),
            "line 2: expected `b`, seen `c`"
        );
        assert_eq!(difference("a\nb\n", "a\n"), "expected 2 lines, seen 1");
    }
}
