//! The messages between the page and its worker: one enum each way.
//!
//! Strings, booleans and 32-bit numbers only: a 64-bit integer would arrive as a `BigInt` and a map as a `Map`.
//! A request carries all that it needs, so a worker that died can be replaced at any time by one that knows nothing.
//! The one message outside these enums is the first that a worker gets: the compiled module, which only the
//! structured clone can carry.
//!
//! On the wire a message is what serde makes of an enum: the name of a variant without fields, else an object whose
//! one key is the name.

use std::str::FromStr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use wasm_bindgen::JsValue;

use crate::explore::{Case, CaseError};
use crate::timeline::Parts;

/// From the page to the worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Run these scenarios in this order.
    Run {
        /// Comes back in every reply.
        request: u32,
        /// Scenario ids, or tokens of a search.
        scenarios: Vec<String>,
        /// The text of the fixture, if not the committed one.
        fixture: Option<String>,
        /// Whether the report over all of them is wanted too.
        report: bool,
    },
    /// Run one scenario and show it step by step.
    Steps {
        /// Comes back in every reply.
        request: u32,
        /// Scenario id, or the token of a search.
        scenario: String,
        /// The text of the fixture, if not the committed one.
        fixture: Option<String>,
    },
    /// Run a storm.
    Storm {
        /// Comes back in every reply.
        request: u32,
        /// Its set-up, as [`crate::storm::Setup::parse`] reads it.
        setup: String,
    },
    /// Search.
    Explore {
        /// Comes back in every reply.
        request: u32,
        /// What, as a [`Choice`] is printed.
        search: String,
    },
    /// End the search where it stands.
    Stop,
    /// Run SQL on a fresh database.
    Sql {
        /// Comes back in the reply.
        request: u32,
        /// Whether the database is in WAL mode.
        wal: bool,
        /// Each is run by itself, whatever became of those before it.
        statements: Vec<String>,
    },
}

/// From the worker to the page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// The worker listens. Sent once, before anything else.
    Ready,
    /// One scenario ran.
    Ran(Box<Ran>),
    /// One scenario could not be run; those after it still can.
    Failed {
        /// Which request.
        request: u32,
        /// Scenario id.
        scenario: String,
        /// Why, for the reader.
        message: String,
    },
    /// The steps of a run.
    Steps(Box<Steps>),
    /// How far a storm has come.
    Storm {
        /// Which request.
        request: u32,
        /// Its load so far as SVG, and its totals.
        frame: String,
    },
    /// How far a search has come.
    Progress(Progress),
    /// What a search said that is over, or was stopped.
    Explored(Box<Explored>),
    /// What SQLite said to each statement, as [`crate::console::printed`] prints it.
    Answers {
        /// Which request.
        request: u32,
        /// One a statement.
        answers: Vec<String>,
    },
    /// Nothing more comes for this request.
    Done {
        /// Which request.
        request: u32,
        /// The text of `results.json`, if it was wanted and all scenarios ran.
        report: Option<String>,
    },
}

/// What one run showed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ran {
    /// Which request.
    pub request: u32,
    /// Scenario id.
    pub scenario: String,
    /// The summary values, printed as the command line prints them.
    pub values: String,
    /// Digest of the trace.
    pub trace_sha256: String,
    /// Digest of the checks.
    pub checks_sha256: String,
    /// Whether every check held.
    pub passed: bool,
    /// The evidence, as [`crate::evidence::html`] writes it.
    pub evidence: String,
}

/// The steps of one run, as [`crate::timeline::pages`] makes them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steps {
    /// Which request.
    pub request: u32,
    /// Scenario id.
    pub scenario: String,
    /// The texts.
    pub texts: Vec<String>,
    /// For each step the index of the text for each part.
    pub steps: Vec<Parts>,
}

/// How far a search has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Which request.
    pub request: u32,
    /// For the reader.
    pub text: String,
}

/// What a search said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explored {
    /// Which request.
    pub request: u32,
    /// The verdict, as `results.json` has it.
    pub verdict: String,
    /// The bounds, what holds, what breaks and how long it took, in sentences.
    pub sentences: Vec<String>,
    /// The shortest counterexample.
    pub token: Option<String>,
    /// Runs that it took.
    pub runs: u32,
}

/// A search as a link names it: the case for every schedule, or with `.SEED` behind for random ones.
#[derive(Debug)]
pub struct Choice {
    /// The case.
    pub case: Case,
    /// The seed of a random search.
    pub seed: Option<u64>,
}

impl FromStr for Choice {
    type Err = CaseError;

    fn from_str(text: &str) -> Result<Self, CaseError> {
        let (case, seed) = match text.rsplit_once('.') {
            Some((case, seed))
                if case.matches('.').count() >= 2
                    && seed.starts_with(|c: char| c.is_ascii_digit()) =>
            {
                (case, Some(seed.parse().map_err(|_| CaseError::Form)?))
            }
            _ => (text, None),
        };
        let case = case.parse()?;
        Ok(Self { case, seed })
    }
}

/// A message as a plain JavaScript value.
pub fn encode<M: Serialize>(message: &M) -> Result<JsValue, JsValue> {
    serde_wasm_bindgen::to_value(message).map_err(JsValue::from)
}

/// A message from a plain JavaScript value.
pub fn decode<M: DeserializeOwned>(value: JsValue) -> Result<M, JsValue> {
    serde_wasm_bindgen::from_value(value).map_err(JsValue::from)
}
