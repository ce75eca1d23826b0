//! The tool on real files, real threads and a real clock: what the simulated world is held against.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
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

    fn host(&self, process: &str) -> RealHost {
        RealHost {
            process: process.to_owned(),
            rules: Arc::clone(&self.rules),
            visits: RefCell::default(),
            began: Instant::now(),
        }
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

    async fn turn<T>(&self, turn: impl Future<Output = T>, deadline: Duration) -> Option<T> {
        let mut turn = pin!(turn);
        // Polled again by `block_on`, like everything here.
        poll_fn(|context| match turn.as_mut().poll(context) {
            Poll::Ready(given) => Poll::Ready(Some(given)),
            Poll::Pending if self.now() >= deadline => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        })
        .await
    }
}

impl Stage for RealFiles {
    type Host = RealHost;

    fn enter<T>(
        &self,
        process: &str,
        open: impl AsyncFnOnce(Connection, RealHost) -> rusqlite::Result<T>,
    ) -> Result<T, RunError> {
        let opens = open(connect(&self.database())?, self.host(process));
        Ok(block_on(opens)?)
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
            let connected = connect(&self.database());
            // Every thread comes to the barrier, also one that could not connect.
            let prepared = connected.map(|connection| work(connection, self.host(name)));
            barrier.wait();
            Ok(block_on(prepared?))
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
