//! What can break on the way is told where the reader looks, and the next press works.

use anyhow::{Result, ensure};
use fantoccini::key::Key;

use super::{Check, Expected, check, every_row_agrees};
use crate::browser::page::{Page, Setup, with_script_ahead};

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
        a_panic_is_told_with_its_message,
        Setup::altered(|name, _, bytes| match name {
            "engine_bg.wasm" => bytes.map(with_a_spoilt_fixture),
            _ => bytes,
        })
    ),
    check!(
        a_worker_without_successor_is_told_and_survived,
        Setup::altered(|name, earlier, bytes| match (name, earlier) {
            ("worker.js", 0) => with_first_lines(true, TRAP, bytes),
            ("worker.js", 1 | 2) => None,
            _ => bytes,
        })
    ),
    check!(a_run_past_its_bound_is_told_and_survived, IMPATIENT),
    check!(a_run_can_be_stopped, ENDLESS),
];

/// The first worker really traps in its first run: its memory is overwritten before the engine sees the request.
pub const TRAPPING: Setup = Setup::altered(|name, earlier, bytes| {
    with_first_lines(name == "worker.js" && earlier == 0, TRAP, bytes)
});

/// What the page says of it.
pub const TRAPPED: &str = "the engine stopped: an internal error";

/// The module with a fixture in it that is no JSON, on which the engine panics.
fn with_a_spoilt_fixture(mut module: Vec<u8>) -> Vec<u8> {
    const BEGINS: &[u8] = b"{\n  \"operation_key\"";
    let at = module
        .windows(BEGINS.len())
        .position(|bytes| bytes == BEGINS);
    if let Some(at) = at {
        module[at] = b'!';
    }
    module
}

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

/// The same, in a page whose minute is over at once until it is told to be patient.
const IMPATIENT: Setup = Setup::altered(|name, earlier, bytes| {
    let script = "const later = setTimeout;
        window.setTimeout = (work, ms, ...more) =>
          later(work, ms === 60000 && !window.patient ? 1000 : ms, ...more);";
    with_script_ahead(script, name, (ENDLESS.alter)(name, earlier, bytes))
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
    page.engine_is("failed").await?;
    page.says("the status says that the engine is missing", |status| {
        status.starts_with("The engine did not ") && status.ends_with("The recorded results stand.")
    })
    .await?;
    let ids = expected.ids();
    page.rows("all recorded values stand", |rows| {
        rows.len() == ids.len() && rows.iter().all(|row| !row.recorded.is_empty())
    })
    .await?;
    let buttons = page
        .once(
            "buttons appear with the engine only, which has failed",
            async |look| look.displayed(".run, .run-all").await,
        )
        .await?;
    ensure!(
        buttons.is_empty(),
        "expected no button that cannot work, seen {buttons:?}"
    );
    Ok(())
}

/// Runs a scenario that fails, with that in its message beside the button and in the status.
pub async fn fails(page: &Page, id: &str, message: &str) -> Result<()> {
    let row = page.run_one(id).await?;
    ensure!(
        row.state == "failed"
            && row.reader.is_empty()
            && row.agreement.starts_with("✗ failed: ")
            && row.agreement.contains(message),
        "expected a failure of {id} with `{message}`, seen {row:?}"
    );
    let same = format!("{id}: {}", row.agreement);
    page.says(&format!("the status says the same: `{same}`"), |status| {
        status == same
    })
    .await
    .map(|_| ())
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

async fn a_panic_is_told_with_its_message(page: &Page, expected: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    let row = page.run_one(expected.any()).await?;
    let told = format!("{row:?}");
    for part in [
        "the engine stopped: fixture.json was tested",
        "src/scenario/fixture.rs:",
    ] {
        ensure!(
            told.contains(part),
            "expected `{part}` beside the button, seen {told}"
        );
    }
    Ok(())
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
    fails(page, expected.any(), "no answer within 60 s").await?;
    page.act("window.patient = true").await?;
    recovers(page, expected).await
}

async fn a_run_can_be_stopped(page: &Page, expected: &Expected) -> Result<()> {
    page.load_with_engine().await?;
    let button = format!("button.run[data-run='{}']", expected.any());
    page.key_on(&button, Key::Enter).await?;
    page.key_on("#stop", Key::Enter).await?;
    let row = page.answered(expected.any()).await?;
    ensure!(
        row.state == "stopped" && row.agreement == "stopped",
        "expected the run stopped, seen {row:?}"
    );
    page.says("it is said", |status| status.starts_with("Stopped."))
        .await?;
    page.expect(
        &format!("the focus is back on {button}"),
        &format!("document.activeElement === document.querySelector(\"{button}\")"),
    )
    .await?;
    recovers(page, expected).await
}
