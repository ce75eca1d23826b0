//! What must hold in every browser.

use std::collections::BTreeMap;
use std::fs;
use std::pin::Pin;

use anyhow::{Context, Result, anyhow, bail, ensure};
use fantoccini::Locator;
use serde_json::json;
use tool_retries::json as strict;

use super::page::{Page, Setup};
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
}

macro_rules! check {
    ($name:ident, $setup:expr) => {
        Check {
            name: stringify!($name),
            setup: $setup,
            run: |page, expected| Box::pin($name(page, expected)),
        }
    };
}

/// Every check, in the order in which they run.
pub const ALL: &[Check] = &[
    check!(run_all_gives_results_json, Setup::PLAIN),
    check!(each_button_alone, Setup::PLAIN),
    check!(no_console_error, Setup::PLAIN),
    check!(no_request_outside_origin, Setup::PLAIN),
    check!(
        works_under_sub_path,
        Setup {
            prefix: "/some/where/",
            ..Setup::PLAIN
        }
    ),
    check!(
        wrong_mime_type_still_works,
        Setup {
            wasm_type: "application/octet-stream",
            ..Setup::PLAIN
        }
    ),
    check!(
        no_javascript_shows_recorded_values,
        Setup {
            javascript: false,
            ..Setup::PLAIN
        }
    ),
];

/// The committed record that the page must reproduce.
pub struct Expected {
    /// The record without `runtime`, as printed.
    report: String,
    /// The recorded values by scenario.
    scenarios: BTreeMap<String, strict::Value>,
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
        ensure!(!scenarios.is_empty(), "results.json has no scenario");
        let scenarios = scenarios
            .iter()
            .map(|(id, values)| (id.to_string(), values.clone()))
            .collect();
        Ok(Self { report, scenarios })
    }

    fn ids(&self) -> Vec<&str> {
        self.scenarios.keys().map(String::as_str).collect()
    }
}

fn parse(text: &str) -> Result<strict::Value> {
    strict::parse(text).map_err(|error| anyhow!("{error}"))
}

/// A report as printed, less what names the machine. Fails on a text in any other form than the printer's,
/// so that two equal answers mean two texts equal to the byte.
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
    Ok(strict::Value::Object(fields).pretty())
}

/// The reports of all tables as one, without `runtime`. Beside scenarios and digests they must agree.
fn joined(reports: &[String]) -> Result<String> {
    let mut whole: Option<BTreeMap<String, strict::Value>> = None;
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
                (Some(strict::Value::Object(all)), strict::Value::Object(more)) => all.extend(more),
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
    let rows = page.rows().await?;
    let mut ids: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
    ids.sort_unstable();
    ensure!(
        ids == expected.ids(),
        "expected rows for {:?}, seen {ids:?}",
        expected.ids()
    );
    for row in &rows {
        ensure!(
            row.agrees(),
            "expected {} to agree with {}, seen {} {}",
            row.id,
            row.recorded,
            row.reader,
            row.agreement
        );
    }
    Ok(())
}

async fn run_all_gives_results_json(page: &Page, expected: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    let reports = page.run_all().await?;
    let report = joined(&reports).context("the reports")?;
    ensure!(
        report == expected.report,
        "the reports are not results.json: {}",
        difference(&expected.report, &report)
    );
    every_row_agrees(page, expected).await
}

async fn each_button_alone(page: &Page, expected: &Expected) -> Result<()> {
    for id in expected.ids() {
        page.load_with_engine().await?;
        let before = page.rows().await?;
        for row in &before {
            ensure!(
                row.reader.is_empty() && row.agreement.is_empty(),
                "expected no result beside {} before a press, seen {row:?}",
                row.id
            );
        }
        page.run_one(id).await?;
        let after = page.rows().await?;
        ensure!(
            before.len() == after.len(),
            "expected {} rows after a press, seen {}",
            before.len(),
            after.len()
        );
        for (before, after) in before.iter().zip(&after) {
            if after.id == id {
                ensure!(
                    after.agrees(),
                    "expected {id} to agree with {}, seen {after:?}",
                    after.recorded
                );
            } else {
                ensure!(
                    before == after,
                    "expected {} untouched by the button of {id}, seen {after:?}",
                    before.id
                );
            }
        }
    }
    Ok(())
}

async fn no_console_error(page: &Page, expected: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    page.run_all().await?;
    every_row_agrees(page, expected).await?;
    let severe: Vec<String> = page
        .session
        .log("browser")
        .await?
        .iter()
        .filter(|entry| entry["level"] == "SEVERE")
        .map(|entry| entry["message"].as_str().unwrap_or_default().to_owned())
        .collect();
    ensure!(
        severe.is_empty(),
        "expected no error in the console, seen {}",
        severe.join("; ")
    );
    Ok(())
}

async fn no_request_outside_origin(page: &Page, expected: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    page.run_all().await?;
    every_row_agrees(page, expected).await?;

    let origin = page.server.origin();
    let requests = page.session.requests_from(&origin).await?;
    for name in ["engine_bg.wasm", "worker.js"] {
        let own = format!("{origin}/{name}");
        ensure!(
            requests.contains(&own),
            "expected {own} in the browser's log, seen {}",
            requests.join(", ")
        );
    }
    let own = format!("{origin}/");
    let outside: Vec<&str> = requests
        .iter()
        .map(String::as_str)
        .filter(|url| !url.starts_with(&own))
        .collect();
    ensure!(
        outside.is_empty(),
        "expected requests to {origin} only, seen {}",
        outside.join(", ")
    );
    let missing: Vec<String> = page
        .server
        .requests()
        .into_iter()
        .filter(|request| request.status != 200)
        .map(|request| format!("{} {}", request.status, request.path))
        .collect();
    ensure!(
        missing.is_empty(),
        "expected every request answered with 200, seen {}",
        missing.join(", ")
    );
    Ok(())
}

async fn works_under_sub_path(page: &Page, expected: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    page.run_all().await?;
    every_row_agrees(page, expected).await?;
    let prefix = "/some/where/";
    for request in page.server.requests() {
        ensure!(
            request.path.starts_with(prefix),
            "expected requests below {prefix} only, seen {}",
            request.path
        );
    }
    Ok(())
}

async fn wrong_mime_type_still_works(page: &Page, expected: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    page.run_all().await?;
    every_row_agrees(page, expected).await?;
    let module = page
        .server
        .requests()
        .into_iter()
        .find(|request| request.path.contains(".wasm"));
    let seen = module.map(|request| request.content_type);
    ensure!(
        seen.as_deref() == Some("application/octet-stream"),
        "expected the module served as application/octet-stream, seen {seen:?}"
    );
    Ok(())
}

async fn no_javascript_shows_recorded_values(page: &Page, expected: &Expected) -> Result<()> {
    page.load().await?;
    let served: Vec<String> = page
        .server
        .requests()
        .into_iter()
        .map(|request| request.path)
        .collect();
    ensure!(
        !served
            .iter()
            .any(|path| path.contains(".wasm") || path.contains("worker")),
        "expected a page whose scripts do not run, seen requests for {}",
        served.join(", ")
    );
    let client = page.session.client()?;
    for (id, values) in &expected.scenarios {
        let row = client
            .find(Locator::Css(&format!("tr[data-scenario='{id}']")))
            .await
            .with_context(|| format!("no row for {id}"))?;
        let recorded = row
            .find(Locator::Css(".recorded"))
            .await
            .with_context(|| format!("nothing recorded for {id}"))?;
        ensure!(
            recorded.is_displayed().await?,
            "expected the recorded value of {id} displayed, seen it hidden"
        );
        let text = recorded.text().await?;
        let seen =
            parse(&text).with_context(|| format!("the recorded value of {id} is `{text}`"))?;
        ensure!(
            seen == *values,
            "expected {id} recorded as {}, seen {text}",
            values.pretty()
        );
    }
    for button in client.find_all(Locator::Css("button")).await? {
        ensure!(
            !button.is_displayed().await?,
            "expected no button that cannot work, seen `{}`",
            button.text().await?
        );
    }
    // The same in the bytes that were served, whatever the browser made of them.
    let html = fs::read_to_string(crate::site::dist().join("index.html"))?;
    for id in expected.ids() {
        ensure!(
            html.contains(&format!("data-scenario=\"{id}\"")),
            "expected a row for {id} in index.html, seen none"
        );
    }
    // The engine's state must be what the build wrote.
    let tree = page
        .session
        .devtools("DOM.getDocument", json!({ "depth": 1 }))
        .await?;
    let attributes = tree["root"]["children"]
        .as_array()
        .and_then(|children| children.iter().find(|node| node["nodeName"] == "HTML"))
        .map(|html| html["attributes"].to_string())
        .unwrap_or_default();
    ensure!(
        !attributes.contains("ready") && !attributes.contains("loading"),
        "expected the engine idle without JavaScript, seen {attributes}"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = ALL.iter().map(|check| check.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
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
