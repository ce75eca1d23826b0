//! What can break on the way is told where the reader looks, and the next press works.

use anyhow::{Result, ensure};
use fantoccini::Locator;

use super::{Check, Expected, check, every_row_agrees};
use crate::browser::page::{Page, Setup};
use fantoccini::key::Key;

pub const ALL: &[Check] = &[
    check!(
        "a_missing_module_is_told",
        engine_fails,
        Setup::altered(|name, _, bytes| bytes.filter(|_| name != "engine_bg.wasm"))
    ),
    check!(
        "a_module_cut_short_is_told",
        engine_fails,
        Setup::altered(|name, _, bytes| {
            let mut bytes = bytes?;
            if name == "engine_bg.wasm" {
                bytes.truncate(bytes.len() / 2);
            }
            Some(bytes)
        })
    ),
    check!(
        "missing_bindings_are_told",
        engine_fails,
        Setup::altered(|name, _, bytes| bytes.filter(|_| name != "engine.js"))
    ),
    check!(
        "a_missing_worker_is_told",
        engine_fails,
        Setup::altered(|name, _, bytes| bytes.filter(|_| name != "worker.js"))
    ),
    check!(
        "a_worker_that_throws_is_told",
        engine_fails,
        Setup::altered(|name, _, bytes| {
            with_first_lines(name == "worker.js", "throw new Error('refused');", bytes)
        })
    ),
    check!(a_trap_is_told_and_survived, TRAPPING),
    check!(
        a_worker_without_successor_is_told_and_survived,
        Setup::altered(|name, earlier, bytes| match (name, earlier) {
            ("worker.js", 0) => with_first_lines(true, TRAP, bytes),
            ("worker.js", 1 | 2) => None,
            _ => bytes,
        })
    ),
    check!(a_run_past_its_bound_is_told_and_survived, ENDLESS),
    check!(a_run_can_be_stopped, ENDLESS),
];

/// The first worker really traps in its first run: its memory is overwritten before the engine sees the request.
pub const TRAPPING: Setup = Setup::altered(|name, earlier, bytes| {
    with_first_lines(name == "worker.js" && earlier == 0, TRAP, bytes)
});

/// What the page says of it.
pub const TRAPPED: &str = "the engine stopped: an internal error";

/// What it says of a worker that does not start.
const NOT_LOADED: &str = "the worker could not be loaded";

/// The lines of a worker that traps.
pub const TRAP: &str = "
import trapping from './engine.js';
addEventListener('message', async ({ data }) => {
  if (data instanceof WebAssembly.Module) return;
  const { memory } = await trapping();
  new Uint8Array(memory.buffer).fill(0xff);
});";

/// The first worker never ends its first run.
const ENDLESS: Setup = Setup::altered(|name, earlier, bytes| {
    let endless = "addEventListener('message', ({ data }) => {
        if (!(data instanceof WebAssembly.Module)) for (;;);
    });";
    with_first_lines(name == "worker.js" && earlier == 0, endless, bytes)
});

/// The file with these lines ahead, if it is the one.
pub fn with_first_lines(here: bool, lines: &str, bytes: Option<Vec<u8>>) -> Option<Vec<u8>> {
    let bytes = bytes?;
    Some(if here {
        [lines.as_bytes(), b"\n", &bytes].concat()
    } else {
        bytes
    })
}

/// The engine cannot start: the page says so, what is recorded stands, and no button pretends to work.
async fn engine_fails(page: &Page, expected: &Expected) -> Result<()> {
    page.load().await?;
    let state = page.engine_settled().await?;
    ensure!(
        state == "failed",
        "expected the engine failed, seen it {state}"
    );
    let status = page.status().await?;
    ensure!(
        status.starts_with("The engine did not ")
            && status.ends_with("The recorded results stand."),
        "expected the status to say that the engine is missing, seen `{status}`"
    );
    let rows = page.rows().await?;
    ensure!(
        rows.len() == expected.ids().len() && rows.iter().all(|row| !row.recorded.is_empty()),
        "expected all recorded values, seen {rows:?}"
    );
    for button in page
        .session
        .client()?
        .find_all(Locator::Css(".run, .run-all"))
        .await?
    {
        ensure!(
            !button.is_displayed().await?,
            "expected no button that cannot work, seen `{}`",
            button.text().await?
        );
    }
    Ok(())
}

/// Runs a scenario that fails, with that in its message beside the button and in the status.
pub async fn fails(page: &Page, id: &str, message: &str) -> Result<()> {
    let row = page.run_one(id).await?;
    let status = page.status().await?;
    ensure!(
        row.state == "failed"
            && row.reader.is_empty()
            && row.agreement.starts_with("✗ failed: ")
            && row.agreement.contains(message),
        "expected a failure of {id} with `{message}`, seen {row:?}"
    );
    ensure!(
        status == format!("{id}: {}", row.agreement),
        "expected the status to say the same as {}, seen `{status}`",
        row.agreement
    );
    Ok(())
}

/// After a failure a press works as if nothing had been.
async fn recovers(page: &Page, expected: &Expected) -> Result<()> {
    let row = page.run_one(expected.any()).await?;
    ensure!(
        row.agrees(),
        "expected the next press of the same button to agree, seen {row:?}"
    );
    page.run_all().await?;
    every_row_agrees(page, expected).await
}

async fn a_trap_is_told_and_survived(page: &Page, expected: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    fails(page, expected.any(), TRAPPED).await?;
    recovers(page, expected).await
}

async fn a_worker_without_successor_is_told_and_survived(
    page: &Page,
    expected: &Expected,
) -> Result<()> {
    page.load_with_engine().await?;
    fails(page, expected.any(), TRAPPED).await?;
    fails(page, expected.any(), NOT_LOADED).await?;
    // The first successor can fail before this press or with it. If with it, there is a second to go.
    let row = page.run_one(expected.any()).await?;
    ensure!(
        row.agrees() || row.agreement.contains(NOT_LOADED),
        "expected a run or a missing worker, seen {row:?}"
    );
    recovers(page, expected).await
}

async fn a_run_past_its_bound_is_told_and_survived(page: &Page, expected: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    fails(page, expected.any(), "no answer within 20 s").await?;
    recovers(page, expected).await
}

async fn a_run_can_be_stopped(page: &Page, expected: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    let button = format!("button.run[data-run='{}']", expected.any());
    page.key_on(&button, Key::Enter).await?;
    page.wait("Stop is offered", async || {
        let offered = page
            .holds("!document.querySelector('#stop').hidden")
            .await?;
        Ok(offered.then_some(()))
    })
    .await?;
    page.key_on("#stop", Key::Enter).await?;
    let row = page.answered(expected.any()).await?;
    let status = page.status().await?;
    ensure!(
        row.state == "stopped" && row.agreement == "stopped" && status.starts_with("Stopped."),
        "expected the run stopped, seen {row:?} and `{status}`"
    );
    ensure!(
        page.holds(&format!(
            "document.activeElement === document.querySelector(\"{button}\")"
        ))
        .await?,
        "expected the focus back on {button}"
    );
    recovers(page, expected).await
}
