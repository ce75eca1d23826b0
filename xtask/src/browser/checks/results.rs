//! The reader's results are those of `results.json`, however the site is served.

use std::fs;

use anyhow::{Context, Result, bail, ensure};
use tool_retries::json::Canonical;

use super::{Check, Expected, check, difference, every_row_agrees, joined, parse};
use crate::browser::driver::{Browser, Settings};
use crate::browser::page::{Page, Setup};

const SUB_PATH: &str = "/some/where/";
const NO_TYPE: &str = "application/octet-stream";

pub const ALL: &[Check] = &[
    check!(
        run_all_gives_results_json_without_an_error_or_a_request_elsewhere,
        Setup::WATCHED
    ),
    check!(each_button_alone, Setup::PLAIN),
    check!(
        works_under_sub_path_with_a_wrong_type,
        Setup {
            prefix: SUB_PATH,
            wasm_type: NO_TYPE,
            ..Setup::PLAIN
        }
    ),
    check!(
        works_without_storage,
        Setup {
            settings: Settings {
                storage: false,
                ..Setup::PLAIN.settings
            },
            ..Setup::PLAIN
        }
    ),
    check!(one_visit_is_enough_to_read_offline, Setup::PLAIN),
    check!(
        no_javascript_shows_recorded_values,
        Setup {
            settings: Settings {
                javascript: false,
                ..Setup::PLAIN.settings
            },
            ..Setup::PLAIN
        }
    ),
];

async fn run_all_gives_results_json_without_an_error_or_a_request_elsewhere(
    page: &Page,
    expected: &Expected,
) -> Result<()> {
    page.load_with_engine().await?;
    gives_results_json(page, expected).await?;
    // What the policy stops is no request, but should not be tried either.
    page.no_errors().await?;
    no_severe_entry(page).await?;
    no_request_elsewhere(page).await
}

async fn gives_results_json(page: &Page, expected: &Expected) -> Result<()> {
    let reports = page.run_all().await?;
    let report = joined(&reports).context("the reports")?;
    ensure!(
        report == expected.report,
        "the reports are not results.json: {}",
        difference(&expected.report, &report)
    );
    every_row_agrees(page, expected).await
}

/// What the page cannot see itself, such as a file that is missing: Chromium logs it.
async fn no_severe_entry(page: &Page) -> Result<()> {
    if page.browser() == Browser::Chromium {
        let log = page.log("browser").await?;
        let severe: Vec<String> = log
            .iter()
            .filter(|entry| entry["level"] == "SEVERE")
            .map(|entry| entry["message"].to_string())
            .collect();
        ensure!(
            severe.is_empty(),
            "expected no error, seen {}",
            severe.join("; ")
        );
    }
    Ok(())
}

/// Ends the browser.
async fn no_request_elsewhere(page: &Page) -> Result<()> {
    let origin = page.server.origin();
    let requests: Vec<String> = match page.browser() {
        Browser::Chromium => page.requests().await?,
        other => {
            println!(
                "note: {} gives no log of its requests; the page's own list, which lacks those of its workers, stands for it",
                other.name()
            );
            page.settled(
                "all tables have been run",
                "performance.getEntriesByType('resource').map((entry) => entry.name)",
            )
            .await?
        }
    };
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

async fn each_button_alone(page: &Page, expected: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    let mut before = page
        .once("the buttons work, and nothing was pressed", async |look| {
            look.rows().await
        })
        .await?;
    for row in &before {
        ensure!(
            row.reader.is_empty() && row.agreement.is_empty() && row.state.is_empty(),
            "expected no result beside {} before a press, seen {row:?}",
            row.id
        );
    }
    for id in expected.ids() {
        let answered = page.run_one(id).await?;
        ensure!(
            answered.agrees(),
            "expected {id} to go from no result to one that agrees, seen {answered:?}"
        );
        // The status is set after all else that a run changes.
        let said = format!("{id}: ✓ agrees");
        page.says(&format!("it is said of {id}"), |status| status == said)
            .await?;
        let after = page
            .once(
                "the run is over, and what it comes to is said",
                async |look| look.rows().await,
            )
            .await?;
        ensure!(
            before.len() == after.len(),
            "expected {} rows after a press, seen {}",
            before.len(),
            after.len()
        );
        for (before, after) in before.iter().zip(&after) {
            ensure!(
                if after.id == id {
                    before.state.is_empty() && *after == answered
                } else {
                    before == after
                },
                "expected the button of {id} to change its own row alone, seen {before:?}, then {after:?}"
            );
        }
        before = after;
    }
    Ok(())
}

async fn works_under_sub_path_with_a_wrong_type(page: &Page, expected: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    page.run_all().await?;
    every_row_agrees(page, expected).await?;
    let requests = page.server.requests();
    for request in &requests {
        ensure!(
            request.path.starts_with(SUB_PATH),
            "expected requests below {SUB_PATH} only, seen {}",
            request.path
        );
    }
    let module = requests
        .iter()
        .find(|request| request.path.contains(".wasm"));
    let seen = module.map(|request| request.content_type.as_str());
    ensure!(
        seen == Some(NO_TYPE),
        "expected the module served as {NO_TYPE}, seen {seen:?}"
    );
    Ok(())
}

async fn works_without_storage(page: &Page, expected: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    let seen: String = page
        .settled(
            "the browser refused from the beginning",
            "(() => {
               try { localStorage.setItem('a', '1'); } catch { return ''; }
               document.cookie = 'a=1';
               return document.cookie;
             })()",
        )
        .await?;
    ensure!(
        seen.is_empty(),
        "expected a browser that stores nothing, seen {seen}"
    );
    page.run_all().await?;
    every_row_agrees(page, expected).await
}

async fn one_visit_is_enough_to_read_offline(page: &Page, expected: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    page.expect(
        "the site is kept and the page served from there",
        "document.documentElement.dataset.offline === 'ready' && navigator.serviceWorker.controller !== null",
    )
    .await?;
    // Kept once it was opened.
    page.load_at("traces.html").await?;
    page.server.stop();
    let answered = page.server.requests().len();
    page.load_at("traces.html").await?;
    let count = expected.scenarios.len();
    page.see(
        &format!("the traces of {count} scenarios stand"),
        "document.querySelectorAll('.trace-text').length",
        |&traces: &usize| traces == count,
    )
    .await?;
    page.load_with_engine().await?;
    gives_results_json(page, expected).await?;
    let after = page.server.requests().len();
    ensure!(
        after == answered,
        "expected no request to a server that is gone, seen {} answered",
        after - answered
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
    // The driver has waited for the whole document, and nothing changes it.
    let whole = "no script runs, and the document is loaded";
    for (id, values) in &expected.scenarios {
        let texts = page
            .once(whole, async |look| {
                look.displayed(&format!("tr[data-scenario='{id}'] .recorded"))
                    .await
            })
            .await?;
        let [text] = &texts[..] else {
            bail!("expected one recorded value of {id} displayed, seen {texts:?}");
        };
        let seen =
            parse(text).with_context(|| format!("the recorded value of {id} is `{text}`"))?;
        ensure!(
            seen == *values,
            "expected {id} recorded as {}, seen {text}",
            values.pretty()
        );
    }
    let buttons = page
        .once(whole, async |look| look.displayed("button").await)
        .await?;
    ensure!(
        buttons.is_empty(),
        "expected no button that cannot work, seen {buttons:?}"
    );
    // The same in the bytes that were served, whatever the browser made of them.
    let html = fs::read_to_string(crate::site::dist().join("index.html"))?;
    for id in expected.ids() {
        ensure!(
            html.contains(&format!("data-scenario=\"{id}\"")),
            "expected a row for {id} in index.html, seen none"
        );
    }
    // The engine's state must be what the build wrote.
    let touched = page
        .once(whole, async |look| {
            Ok(look.elements("html[data-engine]").await?.len())
        })
        .await?;
    ensure!(
        touched == 0,
        "expected the engine untouched without JavaScript, seen it with a state"
    );
    Ok(())
}
