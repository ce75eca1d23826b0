//! Lighthouse on the built site, served compressed, as most hosts do.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::browser::block_on;
use crate::browser::process::Process;
use crate::test::Tally;
use crate::{serve, site, tools};

/// What a page can be held to on every machine. Performance depends on the machine and is only reported.
const HELD: [&str; 3] = ["accessibility", "best-practices", "seo"];

/// Runs for a median.
const RUNS: usize = 5;

/// Longer than a run takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(240);

/// What one run found.
struct Report(Value);

impl Report {
    /// A category's score from 0 to 100.
    fn score(&self, category: &str) -> Result<u64> {
        let score = self.0["categories"][category]["score"]
            .as_f64()
            .with_context(|| format!("Lighthouse has no score for {category}"))?;
        Ok((score * 100.0).round() as u64)
    }

    /// What takes from a category's score, with the first places.
    fn faults(&self, category: &str) -> Vec<String> {
        let audits = self.0["categories"][category]["auditRefs"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|audit| audit["weight"].as_f64() > Some(0.0))
            .filter_map(|audit| audit["id"].as_str());
        audits
            .map(|id| (id, &self.0["audits"][id]))
            .filter(|(_, audit)| audit["score"].as_f64().is_some_and(|score| score < 1.0))
            .map(|(id, audit)| {
                let items = audit["details"]["items"].as_array().into_iter().flatten();
                let places: Vec<String> = items
                    .take(3)
                    .map(|item| match &item["node"]["snippet"] {
                        Value::String(snippet) => snippet.clone(),
                        _ => item.to_string(),
                    })
                    .collect();
                let title = audit["title"].as_str().unwrap_or_default();
                format!("{id} ({title}) {}", places.join(" "))
            })
            .collect()
    }

    fn time_ms(&self, audit: &str) -> Result<u64> {
        let time = self.0["audits"][audit]["numericValue"].as_f64();
        Ok(time.with_context(|| format!("Lighthouse measured no {audit}"))? as u64)
    }
}

async fn run() -> Result<Report> {
    let node = tools::node()?;
    let chromium = tools::chromium()?.browser;
    let cli = tools::npm_packages("audits")?.join("node_modules/lighthouse/cli/index.js");
    let options = serve::Options {
        gzip: true,
        ..serve::Options::default()
    };
    let server = serve::Server::start(&site::dist(), serve::listen(Some(0))?, options)?;
    let home = Process::home()?;
    let path = home.path().join("report.json");
    let mut command = Command::new(node);
    command
        .arg(cli)
        .arg(server.url())
        .args(["--quiet", "--no-enable-error-reporting", "--output=json"])
        .arg(format!("--output-path={}", path.display()))
        .arg("--chrome-flags=--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --disable-quic")
        .env("CHROME_PATH", chromium);
    let mut lighthouse = Process::start(&mut command, home)?;
    let started = Instant::now();
    let status = loop {
        if let Some(status) = lighthouse.ended()? {
            break status;
        }
        if started.elapsed() > PATIENCE {
            bail!("Lighthouse gave no report within {} s", PATIENCE.as_secs());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let report = fs::read_to_string(&path)
        .with_context(|| format!("Lighthouse wrote no report ({status})"))?;
    let report: Value = serde_json::from_str(&report)?;
    if let Some(message) = report["runtimeError"]["message"].as_str() {
        bail!("Lighthouse: {message}");
    }
    Ok(Report(report))
}

/// Holds accessibility, best practices and SEO at 100, and tells the performance of one run.
pub fn check(tally: &Tally) {
    let report = match block_on(run()) {
        Ok(report) => report,
        Err(error) => return tally.report("lighthouse", Err(error)),
    };
    for category in HELD {
        let outcome = report.score(category).and_then(|score| {
            ensure!(
                score == 100,
                "expected 100, seen {score}: {}",
                report.faults(category).join("; ")
            );
            Ok(())
        });
        tally.report(&format!("lighthouse::{category}_is_100"), outcome);
    }
    match report.score("performance") {
        Ok(score) => println!("Lighthouse performance: {score} in one run"),
        Err(error) => tally.report("lighthouse::performance", Err(error)),
    }
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}

/// Builds the site, runs Lighthouse on it five times and prints the median of each score and time.
pub fn measure() -> Result<()> {
    site::build(None, None)?;
    let reports = block_on(async {
        let mut reports = Vec::new();
        for _ in 0..RUNS {
            reports.push(run().await?);
        }
        Ok(reports)
    })?;
    let print = |name: &str, values: Vec<u64>| {
        let all: Vec<String> = values.iter().map(u64::to_string).collect();
        println!("{name:26} {:5}  of {}", median(values), all.join(" "));
    };
    for category in HELD.into_iter().chain(["performance"]) {
        let scores: Result<Vec<u64>> = reports.iter().map(|one| one.score(category)).collect();
        print(category, scores?);
    }
    for (name, audit) in [
        ("first contentful paint, ms", "first-contentful-paint"),
        ("largest paint, ms", "largest-contentful-paint"),
        ("blocking time, ms", "total-blocking-time"),
        ("speed index, ms", "speed-index"),
    ] {
        let times: Result<Vec<u64>> = reports.iter().map(|one| one.time_ms(audit)).collect();
        print(name, times?);
    }
    for category in HELD.into_iter().chain(["performance"]) {
        for fault in reports[0].faults(category) {
            println!("{category}: {fault}");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn faults_are_named_with_their_places() {
        let report = Report(json!({
            "categories": { "seo": { "score": 0.92, "auditRefs": [
                { "id": "good", "weight": 1 }, { "id": "bad", "weight": 1 }, { "id": "told", "weight": 0 },
            ] } },
            "audits": {
                "good": { "score": 1 },
                "bad": { "score": 0, "title": "Bad", "details": { "items": [{ "node": { "snippet": "<a>" } }] } },
                "told": { "score": 0 },
            },
        }));
        assert_eq!(report.score("seo").unwrap(), 92);
        assert_eq!(report.faults("seo"), ["bad (Bad) <a>"]);
        assert!(report.score("accessibility").is_err());
    }

    #[test]
    fn the_median_is_the_middle_one() {
        assert_eq!(median(vec![90, 100, 10, 95, 97]), 95);
    }
}
