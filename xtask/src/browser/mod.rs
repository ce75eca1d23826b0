//! Real browsers, driven over WebDriver.
//!
//! `driver` starts them, `page` is the article open in one, `checks` is what must hold there.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use tokio::signal::unix::{SignalKind, signal};

use crate::serve;
use crate::site;
use crate::test::Tally;
use driver::{Browser, Driver};
use page::{Page, Setup};

mod checks;
mod driver;
mod page;
mod pictures;

/// Longer than any check takes on a slow machine; a browser that hangs must not hang the tests.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs a future to its end, or until the process is told to stop: then too every browser must be ended.
fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
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

/// Runs every check in every browser and counts the outcomes.
pub fn test(tally: &mut Tally) -> Result<()> {
    let expected = checks::Expected::committed()?;
    block_on(async {
        for browser in Browser::ALL {
            let driver = match Driver::start(browser) {
                Ok(driver) => driver,
                Err(error) => {
                    tally.report(&format!("browser::{}", browser.name()), Err(error));
                    continue;
                }
            };
            for check in checks::ALL {
                let outcome = one(&driver, check, &expected).await;
                // The first browser's checks go by their bare names; a second one's name its browser.
                let name = match browser {
                    Browser::Chromium => format!("browser::{}", check.name),
                };
                tally.report(&name, outcome);
            }
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
    let session = tokio::time::timeout(PATIENCE, driver.session(setup.javascript))
        .await
        .context("the browser did not start in time")??;
    Ok(Page::new(session, server))
}

/// Writes pictures of the built page to `dir`, for a look by eye.
pub fn screenshots(dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    block_on(async {
        let driver = Driver::start(Browser::Chromium)?;
        let page = open(&driver, &Setup::PLAIN).await?;
        let outcome = pictures::take(&page, dir).await;
        page.close().await;
        outcome
    })
}
