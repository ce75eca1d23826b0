//! Diagrams, and stepping through them.

use anyhow::{Result, ensure};
use fantoccini::key::Key;
use tool_retries::scenario::{self, Fixture};
use tool_retries::timeline::{self, PARTS};

use super::{Check, Expected, check, natively};
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
        let drawings: usize = page
            .settled(
                "it is in the page as it was served",
                &format!("document.querySelectorAll('#evidence-{id} svg.sequence[role=img] > title').length"),
            )
            .await?;
        ensure!(
            drawings == 1,
            "expected one drawing of {id} in the page as it was served, seen {drawings}"
        );
    }
    // A press draws it anew, from the reader's run.
    page.open_evidence(STEPPED).await?;
    page.act(&format!(
        "window.drawn = document.querySelector('#evidence-{STEPPED} svg')"
    ))
    .await?;
    page.run_one(STEPPED).await?;
    page.expect(
        "another drawing of the same run stands",
        &format!(
            "(again => again !== drawn && again.outerHTML === drawn.outerHTML)(document.querySelector('#evidence-{STEPPED} svg'))"
        ),
    )
    .await
}

async fn begin(page: &Page) -> Result<()> {
    page.load_with_engine().await?;
    page.open_evidence(STEPPED).await?;
    page.key_on(&format!("#evidence-{STEPPED} .step-through"), Key::Enter)
        .await?;
    page.expect(
        "the step control stands",
        &format!("document.activeElement?.matches('#evidence-{STEPPED} input[type=range]')"),
    )
    .await
}

/// What the page shows of its step, an expression: the event, then each part as text.
fn shown() -> String {
    format!(
        "((steps) => [steps.querySelector('.step-event'), ...steps.querySelectorAll('dd')].map((one) => one.innerHTML))
         (document.querySelector('#evidence-{STEPPED} .steps'))"
    )
}

/// Waits until the page shows the step whose event fits, and answers all that is shown.
async fn step(page: &Page, what: &str, event: impl Fn(&str) -> bool) -> Result<Vec<String>> {
    page.see(what, &shown(), |shown: &Vec<String>| {
        shown.first().is_some_and(|first| event(first))
    })
    .await
}

async fn steps_are_those_of_the_native_run(page: &Page, _: &Expected) -> Result<()> {
    let Some(scenario) = scenario::find(STEPPED) else {
        anyhow::bail!("no scenario {STEPPED}");
    };
    let pages = natively(|| {
        let world = (scenario.world)();
        world.keep_history();
        let outcome = (scenario.play)(&world, &Fixture::committed())
            .map_err(|error| anyhow::anyhow!("{error}"))?;
        Ok(timeline::pages(&outcome, &world.take_history()))
    })?;
    let count = pages.steps.len();

    begin(page).await?;
    page.key(Key::Home, 1).await?;
    for (index, parts) in pages.steps.iter().enumerate() {
        // The browser's own text of the same markup.
        let texts: Vec<&str> = parts
            .iter()
            .map(|&text| pages.texts[text as usize].as_str())
            .collect();
        let expected: Vec<String> = page
            .settled(
                "nothing of the page is looked at",
                &format!(
                    "{}.map((html, part) => {{
                       const place = document.createElement('dd');
                       if (part === 0) place.textContent = `Step {} of {count}: ${{html}}`; else place.innerHTML = html;
                       return place.innerHTML;
                     }})",
                    serde_json::to_string(&texts)?,
                    index + 1,
                ),
            )
            .await?;
        let number = format!("Step {} of ", index + 1);
        // All of a step is shown at once.
        let shown = step(page, &format!("{number}{count} is shown"), |event| {
            event.starts_with(&number)
        })
        .await?;
        ensure!(
            shown.len() == PARTS.len(),
            "expected {} parts, seen {shown:?}",
            PARTS.len()
        );
        for (name, (expected, shown)) in PARTS.iter().zip(expected.iter().zip(&shown)) {
            ensure!(
                expected == shown,
                "step {}, {name}: expected {expected}, seen {shown}",
                index + 1
            );
        }
        page.key(Key::Right, 1).await?;
    }
    page.expect(
        "the rows of the last step are those left",
        &format!(
            "(evidence => [...evidence.querySelectorAll('.steps table')].map((one) => one.outerHTML).join()
               === [...evidence.querySelectorAll('.evidence-body > table')].map((one) => one.outerHTML).join())
             (document.querySelector('#evidence-{STEPPED}'))"
        ),
    )
    .await
}

async fn keys_step_through_a_run(page: &Page, _: &Expected) -> Result<()> {
    begin(page).await?;
    let first = step(page, "the first line is shown at first", |event| {
        event.contains("agent calls create_ticket")
    })
    .await?;
    let button = |way: &str| format!("#evidence-{STEPPED} [data-move='{way}']");
    page.key_on(&button("line-on"), Key::Enter).await?;
    let second = step(page, "the next line is shown", |event| {
        event.ends_with("BEGIN IMMEDIATE")
    })
    .await?;
    page.key_on(&button("back"), Key::Space).await?;
    step(page, "the step before is shown", |event| event != second[0]).await?;
    page.key_on(&button("on"), Key::Enter).await?;
    page.see(
        "the same step is shown again",
        &shown(),
        |seen: &Vec<String>| *seen == second,
    )
    .await?;
    page.key_on(&button("line-back"), Key::Enter).await?;
    page.see(
        "the first line is shown again",
        &shown(),
        |seen: &Vec<String>| *seen == first,
    )
    .await?;
    page.expect(
        "the line is marked in the drawing",
        &format!(
            "document.querySelectorAll('#evidence-{STEPPED} svg .now').length === 1
               && document.querySelectorAll('#evidence-{STEPPED} svg .later').length > 10"
        ),
    )
    .await?;
    page.key_on(&format!("#evidence-{STEPPED} input[type=range]"), Key::End)
        .await?;
    page.expect(
        "nothing is still to come at the end",
        &format!("document.querySelectorAll('#evidence-{STEPPED} svg .later').length === 0"),
    )
    .await?;
    // A new run takes the place of the control.
    page.run_one(STEPPED).await?;
    page.expect(
        "the button stands again after another run",
        &format!("document.querySelector('#evidence-{STEPPED} .step-through') !== null"),
    )
    .await
}
