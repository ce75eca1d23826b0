//! The page in each of its states under axe-core, the accessibility checker.

use std::fs;

use anyhow::{Context, Result, bail, ensure};

use super::failures::{TRAPPED, TRAPPING, fails};
use super::{Check, Expected, check, every_row_agrees};
use crate::browser::driver::Settings;
use crate::browser::page::{Page, Setup};
use crate::tools;

pub const ALL: &[Check] = &[
    check!(axe_finds_nothing_in_the_bench, Setup::PLAIN),
    check!("axe_finds_nothing", axe_finds_nothing, TRAPPING),
    check!(
        "axe_finds_nothing_in_the_dark",
        axe_finds_nothing,
        Setup {
            settings: Settings {
                dark: true,
                ..Setup::PLAIN.settings
            },
            ..TRAPPING
        }
    ),
];

async fn axe_finds_nothing(page: &Page, expected: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    axe(page, WHOLE, "at first").await?;
    let failed = expected.any();
    fails(page, failed, TRAPPED).await?;
    // The rest of the page is as it was.
    let table = format!(".scenarios:has([data-scenario='{failed}'])");
    axe(page, &[&table], "with a failure shown").await?;
    page.run_all().await?;
    every_row_agrees(page, expected).await?;
    page.open_everything().await?;
    axe(page, WHOLE, "with all of it run and open").await?;
    // One after the other: what appears moves what is still to be pressed.
    for (press, shown) in [
        ("#replay", "#token[aria-invalid=true]"),
        ("#explore", "#explored p"),
        ("[data-cell] [aria-expanded]", ".counterexample .fails"),
    ] {
        page.press(press).await?;
        page.expect(
            &format!("{press} shows {shown}"),
            &format!("document.querySelector('{shown}') !== null"),
        )
        .await?;
    }
    axe(
        page,
        &[".counterexample", "#workbench"],
        "with a counterexample, a search and a wrong token",
    )
    .await
}

async fn axe_finds_nothing_in_the_bench(page: &Page, _: &Expected) -> Result<()> {
    page.load_at("bench.html").await?;
    page.says("it is measured", |status| status == "Measured.")
        .await?;
    axe(page, WHOLE, "measured").await
}

/// The whole page.
const WHOLE: &[&str] = &["html"];

/// Runs axe-core on parts of the page as it stands. A script from WebDriver is not under the page's policy.
async fn axe(page: &Page, parts: &[&str], when: &str) -> Result<()> {
    // What is still appearing has less contrast than it is going to have.
    page.expect("nothing moves", "document.getAnimations().length === 0")
        .await?;
    let path = tools::npm_packages("audits")?.join("node_modules/axe-core/axe.min.js");
    let source =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let parts = serde_json::to_string(parts)?;
    let script = format!(
        "const done = arguments[arguments.length - 1];
         {source};
         axe.run({parts}, {{
           resultTypes: ['violations'],
           runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'],
         }}).then(
           ({{ passes, violations }}) => done({{
             passed: passes.length,
             violations: violations.map(({{ id, help, nodes }}) =>
               `${{id}} (${{help}}): ${{nodes.slice(0, 3).map(({{ html }}) => html.slice(0, 160)).join(' ')}}`),
           }}),
           (error) => done(String(error)));"
    );
    let outcome = page.finish(&script, Vec::new()).await?;
    let Some(violations) = outcome["violations"].as_array() else {
        bail!("axe-core did not run: {outcome}");
    };
    ensure!(
        outcome["passed"].as_u64() > Some(20),
        "expected more than 20 rules that the page passes {when}, seen {}",
        outcome["passed"]
    );
    ensure!(
        violations.is_empty(),
        "expected no violation {when}, seen {}",
        violations
            .iter()
            .map(|violation| violation.as_str().unwrap_or_default())
            .collect::<Vec<_>>()
            .join("; ")
    );
    Ok(())
}
