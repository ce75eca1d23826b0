//! The tool on real files, real threads and a real clock: what the simulated world is held against.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, poll_fn};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::rc::Rc;
use std::sync::{Arc, Barrier, Condvar, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tool_retries::scenario::{RunError, Stage};
use tool_retries::sim::trace::{Event, Trace, What};
use tool_retries::sim::{Host, Point, Struck};
use tool_retries::tool::{AFTER_BEGIN, BEFORE_BEGIN};

/// A folder with the database of one scenario.
pub struct RealFiles {
    folder: tempfile::TempDir,
    rules: Arc<Mutex<Vec<Rule>>>,
    notes: Arc<Notes>,
}

/// What every process did, in the order in which it was noted.
struct Notes {
    began: Instant,
    noted: Mutex<Vec<(Duration, String, Note)>>,
    /// Told of every note.
    changed: Condvar,
}

/// What a process on real files can tell of itself. [`What`] keeps to one thread; this does not.
#[derive(Debug, Clone)]
enum Note {
    Called {
        tool: &'static str,
        key: Option<String>,
        payload: String,
    },
    Answered(String),
    Failed(String),
    Printed(String),
    Struck(Point),
    Waits,
}

impl Notes {
    fn add(&self, who: &str, note: Note) {
        let mut noted = self.noted.lock().unwrap();
        noted.push((self.began.elapsed(), who.to_owned(), note));
        self.changed.notify_all();
    }

    /// Stands still until `holds` of what is noted; not for ever, so that a mistake is a failed test.
    fn wait_until(&self, holds: impl Fn(&[(Duration, String, Note)]) -> bool) {
        let noted = self.noted.lock().unwrap();
        let limit = Duration::from_secs(5);
        drop(
            self.changed
                .wait_timeout_while(noted, limit, |noted| !holds(noted))
                .unwrap(),
        );
    }
}

/// How many processes noted something of this kind.
fn processes(noted: &[(Duration, String, Note)], is_it: impl Fn(&Note) -> bool) -> usize {
    let of_kind = noted.iter().filter(|(_, _, note)| is_it(note));
    of_kind
        .map(|(_, who, _)| who)
        .collect::<BTreeSet<_>>()
        .len()
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
    notes: Arc<Notes>,
    /// How many are released together with this one, itself included.
    together: usize,
}

impl RealFiles {
    pub fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a temporary folder"),
            rules: Arc::default(),
            notes: Arc::new(Notes {
                began: Instant::now(),
                noted: Mutex::default(),
                changed: Condvar::new(),
            }),
        }
    }

    pub fn database(&self) -> PathBuf {
        self.folder.path().join("tickets.db")
    }

    fn host(&self, process: &str, together: usize) -> RealHost {
        RealHost {
            process: process.to_owned(),
            rules: Arc::clone(&self.rules),
            visits: RefCell::default(),
            notes: Arc::clone(&self.notes),
            together,
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
            self.notes.add(&self.process, Note::Struck(point));
            return Err(Struck { point });
        }
        if self.together > 1 && point == BEFORE_BEGIN {
            // All have called before the first one begins.
            self.notes.wait_until(|noted| {
                processes(noted, |note| matches!(note, Note::Called { .. })) >= self.together
            });
        }
        if self.together > 1 && point == AFTER_BEGIN {
            // Whoever has the lock keeps it until SQLite has told all the others that it is busy.
            self.notes.wait_until(|noted| {
                processes(noted, |note| matches!(note, Note::Waits)) >= self.together - 1
            });
        }
        Ok(())
    }

    fn now(&self) -> Duration {
        self.notes.began.elapsed()
    }

    async fn lock_freed(&self, deadline: Duration) {
        self.notes.add(&self.process, Note::Waits);
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
        let opens = open(connect(&self.database())?, self.host(process, 1));
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
            let prepared =
                connected.map(|connection| work(connection, self.host(name, names.len())));
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

    fn record(host: &RealHost, what: What) {
        let note = match what {
            What::Called { tool, key, payload } => Note::Called { tool, key, payload },
            What::Answered { answer } => Note::Answered(answer),
            What::Failed { error } => Note::Failed(error),
            What::Printed(line) => Note::Printed(line),
            other => panic!("no scenario of the lab records {other:?}"),
        };
        host.notes.add(&host.process, note);
    }

    fn trace(&self) -> Trace {
        let noted = self.notes.noted.lock().unwrap();
        let events = noted.iter().cloned().map(|(at, who, note)| Event {
            at,
            who: Rc::from(who),
            what: match note {
                Note::Called { tool, key, payload } => What::Called { tool, key, payload },
                Note::Answered(answer) => What::Answered { answer },
                Note::Failed(error) => What::Failed { error },
                Note::Printed(line) => What::Printed(line),
                Note::Struck(point) => What::Struck(point),
                Note::Waits => What::Waits,
            },
        });
        Trace {
            events: events.collect(),
        }
    }
}
