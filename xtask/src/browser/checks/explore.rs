//! Searches in the page: the matrix, the workbench, and the page that measures them.

use anyhow::{Context, Result, ensure};
use fantoccini::key::Key;
use tool_retries::explore::{Case, Cell, DESIGNS, FAULTS, Search, Strategy};

use super::failures::{TRAP, TRAPPED, with_first_lines};
use super::{Check, Expected, check};
use crate::browser::page::{Page, Setup};

pub const ALL: &[Check] = &[
    check!(explore_all_finds_the_recorded_matrix, Setup::WATCHED),
    check!(
        explore_tells_a_cell_that_differs,
        Setup::altered(|name, _, bytes| {
            let bytes = bytes?;
            Some(match (name, String::from_utf8(bytes)) {
                ("index.html", Ok(page)) => page
                    .replacen(
                        "title=\"safe in 766 schedules\"",
                        "title=\"safe in 767 schedules\"",
                        1,
                    )
                    .into_bytes(),
                (_, Ok(text)) => text.into_bytes(),
                (_, Err(error)) => error.into_bytes(),
            })
        })
    ),
    check!(explore_shows_the_run_of_the_reader, Setup::WATCHED),
    check!(explore_shows_after_three_presses, Setup::WATCHED),
    check!(explore_stops_at_once, Setup::WATCHED),
    check!(explore_all_can_be_stopped, Setup::WATCHED),
    check!(
        explore_tells_and_survives_a_trap,
        // The first worker is there for scenarios, the second traps, its successor works.
        Setup::altered(|name, earlier, bytes| {
            with_first_lines(name == "worker.js" && earlier == 1, TRAP, bytes)
        })
    ),
    check!(explore_opens_a_counterexample_by_keys, Setup::WATCHED),
    check!(explore_can_be_stopped_and_hinders_no_run, Setup::WATCHED),
    check!(explore_restores_the_choice_of_a_link, Setup::WATCHED),
    check!(
        explore_at_random_finds_what_the_native_search_finds,
        Setup::WATCHED
    ),
    check!(explore_replays_a_token_and_tells_nonsense, Setup::WATCHED),
    check!(explore_runs_an_edited_operation, Setup::WATCHED),
    check!(explore_bench_counts_as_the_native_search, Setup::PLAIN),
];

async fn no_errors(page: &Page) -> Result<()> {
    let errors = page.errors().await?;
    ensure!(errors.is_empty(), "expected no error, seen {errors:?}");
    Ok(())
}

/// Waits until a script returns a text that is not empty.
async fn text_of(page: &Page, what: &str, script: &str) -> Result<String> {
    page.wait(what, async || {
        let text = page.text(&format!("return ({script}) || ''")).await?;
        Ok((!text.is_empty()).then_some(text))
    })
    .await
}

async fn choose(page: &Page, id: &str, value: &str) -> Result<()> {
    let script = format!(
        "const control = document.getElementById('{id}');
         control.value = {};
         control.dispatchEvent(new Event('input', {{ bubbles: true }}));",
        serde_json::to_string(value)?
    );
    page.script(&script).await.map(|_| ())
}

/// Every cell is recorded as `results.json` has it, with its token, and the reader's own search agrees.
async fn explore_all_finds_the_recorded_matrix(page: &Page, expected: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    ensure!(
        page.holds(
            "(([button, table]) => Math.abs(button.right - table.right) < 1 && button.top < table.top + 40)(
               ['explore-all', 'matrix-caption'].map((id) => document.getElementById(id).getBoundingClientRect()))",
        )
        .await?,
        "expected Run all in the caption's corner"
    );
    page.press("#explore-all").await?;
    let summary = text_of(
        page,
        "the matrix is searched",
        "/ agree with /.test(document.getElementById('status').textContent)
           && document.getElementById('status').textContent",
    )
    .await?;
    let cells = page
        .script(
            "return [...document.querySelectorAll('[data-cell]')].map((cell) => [
               cell.dataset.cell, cell.title, cell.dataset.token, cell.dataset.state,
               cell.querySelector('.agreement').textContent])",
        )
        .await?;
    let cells: Vec<[String; 5]> = serde_json::from_value(cells)?;
    let count = DESIGNS.len() * FAULTS.len();
    ensure!(
        cells.len() == count,
        "expected {count} cells, seen {}",
        cells.len()
    );
    for [name, verdict, token, state, agreement] in &cells {
        let (design, fault) = name.split_once('/').context("a cell without a name")?;
        let recorded = expected.matrix.get(design).and_then(|row| row.get(fault));
        let member = |name| recorded.and_then(|cell| cell.get(name)?.as_str());
        ensure!(
            member("verdict") == Some(verdict) && member("token").unwrap_or_default() == token,
            "expected {name} as recorded, seen {verdict}, {token}"
        );
        ensure!(
            state == "agrees" && agreement == "✓ agrees",
            "expected that {name} agrees, seen {state}, {agreement}"
        );
    }
    ensure!(
        summary == format!("{count} of {count} agree with the recorded results."),
        "seen `{summary}`"
    );
    ensure!(
        page.holds("document.getElementById('stop').hidden").await?,
        "expected nothing left to stop"
    );
    no_errors(page).await
}

async fn explore_tells_a_cell_that_differs(page: &Page, _: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    let cell = "document.querySelector('[title=\"safe in 767 schedules\"]')";
    page.script(&format!("{cell}.querySelector('[data-explore]').click()"))
        .await?;
    let agreement = text_of(
        page,
        "the cell is searched",
        &format!(
            "{cell}.dataset.state === 'differs' && {cell}.querySelector('.agreement').textContent"
        ),
    )
    .await?;
    ensure!(
        agreement == "✗ differs: safe in 766 schedules",
        "seen `{agreement}`"
    );
    Ok(())
}

/// Where the record names another run, *Show* opens the recorded one until the reader has run the cell, then theirs.
async fn explore_shows_the_run_of_the_reader(page: &Page, expected: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    let cell = "document.querySelector('[data-cell=\"effect_then_record/killed\"]')";
    let show = "[data-cell='effect_then_record/killed'] [aria-expanded]";
    let token_of = |fault| {
        let token = expected
            .matrix
            .get("effect_then_record")?
            .get(fault)?
            .get("token");
        token?.as_str()
    };
    let own = token_of("killed").context("no token")?;
    let other = token_of("none").context("no token")?;
    page.script(&format!("{cell}.dataset.token = '{other}'"))
        .await?;
    for token in [other, own] {
        page.press(show).await?;
        let shown = text_of(
            page,
            "the counterexample is shown",
            "document.querySelector('.counterexample .checks')
               && document.querySelector('.counterexample code').textContent",
        )
        .await?;
        ensure!(shown == token, "expected {token}, seen {shown}");
        page.press(show).await?;
        page.press("[data-explore='effect_then_record/killed']")
            .await?;
        let told = text_of(
            page,
            "the cell is searched",
            &format!("{cell}.dataset.state === 'differs' && {cell}.querySelector('.agreement').textContent"),
        )
        .await?;
        ensure!(told.ends_with(own), "expected {own} told, seen `{told}`");
    }
    no_errors(page).await
}

/// A search that no worker has begun is over with the press, and is no failure.
async fn explore_stops_at_once(page: &Page, _: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    page.script(
        "document.getElementById('explore').click();
         document.getElementById('explore-stop').click();",
    )
    .await?;
    let seen = page
        .text("return document.getElementById('explored').textContent")
        .await?;
    ensure!(seen == "Stopped.", "seen `{seen}`");
    page.press("#explore").await?;
    let seen = text_of(
        page,
        "the next search ends",
        "document.getElementById('explored').textContent",
    )
    .await?;
    ensure!(
        seen.starts_with("Within 2 callers, 2 attempts, 0 faults: safe in "),
        "seen `{seen}`"
    );
    no_errors(page).await
}

/// *Show*, pressed again while its run waits, leaves no row that stays empty.
async fn explore_shows_after_three_presses(page: &Page, _: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    page.script(
        "const show = document.querySelector('[data-cell=\"no_key/killed\"] [aria-expanded]');
         for (let press = 0; press < 3; press += 1) show.click();",
    )
    .await?;
    text_of(
        page,
        "the counterexample is shown",
        "document.querySelector('.counterexample .checks') && 'shown'",
    )
    .await?;
    no_errors(page).await
}

async fn explore_all_can_be_stopped(page: &Page, _: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    page.key_on("#explore-all", Key::Enter).await?;
    page.key_on("#stop", Key::Enter).await?;
    let status = page.status().await?;
    ensure!(
        status.starts_with("Stopped. ") && status.ends_with(" done."),
        "seen `{status}`"
    );
    ensure!(
        page.holds(
            "document.querySelectorAll('[data-state=stopped]').length > 0
               && !document.querySelector('[data-cell][data-state=running]')
               && document.activeElement.id === 'explore-all'"
        )
        .await?,
        "expected no cell running and the focus back on Run all"
    );
    page.key_on("#explore-all", Key::Enter).await?;
    text_of(
        page,
        "the matrix is searched after all",
        "/^(\\d+) of \\1 agree with /.test(document.getElementById('status').textContent) && 'all'",
    )
    .await?;
    no_errors(page).await
}

async fn explore_tells_and_survives_a_trap(page: &Page, _: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    let cell = "document.querySelector('[data-cell=\"unique/killed\"]')";
    for (state, told) in [("failed", TRAPPED), ("agrees", "✓ agrees")] {
        page.press("[data-explore='unique/killed']").await?;
        let seen = text_of(
            page,
            "the search of the cell ends",
            &format!("{cell}.dataset.state === '{state}' && {cell}.querySelector('.agreement').textContent"),
        )
        .await?;
        ensure!(seen.contains(told), "expected `{told}`, seen `{seen}`");
    }
    Ok(())
}

async fn explore_opens_a_counterexample_by_keys(page: &Page, _: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    let show = "[data-cell='effect_then_record/killed'] [aria-expanded]";
    page.key_on(show, Key::Enter).await?;
    let seen = text_of(
        page,
        "the counterexample is shown",
        "document.querySelector('.counterexample .fails')?.textContent",
    )
    .await?;
    ensure!(
        seen.contains("two tickets for one intention"),
        "expected the broken check, seen `{seen}`"
    );
    page.key_on(".counterexample .step-through", Key::Enter)
        .await?;
    let event = "document.querySelector('.counterexample .step-event')?.textContent";
    let first = text_of(page, "the run can be stepped through", event).await?;
    ensure!(first.starts_with("Step 1 of "), "seen `{first}`");
    page.key_on(".counterexample [data-move='on']", Key::Enter)
        .await?;
    let second = text_of(page, "a step is shown", event).await?;
    ensure!(second.starts_with("Step 2 of "), "seen `{second}`");
    page.key_on(show, Key::Space).await?;
    ensure!(
        page.holds("!document.querySelector('.counterexample')")
            .await?,
        "expected the counterexample closed by a key"
    );
    no_errors(page).await
}

async fn explore_can_be_stopped_and_hinders_no_run(page: &Page, expected: &Expected) -> Result<()> {
    page.load_at("#explore=claim.delivered_twice.432").await?;
    page.engine_ready().await?;
    page.key_on("#explore", Key::Enter).await?;
    text_of(
        page,
        "the search tells how far it is",
        "/^\\d+ schedules so far; \\d+ runs pruned .* a second/.test(document.getElementById('explore-progress').textContent) && 'told'",
    )
    .await?;
    let row = page.run_one(expected.any()).await?;
    ensure!(row.agrees(), "expected a run beside a search, seen {row:?}");
    ensure!(
        !page
            .holds("document.getElementById('explore-stop').hidden")
            .await?,
        "expected the search still under way"
    );
    page.key_on("#explore-stop", Key::Enter).await?;
    let result = text_of(
        page,
        "the search is stopped",
        "document.getElementById('explored').textContent",
    )
    .await?;
    ensure!(
        result.starts_with("Within 4 callers, 3 attempts, 2 faults: ")
            && result.contains(". Stopped before every schedule was tried."),
        "seen `{result}`"
    );
    ensure!(
        page.holds("document.activeElement.id === 'explore'")
            .await?,
        "expected the focus back on Explore"
    );
    no_errors(page).await
}

async fn explore_restores_the_choice_of_a_link(page: &Page, _: &Expected) -> Result<()> {
    let choice = "return ['design', 'fault', 'callers', 'attempts', 'faults', 'way', 'seed']
        .map((name) => document.getElementById(`explore-${name}`).value).join(' ')";
    page.load_at("#explore=claim.killed.312.77").await?;
    page.engine_ready().await?;
    let seen = page.text(choice).await?;
    ensure!(seen == "claim killed 3 1 2 random 77", "seen `{seen}`");
    choose(page, "explore-design", "unique").await?;
    choose(page, "explore-callers", "2").await?;
    let link = page
        .text("return document.getElementById('explore-link').getAttribute('href')")
        .await?;
    ensure!(link == "#explore=unique.killed.212", "seen `{link}`");
    let wanted = page.text(choice).await?;
    let long = "x".repeat(10_000);
    for nonsense in [
        "",
        "x",
        "claim.killed.999",
        "claim.killed.312.x",
        "<b>",
        "%",
        &long,
    ] {
        page.script("document.getElementById('status').textContent = ''")
            .await?;
        page.script(&format!("location.hash = '#explore={nonsense}'"))
            .await?;
        let told = text_of(
            page,
            "nonsense is told",
            "document.getElementById('status').textContent",
        )
        .await?;
        ensure!(
            told == "The address names no search; the workbench stays as it is.",
            "seen `{told}`"
        );
        let kept = page.text(choice).await?;
        ensure!(kept == wanted, "expected {wanted} kept, seen {kept}");
    }
    // More than the class allows is told beside the control.
    choose(page, "explore-fault", "changed_payload").await?;
    choose(page, "explore-callers", "4").await?;
    ensure!(
        page.holds("document.getElementById('explore-callers').ariaInvalid === 'true'
            && document.getElementById('explore-problem').textContent === 'callers: expected a number from 1 to 1'")
            .await?,
        "expected the bound told beside its control"
    );
    no_errors(page).await
}

async fn explore_at_random_finds_what_the_native_search_finds(
    page: &Page,
    _: &Expected,
) -> Result<()> {
    page.load_at("#explore=effect_then_record.none.320.5")
        .await?;
    page.engine_ready().await?;
    page.press("#explore").await?;
    let seen = text_of(
        page,
        "the random search is over",
        "document.querySelector('#shortest .checks') && [...document.querySelectorAll('#explored p')].map((line) => line.textContent).join('\\n')",
    )
    .await?;
    let case: Case = "effect_then_record.none.320".parse()?;
    let mut search = Search::new(case, Strategy::Random { seed: 5 })?;
    search.advance(20_000)?;
    let cell = Cell::of(&search);
    let token = cell.counterexample.as_ref().context("nothing found")?;
    let verdict = format!(
        "Within 3 callers, 2 attempts, 0 faults: {}. These are schedules at random, not all.",
        cell.verdict()
    );
    let status = text_of(
        page,
        "the result is said",
        "document.getElementById('status').textContent",
    )
    .await?;
    ensure!(
        status == verdict,
        "expected the result said, seen `{status}`"
    );
    for line in [verdict, format!("Token of the shortest: {}", token.token)] {
        ensure!(
            seen.lines().any(|one| one == line),
            "expected `{line}`, seen `{seen}`"
        );
    }
    no_errors(page).await
}

async fn explore_replays_a_token_and_tells_nonsense(page: &Page, _: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    page.script(
        "window.said = [];
         const status = document.getElementById('status');
         new MutationObserver(() => window.said.push(status.textContent)).observe(status, { childList: true });",
    )
    .await?;
    for (nonsense, told) in [
        ("", "a token has the form"),
        ("naive_retry", "a token has the form"),
        ("<b>.none.220.-", "no design"),
        ("immediate.none.220.zzzz", "belong to another run"),
    ] {
        choose(page, "token", nonsense).await?;
        page.press("#replay").await?;
        let seen = text_of(
            page,
            "nonsense is told beside its field",
            "document.getElementById('token').ariaInvalid === 'true' && document.getElementById('token-problem').textContent",
        )
        .await?;
        ensure!(seen.contains(told), "expected `{told}`, seen `{seen}`");
        ensure!(
            page.holds("document.getElementById('replayed').hidden")
                .await?,
            "expected nothing replayed"
        );
    }
    let said = text_of(page, "it is said", "window.said?.join('|')").await?;
    ensure!(
        said.matches("belong to another run").count() == 1,
        "expected it said once, heard `{said}`"
    );
    choose(page, "token", " deferred.none.220.- ").await?;
    page.press("#replay").await?;
    let seen = text_of(
        page,
        "the token is replayed",
        "document.querySelector('#replayed .fails')?.textContent",
    )
    .await?;
    ensure!(seen.contains("nobody waits for ever"), "seen `{seen}`");
    ensure!(
        page.holds(
            "document.getElementById('token').ariaInvalid === 'false'
            && document.getElementById('token-problem').textContent === ''"
        )
        .await?,
        "expected no problem left"
    );
    choose(page, "token", "x").await?;
    page.press("#replay").await?;
    ensure!(
        page.holds("document.getElementById('replayed').hidden")
            .await?,
        "expected the earlier run gone"
    );
    no_errors(page).await
}

async fn explore_runs_an_edited_operation(page: &Page, _: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    for (key, payload, control) in [
        (
            "",
            r#"{"project": "p", "title": "t", "priority": "low"}"#,
            "edited-key",
        ),
        ("k", "{\"a\":", "edited-payload"),
        ("k", "{}", "edited-payload"),
    ] {
        choose(page, "edited-key", key).await?;
        choose(page, "edited-payload", payload).await?;
        page.press("#run-edited").await?;
        ensure!(
            page.holds(&format!(
                "document.getElementById('{control}').ariaInvalid === 'true'
                && document.getElementById('{control}-problem').textContent !== ''
                && document.getElementById('edited').hidden"
            ))
            .await?,
            "expected {payload} with the key {key:?} told at {control}"
        );
    }
    let markup = "<img src=x onerror=document.title='struck'>";
    choose(page, "edited-key", "own-key").await?;
    choose(
        page,
        "edited-payload",
        &format!(r#"{{"project": "{markup}", "title": "t", "priority": "low"}}"#),
    )
    .await?;
    choose(page, "edited-scenario", "stable_key_retry").await?;
    page.press("#run-edited").await?;
    let seen = text_of(
        page,
        "the scenario is run with it",
        "document.querySelector('#edited .checks') && document.getElementById('edited').textContent",
    )
    .await?;
    ensure!(
        seen.contains(markup) && seen.contains("own-key"),
        "expected the operation as it was written, seen `{seen}`"
    );
    page.press("#edited .step-through").await?;
    let step = text_of(
        page,
        "it can be stepped through",
        "document.querySelector('#edited .step-event')?.textContent",
    )
    .await?;
    ensure!(
        step.contains(markup),
        "expected the same operation, seen `{step}`"
    );
    ensure!(
        page.holds(
            "document.querySelectorAll('#edited img').length === 0 && document.title !== 'struck'"
        )
        .await?,
        "expected text and no markup"
    );
    no_errors(page).await
}

async fn explore_bench_counts_as_the_native_search(page: &Page, _: &Expected) -> Result<()> {
    page.load_at("bench.html").await?;
    let seen = text_of(
        page,
        "it is measured",
        "document.getElementById('status').textContent === 'Measured.' && document.getElementById('figures').innerText",
    )
    .await?;
    let case: Case = "immediate.none.220".parse()?;
    let search = Search::new(case, Strategy::Exhaustive)?.finish()?;
    let counts = format!(
        "{}, {} runs",
        Cell::of(&search).verdict(),
        search.progress().runs
    );
    let mut lines = seen.lines();
    ensure!(
        lines.any(|line| line == counts),
        "expected `{counts}`, seen `{seen}`"
    );
    let rate = lines.next_back().and_then(|rate| rate.parse::<u64>().ok());
    ensure!(rate.is_some_and(|rate| rate > 100), "seen `{seen}`");
    Ok(())
}
