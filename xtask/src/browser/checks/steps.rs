//! Diagrams, and stepping through them.

use anyhow::{Result, ensure};
use fantoccini::key::Key;
use tool_retries::scenario::{self, Fixture};
use tool_retries::timeline::{self, PARTS};

use super::{Check, Expected, check};
use crate::browser::page::{Page, Setup};

pub const ALL: &[Check] = &[
    check!(every_scenario_is_drawn_without_a_press, Setup::PLAIN),
    check!(steps_are_those_of_the_native_run, Setup::PLAIN),
    check!(keys_step_through_a_run, Setup::PLAIN),
];

/// The scenario that is stepped through.
const STEPPED: &str = "stable_key_retry";

async fn every_scenario_is_drawn_without_a_press(page: &Page, expected: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    for id in expected.ids() {
        ensure!(
            page.holds(&format!(
                "document.querySelectorAll('#evidence-{id} svg.sequence[role=img] > title').length === 1"
            ))
            .await?,
            "expected one drawing of {id} in the page as it was served"
        );
    }
    // A press draws it anew, from the reader's run.
    page.open_evidence(STEPPED).await?;
    page.script(&format!(
        "window.drawn = document.querySelector('#evidence-{STEPPED} svg')"
    ))
    .await?;
    page.run_one(STEPPED).await?;
    ensure!(
        page.holds(&format!(
            "(again => again !== drawn && again.outerHTML === drawn.outerHTML)(document.querySelector('#evidence-{STEPPED} svg'))"
        ))
        .await?,
        "expected another drawing of the same run"
    );
    Ok(())
}

async fn begin(page: &Page) -> Result<()> {
    page.load_with_engine().await?;
    page.open_evidence(STEPPED).await?;
    page.key_on(&format!("#evidence-{STEPPED} .step-through"), Key::Enter)
        .await?;
    page.wait("the step control stands", async || {
        let stands = page
            .holds(&format!(
                "document.activeElement?.matches('#evidence-{STEPPED} input[type=range]')"
            ))
            .await?;
        Ok(stands.then_some(()))
    })
    .await
}

/// What the page shows of its step: the event, then each part as text.
async fn shown(page: &Page) -> Result<Vec<String>> {
    let shown = page
        .script(&format!(
            "const steps = document.querySelector('#evidence-{STEPPED} .steps');
             return [steps.querySelector('.step-event'), ...steps.querySelectorAll('dd')].map((one) => one.innerHTML)"
        ))
        .await?;
    Ok(serde_json::from_value(shown)?)
}

async fn steps_are_those_of_the_native_run(page: &Page, _: &Expected) -> Result<()> {
    let Some(scenario) = scenario::find(STEPPED) else {
        anyhow::bail!("no scenario {STEPPED}");
    };
    let world = (scenario.world)();
    world.keep_history();
    let outcome = (scenario.play)(&world, &Fixture::committed())
        .map_err(|error| anyhow::anyhow!("{error}"))?;
    let pages = timeline::pages(&outcome, &world.take_history());
    let count = pages.steps.len();

    begin(page).await?;
    page.key(Key::Home, 1).await?;
    for (index, parts) in pages.steps.iter().enumerate() {
        let shown = shown(page).await?;
        // The browser's own text of the same markup.
        let texts: Vec<&str> = parts
            .iter()
            .map(|&text| pages.texts[text as usize].as_str())
            .collect();
        let expected = page
            .script(&format!(
                "return {}.map((html, part) => {{
                   const place = document.createElement('dd');
                   if (part === 0) place.textContent = `Step {} of {count}: ${{html}}`; else place.innerHTML = html;
                   return place.innerHTML;
                 }})",
                serde_json::to_string(&texts)?,
                index + 1,
            ))
            .await?;
        let expected: Vec<String> = serde_json::from_value(expected)?;
        for (name, (expected, shown)) in PARTS.iter().zip(expected.iter().zip(&shown)) {
            ensure!(
                expected == shown,
                "step {}, {name}: expected {expected}, seen {shown}",
                index + 1
            );
        }
        page.key(Key::Right, 1).await?;
    }
    // The last step's rows are the rows left.
    ensure!(
        page.holds(&format!(
            "(evidence => [...evidence.querySelectorAll('.steps table')].map((one) => one.outerHTML).join()
               === [...evidence.querySelectorAll('.evidence-body > table')].map((one) => one.outerHTML).join())
             (document.querySelector('#evidence-{STEPPED}'))"
        ))
        .await?,
        "expected the rows of the last step to be those left"
    );
    Ok(())
}

async fn keys_step_through_a_run(page: &Page, _: &Expected) -> Result<()> {
    begin(page).await?;
    let first = shown(page).await?;
    ensure!(
        first[0].contains("agent calls create_ticket"),
        "expected the first line at first, seen {}",
        first[0]
    );
    let button = |way: &str| format!("#evidence-{STEPPED} [data-move='{way}']");
    page.key_on(&button("line-on"), Key::Enter).await?;
    let second = shown(page).await?;
    ensure!(
        second[0].ends_with("BEGIN IMMEDIATE"),
        "expected the next line, seen {}",
        second[0]
    );
    page.key_on(&button("back"), Key::Space).await?;
    page.key_on(&button("on"), Key::Enter).await?;
    ensure!(shown(page).await? == second, "expected the same step again");
    page.key_on(&button("line-back"), Key::Enter).await?;
    ensure!(shown(page).await? == first, "expected the first line again");
    let marks = "document.querySelectorAll('#evidence-stable_key_retry svg .now').length === 1
        && document.querySelectorAll('#evidence-stable_key_retry svg .later').length > 10";
    ensure!(
        page.holds(marks).await?,
        "expected the line marked in the drawing"
    );
    page.key_on(&format!("#evidence-{STEPPED} input[type=range]"), Key::End)
        .await?;
    ensure!(
        page.holds(
            "document.querySelectorAll('#evidence-stable_key_retry svg .later').length === 0"
        )
        .await?,
        "expected nothing still to come at the end"
    );
    // A new run takes the place of the control.
    page.run_one(STEPPED).await?;
    ensure!(
        page.holds(&format!(
            "document.querySelector('#evidence-{STEPPED} .step-through') !== null"
        ))
        .await?,
        "expected the button again after another run"
    );
    Ok(())
}
