//! A storm of the reader's own: as recorded, live, and theirs to stop.

use std::fs;

use anyhow::{Context, Result, ensure};
use fantoccini::key::Key;

use super::{Check, Expected, check, parse};
use crate::browser::driver::Settings;
use crate::browser::page::{Page, Setup, with_script_ahead};
use crate::tools;

pub const ALL: &[Check] = &[
    check!(storms_are_drawn_live_and_end_as_recorded, HURRIED),
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
    check!(a_storm_can_be_stopped, HELD),
    check!(bad_values_of_a_storm_are_told, Setup::PLAIN),
];

/// The site as built, but that no frame of a storm is shown longer than it takes: there are hundreds of each storm.
const HURRIED: Setup = Setup::altered(|name, _, bytes| {
    let script = "const later = setTimeout;
        window.setTimeout = (work, ms, ...more) => later(work, ms === 40 ? 0 : ms, ...more);";
    with_script_ahead(script, name, bytes)
});

/// The site as built, but that a storm stands at its fifth frame. `release()` shows the next if there is one to come, says
/// whether there was, and lets storms take their course from then on.
const HELD: Setup = Setup::altered(|name, _, bytes| {
    let script = "const [later, never] = [setTimeout, clearTimeout];
        const held = new Map();
        let left = 5;
        window.setTimeout = (work, ms, ...more) => {
          if (ms !== 40 || (left -= 1) > 0) return later(work, ms, ...more);
          held.set(left - 1, work);
          return left - 1;
        };
        window.clearTimeout = (id) => held.delete(id) || never(id);
        window.isHeld = () => held.size > 0;
        window.release = () => {
          const works = [...held.values()];
          held.clear();
          left = Infinity;
          for (const work of works) work();
          return works.length > 0;
        };";
    with_script_ahead(script, name, bytes)
});

const TOTALS: &str = "document.querySelector('#storm-shown p')?.textContent ?? ''";

/// The totals that `results.json` records, in words.
fn recorded(case: &str) -> Result<String> {
    let text = fs::read_to_string(tools::root().join("results.json"))?;
    let summary = parse(&text)?
        .get("storm")
        .and_then(|storm| storm.get("cases")?.get(case)?.get("summary")?.as_str())
        .map(str::to_owned);
    summary.with_context(|| format!("results.json has no storm {case}"))
}

/// Counts from now on how often a storm is drawn.
async fn count_drawings(page: &Page) -> Result<()> {
    page.act(
        "window.drawn = 0;
         // Each frame is shown by a task of its own, and the observer is called after each.
         new MutationObserver(() => { window.drawn += 1; })
           .observe(document.querySelector('#storm-shown'), { childList: true });",
    )
    .await
}

/// Sets up a recorded storm, runs it to its end, and holds what it ends with to the record.
async fn runs(page: &Page, case: &str) -> Result<()> {
    page.press(&format!("[data-case='{case}']")).await?;
    // The end of an earlier storm is not taken for the end of this one.
    page.act("document.querySelector('#status').textContent = ''")
        .await?;
    page.press("#storm-run").await?;
    page.says(&format!("the storm {case} is over"), |status| {
        status == "The storm is over."
    })
    .await?;
    let recorded = recorded(case)?;
    page.see(
        &format!("{case} ends with `{recorded}`"),
        TOTALS,
        |seen: &String| *seen == recorded,
    )
    .await?;
    Ok(())
}

async fn storms_are_drawn_live_and_end_as_recorded(page: &Page, _: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    count_drawings(page).await?;
    for case in ["aws_none", "aws_full", "grpc_no_budget", "grpc_budget"] {
        page.act("window.drawn = 0").await?;
        runs(page, case).await?;
        page.expect(
            &format!("{case} is drawn again and again"),
            "window.drawn > 3",
        )
        .await?;
        let paths = |place: &str| {
            format!(
                "[...document.querySelectorAll('{place} path')].map((one) => one.getAttribute('d')).join()"
            )
        };
        let (own, printed) = (
            paths("#storm-shown"),
            paths(&format!("[data-storm=\"{case}\"]")),
        );
        page.expect(
            &format!("the load of {case} is drawn as in the article"),
            &format!("{own} !== '' && {own} === {printed}"),
        )
        .await?;
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
    count_drawings(page).await?;
    runs(page, "grpc_budget").await?;
    let drawn: u32 = page.settled("the storm is over", "window.drawn").await?;
    ensure!(drawn == 1, "expected one drawing, seen {drawn}");
    Ok(())
}

async fn a_storm_can_be_stopped(page: &Page, _: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    page.press("[data-case='grpc_no_budget']").await?;
    page.key_on("#storm-run", Key::Enter).await?;
    page.expect("the storm stands at a frame", "isHeld()")
        .await?;
    page.key_on("#storm-stop", Key::Enter).await?;
    page.says("it is said to be stopped", |status| {
        status.starts_with("Stopped.")
    })
    .await?;
    let seen: String = page.settled("the storm is stopped", TOTALS).await?;
    ensure!(
        !seen.is_empty() && seen != recorded("grpc_no_budget")?,
        "expected the storm stopped on its way, seen it at `{seen}`"
    );
    let came: bool = page.settled("the storm is stopped", "release()").await?;
    let later: String = page
        .settled("what was still to come has come", TOTALS)
        .await?;
    ensure!(
        !came && later == seen,
        "expected nothing to come and nothing drawn after Stop, seen `{later}` after `{seen}`"
    );
    page.expect(
        "the focus is back where the storm was begun",
        "document.activeElement.id === 'storm-run'",
    )
    .await?;
    runs(page, "grpc_no_budget").await
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
        page.act(&format!(
            "document.querySelector('#storm-{name}').value = '{value}'"
        ))
        .await?;
        page.press("#storm-run").await?;
        page.see(
            &format!("`{told}` is told beside {name}"),
            &format!("document.querySelector('#storm-{name}-error').textContent"),
            |seen: &String| seen == told,
        )
        .await?;
        page.expect(
            &format!("{name} is marked and in focus, and nothing run"),
            &format!(
                "document.activeElement.id === 'storm-{name}' && document.activeElement.ariaInvalid === 'true' \
                 && !document.querySelector('#storm-run').hasAttribute('aria-disabled')"
            ),
        )
        .await?;
        page.press("[data-case='grpc_budget']").await?;
        page.expect(
            &format!("a preset mends {name}"),
            "document.querySelector('#storm [aria-invalid]') === null",
        )
        .await?;
    }
    Ok(())
}
