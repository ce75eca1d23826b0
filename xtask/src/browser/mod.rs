//! Real browsers, driven over WebDriver.
//!
//! `process` starts programs and ends them, `driver` starts browsers, `page` is the article open in one, `checks` is what
//! must hold there. A new check is a function in a file of `checks` and a line in its list.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use tokio::signal::unix::{SignalKind, signal};

use crate::serve;
use crate::site;
use crate::test::{Parts, Tally};
use driver::Driver;
use page::{Setup, pictures};

pub use checks::natively;
pub use driver::Browser;
pub use page::Page;

mod checks;
mod driver;
mod page;
pub mod process;

/// Longer than any check takes on a slow machine that others use too; a browser that hangs must not hang the tests.
const PATIENCE: Duration = Duration::from_secs(900);

/// How many of the checks that took longest are named at the end.
const LONGEST: usize = 5;

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

/// Which checks are made.
#[derive(Debug, PartialEq, Eq)]
pub struct Choice {
    /// In these browsers.
    pub browsers: Vec<Browser>,
    /// Those whose name has this in it.
    pub part: String,
    /// Each so many times.
    pub repeat: usize,
    /// So many at a time, over all browsers.
    pub at_once: usize,
}

impl Choice {
    /// Every check, once, in these browsers.
    pub fn all(browsers: Vec<Browser>) -> Self {
        // While one starts its browser, or waits, the others go on.
        let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self {
            browsers,
            part: String::new(),
            repeat: 1,
            at_once: cores + 1,
        }
    }
}

/// A check to be made in a browser.
type Job<'a> = (&'a Driver, &'a checks::Check);

/// How a check went, and how long it took.
struct Done<'a> {
    job: Job<'a>,
    outcome: Result<()>,
    took: Duration,
}

/// Makes the checks that were chosen and counts the outcomes. Those that measure time come last, after `all_else`.
pub fn test(
    tally: &Tally,
    parts: &Parts,
    choice: &Choice,
    all_else: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let expected = checks::Expected::committed()?;
    let mut drivers = Vec::new();
    for &browser in &choice.browsers {
        match Driver::find(browser) {
            Ok(driver) => drivers.push(driver),
            Err(error) => tally.report(&format!("browser::{}", browser.name()), Err(error)),
        }
    }
    let mut jobs: Vec<Job> = Vec::new();
    for _ in 0..choice.repeat {
        for check in checks::all().filter(|check| check.name.contains(&choice.part)) {
            jobs.extend(drivers.iter().map(|driver| (driver, check)));
        }
    }
    ensure!(
        !jobs.is_empty() || drivers.is_empty(),
        "no check has `{}` in its name",
        choice.part
    );
    let mut took: Vec<(Browser, &str, Duration)> = Vec::new();
    let mut told = |done: Done| {
        let (driver, check) = done.job;
        let browser = driver.browser();
        took.push((browser, check.name, done.took));
        let name = format!("browser::{}::{}", browser.name(), check.name);
        tally.report(&name, done.outcome);
    };
    let (alone, together): (Vec<Job>, Vec<Job>) =
        jobs.into_iter().partition(|(_, check)| check.alone);
    parts.time("browsers", || {
        make(together, choice.at_once, &expected, &mut told)
    })?;
    all_else()?;
    parts.time("checks that measure time", || {
        make(alone, 1, &expected, &mut told)
    })?;
    took.sort_by_key(|&(.., took)| Reverse(took));
    for driver in &drivers {
        let of_it: Vec<_> = took
            .iter()
            .filter(|(browser, ..)| *browser == driver.browser())
            .collect();
        let sum: Duration = of_it.iter().map(|(.., took)| *took).sum();
        let longest: Vec<String> = of_it
            .iter()
            .take(LONGEST)
            .map(|(_, check, took)| format!("{check} {:.0} s", took.as_secs_f64()))
            .collect();
        println!(
            "{} checks in {}, {:.0} s if one waited for the other; longest: {}",
            of_it.len(),
            driver.browser().name(),
            sum.as_secs_f64(),
            longest.join(", ")
        );
    }
    Ok(())
}

/// Makes checks, so many at a time, and tells how each went as soon as it has.
fn make<'a>(
    jobs: Vec<Job<'a>>,
    at_once: usize,
    expected: &checks::Expected,
    told: &mut impl FnMut(Done<'a>),
) -> Result<()> {
    let jobs = Mutex::new(VecDeque::from(jobs));
    let (tell, done) = mpsc::channel();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..at_once)
            .map(|_| {
                let tell = tell.clone();
                scope.spawn(|| block_on(work(&jobs, expected, tell)))
            })
            .collect();
        drop(tell);
        done.into_iter().for_each(told);
        // What stops one of them stops them all.
        workers.into_iter().try_for_each(|worker| {
            worker
                .join()
                .unwrap_or_else(|_| Err(anyhow!("a check panicked")))
        })
    })
}

async fn work<'a>(
    jobs: &Mutex<VecDeque<Job<'a>>>,
    expected: &checks::Expected,
    tell: Sender<Done<'a>>,
) -> Result<()> {
    let next = || {
        let mut jobs = jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.pop_front()
    };
    while let Some(job) = next() {
        let started = Instant::now();
        let outcome = one(job.0, job.1, expected).await;
        let took = started.elapsed();
        tell.send(Done { job, outcome, took })
            .map_err(|_| anyhow!("nobody listens"))?;
    }
    Ok(())
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
    visit(async |page| pictures::take(page, dir).await)
}

/// Opens a browser on the built site, which it has not loaded yet, and closes it after `work`.
pub fn visit(work: impl AsyncFnOnce(&Page) -> Result<()>) -> Result<()> {
    block_on(async {
        let driver = Driver::find(Browser::Chromium)?;
        let page = open(&driver, &Setup::PLAIN).await?;
        let outcome = work(&page).await;
        page.close().await;
        outcome
    })
}
