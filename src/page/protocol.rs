//! The messages between the page and its worker: one enum each way.
//!
//! Strings, booleans and 32-bit numbers only: a 64-bit integer would arrive as a `BigInt` and a map as a `Map`.
//! A request carries all that it needs, so a worker that died can be replaced at any time by one that knows nothing.
//! The one message outside these enums is the first that a worker gets: the compiled module, which only the
//! structured clone can carry.

use serde::{Deserialize, Serialize};
use wasm_bindgen::JsValue;

/// From the page to the worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Run these scenarios in this order.
    Run {
        /// Comes back in every reply.
        request: u32,
        /// Scenario ids.
        scenarios: Vec<String>,
        /// Whether the report over all of them is wanted too.
        report: bool,
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
    /// Nothing more comes for this request.
    Done {
        /// Which request.
        request: u32,
        /// The text of `results.json`, if it was wanted and all scenarios ran.
        report: Option<String>,
    },
    /// The engine panicked, here is why, for the reader. The worker is of no more use.
    Panicked(String),
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

/// A message as a plain JavaScript value.
pub fn encode<M: Serialize>(message: &M) -> Result<JsValue, JsValue> {
    serde_wasm_bindgen::to_value(message).map_err(JsValue::from)
}

/// A message from a plain JavaScript value.
pub fn decode<M: for<'de> Deserialize<'de>>(value: JsValue) -> Result<M, JsValue> {
    serde_wasm_bindgen::from_value(value).map_err(JsValue::from)
}
