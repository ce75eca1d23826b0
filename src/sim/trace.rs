//! What happened: the evidence of a run, identical on every target.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use super::disk::{Access, Failing};
use super::{Clock, Point, Rng};
use crate::json::{self, Canonical, Value};
use crate::text::visible;

pub use super::disk::{LockLevel, Loss};

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// When, on the virtual clock.
    pub at: Duration,
    /// The process that did it or that it happened to; `world` for what befalls all.
    pub who: Rc<str>,
    /// What happened.
    pub what: What,
}

/// What can happen.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum What {
    /// A caller sends a call.
    Called {
        /// The tool's name.
        tool: &'static str,
        /// The idempotency key, if one goes with it.
        key: Option<String>,
        /// The payload in canonical form.
        payload: String,
    },
    /// The caller has its answer.
    Answered {
        /// The answer in canonical form.
        answer: String,
    },
    /// The caller sees an error.
    Failed {
        /// The error as the caller reads it.
        error: String,
    },
    /// A named point was reached; others may move now.
    Reached(Point),
    /// A statement began to run.
    Sql(String),
    /// A lock was asked for, or let go.
    Lock {
        /// The file's name.
        file: Rc<str>,
        /// The level held before.
        from: LockLevel,
        /// The level asked for.
        to: LockLevel,
        /// The level held after.
        held: LockLevel,
    },
    /// The process sets a timer: to sleep, or as the limit of a wait.
    Timer {
        /// When it goes off, on the virtual clock.
        until: Duration,
    },
    /// A line that the process prints.
    Printed(String),
    /// A message between two processes.
    Message {
        /// Who gets it.
        to: Rc<str>,
        /// What becomes of it.
        fate: Fate,
    },
    /// SQLITE_BUSY: the caller begins to wait for a lock.
    Waits,
    /// Another call has the connection: the caller begins to wait for its turn.
    AwaitsTurn,
    /// A wait for a lock or a turn is over.
    Waited {
        /// How long it took.
        waited: Duration,
    },
    /// A numbered operation reached the disk.
    Disk {
        /// Its number on this disk, from 1.
        number: u64,
        /// The file's name.
        file: Rc<str>,
        /// What was done.
        operation: Operation,
    },
    /// The disk failed at an access.
    DiskFails {
        /// The file's name.
        file: Rc<str>,
        /// What was asked.
        access: Access,
        /// How it failed.
        failing: Failing,
    },
    /// A placed fault raised an error.
    Struck(Point),
    /// The process was killed: its handles are dead, its locks gone, what it wrote stays visible.
    Killed,
    /// The power failed: every process died, and what was not durable was put at risk.
    PowerLost(Loss),
}

/// What becomes of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It arrives.
    Arrives,
    /// It never arrives.
    Lost,
    /// The receiver's machine refuses it at once.
    Refused,
}

impl Fate {
    fn name(self) -> &'static str {
        match self {
            Self::Arrives => "arrives",
            Self::Lost => "is lost",
            Self::Refused => "is refused",
        }
    }
}

/// An operation that changes the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// A file was created.
    Create,
    /// Bytes were written.
    Write {
        /// Where, in bytes from the file's start.
        offset: u64,
        /// How many bytes.
        length: u64,
    },
    /// The file was cut or extended.
    Truncate {
        /// The new length in bytes.
        length: u64,
    },
    /// What was written became durable.
    Sync,
    /// The file's name was removed.
    Delete {
        /// Whether the directory was synced too, which makes the removal durable.
        directory_synced: bool,
    },
}

impl Event {
    /// The event as an object; its compact form is one line of what the trace's digest covers.
    pub fn to_json(&self) -> Value {
        let mut members = vec![
            ("at_ms", Value::from(millis(self.at))),
            ("who", Value::from(&*self.who)),
        ];
        let mut add = |event: &str, rest: Vec<(&'static str, Value)>| {
            members.push(("event", Value::from(event)));
            members.extend(rest);
        };
        match &self.what {
            What::Called { tool, key, payload } => add(
                "called",
                vec![
                    ("tool", Value::from(*tool)),
                    ("key", key.as_deref().map_or(Value::Null, Value::from)),
                    ("payload", Value::from(payload.as_str())),
                ],
            ),
            What::Answered { answer } => {
                add("answered", vec![("answer", Value::from(answer.as_str()))]);
            }
            What::Failed { error } => add("failed", vec![("error", Value::from(error.as_str()))]),
            What::Reached(point) => add("reached", vec![("point", Value::from(point.0))]),
            What::Sql(sql) => add("sql", vec![("sql", Value::from(sql.as_str()))]),
            What::Lock {
                file,
                from,
                to,
                held,
            } => add(
                "lock",
                vec![
                    ("file", Value::from(&**file)),
                    ("from", Value::from(lock_name(*from))),
                    ("to", Value::from(lock_name(*to))),
                    ("held", Value::from(lock_name(*held))),
                ],
            ),
            What::Timer { until } => {
                add("timer", vec![("until_ms", Value::from(millis(*until)))]);
            }
            What::Printed(line) => add("printed", vec![("line", Value::from(line.as_str()))]),
            What::Message { to, fate } => add(
                "message",
                vec![
                    ("to", Value::from(&**to)),
                    ("fate", Value::from(fate.name())),
                ],
            ),
            What::Waits => add("waits", vec![]),
            What::AwaitsTurn => add("awaits_turn", vec![]),
            What::Waited { waited } => {
                add("waited", vec![("waited_ms", Value::from(millis(*waited)))]);
            }
            What::Disk {
                number,
                file,
                operation,
            } => {
                let mut rest = vec![
                    ("number", Value::from(*number)),
                    ("file", Value::from(&**file)),
                ];
                rest.extend(match *operation {
                    Operation::Create => vec![("operation", Value::from("create"))],
                    Operation::Write { offset, length } => vec![
                        ("operation", Value::from("write")),
                        ("offset", Value::from(offset)),
                        ("length", Value::from(length)),
                    ],
                    Operation::Truncate { length } => vec![
                        ("operation", Value::from("truncate")),
                        ("length", Value::from(length)),
                    ],
                    Operation::Sync => vec![("operation", Value::from("sync"))],
                    Operation::Delete { directory_synced } => vec![
                        ("operation", Value::from("delete")),
                        ("directory_synced", Value::from(directory_synced)),
                    ],
                });
                add("disk", rest);
            }
            What::DiskFails {
                file,
                access,
                failing,
            } => add(
                "disk_fails",
                vec![
                    ("file", Value::from(&**file)),
                    ("access", Value::from(access.name())),
                    ("error", Value::from(failing.error.name())),
                    ("done", Value::from(failing.done.name())),
                ],
            ),
            What::Struck(point) => add("struck", vec![("point", Value::from(point.0))]),
            What::Killed => add("killed", vec![]),
            What::PowerLost(loss) => add(
                "power_lost",
                vec![("loss", Value::from(loss.to_string().as_str()))],
            ),
        }
        json::object(members)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>5} ms  {:<14}  {}",
            millis(self.at),
            self.who,
            self.what
        )
    }
}

/// On one line, without anything that would act on a terminal; [`Event::to_json`] keeps the texts
/// as they are.
impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Called { tool, key, payload } => match key {
                Some(key) => write!(
                    f,
                    "calls {tool} with key {}: {}",
                    visible(key),
                    visible(payload)
                ),
                None => write!(f, "calls {tool} without a key: {}", visible(payload)),
            },
            What::Answered { answer } => write!(f, "has the answer {}", visible(answer)),
            What::Failed { error } => write!(f, "sees an error: {}", visible(error)),
            What::Reached(point) => write!(f, "reaches {point}"),
            What::Sql(sql) => visible(sql).fmt(f),
            What::Lock {
                file,
                from,
                to,
                held,
            } => {
                let (from, to, held) = (lock_name(*from), lock_name(*to), lock_name(*held));
                if held == to {
                    write!(f, "lock on {file}: {from} to {to}")
                } else {
                    write!(f, "lock on {file}: {from} to {to} refused, holds {held}")
                }
            }
            What::Timer { until } => write!(f, "sets a timer for {} ms", millis(*until)),
            What::Printed(line) => write!(f, "prints {}", visible(line)),
            What::Message { to, fate } => write!(f, "its message to {to} {}", fate.name()),
            What::Waits => f.write_str("SQLITE_BUSY: waits for the lock"),
            What::AwaitsTurn => f.write_str("waits for its turn on the connection"),
            What::Waited { waited } => write!(f, "waited {} ms", millis(*waited)),
            What::Disk {
                number,
                file,
                operation,
            } => {
                write!(f, "disk {number}: ")?;
                match operation {
                    Operation::Create => write!(f, "create {file}"),
                    Operation::Write { offset, length } => {
                        write!(f, "write {file}, {length} bytes at {offset}")
                    }
                    Operation::Truncate { length } => write!(f, "truncate {file} to {length}"),
                    Operation::Sync => write!(f, "sync {file}"),
                    Operation::Delete {
                        directory_synced: true,
                    } => write!(f, "delete {file}, directory synced"),
                    Operation::Delete {
                        directory_synced: false,
                    } => write!(f, "delete {file}"),
                }
            }
            What::DiskFails {
                file,
                access,
                failing,
            } => write!(f, "the disk fails at {} {file}: {failing}", access.name()),
            What::Struck(point) => write!(f, "a fault strikes at {point}"),
            What::Killed => f.write_str("the process is killed"),
            What::PowerLost(loss) => write!(f, "the power fails: {loss}"),
        }
    }
}

/// Lock levels under the names that SQLite's documentation gives them.
pub fn lock_name(level: LockLevel) -> &'static str {
    match level {
        LockLevel::None => "UNLOCKED",
        LockLevel::Shared => "SHARED",
        LockLevel::Reserved => "RESERVED",
        LockLevel::Pending => "PENDING",
        LockLevel::Exclusive => "EXCLUSIVE",
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The events of one run, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    /// The events, in the order in which they happened.
    pub events: Vec<Event>,
}

impl Trace {
    /// The compact form of every event, each followed by a line feed: what the digest covers.
    pub fn canonical(&self) -> String {
        self.events
            .iter()
            .map(|event| event.to_json().compact() + "\n")
            .collect()
    }

    /// How many events, of anyone, are `what`.
    pub fn count(&self, what: impl Fn(&What) -> bool) -> usize {
        self.events.iter().filter(|event| what(&event.what)).count()
    }
}

/// One event a line.
impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.events
            .iter()
            .try_for_each(|event| writeln!(f, "{event}"))
    }
}

/// The seed of every world's random bytes.
const SEED: u64 = 0;

/// Writes the trace: stamps each event with the virtual clock.
#[derive(Debug)]
pub(super) struct Recorder {
    pub(super) clock: Clock,
    /// What SQL can ask of chance.
    random: RefCell<Rng>,
    /// Whether anybody will read the trace.
    pub(super) watched: bool,
    events: RefCell<Vec<Event>>,
}

impl Recorder {
    pub(super) fn new(watched: bool) -> Self {
        Self {
            clock: Clock::default(),
            random: RefCell::new(Rng::new(SEED)),
            watched,
            events: RefCell::default(),
        }
    }

    /// Fills `bytes` with the next of the world's random bytes.
    pub(super) fn fill_random(&self, bytes: &mut [u8]) {
        let mut random = self.random.borrow_mut();
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&random.next_u64().to_le_bytes()[..chunk.len()]);
        }
    }

    /// Forgets what happened and begins again at time zero.
    pub(super) fn restart(&self) {
        self.clock.restart();
        self.random.replace(Rng::new(SEED));
        self.events.borrow_mut().clear();
    }

    pub(super) fn record(&self, who: &Rc<str>, what: What) {
        if !self.watched {
            return;
        }
        self.events.borrow_mut().push(Event {
            at: self.clock.now(),
            who: Rc::clone(who),
            what,
        });
    }

    /// How many events there are so far.
    pub(super) fn count(&self) -> usize {
        self.events.borrow().len()
    }

    pub(super) fn trace(&self) -> Trace {
        Trace {
            events: self.events.borrow().clone(),
        }
    }
}
