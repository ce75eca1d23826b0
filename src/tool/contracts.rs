//! What three documents promise to a request that comes again with its key.
//!
//! Each contract is a small model made from its document alone. It implements the rules that are
//! written there, and where nothing is written it answers [`Answer::Unknown`]. No model says how
//! the service behaves, only what its readers may rely on. Rules stand beside the document and the
//! section that they come from; `SOURCES.md` says how each was read.

use std::time::Duration;

/// What a sender can see of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The request is carried out, and its success is the answer.
    Executes,
    /// The request is carried out as far as it gets, and the answer is a new 500.
    Fails500,
    /// Validation refuses the payload; nothing is carried out.
    Invalid,
    /// The request has begun; no answer has come yet.
    Runs,
    /// Nothing is done again; the answer is that of the first success, perhaps brought up to date.
    Replays,
    /// Nothing is done again; the answer is the 500 that the first request got.
    Replays500,
    /// The request waits until the first one has ended; then as [`Answer::Replays`].
    WaitsThenReplays,
    /// Refused, as the key came with another payload; the status is not stated.
    Rejected,
    /// Refused with status 422, as the key came with another payload.
    Rejected422,
    /// Refused with status 409, as the first request still runs.
    Conflict409,
    /// The document does not say.
    Unknown,
}

impl Answer {
    /// The word that stands for it in a scenario's values.
    pub fn word(self) -> &'static str {
        match self {
            Self::Executes => "executes",
            Self::Fails500 => "fails_500",
            Self::Invalid => "invalid",
            Self::Runs => "runs",
            Self::Replays => "replays",
            Self::Replays500 => "replays_500",
            Self::WaitsThenReplays => "waits_then_replays",
            Self::Rejected => "rejected",
            Self::Rejected422 => "rejected_422",
            Self::Conflict409 => "conflict_409",
            Self::Unknown => "unknown",
        }
    }
}

/// How a request would go if it were carried out. The sequence of a scenario decides it; no
/// contract can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Course {
    /// It succeeds.
    Succeeds,
    /// It ends in a 500.
    Fails500,
    /// Validation refuses its payload.
    Invalid,
    /// It is still running when the next request comes.
    Lasts,
}

impl Course {
    /// What the sender of a request sees that is carried out this way.
    fn answer(self) -> Answer {
        match self {
            Self::Succeeds => Answer::Executes,
            Self::Fails500 => Answer::Fails500,
            Self::Invalid => Answer::Invalid,
            Self::Lasts => Answer::Runs,
        }
    }
}

/// A key that the service has seen, as the next request with it finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// How its last request that was carried out went.
    pub course: Course,
    /// Whether the payload is the one that it came with.
    pub same_payload: bool,
    /// Time since its first request.
    pub age: Duration,
}

/// What becomes of a request whose key was seen before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// It counts as the first one with its key.
    IsFirst,
    /// The work of the failed request is taken up again.
    WorksAgain,
    /// It is not carried out and gets this answer.
    Answers(Answer),
}

/// What a document promises.
pub trait Contract {
    /// Whether a request that fails validation leaves its key with the service.
    fn keeps_invalid(&self) -> bool;

    /// What becomes of a request with a valid payload whose key was seen.
    fn again(&self, seen: Seen) -> Rule;
}

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Stripe's API v1.
///
/// <https://docs.stripe.com/api/idempotent_requests> and
/// <https://docs.stripe.com/error-low-level>.
#[derive(Debug, Clone, Copy)]
pub struct StripeV1;

impl Contract for StripeV1 {
    /// *Idempotent requests*: a result is kept only once the endpoint has begun.
    fn keeps_invalid(&self) -> bool {
        false
    }

    fn again(&self, seen: Seen) -> Rule {
        match (seen.course, seen.same_payload) {
            // Idempotent requests: a key may be pruned once it is 24 hours old, and then makes a
            // new request. API v2 overview, on v1: beyond 24 hours nothing is a repetition.
            _ if seen.age >= DAY => Rule::IsFirst,
            // Advanced error handling, status codes: 409, also for a key that is in use.
            (Course::Lasts, true) => Rule::Answers(Answer::Conflict409),
            // Both this and the next rule fit, and nothing says which goes first.
            (Course::Lasts, false) => Rule::Answers(Answer::Unknown),
            // Idempotent requests: other parameters are an error, which one is not said.
            (_, false) => Rule::Answers(Answer::Rejected),
            // Idempotent requests: status and body come back, those of a 500 too.
            (Course::Fails500, true) => Rule::Answers(Answer::Replays500),
            (Course::Succeeds, true) => Rule::Answers(Answer::Replays),
            // Not kept, so never seen.
            (Course::Invalid, true) => Rule::IsFirst,
        }
    }
}

/// Stripe's API v2.
///
/// <https://docs.stripe.com/api-v2-overview#idempotency>.
#[derive(Debug, Clone, Copy)]
pub struct StripeV2;

impl Contract for StripeV2 {
    /// Nothing excepts a request that failed validation from those that failed.
    fn keeps_invalid(&self) -> bool {
        true
    }

    fn again(&self, seen: Seen) -> Rule {
        match (seen.course, seen.same_payload) {
            // What comes after 30 days is no repetition of the first.
            _ if seen.age > 30 * DAY => Rule::IsFirst,
            // Nothing is said of other parameters, nor of a first request that still runs.
            (_, false) | (Course::Lasts, _) => Rule::Answers(Answer::Unknown),
            // After a success nothing is changed, and the answer is brought up to date.
            (Course::Succeeds, true) => Rule::Answers(Answer::Replays),
            // What failed is executed again, and the answer is new.
            (Course::Fails500 | Course::Invalid, true) => Rule::WorksAgain,
        }
    }
}

/// The Idempotency-Key header field, Internet-Draft 07 of 15 October 2025.
///
/// <https://www.ietf.org/archive/id/draft-ietf-httpapi-idempotency-key-header-07.html>. Its rules
/// for the resource are of the kind SHOULD.
#[derive(Debug, Clone, Copy)]
pub struct Draft {
    /// The expiry that the resource has published (section 2.3); the draft names none.
    pub expiry: Duration,
}

impl Contract for Draft {
    /// Section 2.6 asks whether a key has been seen, not what became of it.
    fn keeps_invalid(&self) -> bool {
        true
    }

    fn again(&self, seen: Seen) -> Rule {
        Rule::Answers(match (seen.course, seen.same_payload) {
            // Section 2.3: the key may be deleted. What its return then gets is not said.
            _ if seen.age >= self.expiry => Answer::Unknown,
            // Sections 2.6 and 2.7: 409 while the original request runs.
            (Course::Lasts, true) => Answer::Conflict409,
            // Both this and the next rule fit, and nothing says which goes first.
            (Course::Lasts, false) => Answer::Unknown,
            // Section 2.7: 422 for a key that comes with another payload.
            (_, false) => Answer::Rejected422,
            // Section 2.6: the result of the completed operation, success or error.
            (Course::Succeeds, true) => Answer::Replays,
            (Course::Fails500, true) => Answer::Replays500,
            // Whether a refused payload is a completed operation is not said.
            (Course::Invalid, true) => Answer::Unknown,
        })
    }
}

/// A service that keeps one contract: it remembers keys and applies the rules.
pub struct Service<'a> {
    contract: &'a dyn Contract,
    records: Vec<Record>,
}

struct Record {
    key: String,
    payload: String,
    course: Course,
    first: Duration,
}

impl<'a> Service<'a> {
    /// A service that has seen no key.
    pub fn new(contract: &'a dyn Contract) -> Self {
        Self {
            contract,
            records: Vec::new(),
        }
    }

    /// Takes a request at the time `now`; `course` says how it goes if it is carried out.
    pub fn request(&mut self, key: &str, payload: &str, course: Course, now: Duration) -> Answer {
        let known = self.records.iter().position(|record| record.key == key);
        if let Some(index) = known {
            let record = &mut self.records[index];
            let seen = Seen {
                course: record.course,
                same_payload: record.payload == payload,
                age: now.saturating_sub(record.first),
            };
            match self.contract.again(seen) {
                Rule::IsFirst => {
                    self.records.remove(index);
                }
                // No document says whether the payload or the key is looked at first.
                Rule::Answers(_) if course == Course::Invalid => return Answer::Unknown,
                Rule::Answers(answer) => return answer,
                Rule::WorksAgain => {
                    record.course = course;
                    return course.answer();
                }
            }
        }
        if course != Course::Invalid || self.contract.keeps_invalid() {
            self.records.push(Record {
                key: key.to_owned(),
                payload: payload.to_owned(),
                course,
                first: now,
            });
        }
        course.answer()
    }

    /// The running request of `key` succeeds: what its sender then sees. `None` where none runs.
    pub fn finish(&mut self, key: &str) -> Option<Answer> {
        let record = self
            .records
            .iter_mut()
            .find(|record| record.key == key && record.course == Course::Lasts)?;
        record.course = Course::Succeeds;
        Some(record.course.answer())
    }
}
