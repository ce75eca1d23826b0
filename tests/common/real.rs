//! The tool on real files, real threads and a real clock: what the simulated world is held against.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tool_retries::scenario::{RunError, Stage};
use tool_retries::sim::trace::{Trace, What};
use tool_retries::sim::{Host, Point, Struck};

/// A folder with the database of one scenario.
pub struct RealFiles {
    folder: tempfile::TempDir,
    rules: Arc<Mutex<Vec<Rule>>>,
}

struct Rule {
    process: String,
    point: Point,
    visit: u32,
}

/// A thread as a tool's host: a placed fault is an error, waiting sleeps.
pub struct RealHost {
    process: String,
    rules: Arc<Mutex<Vec<Rule>>>,
    visits: RefCell<BTreeMap<Point, u32>>,
    began: Instant,
}

impl RealFiles {
    pub fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a temporary folder"),
            rules: Arc::default(),
        }
    }

    pub fn database(&self) -> PathBuf {
        self.folder.path().join("tickets.db")
    }
}

/// A connection to a real file, as the tool wants it: its busy handler off.
pub fn connect(database: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(database)?;
    connection.busy_timeout(Duration::ZERO)?;
    Ok(connection)
}

/// Polls until done. What is polled here sleeps in its own wait.
pub fn block_on<T>(work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    loop {
        if let Poll::Ready(result) = work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return result;
        }
    }
}

impl Host for RealHost {
    async fn reach(&self, point: Point) -> Result<(), Struck> {
        let visit = {
            let mut visits = self.visits.borrow_mut();
            let visit = visits.entry(point).or_insert(0);
            *visit += 1;
            *visit
        };
        let struck =
            self.rules.lock().unwrap().iter().any(|rule| {
                rule.process == self.process && rule.point == point && rule.visit == visit
            });
        if struck {
            Err(Struck { point })
        } else {
            Ok(())
        }
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    async fn lock_freed(&self, deadline: Duration) {
        let left = deadline.saturating_sub(self.now());
        std::thread::sleep(left.min(Duration::from_millis(2)));
    }
}

impl Stage for RealFiles {
    type Host = RealHost;

    fn enter(&self, process: &str) -> Result<(Connection, RealHost), RunError> {
        let host = RealHost {
            process: process.to_owned(),
            rules: Arc::clone(&self.rules),
            visits: RefCell::default(),
            began: Instant::now(),
        };
        Ok((connect(&self.database())?, host))
    }

    fn fail_at(&self, process: &str, point: Point, visit: u32) {
        self.rules.lock().unwrap().push(Rule {
            process: process.to_owned(),
            point,
            visit,
        });
    }

    fn run<T>(&self, _: &RealHost, work: impl Future<Output = T>) -> Result<T, RunError> {
        Ok(block_on(work))
    }

    fn run_together<T, F>(
        &self,
        names: &[String],
        work: impl Fn(Connection, RealHost) -> F + Sync,
    ) -> Result<Vec<T>, RunError>
    where
        T: Send,
        F: Future<Output = T>,
    {
        let barrier = Barrier::new(names.len());
        let run = |name: &String| {
            let entered = self.enter(name);
            // Every thread comes to the barrier, also one that could not enter.
            let prepared = entered.map(|(connection, host)| work(connection, host));
            barrier.wait();
            prepared.map(block_on)
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = names.iter().map(|name| scope.spawn(|| run(name))).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().expect("no thread panics"))
                .collect()
        })
    }

    fn record(_: &RealHost, _: What) {}

    fn trace(&self) -> Trace {
        Trace::default()
    }
}
