//! A storm of the reader's own: as recorded, live, and theirs to stop.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fantoccini::key::Key;

use super::{Check, Expected, check, parse};
use crate::browser::driver::Settings;
use crate::browser::page::{Page, Setup};
use crate::tools;

pub const ALL: &[Check] = &[
    check!(storms_are_drawn_live_and_end_as_recorded, Setup::PLAIN),
    check!(
        a_storm_is_drawn_once_for_those_who_ask_for_no_motion,
        Setup {
            settings: Settings {
                reduced_motion: true,
                ..Setup::PLAIN.settings
            },
            ..Setup::PLAIN
        }
    ),
    check!(a_storm_can_be_stopped, Setup::PLAIN),
    check!(bad_values_of_a_storm_are_told, Setup::PLAIN),
];

const TOTALS: &str = "return document.querySelector('#storm-shown p')?.textContent ?? ''";

/// The totals that `results.json` records, in words.
fn recorded(case: &str) -> Result<String> {
    let text = fs::read_to_string(tools::root().join("results.json"))?;
    let summary = parse(&text)?
        .get("storm")
        .and_then(|storm| storm.get("cases")?.get(case)?.get("summary")?.as_str())
        .map(str::to_owned);
    summary.with_context(|| format!("results.json has no storm {case}"))
}

/// Sets up a recorded storm and runs it; answers how many drawings of it were met on the way.
async fn runs(page: &Page, case: &str) -> Result<usize> {
    let before = page.text(TOTALS).await?;
    page.press(&format!("[data-case='{case}']")).await?;
    page.press("#storm-run").await?;
    let mut met = BTreeSet::new();
    page.wait(&format!("the storm {case} is over"), async || {
        let over = page.status().await? == "The storm is over.";
        met.insert(page.text(TOTALS).await?);
        Ok(over.then_some(()))
    })
    .await?;
    let (seen, recorded) = (page.text(TOTALS).await?, recorded(case)?);
    ensure!(
        seen == recorded,
        "expected {case} to end with `{recorded}`, seen `{seen}`"
    );
    met.remove(&before);
    Ok(met.len())
}

async fn storms_are_drawn_live_and_end_as_recorded(page: &Page, _: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    for case in ["aws_none", "aws_full", "grpc_no_budget", "grpc_budget"] {
        let drawn = runs(page, case).await?;
        ensure!(
            drawn > 3,
            "expected {case} drawn again and again, seen {drawn} times"
        );
        let paths = |place: &str| {
            format!(
                "[...document.querySelectorAll('{place} path')].map((one) => one.getAttribute('d')).join()"
            )
        };
        let (own, printed) = (
            paths("#storm-shown"),
            paths(&format!("[data-storm=\"{case}\"]")),
        );
        ensure!(
            page.holds(&format!("{own} !== '' && {own} === {printed}"))
                .await?,
            "expected the load of {case} drawn as in the article"
        );
    }
    // What the article has as words only.
    for case in ["aws_equal", "aws_decorrelated", "grpc_breaker"] {
        runs(page, case).await?;
    }
    Ok(())
}

async fn a_storm_is_drawn_once_for_those_who_ask_for_no_motion(
    page: &Page,
    _: &Expected,
) -> Result<()> {
    page.load_with_engine().await?;
    let drawn = runs(page, "grpc_budget").await?;
    ensure!(drawn == 1, "expected one drawing, seen {drawn}");
    Ok(())
}

async fn a_storm_can_be_stopped(page: &Page, _: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    page.press("[data-case='grpc_no_budget']").await?;
    page.key_on("#storm-run", Key::Enter).await?;
    page.wait("the storm is drawn", async || {
        Ok((!page.text(TOTALS).await?.is_empty()).then_some(()))
    })
    .await?;
    page.key_on("#storm-stop", Key::Enter).await?;
    page.wait("the storm is stopped", async || {
        Ok(page.status().await?.starts_with("Stopped.").then_some(()))
    })
    .await?;
    let seen = page.text(TOTALS).await?;
    ensure!(
        seen != recorded("grpc_no_budget")?,
        "expected the storm stopped before its end"
    );
    tokio::time::sleep(Duration::from_millis(300)).await;
    let later = page.text(TOTALS).await?;
    ensure!(
        later == seen,
        "expected nothing drawn after Stop, seen `{later}` after `{seen}`"
    );
    ensure!(
        page.holds("document.activeElement.id === 'storm-run'")
            .await?,
        "expected the focus back where the storm was begun"
    );
    runs(page, "grpc_no_budget").await?;
    Ok(())
}

async fn bad_values_of_a_storm_are_told(page: &Page, _: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    for (name, value, told) in [
        ("clients", "0", "Wanted: a whole number from 1 to 500"),
        ("seed", "", "Wanted: a whole number from 0 to 4294967295"),
        ("cap", "1.5", "Wanted: a whole number from 0 to 60000"),
        (
            "budget",
            "<b>",
            "Wanted: TOKENS:RATIO such as 10:0.1, with 1 to 1000 tokens, or none",
        ),
    ] {
        page.script(&format!(
            "document.querySelector('#storm-{name}').value = '{value}'"
        ))
        .await?;
        page.press("#storm-run").await?;
        let seen = page
            .text(&format!(
                "return document.querySelector('#storm-{name}-error').textContent"
            ))
            .await?;
        ensure!(
            seen == told,
            "expected `{told}` beside {name}, seen `{seen}`"
        );
        ensure!(
            page.holds(&format!(
                "document.activeElement.id === 'storm-{name}' && document.activeElement.ariaInvalid === 'true' \
                 && !document.querySelector('#storm-run').hasAttribute('aria-disabled')"
            ))
            .await?,
            "expected {name} marked and in focus, and nothing run"
        );
        page.press("[data-case='grpc_budget']").await?;
        ensure!(
            page.holds("document.querySelector('#storm [aria-invalid]') === null")
                .await?,
            "expected a preset to mend {name}"
        );
    }
    Ok(())
}
