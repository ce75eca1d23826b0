//! One sequence of requests put to four contracts: three documents and the lab's own tool.
//!
//! The documents are the models of [`crate::tool::contracts`]; the lab is the real tool on its
//! database. The values name, for each of the four, what the request in question gets, in the
//! words of [`Answer::word`]. What a document must answer stands here beside its [`Source`], so
//! that model and reading are checked against each other.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::json::{Canonical, Value};
use crate::sim::trace::{Trace, What};
use crate::tool::contracts::{Answer, Contract, Course, Draft, Service, StripeV1, StripeV2};
use crate::tool::{BEFORE_COMMIT, ToolError};

use super::lab::{self, Expected, Lab};
use super::{Fixture, RunError, Stage};
use crate::outcome::{Outcome, Premise};

/// Where a contract says what is expected of it, or where it would have to.
#[derive(Debug, Clone, Copy)]
pub struct Source {
    /// The document and its section.
    pub title: &'static str,
    /// The address of that section.
    pub address: &'static str,
}

const V1_KEYS: Source = Source {
    title: "Stripe API reference, Idempotent requests",
    address: "https://docs.stripe.com/api/idempotent_requests",
};
const V1_CONTENT: Source = Source {
    title: "Stripe, Advanced error handling, Content errors",
    address: "https://docs.stripe.com/error-low-level#content-errors",
};
const V1_STATUS: Source = Source {
    title: "Stripe, Advanced error handling, HTTP status code reference",
    address: "https://docs.stripe.com/error-low-level#status-codes",
};
const V2: Source = Source {
    title: "Stripe, API v2 overview, Idempotency",
    address: "https://docs.stripe.com/api-v2-overview#idempotency",
};
const DRAFT_EXPIRY: Source = Source {
    title: "Idempotency-Key draft 07, section 2.3",
    address: "https://www.ietf.org/archive/id/draft-ietf-httpapi-idempotency-key-header-07.html#section-2.3",
};
const DRAFT_SCENARIOS: Source = Source {
    title: "Idempotency-Key draft 07, section 2.6",
    address: "https://www.ietf.org/archive/id/draft-ietf-httpapi-idempotency-key-header-07.html#section-2.6",
};
const DRAFT_ERRORS: Source = Source {
    title: "Idempotency-Key draft 07, section 2.7",
    address: "https://www.ietf.org/archive/id/draft-ietf-httpapi-idempotency-key-header-07.html#section-2.7",
};

/// The names of the documents in values and trace.
const NAMES: [&str; 3] = ["draft", "stripe_v1", "stripe_v2"];

/// What a server that keeps the draft may publish; the draft leaves it open.
const DRAFT: Draft = Draft {
    expiry: Duration::from_secs(24 * 3600),
};

/// The documents, in the order of [`NAMES`].
const CONTRACTS: [&dyn Contract; 3] = [&DRAFT, &StripeV1, &StripeV2];

/// Longer than any of the documents keeps a key.
const RETENTION_OVER: Duration = Duration::from_secs(31 * 24 * 3600);

/// What each document must answer, in the order of [`NAMES`], and where it says so.
type Reading = [(Answer, Source); 3];

/// The first answer is a 500, then the same request comes again.
pub fn contract_500_then_retry<S: Stage>(
    stage: &S,
    fixture: &Fixture,
) -> Result<Outcome, RunError> {
    let mut lab = Lab::open(stage)?;
    let payload = fixture.payload();
    let key = fixture.operation_key();
    let documented = Sequence::new(fixture, &payload, Course::Fails500, &payload).put(
        &mut lab,
        [
            (Answer::Replays500, DRAFT_SCENARIOS),
            (Answer::Replays500, V1_KEYS),
            (Answer::Executes, V2),
        ],
    )?;
    let agent = lab.agent("lab")?;
    stage.fail_at("lab", BEFORE_COMMIT, 1);
    let first = lab.call(&agent, &payload, Some(key))?;
    let failed = lab.struck(BEFORE_COMMIT);
    let expected = Expected::Interrupted(BEFORE_COMMIT);
    lab.answer(
        &failed,
        "lab: the first call fails before its commit",
        expected,
        &first,
    );
    let before = lab
        .rows(&failed, "lab: nothing is left of it", 0, 0)?
        .tickets;
    let retry = lab.call(&agent, &payload, Some(key))?;
    lab.answer(
        &failed,
        "lab: the retry opens the ticket",
        Expected::Ticket(1),
        &retry,
    );
    lab.rows(&failed, "lab: one ticket, one replay record", 1, 1)?;
    outcome(lab, documented, seen(&retry, before))
}

/// An invalid payload comes first, then the corrected one with the same key.
///
/// The lab's tool validates nothing: it takes the payload without a title, so that the corrected
/// one is a changed payload to it.
pub fn contract_invalid_then_corrected<S: Stage>(
    stage: &S,
    fixture: &Fixture,
) -> Result<Outcome, RunError> {
    let mut lab = Lab::open(stage)?;
    let corrected = fixture.payload();
    let mut invalid = corrected.clone();
    if let Value::Object(members) = &mut invalid {
        members.remove("title");
    }
    let documented = Sequence::new(fixture, &invalid, Course::Invalid, &corrected).put(
        &mut lab,
        [
            (Answer::Rejected422, DRAFT_ERRORS),
            (Answer::Executes, V1_CONTENT),
            (Answer::Unknown, V2),
        ],
    )?;
    let in_lab = refused_by_lab(
        &mut lab,
        fixture,
        [&invalid, &corrected],
        "lab: the payload without a title is accepted, as nothing is validated",
    )?;
    outcome(lab, documented, in_lab)
}

/// After a success another payload comes with the same key.
pub fn contract_changed_payload<S: Stage>(
    stage: &S,
    fixture: &Fixture,
) -> Result<Outcome, RunError> {
    let mut lab = Lab::open(stage)?;
    let (payload, changed) = (fixture.payload(), fixture.changed_payload());
    let documented = Sequence::new(fixture, &payload, Course::Succeeds, &changed).put(
        &mut lab,
        [
            (Answer::Rejected422, DRAFT_ERRORS),
            (Answer::Rejected, V1_KEYS),
            (Answer::Unknown, V2),
        ],
    )?;
    let in_lab = refused_by_lab(
        &mut lab,
        fixture,
        [&payload, &changed],
        "lab: the first call opens a ticket",
    )?;
    outcome(lab, documented, in_lab)
}

/// The same request comes twice, the second time while the first still runs.
///
/// That the lab's second call waits is read from the trace.
pub fn contract_second_while_first_runs<S: Stage>(
    stage: &S,
    fixture: &Fixture,
) -> Result<Outcome, RunError> {
    let mut lab = Lab::open(stage)?;
    let payload = fixture.payload();
    let key = fixture.operation_key();
    let documented = Sequence::new(fixture, &payload, Course::Lasts, &payload).put(
        &mut lab,
        [
            (Answer::Conflict409, DRAFT_ERRORS),
            (Answer::Conflict409, V1_STATUS),
            (Answer::Unknown, V2),
        ],
    )?;
    let names = ["lab first", "lab second"].map(str::to_owned);
    let answers = lab.together(&names, &payload, key)?;
    let waited = lab.waited(1);
    for (name, answer) in names.iter().zip(&answers) {
        let claim = format!("{name}: has the one ticket");
        lab.answer(&waited, claim, Expected::Ticket(1), answer);
    }
    let waits = waiting(&stage.trace());
    let under_way = lab.under_way(&names);
    lab.checks.check(
        under_way,
        "lab: one of the two waits for the other",
        1_usize,
        waits,
    );
    let left = lab
        .rows(&waited, "lab: one ticket, one replay record", 1, 1)?
        .tickets;
    let in_lab = match answers.last().map(|answer| seen(answer, left)) {
        Some(Answer::Replays) if waits > 0 => Answer::WaitsThenReplays,
        Some(other) => other,
        None => Answer::Unknown,
    };
    outcome(lab, documented, in_lab)
}

/// After a success the same request comes again, when its key has been forgotten.
pub fn contract_retry_after_retention<S: Stage>(
    stage: &S,
    fixture: &Fixture,
) -> Result<Outcome, RunError> {
    let mut lab = Lab::open(stage)?;
    let payload = fixture.payload();
    let key = fixture.operation_key();
    let documented = Sequence {
        later: RETENTION_OVER,
        tool: "POST, 31 days later",
        ..Sequence::new(fixture, &payload, Course::Succeeds, &payload)
    }
    .put(
        &mut lab,
        [
            (Answer::Unknown, DRAFT_EXPIRY),
            (Answer::Executes, V1_KEYS),
            (Answer::Executes, V2),
        ],
    )?;
    let agent = lab.agent("lab")?;
    let first = lab.call(&agent, &payload, Some(key))?;
    let called = lab.called(key, 1);
    let claim = "lab: the key opens a ticket";
    lab.answer(&called, claim, Expected::Ticket(1), &first);
    let before = lab
        .rows(&called, "lab: one ticket, one replay record", 1, 1)?
        .tickets;
    let forgotten = lab.forget(key)?;
    let retry = lab.call(&agent, &payload, Some(key))?;
    let claim = "lab: the retry opens another";
    lab.answer(&forgotten, claim, Expected::Ticket(2), &retry);
    lab.rows(&forgotten, "lab: two tickets, one replay record", 2, 1)?;
    outcome(lab, documented, seen(&retry, before))
}

/// Two requests with one key, put to every document.
struct Sequence<'a> {
    key: &'a str,
    first: &'a Value,
    /// How the first one goes; the second would succeed.
    course: Course,
    second: &'a Value,
    /// Time between the two.
    later: Duration,
    /// What the trace calls the second request.
    tool: &'static str,
}

impl<'a> Sequence<'a> {
    fn new(fixture: &'a Fixture, first: &'a Value, course: Course, second: &'a Value) -> Self {
        Self {
            key: fixture.operation_key().as_str(),
            first,
            course,
            second,
            later: Duration::ZERO,
            tool: "POST",
        }
    }

    /// Sends both requests to each document, and lets a first one that lasts end after them.
    /// Answers what the second request gets, in the order of [`NAMES`].
    fn put<S: Stage>(
        &self,
        lab: &mut Lab<'_, S>,
        reading: Reading,
    ) -> Result<[Answer; 3], RunError> {
        let mut answers = [Answer::Unknown; 3];
        for (index, (expected, source)) in reading.into_iter().enumerate() {
            let host = lab.stage.enter(NAMES[index], async |_, host| Ok(host))?;
            let mut service = Service::new(CONTRACTS[index]);
            let mut send = |tool, payload: &Value, course, now| {
                let payload = payload.compact();
                let answer = service.request(self.key, &payload, course, now);
                S::record(
                    &host,
                    What::Called {
                        tool,
                        key: Some(self.key.to_owned()),
                        payload,
                    },
                );
                record::<S>(&host, answer);
                answer
            };
            send("POST", self.first, self.course, Duration::ZERO);
            let mut premise = self.came_first(&lab.stage.trace(), NAMES[index]);
            let answer = send(self.tool, self.second, Course::Succeeds, self.later);
            if let Some(end) = service.finish(self.key) {
                record::<S>(&host, end);
                premise = self.came_first(&lab.stage.trace(), NAMES[index]);
            }
            lab.checks.check(
                premise,
                format!("{}: {}, {}", NAMES[index], source.title, source.address),
                expected.word(),
                answer.word(),
            );
            answers[index] = answer;
        }
        Ok(answers)
    }
}

impl Sequence<'_> {
    /// That the first request to `service` went the way that the question is about: after another
    /// beginning the second answer would say nothing.
    fn came_first(&self, trace: &Trace, service: &str) -> Premise {
        let what = match self.course {
            Course::Succeeds => "the first request succeeded",
            Course::Fails500 => "the first answer was a 500",
            Course::Invalid => "the first payload was refused as invalid",
            Course::Lasts => "the first request ended when the second had come",
        };
        let word = match self.course {
            Course::Succeeds | Course::Lasts => None,
            Course::Fails500 => Some(Answer::Fails500.word()),
            Course::Invalid => Some(Answer::Invalid.word()),
        };
        Premise::happened(trace, what, 1, |event| {
            let right = match &event.what {
                What::Answered { .. } => word.is_none(),
                What::Failed { error } => word == Some(error),
                _ => false,
            };
            right && &*event.who == service
        })
    }
}

/// Writes into the trace what a sender sees.
fn record<S: Stage>(host: &S::Host, answer: Answer) {
    let word = answer.word();
    S::record(
        host,
        match answer {
            Answer::Runs => return,
            Answer::Executes | Answer::Replays | Answer::WaitsThenReplays => What::Answered {
                answer: Value::from(word).compact(),
            },
            _ => What::Failed {
                error: word.to_owned(),
            },
        },
    );
}

/// How many processes waited for the lock.
fn waiting(trace: &Trace) -> usize {
    let waits = trace
        .events
        .iter()
        .filter(|event| event.what == What::Waits);
    let waiting: BTreeSet<&str> = waits.map(|event| &*event.who).collect();
    waiting.len()
}

/// Calls the lab's tool with two payloads under one key; the second must be refused.
fn refused_by_lab<S: Stage>(
    lab: &mut Lab<'_, S>,
    fixture: &Fixture,
    payloads: [&Value; 2],
    first_claim: &str,
) -> Result<Answer, RunError> {
    let key = fixture.operation_key();
    let agent = lab.agent("lab")?;
    let first = lab.call(&agent, payloads[0], Some(key))?;
    let called = lab.called(key, 1);
    lab.answer(&called, first_claim, Expected::Ticket(1), &first);
    let second = lab.call(&agent, payloads[1], Some(key))?;
    let before = lab.called_with_another(key, payloads[1]);
    lab.answer(
        &before,
        "lab: the second is refused",
        Expected::Conflict(key),
        &second,
    );
    let left = lab
        .rows(&before, "lab: one ticket, one replay record", 1, 1)?
        .tickets;
    Ok(seen(&second, left))
}

/// The lab's answer in the words of the contracts; `before` tickets stood when the call was made.
fn seen(answer: &lab::Answer, before: i64) -> Answer {
    match answer {
        Ok(ticket) if ticket.id > before => Answer::Executes,
        Ok(_) => Answer::Replays,
        Err(ToolError::PayloadConflict { .. }) => Answer::Rejected,
        Err(_) => Answer::Fails500,
    }
}

fn outcome<S: Stage>(
    mut lab: Lab<'_, S>,
    documented: [Answer; 3],
    in_lab: Answer,
) -> Result<Outcome, RunError> {
    let [draft, stripe_v1, stripe_v2] = documented.map(|answer| Value::from(answer.word()));
    lab.outcome([
        ("draft", draft),
        ("lab", in_lab.word().into()),
        ("stripe_v1", stripe_v1),
        ("stripe_v2", stripe_v2),
    ])
}
