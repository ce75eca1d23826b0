//! Refunds: an agent's tool asks a service for a refund, and the connection breaks after the very
//! first request was processed.

use std::cell::{Cell, RefCell};
use std::num::NonZeroU32;
use std::rc::Rc;
use std::time::Duration;

use super::{Fixture, RunError};
use crate::client::{Backoff, Class, Effect, Failure, GaveUp, Jitter, Policy, retry};
use crate::json::{self, Canonical, Finite, Value};
use crate::key::{KeyError, OperationKey, published_action_key};
use crate::outcome::{Checks, Outcome, Premise, Table};
use crate::sim::trace::{Event, Fate, What};
use crate::sim::{Network, NetworkError, Process, Rng, Strike, Verdict, World};
use crate::tool::refunds::{Recording, RefundRequest, RefundService};
use crate::tool::{BEFORE_RECORD, ToolError};

/// The run and the tool that the action key names.
pub(super) const RUN: &str = "run-42";
pub(super) const TOOL: &str = "issue_refund";

/// Without a key the retry refunds a second time.
pub(super) fn refund_without_key(world: &World, _: &Fixture) -> Result<Outcome, RunError> {
    let mut shop = Shop::open(world, Recording::WithEffect)?;
    shop.network.place(1, Verdict::BreakAfterwards);
    let answer = shop.retried(&|_| None)?;
    let broke = shop.answer_lost();
    shop.check_answer(&broke, "the retry gets a second refund", "R2", &answer);
    let claim = "two refunds of one order, no replay record";
    shop.check_rows(&broke, claim, 2, 0)?;
    shop.checks.check(
        broke,
        "the line that its program prints",
        Value::from(vec!["attempt 1: response lost after processing; retrying"]),
        shop.printed(),
    );
    shop.outcome([("printed", shop.printed())])
}

/// One key for the action: one refund, and the retry gets its answer.
pub(super) fn refund_with_action_key(world: &World, _: &Fixture) -> Result<Outcome, RunError> {
    let mut shop = Shop::open(world, Recording::WithEffect)?;
    shop.network.place(1, Verdict::BreakAfterwards);
    let key = the_key()?;
    let answer = shop.retried(&|_| Some(key.clone()))?;
    let broke = shop.answer_lost();
    shop.check_answer(&broke, "the retry gets the first refund", "R1", &answer);
    shop.check_rows(&broke, "one refund, one replay record", 1, 1)?;
    let repeated = shop.called_with(&key, 2);
    shop.checks.check(
        repeated,
        "the key is the published one",
        "91329aaacb7155b3",
        key.as_str(),
    );
    shop.outcome([
        ("key", key.as_str().into()),
        ("refund_id", refund_id(&answer)),
    ])
}

/// A key that names the attempt names nothing that a retry could find.
pub(super) fn refund_key_per_attempt(world: &World, _: &Fixture) -> Result<Outcome, RunError> {
    let mut shop = Shop::open(world, Recording::WithEffect)?;
    shop.network.place(1, Verdict::BreakAfterwards);
    let answer = shop.retried(&|attempt| {
        let attempt = format!("{RUN} attempt {attempt}");
        let key = published_action_key(&attempt, TOOL, &order().to_json());
        Some(key.expect("run and tool have names"))
    })?;
    let broke = shop.answer_lost();
    shop.check_answer(&broke, "the retry gets a second refund", "R2", &answer);
    shop.check_rows(&broke, "two refunds, two replay records", 2, 2)?;
    shop.outcome([])
}

/// The key is recorded in a transaction of its own, and the service crashes before it.
pub(super) fn refund_key_recorded_after_crash(
    world: &World,
    _: &Fixture,
) -> Result<Outcome, RunError> {
    crash_before_the_record(world, Recording::Afterwards, 2)
}

/// The same crash, with refund and record in one transaction.
pub(super) fn refund_key_recorded_with_effect(
    world: &World,
    _: &Fixture,
) -> Result<Outcome, RunError> {
    crash_before_the_record(world, Recording::WithEffect, 1)
}

fn crash_before_the_record(
    world: &World,
    recording: Recording,
    refunds: i64,
) -> Result<Outcome, RunError> {
    let mut shop = Shop::open(world, recording)?;
    world.strike(SERVICE, BEFORE_RECORD, 1, Strike::Kill);
    let key = the_key()?;
    let answer = shop.retried(&|_| Some(key.clone()))?;
    let crashed = shop.happened("the service was killed at its work", 1, |event| {
        *event.who == *SERVICE && event.what == What::Killed
    });
    shop.check_answer(
        &crashed,
        "the retry finds no record and gets a new refund",
        &format!("R{refunds}"),
        &answer,
    );
    let claim = if refunds == 1 {
        "the crash undid the first refund: one refund, one replay record"
    } else {
        "the first refund was committed before the crash: two refunds, one replay record"
    };
    shop.check_rows(&crashed, claim, refunds, 1)?;
    shop.outcome([])
}

const SERVICE: &str = "refund service";

pub(super) fn order() -> RefundRequest {
    RefundRequest {
        order_id: "A-7".to_owned(),
        amount: Finite::try_from(49.0).expect("49 is finite"),
    }
}

pub(super) fn the_key() -> Result<OperationKey, KeyError> {
    published_action_key(RUN, TOOL, &order().to_json())
}

/// The answer to a refund of the order.
pub(super) fn answer_of(refund: &str) -> Value {
    json::object([
        ("amount", Value::from(order().amount)),
        ("refund_id", Value::from(refund)),
    ])
}

pub(super) fn refund_id(answer: &Result<Value, String>) -> Value {
    let answer = answer.as_ref().ok();
    answer
        .and_then(|answer| answer.get("refund_id"))
        .cloned()
        .unwrap_or(Value::Null)
}

/// Why one attempt failed, as its caller sees it.
#[derive(Debug)]
pub(super) enum RefundFailure {
    Network(NetworkError),
    Service(ToolError),
}

impl std::fmt::Display for RefundFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Network(error) => error.fmt(f),
            Self::Service(error) => error.fmt(f),
        }
    }
}

impl Failure for RefundFailure {
    fn class(&self) -> Class {
        match self {
            Self::Service(ToolError::Interrupted(_)) => Class::Retryable,
            Self::Service(error) if error.may_have_taken_effect() => Class::Retryable,
            Self::Service(_) => Class::Final,
            Self::Network(error) => error.class(),
        }
    }

    fn effect(&self) -> Effect {
        match self {
            Self::Service(error) if error.may_have_taken_effect() => Effect::MayBeDone,
            Self::Service(_) => Effect::NotDone,
            Self::Network(error) => error.effect(),
        }
    }
}

/// A refund service, the way to it, and an agent that calls it.
pub(super) struct Shop<'a> {
    pub(super) world: &'a World,
    pub(super) network: Network,
    pub(super) checks: Checks,
    agent: RefCell<Process>,
    service: RefCell<Rc<RefundService<Process>>>,
    recording: Recording,
    attempts: Cell<u32>,
    printed: RefCell<Vec<Value>>,
}

impl<'a> Shop<'a> {
    pub(super) fn open(world: &'a World, recording: Recording) -> Result<Self, RunError> {
        let agent = world.start("agent");
        let service = world.run(&agent, start_service(world, recording))?;
        Ok(Self {
            world,
            network: Network::new(Verdict::Deliver),
            checks: Checks::default(),
            service: RefCell::new(Rc::new(service.ok_or(RunError::NoEnd)??)),
            agent: RefCell::new(agent),
            recording,
            attempts: Cell::default(),
            printed: RefCell::default(),
        })
    }

    /// The process that the agent runs in now.
    pub(super) fn agent(&self) -> Process {
        self.agent.borrow().clone()
    }

    /// Starts the agent again, after it died.
    pub(super) fn restart_agent(&self) {
        self.agent.replace(self.world.start("agent"));
    }

    /// One attempt of the agent; a service that died is started again first.
    pub(super) async fn attempt(
        &self,
        request: &RefundRequest,
        key: Option<&OperationKey>,
    ) -> Result<Value, RefundFailure> {
        self.attempts.set(self.attempts.get() + 1);
        if !self.service.borrow().host().is_alive() {
            let restarted = start_service(self.world, self.recording).await;
            let restarted = restarted.map_err(|error| RefundFailure::Service(error.into()))?;
            self.service.replace(Rc::new(restarted));
        }
        let agent = self.agent();
        agent.record(What::Called {
            tool: TOOL,
            key: key.map(|key| key.as_str().to_owned()),
            payload: request.to_json().compact(),
        });
        let service = Rc::clone(&self.service.borrow());
        let process = service.host().clone();
        let (request, key) = (request.clone(), key.cloned());
        let work = async move { service.refund(&request, key.as_ref()).await };
        let answer = self.network.call(&agent, &process, work).await;
        let answer = match answer {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(RefundFailure::Service(error)),
            Err(error) => Err(RefundFailure::Network(error)),
        };
        agent.record(match &answer {
            Ok(answer) => What::Answered {
                answer: answer.compact(),
            },
            Err(error) => What::Failed {
                error: error.to_string(),
            },
        });
        answer
    }

    /// Up to three attempts, one second each, with `key` for the attempt of each number.
    pub(super) fn retried(
        &self,
        key: &dyn Fn(u32) -> Option<OperationKey>,
    ) -> Result<Result<Value, String>, RunError> {
        let agent = self.agent();
        let policy = Policy {
            max_attempts: const { NonZeroU32::new(3).expect("three attempts") },
            total_time: Duration::from_secs(10),
            attempt_timeout: Some(Duration::from_secs(1)),
            max_retry_after: Duration::from_secs(5),
        };
        let (base, cap) = (Duration::from_millis(100), Duration::from_secs(1));
        let mut backoff = Backoff::new(base, cap, Jitter::Full, Rng::new(7));
        let done = self.world.run(
            &agent,
            retry(
                &agent,
                &policy,
                &mut backoff,
                async |attempt| self.attempt(&order(), key(attempt).as_ref()).await,
                |retrying| {
                    let (attempt, cause) = (retrying.attempt, retrying.cause);
                    self.print(&agent, format!("attempt {attempt}: {cause}; retrying"));
                },
            ),
        )?;
        let done = done.ok_or(RunError::NoEnd)?;
        Ok(done.map_err(|gave_up: GaveUp<RefundFailure>| gave_up.to_string()))
    }

    /// A line that the agent's program prints.
    pub(super) fn print(&self, agent: &Process, line: String) {
        agent.record(What::Printed(line.clone()));
        self.printed.borrow_mut().push(Value::from(line));
    }

    pub(super) fn printed(&self) -> Value {
        Value::from(self.printed.borrow().clone())
    }

    /// A premise read from what has happened so far.
    pub(super) fn happened(
        &self,
        what: impl Into<String>,
        times: usize,
        is_it: impl Fn(&Event) -> bool,
    ) -> Premise {
        Premise::happened(&self.world.trace(), what, times, is_it)
    }

    /// That the service had done its work when its answer was lost.
    pub(super) fn answer_lost(&self) -> Premise {
        self.happened("the service's answer was lost", 1, |event| {
            let lost = matches!(
                event.what,
                What::Message {
                    fate: Fate::Lost,
                    ..
                }
            );
            *event.who == *SERVICE && lost
        })
    }

    /// That the agent called `times` times.
    pub(super) fn called(&self, times: usize) -> Premise {
        self.happened("the agent called for a refund", times, |event| {
            matches!(event.what, What::Called { .. })
        })
    }

    /// That the agent sent `key` `times` times.
    pub(super) fn called_with(&self, key: &OperationKey, times: usize) -> Premise {
        self.happened(format!("key {key} was sent"), times, |event| {
            matches!(&event.what, What::Called { key: Some(sent), .. } if sent == key.as_str())
        })
    }

    pub(super) fn check_answer(
        &mut self,
        premise: &Premise,
        claim: &str,
        refund: &str,
        answer: &Result<Value, String>,
    ) {
        let seen = match answer {
            Ok(answer) => answer.clone(),
            Err(error) => Value::from(error.as_str()),
        };
        self.checks
            .check(premise.clone(), claim, answer_of(refund), seen);
    }

    fn count(&self, table: &str) -> rusqlite::Result<i64> {
        let observer = self.world.start("observer").connect(DATABASE)?;
        observer.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| {
            row.get(0)
        })
    }

    /// Counts the rows of both tables against what is claimed.
    pub(super) fn check_rows(
        &mut self,
        premise: &Premise,
        claim: &str,
        refunds: i64,
        requests: i64,
    ) -> Result<(), RunError> {
        let rows = |refunds: i64, requests: i64| {
            json::object([
                ("refunds", refunds.into()),
                ("refund_requests", requests.into()),
            ])
        };
        let seen = rows(self.count("refunds")?, self.count("refund_requests")?);
        self.checks
            .check(premise.clone(), claim, rows(refunds, requests), seen);
        Ok(())
    }

    /// `attempts` and `refunds` beside `values`.
    pub(super) fn outcome<const N: usize>(
        &mut self,
        values: [(&'static str, Value); N],
    ) -> Result<Outcome, RunError> {
        // The trace ends with the scenario; reading its last state is no part of it.
        let trace = self.world.trace();
        let refunds = self.count("refunds")?;
        let of_the_order = self.count("refunds WHERE order_id = 'A-7' AND amount = 49.0")?;
        let asked = self.happened("a request reached the service", 1, |event| {
            matches!(&event.what, What::Message { to, fate: Fate::Arrives } if **to == *SERVICE)
        });
        let claim = "refunds of the order, in full";
        self.checks.check(asked, claim, refunds, of_the_order);
        let observer = self.world.start("observer").connect(DATABASE)?;
        let values = values.into_iter().chain([
            ("attempts", self.attempts.get().into()),
            ("refunds", refunds.into()),
        ]);
        Ok(Outcome {
            values: json::object(values),
            checks: std::mem::take(&mut self.checks).into_vec(),
            tables: vec![
                Table::read(&observer, "refunds")?,
                Table::read(&observer, "refund_requests")?,
            ],
            plots: Vec::new(),
            trace,
        })
    }
}

const DATABASE: &str = "refunds.db";

async fn start_service(
    world: &World,
    recording: Recording,
) -> rusqlite::Result<RefundService<Process>> {
    let process = world.start(SERVICE);
    RefundService::open(process.connect(DATABASE)?, process, recording).await
}
