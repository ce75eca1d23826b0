//! The reader's results are those of `results.json`, however the site is served.

use std::fs;

use anyhow::{Context, Result, ensure};
use fantoccini::Locator;

use super::{Check, Expected, check, difference, every_row_agrees, joined, parse};
use crate::browser::driver::{Browser, Settings};
use crate::browser::page::{Page, Setup};

const SUB_PATH: &str = "/some/where/";
const NO_TYPE: &str = "application/octet-stream";

pub const ALL: &[Check] = &[
    check!(run_all_gives_results_json, Setup::PLAIN),
    check!(each_button_alone, Setup::PLAIN),
    check!(no_console_error, Setup::WATCHED),
    check!(no_request_outside_origin, Setup::WATCHED),
    check!(
        works_under_sub_path,
        Setup {
            prefix: SUB_PATH,
            ..Setup::PLAIN
        }
    ),
    check!(
        wrong_mime_type_still_works,
        Setup {
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

async fn run_all_gives_results_json(page: &Page, expected: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    gives_results_json(page, expected).await
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

async fn each_button_alone(page: &Page, expected: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    let mut before = page.rows().await?;
    for row in &before {
        ensure!(
            row.reader.is_empty() && row.agreement.is_empty(),
            "expected no result beside {} before a press, seen {row:?}",
            row.id
        );
    }
    for id in expected.ids() {
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
                    before.state.is_empty() && after.agrees(),
                    "expected {id} to go from no result to one that agrees with {}, seen {before:?}, then {after:?}",
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
        before = after;
    }
    Ok(())
}

async fn no_console_error(page: &Page, expected: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    page.run_all().await?;
    every_row_agrees(page, expected).await?;
    let mut errors = page.errors().await?;
    // What the page cannot see itself, such as a file that is missing.
    if page.session.browser() == Browser::Chromium {
        let log = page.session.log("browser").await?;
        let severe = log.iter().filter(|entry| entry["level"] == "SEVERE");
        errors.extend(severe.map(|entry| entry["message"].to_string()));
    }
    ensure!(
        errors.is_empty(),
        "expected no error, seen {}",
        errors.join("; ")
    );
    Ok(())
}

async fn no_request_outside_origin(page: &Page, expected: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    page.run_all().await?;
    every_row_agrees(page, expected).await?;

    // What the policy stops is no request, but should not be tried either.
    let errors = page.errors().await?;
    ensure!(
        errors.is_empty(),
        "expected no error, seen {}",
        errors.join("; ")
    );
    let origin = page.server.origin();
    let requests = match page.session.browser() {
        Browser::Chromium => page.session.requests_from(&origin).await?,
        other => {
            println!(
                "note: {} gives no log of its requests; the page's own list, which lacks those of its workers, stands for it",
                other.name()
            );
            let script =
                "return performance.getEntriesByType('resource').map((entry) => entry.name)";
            serde_json::from_value(page.script(script).await?)?
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

async fn works_under_sub_path(page: &Page, expected: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    page.run_all().await?;
    every_row_agrees(page, expected).await?;
    for request in page.server.requests() {
        ensure!(
            request.path.starts_with(SUB_PATH),
            "expected requests below {SUB_PATH} only, seen {}",
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
        seen.as_deref() == Some(NO_TYPE),
        "expected the module served as {NO_TYPE}, seen {seen:?}"
    );
    Ok(())
}

async fn works_without_storage(page: &Page, expected: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    let script =
        "try { localStorage.setItem('a', '1'); return 'stored'; } catch { return 'refused'; }";
    let seen = match page.text(script).await?.as_str() {
        "stored" => {
            page.text("document.cookie = 'a=1'; return document.cookie")
                .await?
        }
        refused => refused.to_owned(),
    };
    ensure!(
        seen.is_empty() || seen == "refused",
        "expected a browser that stores nothing, seen {seen}"
    );
    page.run_all().await?;
    every_row_agrees(page, expected).await
}

async fn one_visit_is_enough_to_read_offline(page: &Page, expected: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    page.wait("the site is kept and the page served from there", async || {
        let kept = page
            .holds(
                "document.documentElement.dataset.offline === 'ready' && navigator.serviceWorker.controller !== null",
            )
            .await?;
        Ok(kept.then_some(()))
    })
    .await?;
    // Kept once it was opened.
    page.load_at("traces.html").await?;
    page.server.stop();
    let answered = page.server.requests().len();
    page.load_at("traces.html").await?;
    let traces = page
        .text("return String(document.querySelectorAll('.trace-text').length)")
        .await?;
    ensure!(
        traces == expected.scenarios.len().to_string(),
        "expected the traces of {} scenarios, seen {traces}",
        expected.scenarios.len()
    );
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
    let root = client.find(Locator::Css("html")).await?;
    let state = root.attr("data-engine").await?;
    ensure!(
        state.is_none(),
        "expected the engine untouched without JavaScript, seen {state:?}"
    );
    Ok(())
}
