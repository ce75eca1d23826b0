//! The lab: an agent has a tool open a support ticket; the tool commits, and its answer never
//! arrives.
//!
//! Every scenario checks both what stands in the two tables and which answers came back.
//! Premises are read from what every [`Stage`] can see: calls, answers, faults and waits.

use crate::json::{self, Canonical, Value};
use crate::key::OperationKey;
use crate::sim::Point;
use crate::sim::trace::{Event, What};
use crate::tool::tickets::{Ticket, TicketDesk};
use crate::tool::{AFTER_COMMIT, BEFORE_COMMIT, ToolError};

use super::{Fixture, RunError, Stage};
use crate::outcome::{Checks, Outcome, Premise, Table};

pub(super) type Answer = Result<Ticket, ToolError>;

/// Without a key the second call opens a second ticket.
pub fn naive_retry<S: Stage>(stage: &S, fixture: &Fixture) -> Result<Outcome, RunError> {
    let mut lab = Lab::open(stage)?;
    let agent = lab.agent("agent")?;
    stage.fail_at("agent", AFTER_COMMIT, 1);
    let first = lab.call(&agent, &fixture.payload(), None)?;
    let retry = lab.call(&agent, &fixture.payload(), None)?;
    let lost = lab.struck(AFTER_COMMIT);
    lab.answer(
        &lost,
        "the first call times out",
        Expected::TimedOut,
        &first,
    );
    lab.answer(
        &lost,
        "the retry opens a second ticket",
        Expected::Ticket(2),
        &retry,
    );
    let claim = "two tickets for one intention, no replay record";
    let left = lab.rows(&lost, claim, 2, 0)?;
    lab.outcome([
        ("attempts", lab.calls.into()),
        ("tickets", left.tickets.into()),
    ])
}

/// One key for three calls: one ticket, and the later answers repeat the first.
pub fn stable_key_retry<S: Stage>(stage: &S, fixture: &Fixture) -> Result<Outcome, RunError> {
    let mut lab = Lab::open(stage)?;
    let (_, replayed) = lab.retried_with_stable_key(fixture)?;
    let key = fixture.operation_key();
    let thrice = lab.called(key, 3);
    let left = lab.rows(&thrice, "one ticket, one replay record", 1, 1)?;
    lab.outcome([
        ("attempts", lab.calls.into()),
        ("replay_ticket_id", replayed.id.into()),
        ("tickets", left.tickets.into()),
    ])
}

/// The same key with another payload is refused, on the database that the stable key left.
pub fn changed_payload<S: Stage>(stage: &S, fixture: &Fixture) -> Result<Outcome, RunError> {
    let mut lab = Lab::open(stage)?;
    let (agent, _) = lab.retried_with_stable_key(fixture)?;
    let key = fixture.operation_key();
    let changed = lab.call(&agent, &fixture.changed_payload(), Some(key))?;
    let rejected = matches!(changed, Err(ToolError::PayloadConflict { .. }));
    let before = lab.called_with_another(key, &fixture.changed_payload());
    lab.answer(
        &before,
        "the changed payload is refused",
        Expected::Conflict(key),
        &changed,
    );
    let changed = "the changed payload was sent";
    let changes = lab.called_with(changed, &fixture.changed_payload(), 1);
    let left = lab.rows(&changes, "still one ticket, one replay record", 1, 1)?;
    lab.outcome([
        ("rejected", rejected.into()),
        ("tickets", left.tickets.into()),
    ])
}

/// A fault between the two inserts leaves nothing, and the retry opens the one ticket.
pub fn failure_before_commit<S: Stage>(stage: &S, fixture: &Fixture) -> Result<Outcome, RunError> {
    let mut lab = Lab::open(stage)?;
    let agent = lab.agent("agent")?;
    let key = Some(fixture.operation_key());
    stage.fail_at("agent", BEFORE_COMMIT, 1);
    let first = lab.call(&agent, &fixture.payload(), key)?;
    let failed = lab.struck(BEFORE_COMMIT);
    lab.answer(
        &failed,
        "the first call fails between the inserts",
        Expected::Interrupted(BEFORE_COMMIT),
        &first,
    );
    let before = lab.rows(&failed, "nothing is left of it, in either table", 0, 0)?;
    let retry = lab.call(&agent, &fixture.payload(), key)?;
    lab.answer(
        &failed,
        "the retry opens the ticket",
        Expected::Ticket(1),
        &retry,
    );
    let after = lab.rows(&failed, "one ticket, one replay record", 1, 1)?;
    lab.outcome([
        ("tickets_before_retry", before.tickets.into()),
        ("tickets_after_retry", after.tickets.into()),
    ])
}

/// How many callers hold the one key.
const CALLERS: usize = 8;

/// Eight callers at once with one key get one ticket, all of them.
pub fn concurrent_same_key<S: Stage>(stage: &S, fixture: &Fixture) -> Result<Outcome, RunError> {
    let mut lab = Lab::open(stage)?;
    let names: Vec<String> = (1..=CALLERS).map(|n| format!("caller {n}")).collect();
    let payload = fixture.payload();
    let key = fixture.operation_key();
    let answers = lab.together(&names, &payload, key)?;
    // One has the lock; whoever did not wait for it never met another.
    let waited = lab.waited(CALLERS - 1);
    let mut ids: Vec<i64> = Vec::new();
    for (name, answer) in names.iter().zip(&answers) {
        lab.answer(
            &waited,
            format!("{name} has the one ticket"),
            Expected::Ticket(1),
            answer,
        );
        if let Ok(ticket) = answer
            && !ids.contains(&ticket.id)
        {
            ids.push(ticket.id);
        }
    }
    let left = lab.rows(&waited, "one ticket, one replay record", 1, 1)?;
    lab.outcome([
        ("attempts", lab.calls.into()),
        (
            "returned_ticket_ids",
            Value::from(ids.into_iter().map(Value::from).collect::<Vec<_>>()),
        ),
        ("tickets", left.tickets.into()),
    ])
}

/// Two keys are two intentions, even with one payload.
pub fn new_key_same_payload<S: Stage>(stage: &S, fixture: &Fixture) -> Result<Outcome, RunError> {
    let mut lab = Lab::open(stage)?;
    let agent = lab.agent("agent")?;
    let first = lab.call(&agent, &fixture.payload(), Some(fixture.operation_key()))?;
    let second = lab.call(&agent, &fixture.payload(), Some(&fixture.new_intent_key()))?;
    let twice = lab.called_with("the payload was sent", &fixture.payload(), 2);
    lab.answer(
        &twice,
        "the first key opens a ticket",
        Expected::Ticket(1),
        &first,
    );
    lab.answer(
        &twice,
        "the second key opens another",
        Expected::Ticket(2),
        &second,
    );
    let left = lab.rows(&twice, "two tickets, two replay records", 2, 2)?;
    lab.outcome([("tickets", left.tickets.into())])
}

/// Deduplication lasts as long as its record.
pub fn deleted_replay_record<S: Stage>(stage: &S, fixture: &Fixture) -> Result<Outcome, RunError> {
    let mut lab = Lab::open(stage)?;
    let agent = lab.agent("agent")?;
    let key = fixture.operation_key();
    let first = lab.call(&agent, &fixture.payload(), Some(key))?;
    let called = lab.called(key, 1);
    lab.answer(
        &called,
        "the key opens a ticket",
        Expected::Ticket(1),
        &first,
    );
    lab.rows(&called, "one ticket, one replay record", 1, 1)?;
    let forgotten = lab.forget(key)?;
    let again = lab.call(&agent, &fixture.payload(), Some(key))?;
    lab.answer(
        &forgotten,
        "the same key opens a second ticket",
        Expected::Ticket(2),
        &again,
    );
    let left = lab.rows(&forgotten, "two tickets, one replay record", 2, 1)?;
    lab.outcome([("tickets", left.tickets.into())])
}

/// What a caller must have seen.
pub(super) enum Expected<'a> {
    Ticket(i64),
    TimedOut,
    Interrupted(Point),
    Conflict(&'a OperationKey),
    /// An error that reads like this.
    Told(&'static str),
}

impl Expected<'_> {
    fn to_json(&self) -> Value {
        let answer = match self {
            Self::Told(error) => return error_to_json(error),
            Self::Ticket(id) => Ok(Ticket { id: *id }),
            Self::TimedOut => Err(ToolError::TimedOut),
            Self::Interrupted(point) => Err(ToolError::Interrupted(*point)),
            Self::Conflict(key) => Err(ToolError::PayloadConflict {
                key: (*key).clone(),
            }),
        };
        answer_to_json(&answer)
    }
}

/// What a caller saw: the answer itself, or `{"error": MESSAGE}`.
fn answer_to_json(answer: &Answer) -> Value {
    match answer {
        Ok(ticket) => ticket.to_json(),
        Err(error) => error_to_json(&error.to_string()),
    }
}

fn error_to_json(error: &str) -> Value {
    json::object([("error", Value::from(error))])
}

/// How many rows stand in each table.
pub(super) struct Counts {
    pub(super) tickets: i64,
}

/// A scenario in progress: its observer, and what was checked so far.
pub(super) struct Lab<'a, S: Stage> {
    pub(super) stage: &'a S,
    observer: TicketDesk<S::Host>,
    calls: usize,
    pub(super) checks: Checks,
}

impl<'a, S: Stage> Lab<'a, S> {
    /// An empty database, and a process that looks into it.
    pub(super) fn open(stage: &'a S) -> Result<Self, RunError> {
        let observer = stage.enter("observer", async |connection, host| {
            let desk = TicketDesk::open(connection, host).await?;
            desk.create_tables().await?;
            Ok(desk)
        })?;
        Ok(Self {
            stage,
            observer,
            calls: 0,
            checks: Checks::default(),
        })
    }

    pub(super) fn agent(&self, name: &str) -> Result<TicketDesk<S::Host>, RunError> {
        self.stage.enter(name, TicketDesk::open)
    }

    pub(super) fn call(
        &mut self,
        agent: &TicketDesk<S::Host>,
        payload: &Value,
        key: Option<&OperationKey>,
    ) -> Result<Answer, RunError> {
        self.calls += 1;
        self.stage.run(agent.host(), call::<S>(agent, payload, key))
    }

    /// One call of each name, all with one key and let go at once; answers in the order of names.
    pub(super) fn together(
        &mut self,
        names: &[String],
        payload: &Value,
        key: &OperationKey,
    ) -> Result<Vec<Answer>, RunError> {
        self.calls += names.len();
        self.stage.run_together(names, async |connection, host| {
            let desk = TicketDesk::open(connection, host).await?;
            call::<S>(&desk, payload, Some(key)).await
        })
    }

    /// Three calls with one key, the first answer lost. Returns the last answer.
    fn retried_with_stable_key(
        &mut self,
        fixture: &Fixture,
    ) -> Result<(TicketDesk<S::Host>, Ticket), RunError> {
        let agent = self.agent("agent")?;
        let key = Some(fixture.operation_key());
        self.stage.fail_at("agent", AFTER_COMMIT, 1);
        let first = self.call(&agent, &fixture.payload(), key)?;
        let second = self.call(&agent, &fixture.payload(), key)?;
        let third = self.call(&agent, &fixture.payload(), key)?;
        let lost = self.struck(AFTER_COMMIT);
        self.answer(
            &lost,
            "the first call times out",
            Expected::TimedOut,
            &first,
        );
        self.answer(
            &lost,
            "the second call has the ticket",
            Expected::Ticket(1),
            &second,
        );
        self.answer(
            &lost,
            "the third call has it too",
            Expected::Ticket(1),
            &third,
        );
        Ok((agent, third?))
    }

    /// That a fault struck at `point`.
    pub(super) fn struck(&self, point: Point) -> Premise {
        let what = if point == AFTER_COMMIT {
            "a ticket was committed and its answer lost".to_owned()
        } else {
            format!("a fault struck at {point}")
        };
        self.happened(what, 1, |what| *what == What::Struck(point))
    }

    /// That `key` was sent `times` times.
    pub(super) fn called(&self, key: &OperationKey, times: usize) -> Premise {
        self.happened(
            format!("key {key} was sent"),
            times,
            |what| matches!(what, What::Called { key: Some(sent), .. } if sent == key.as_str()),
        )
    }

    /// That `payload` was sent `times` times, which `what` says in words.
    pub(super) fn called_with(&self, what: &str, payload: &Value, times: usize) -> Premise {
        let payload = payload.compact();
        self.happened(
            what,
            times,
            |what| matches!(what, What::Called { payload: sent, .. } if *sent == payload),
        )
    }

    /// That `key` was sent with another payload than this one.
    pub(super) fn called_with_another(&self, key: &OperationKey, payload: &Value) -> Premise {
        let payload = payload.compact();
        self.happened("the key was sent with another payload", 1, |what| {
            matches!(
                what,
                What::Called { key: Some(sent), payload: other, .. }
                    if sent == key.as_str() && *other != payload
            )
        })
    }

    /// That so many callers found the database locked and waited.
    pub(super) fn waited(&self, callers: usize) -> Premise {
        let waits = |event: &Event| event.what == What::Waits;
        let what = "SQLite was busy and the caller waited";
        Premise::happened_to(&self.stage.trace(), what, callers, waits)
    }

    /// That all of `callers` had called before any of them was answered.
    pub(super) fn under_way(&self, callers: &[String]) -> Premise {
        let is_caller = |event: &Event| callers.iter().any(|name| **name == *event.who);
        let is_end = |event: &Event| {
            is_caller(event) && matches!(event.what, What::Answered { .. } | What::Failed { .. })
        };
        let mut before = self.stage.trace();
        let end = before.events.iter().position(is_end);
        before.events.truncate(end.unwrap_or(usize::MAX));
        let what = "a call was under way before the first answer";
        Premise::happened_to(&before, what, callers.len(), |event| {
            is_caller(event) && matches!(event.what, What::Called { .. })
        })
    }

    /// A premise read from what has happened so far.
    pub(super) fn happened(
        &self,
        what: impl Into<String>,
        times: usize,
        is_it: impl Fn(&What) -> bool,
    ) -> Premise {
        let is_it = |event: &Event| is_it(&event.what);
        Premise::happened(&self.stage.trace(), what, times, is_it)
    }

    pub(super) fn answer(
        &mut self,
        premise: &Premise,
        claim: impl Into<String>,
        expected: Expected<'_>,
        seen: &Answer,
    ) {
        let (expected, seen) = (expected.to_json(), answer_to_json(seen));
        self.checks.check(premise.clone(), claim, expected, seen);
    }

    /// Deletes the replay record of `key`, as retention does once its time is over. Returns that
    /// this happened.
    pub(super) fn forget(&mut self, key: &OperationKey) -> Result<Premise, RunError> {
        let deleted = self
            .observer
            .connection()
            .execute("DELETE FROM requests WHERE key = ?1", [key.as_str()])?;
        let line = format!("{deleted} replay record of key {key} deleted");
        S::record(self.observer.host(), What::Printed(line.clone()));
        let answered = self.happened("a call was answered", 1, |what| {
            matches!(what, What::Answered { .. })
        });
        self.checks
            .check(answered, "one replay record is deleted", 1_usize, deleted);
        Ok(self.happened("the replay record was deleted", 1, |what| {
            deleted > 0 && matches!(what, What::Printed(printed) if *printed == line)
        }))
    }

    /// Counts the rows of both tables against what is claimed.
    pub(super) fn rows(
        &mut self,
        premise: &Premise,
        claim: &str,
        tickets: i64,
        requests: i64,
    ) -> Result<Counts, RunError> {
        let count = |table: &str| {
            self.observer.connection().query_row(
                &format!("SELECT count(*) FROM {table}"),
                [],
                |row| row.get::<_, i64>(0),
            )
        };
        let seen = (count("tickets")?, count("requests")?);
        let rows = |tickets: i64, requests: i64| {
            json::object([
                ("tickets", Value::from(tickets)),
                ("requests", Value::from(requests)),
            ])
        };
        let (expected, seen_rows) = (rows(tickets, requests), rows(seen.0, seen.1));
        self.checks
            .check(premise.clone(), claim, expected, seen_rows);
        Ok(Counts { tickets: seen.0 })
    }

    pub(super) fn outcome(
        &mut self,
        values: impl Into<Vec<(&'static str, Value)>>,
    ) -> Result<Outcome, RunError> {
        self.end(values.into())
    }

    /// One for every number of values, which keeps the module small.
    fn end(&mut self, values: Vec<(&'static str, Value)>) -> Result<Outcome, RunError> {
        // The trace ends with the scenario; reading its last state is no part of it.
        let trace = self.stage.trace();
        let tables = ["tickets", "requests"]
            .map(|name| Table::read(self.observer.connection(), name))
            .into_iter()
            .collect::<rusqlite::Result<_>>()?;
        Ok(Outcome {
            values: json::object(values),
            checks: std::mem::take(&mut self.checks).into_vec(),
            tables,
            plots: Vec::new(),
            trace,
        })
    }
}

/// One call as its caller sees it, written into the trace.
pub(super) async fn call<S: Stage>(
    desk: &TicketDesk<S::Host>,
    payload: &Value,
    key: Option<&OperationKey>,
) -> Answer {
    S::record(desk.host(), called(payload, key));
    let answer = desk.create_ticket(payload, key).await;
    S::record(desk.host(), returned(&answer));
    answer
}

/// A call of the tool, for the trace.
pub(super) fn called(payload: &Value, key: Option<&OperationKey>) -> What {
    What::Called {
        tool: "create_ticket",
        key: key.map(|key| key.as_str().to_owned()),
        payload: payload.compact(),
    }
}

/// What its caller sees, for the trace.
pub(super) fn returned(answer: &Answer) -> What {
    match answer {
        Ok(ticket) => What::Answered {
            answer: ticket.to_json().compact(),
        },
        Err(error) => What::Failed {
            error: error.to_string(),
        },
    }
}
