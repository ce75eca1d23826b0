//! Searches in the page: the matrix, the workbench, and the page that measures them.

use anyhow::{Context, Result, bail, ensure};
use fantoccini::key::Key;
use tool_retries::explore::{Case, Cell, DESIGNS, FAULTS, Search};
use tool_retries::search::Strategy;

use super::failures::{TRAP, TRAPPED, with_first_lines};
use super::{Check, Expected, check, natively};
use crate::browser::page::{Page, Setup, WATCH, with_script_ahead};

pub const ALL: &[Check] = &[
    check!(explore_all_stops_and_finds_the_recorded_matrix, LONG),
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
    check!(
        explore_in_wal_mode_finds_what_the_native_search_finds,
        Setup::WATCHED
    ),
    check!(explore_replays_a_token_and_tells_nonsense, Setup::WATCHED),
    check!(explore_runs_an_edited_operation, Setup::WATCHED),
    check!(explore_bench_counts_as_the_native_search, Setup::PLAIN).alone(),
];

/// Waits until an expression gives a text that fits.
async fn text_of(
    page: &Page,
    what: &str,
    expression: &str,
    fits: impl Fn(&str) -> bool,
) -> Result<String> {
    // Of what is not there yet there is no text.
    page.see(what, &format!("({expression}) || ''"), |text: &String| {
        !text.is_empty() && fits(text)
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
    page.act(&script).await
}

/// Until they are told to go on, searches of cells are of a kind that takes minutes: they cannot be over before *Stop*.
const LONG: Setup = Setup::altered(|name, _, bytes| {
    let script = "const post = Worker.prototype.postMessage;
        Worker.prototype.postMessage = function (data, ...more) {
          const long = data?.Explore && !window.goOn;
          post.call(this, long ? { Explore: { ...data.Explore, search: 'claim.delivered_twice.432' } } : data, ...more);
        };";
    with_script_ahead(&format!("{WATCH}{script}"), name, bytes)
});

/// Stopped at once, and then let go on: every cell is recorded as `results.json` has it, with its token, and the reader's
/// own search agrees.
async fn explore_all_stops_and_finds_the_recorded_matrix(
    page: &Page,
    expected: &Expected,
) -> Result<()> {
    page.load_with_engine().await?;
    page.expect(
        "Run all stands in the caption's corner",
        "(([button, table]) => Math.abs(button.right - table.right) < 1 && button.top < table.top + 40)(
           ['explore-all', 'matrix-caption'].map((id) => document.getElementById(id).getBoundingClientRect()))",
    )
    .await?;
    let count = DESIGNS.len() * FAULTS.len();
    page.key_on("#explore-all", Key::Enter).await?;
    page.key_on("#stop", Key::Enter).await?;
    let stopped = format!("Stopped. 0 of {count} done.");
    page.says(&format!("`{stopped}` is said"), |status| status == stopped)
        .await?;
    page.expect(
        "no cell is running and the focus is back on Run all",
        "document.querySelectorAll('[data-state=stopped]').length > 0
           && !document.querySelector('[data-cell][data-state=running]')
           && document.activeElement.id === 'explore-all'",
    )
    .await?;
    page.act("window.goOn = true").await?;
    page.press("#explore-all").await?;
    let summary = page
        .says("the matrix is searched", |status| {
            status.contains(" agree with ")
        })
        .await?;
    let cells: Vec<[String; 5]> = page
        .settled(
            "the matrix is searched",
            "[...document.querySelectorAll('[data-cell]')].map((cell) => [
               cell.dataset.cell, cell.title, cell.dataset.token, cell.dataset.state,
               cell.querySelector('.agreement').textContent])",
        )
        .await?;
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
    page.expect(
        "nothing is left to stop",
        "document.getElementById('stop').hidden",
    )
    .await?;
    page.no_errors().await
}

async fn explore_tells_a_cell_that_differs(page: &Page, _: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    let cell = "document.querySelector('[title=\"safe in 767 schedules\"]')";
    page.act(&format!("{cell}.querySelector('[data-explore]').click()"))
        .await?;
    text_of(
        page,
        "the cell is told to differ",
        &format!(
            "{cell}.dataset.state === 'differs' && {cell}.querySelector('.agreement').textContent"
        ),
        |told| told == "✗ differs: safe in 766 schedules",
    )
    .await?;
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
    page.act(&format!("{cell}.dataset.token = '{other}'"))
        .await?;
    for token in [other, own] {
        page.press(show).await?;
        text_of(
            page,
            &format!("the counterexample {token} is shown"),
            "document.querySelector('.counterexample .checks')
               && document.querySelector('.counterexample code').textContent",
            |shown| shown == token,
        )
        .await?;
        page.press(show).await?;
        page.expect(
            "it is closed",
            "document.querySelector('.counterexample') === null",
        )
        .await?;
        // What the last search came to is not taken for the next one's answer.
        page.act(&format!("delete {cell}.dataset.state")).await?;
        page.press("[data-cell='effect_then_record/killed'] [data-explore]")
            .await?;
        text_of(
            page,
            &format!("the cell is searched, and {own} told"),
            &format!("{cell}.dataset.state === 'differs' && {cell}.querySelector('.agreement').textContent"),
            |told| told.ends_with(own),
        )
        .await?;
    }
    page.no_errors().await
}

/// A search that no worker has begun is over with the press, and is no failure.
async fn explore_stops_at_once(page: &Page, _: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    page.act(
        "document.getElementById('explore').click();
         document.getElementById('explore-stop').click();",
    )
    .await?;
    let explored = "document.getElementById('explored').textContent";
    text_of(page, "the search is stopped", explored, |seen| {
        seen == "Stopped."
    })
    .await?;
    page.press("#explore").await?;
    text_of(page, "the next search ends", explored, |seen| {
        seen.starts_with("Within 2 callers, 2 attempts, 0 faults: safe in ")
    })
    .await?;
    page.no_errors().await
}

/// *Show*, pressed again while its run waits, leaves no row that stays empty.
async fn explore_shows_after_three_presses(page: &Page, _: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    page.act(
        "const show = document.querySelector('[data-cell=\"no_key/killed\"] [aria-expanded]');
         for (let press = 0; press < 3; press += 1) show.click();",
    )
    .await?;
    page.expect(
        "the counterexample is shown",
        "document.querySelector('.counterexample .checks') !== null",
    )
    .await?;
    page.no_errors().await
}

async fn explore_tells_and_survives_a_trap(page: &Page, _: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    let cell = "document.querySelector('[data-cell=\"unique/killed\"]')";
    for (state, told) in [("failed", TRAPPED), ("agrees", "✓ agrees")] {
        page.press("[data-cell='unique/killed'] [data-explore]")
            .await?;
        text_of(
            page,
            &format!("the search of the cell ends with `{told}`"),
            &format!("{cell}.dataset.state === '{state}' && {cell}.querySelector('.agreement').textContent"),
            |seen| seen.contains(told),
        )
        .await?;
    }
    Ok(())
}

async fn explore_opens_a_counterexample_by_keys(page: &Page, _: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    let show = "[data-cell='effect_then_record/killed'] [aria-expanded]";
    page.key_on(show, Key::Enter).await?;
    text_of(
        page,
        "the broken check is shown",
        "document.querySelector('.counterexample .fails')?.textContent",
        |seen| seen.contains("two tickets for one intention"),
    )
    .await?;
    page.key_on(".counterexample .step-through", Key::Enter)
        .await?;
    let event = "document.querySelector('.counterexample .step-event')?.textContent";
    text_of(page, "the run can be stepped through", event, |event| {
        event.starts_with("Step 1 of ")
    })
    .await?;
    page.key_on(".counterexample [data-move='on']", Key::Enter)
        .await?;
    text_of(page, "a step is shown", event, |event| {
        event.starts_with("Step 2 of ")
    })
    .await?;
    page.key_on(show, Key::Space).await?;
    page.expect(
        "the counterexample is closed by a key",
        "document.querySelector('.counterexample') === null",
    )
    .await?;
    page.no_errors().await
}

async fn explore_can_be_stopped_and_hinders_no_run(page: &Page, expected: &Expected) -> Result<()> {
    page.load_at("#explore=claim.delivered_twice.432").await?;
    page.engine_ready().await?;
    page.key_on("#explore", Key::Enter).await?;
    page.expect(
        "the search tells how far it is",
        "/^\\d+ schedules so far; \\d+ runs pruned .* a second/.test(document.getElementById('explore-progress').textContent)",
    )
    .await?;
    let row = page.run_one(expected.any()).await?;
    ensure!(row.agrees(), "expected a run beside a search, seen {row:?}");
    let over: bool = page
        .settled(
            "the search takes minutes",
            "document.getElementById('explore-stop').hidden",
        )
        .await?;
    ensure!(!over, "expected the search still under way");
    page.key_on("#explore-stop", Key::Enter).await?;
    text_of(
        page,
        "the search is stopped",
        "document.getElementById('explored').textContent",
        |seen| {
            seen.starts_with("Within 4 callers, 3 attempts, 2 faults: ")
                && seen.contains(". Stopped before every schedule was tried.")
        },
    )
    .await?;
    page.expect(
        "the focus is back on Explore",
        "document.activeElement.id === 'explore'",
    )
    .await?;
    page.no_errors().await
}

async fn explore_restores_the_choice_of_a_link(page: &Page, _: &Expected) -> Result<()> {
    let choice = "['design', 'fault', 'journal', 'callers', 'attempts', 'faults', 'way', 'seed']
        .map((name) => document.getElementById(`explore-${name}`).value).join(' ')";
    page.load_at("#explore=claim.killed.312.wal-full.77")
        .await?;
    page.engine_ready().await?;
    page.see("the choice is restored", choice, |seen: &String| {
        seen == "claim killed wal-full 3 1 2 random 77"
    })
    .await?;
    choose(page, "explore-design", "unique").await?;
    choose(page, "explore-callers", "2").await?;
    for (journal, named) in [
        ("wal-normal", "#explore=unique.killed.212.wal-normal"),
        ("rollback", "#explore=unique.killed.212"),
    ] {
        choose(page, "explore-journal", journal).await?;
        page.see(
            "the link names the choice",
            "document.getElementById('explore-link').getAttribute('href')",
            |link: &String| link == named,
        )
        .await?;
    }
    let wanted: String = page.settled("the link names the choice", choice).await?;
    let long = "x".repeat(10_000);
    for nonsense in [
        "",
        "x",
        "claim.killed.999",
        "claim.killed.312.x",
        "claim.killed.312.7x",
        "claim.killed.312.wal.7",
        "<b>",
        "%",
        &long,
    ] {
        page.act("document.getElementById('status').textContent = ''")
            .await?;
        page.act(&format!("location.hash = '#explore={nonsense}'"))
            .await?;
        page.says("nonsense is told", |told| {
            told == "The address names no search; the workbench stays as it is."
        })
        .await?;
        let kept: String = page.settled("the address is answered", choice).await?;
        ensure!(kept == wanted, "expected {wanted} kept, seen {kept}");
    }
    // More than the class allows is told beside the control.
    choose(page, "explore-fault", "changed_payload").await?;
    choose(page, "explore-callers", "4").await?;
    page.expect(
        "the bound is told beside its control",
        "document.getElementById('explore-callers').ariaInvalid === 'true'
           && document.getElementById('explore-problem').textContent === 'callers: expected a number from 1 to 1'",
    )
    .await?;
    page.no_errors().await
}

async fn explore_at_random_finds_what_the_native_search_finds(
    page: &Page,
    _: &Expected,
) -> Result<()> {
    let cell = natively(|| {
        let case: Case = "effect_then_record.none.320".parse()?;
        let mut search = Search::new(case, Strategy::Random { seed: 5 })?;
        search.advance(20_000)?;
        Ok(Cell::of(&search))
    })?;
    let said = format!(
        "Within 3 callers, 2 attempts, 0 faults: {}. These are schedules at random, not all.",
        cell.verdict()
    );
    finds_natively(page, "effect_then_record.none.320.5", &cell, said).await
}

async fn explore_in_wal_mode_finds_what_the_native_search_finds(
    page: &Page,
    _: &Expected,
) -> Result<()> {
    const CASE: &str = "immediate.power_lost.122.wal-normal";
    let cell = natively(|| {
        Ok(Cell::of(
            &Search::new(CASE.parse()?, Strategy::Exhaustive)?.finish()?,
        ))
    })?;
    let said = format!(
        "Within 1 caller, 2 attempts, 2 faults, WAL, commits not synced: {}.",
        cell.verdict()
    );
    finds_natively(page, CASE, &cell, said).await
}

/// The search that an address names ends in what the native one did, its counterexample too.
async fn finds_natively(page: &Page, search: &str, cell: &Cell, verdict: String) -> Result<()> {
    page.load_at(&format!("#explore={search}")).await?;
    page.engine_ready().await?;
    page.press("#explore").await?;
    let token = cell.counterexample.as_ref().context("nothing found")?;
    let lines = [
        verdict.clone(),
        format!("Token of the shortest: {}", token.token),
    ];
    page.see(
        &format!("the search ends with {lines:?}"),
        "document.querySelector('#shortest .checks')
           ? [...document.querySelectorAll('#explored p')].map((line) => line.textContent) : []",
        |seen: &Vec<String>| lines.iter().all(|line| seen.contains(line)),
    )
    .await?;
    page.says("the result is said", |status| status == verdict)
        .await?;
    page.no_errors().await
}

async fn explore_replays_a_token_and_tells_nonsense(page: &Page, _: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    page.act(
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
        // What is told of one is not taken for what is told of the next.
        page.act("document.getElementById('token-problem').textContent = ''")
            .await?;
        choose(page, "token", nonsense).await?;
        page.press("#replay").await?;
        text_of(
            page,
            "nonsense is told beside its field",
            "document.getElementById('token').ariaInvalid === 'true' && document.getElementById('token-problem').textContent",
            |seen| seen.contains(told),
        )
        .await?;
        let nothing: bool = page
            .settled(
                "nonsense is told",
                "document.getElementById('replayed').hidden",
            )
            .await?;
        ensure!(nothing, "expected nothing replayed of `{nonsense}`");
    }
    choose(page, "token", " no_key.response_lost.121.1 ").await?;
    page.press("#replay").await?;
    text_of(
        page,
        "the token is replayed",
        "document.querySelector('#replayed .fails')?.textContent",
        |seen| seen.contains("one intention has at most one ticket"),
    )
    .await?;
    let said: String = page
        .settled("another run has been shown since", "window.said.join('|')")
        .await?;
    ensure!(
        said.matches("belong to another run").count() == 1,
        "expected it said once, heard `{said}`"
    );
    page.expect(
        "no problem is left",
        "document.getElementById('token').ariaInvalid === 'false'
           && document.getElementById('token-problem').textContent === ''",
    )
    .await?;
    choose(page, "token", "x").await?;
    page.press("#replay").await?;
    page.expect(
        "the earlier run is gone",
        "document.getElementById('replayed').hidden",
    )
    .await?;
    page.no_errors().await
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
        // As above.
        page.act(&format!(
            "document.getElementById('{control}-problem').textContent = ''"
        ))
        .await?;
        choose(page, "edited-key", key).await?;
        choose(page, "edited-payload", payload).await?;
        page.press("#run-edited").await?;
        page.expect(
            &format!("{payload} with the key {key:?} is told at {control}"),
            &format!(
                "document.getElementById('{control}').ariaInvalid === 'true'
                && document.getElementById('{control}-problem').textContent !== ''
                && document.getElementById('edited').hidden"
            ),
        )
        .await?;
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
    text_of(
        page,
        "the scenario is run with the operation as it was written",
        "document.querySelector('#edited .checks') && document.getElementById('edited').textContent",
        |seen| seen.contains(markup) && seen.contains("own-key"),
    )
    .await?;
    page.press("#edited .step-through").await?;
    text_of(
        page,
        "the same operation can be stepped through",
        "document.querySelector('#edited .step-event')?.textContent",
        |step| step.contains(markup),
    )
    .await?;
    let struck: bool = page
        .settled(
            "the operation is shown in all places",
            "document.querySelectorAll('#edited img').length > 0 || document.title === 'struck'",
        )
        .await?;
    ensure!(!struck, "expected text and no markup");
    page.no_errors().await
}

async fn explore_bench_counts_as_the_native_search(page: &Page, _: &Expected) -> Result<()> {
    page.load_at("bench.html").await?;
    page.says("it is measured", |status| status == "Measured.")
        .await?;
    let figures: Vec<String> = page
        .settled(
            "it is measured",
            "[...document.querySelectorAll('#figures dd')].map((figure) => figure.textContent)",
        )
        .await?;
    let case: Case = "immediate.none.220".parse()?;
    let counts = natively(|| {
        let search = Search::new(case, Strategy::Exhaustive)?.finish()?;
        let verdict = Cell::of(&search).verdict();
        Ok(format!("{verdict}, {} runs", search.progress().runs))
    })?;
    let [counted, _, rate] = &figures[..] else {
        bail!("expected three figures, seen {figures:?}");
    };
    ensure!(*counted == counts, "expected `{counts}`, seen {figures:?}");
    ensure!(
        rate.parse::<u64>().is_ok_and(|rate| rate > 100),
        "seen {figures:?}"
    );
    Ok(())
}
