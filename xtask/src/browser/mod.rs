//! Real browsers, driven over WebDriver.
//!
//! `process` starts programs and ends them, `driver` starts browsers, `page` is the article open in one, `checks` is what
//! must hold there. A new check is a function in a file of `checks` and a line in its list.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use tokio::signal::unix::{SignalKind, signal};

use crate::serve;
use crate::site;
use crate::test::Tally;
use driver::Driver;
use page::{Page, Setup};

pub use driver::Browser;

mod checks;
mod driver;
mod page;
mod pictures;
pub mod process;

/// Longer than any check takes on a slow machine; a browser that hangs must not hang the tests.
const PATIENCE: Duration = Duration::from_secs(180);

/// Runs a future to its end, or until the process is told to stop: then too every browser must be ended.
pub fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut terminated = signal(SignalKind::terminate())?;
        let mut interrupted = signal(SignalKind::interrupt())?;
        tokio::select! {
            outcome = work => outcome,
            _ = terminated.recv() => Err(anyhow!("terminated")),
            _ = interrupted.recv() => Err(anyhow!("interrupted")),
        }
    })
}

/// Runs every check in these browsers, those alone whose name has `part` in it, and counts the outcomes.
pub fn test(tally: &mut Tally, browsers: &[Browser], part: &str) -> Result<()> {
    let expected = checks::Expected::committed()?;
    block_on(async {
        for &browser in browsers {
            let driver = match Driver::find(browser) {
                Ok(driver) => driver,
                Err(error) => {
                    tally.report(&format!("browser::{}", browser.name()), Err(error));
                    continue;
                }
            };
            let started = Instant::now();
            let mut run = 0;
            for check in checks::all().filter(|check| check.name.contains(part)) {
                let name = format!("browser::{}::{}", browser.name(), check.name);
                run += 1;
                tally.report(&name, one(&driver, check, &expected).await);
            }
            ensure!(run > 0, "no check has `{part}` in its name");
            println!(
                "{run} checks in {}, {:.0} s",
                browser.name(),
                started.elapsed().as_secs_f64()
            );
        }
        Ok(())
    })
}

async fn one(driver: &Driver, check: &checks::Check, expected: &checks::Expected) -> Result<()> {
    let page = open(driver, &check.setup).await?;
    let outcome = tokio::time::timeout(PATIENCE, (check.run)(&page, expected))
        .await
        .unwrap_or_else(|_| Err(anyhow!("no outcome within {} s", PATIENCE.as_secs())));
    page.close().await;
    outcome
}

/// Serves the built site and opens a fresh browser on it, which has not loaded the page yet.
async fn open(driver: &Driver, setup: &Setup) -> Result<Page> {
    let server = serve::Server::start(&site::dist(), serve::listen(Some(0))?, setup.serve())?;
    let session = tokio::time::timeout(PATIENCE, driver.session(&setup.settings))
        .await
        .context("the browser did not start in time")??;
    Ok(Page::new(session, server))
}

/// Writes pictures of the built page to `dir`, for a look by eye.
pub fn screenshots(dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    block_on(async {
        let driver = Driver::find(Browser::Chromium)?;
        let page = open(&driver, &Setup::PLAIN).await?;
        let outcome = pictures::take(&page, dir).await;
        page.close().await;
        outcome
    })
}
