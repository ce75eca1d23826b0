//! The messages between the page and its worker: one enum each way.
//!
//! Strings, booleans and 32-bit numbers only: a 64-bit integer would arrive as a `BigInt` and a map as a `Map`.
//! A request carries all that it needs, so a worker that died can be replaced at any time by one that knows nothing.
//! The one message outside these enums is the first that a worker gets: the compiled module, which only the
//! structured clone can carry.
//!
//! On the wire a message is what serde makes of an enum: the name of a variant without fields, else an object whose
//! one key is the name. It is read by hand, field by field: serde's derived readers would take 7 KB of the gzipped
//! module, its writers next to nothing.

use std::str::FromStr;

use js_sys::{Array, Object, Reflect};
use serde::Serialize;
use wasm_bindgen::{JsCast, JsValue};

use crate::explore::{Case, CaseError};
use crate::timeline::Parts;

/// From the page to the worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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
}

/// From the worker to the page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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
    /// Nothing more comes for this request.
    Done {
        /// Which request.
        request: u32,
        /// The text of `results.json`, if it was wanted and all scenarios ran.
        report: Option<String>,
    },
}

/// What one run showed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Progress {
    /// Which request.
    pub request: u32,
    /// For the reader.
    pub text: String,
}

/// What a search said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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

/// A search as a link names it: `DESIGN.FAULT.BOUNDS` for every schedule, or with `.SEED` behind for random ones.
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
            Some((case, seed)) if case.matches('.').count() == 2 => {
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

impl Request {
    /// A request from a plain JavaScript value.
    pub fn decode(value: &JsValue) -> Result<Self, JsValue> {
        let (variant, body) = Body::of(value)?;
        match variant.as_str() {
            "Run" => Ok(Self::Run {
                request: body.number("request")?,
                scenarios: body.texts("scenarios")?,
                fixture: body.optional_text("fixture")?,
                report: body.flag("report")?,
            }),
            "Steps" => Ok(Self::Steps {
                request: body.number("request")?,
                scenario: body.text("scenario")?,
                fixture: body.optional_text("fixture")?,
            }),
            "Storm" => Ok(Self::Storm {
                request: body.number("request")?,
                setup: body.text("setup")?,
            }),
            "Explore" => Ok(Self::Explore {
                request: body.number("request")?,
                search: body.text("search")?,
            }),
            "Stop" => Ok(Self::Stop),
            _ => Err(unreadable(&variant)),
        }
    }
}

impl Reply {
    /// A reply from a plain JavaScript value.
    pub fn decode(value: &JsValue) -> Result<Self, JsValue> {
        let (variant, body) = Body::of(value)?;
        match variant.as_str() {
            "Ready" => Ok(Self::Ready),
            "Ran" => Ok(Self::Ran(Box::new(Ran {
                request: body.number("request")?,
                scenario: body.text("scenario")?,
                values: body.text("values")?,
                trace_sha256: body.text("trace_sha256")?,
                checks_sha256: body.text("checks_sha256")?,
                passed: body.flag("passed")?,
                evidence: body.text("evidence")?,
            }))),
            "Failed" => Ok(Self::Failed {
                request: body.number("request")?,
                scenario: body.text("scenario")?,
                message: body.text("message")?,
            }),
            "Steps" => Ok(Self::Steps(Box::new(Steps {
                request: body.number("request")?,
                scenario: body.text("scenario")?,
                texts: body.texts("texts")?,
                steps: body.steps("steps")?,
            }))),
            "Storm" => Ok(Self::Storm {
                request: body.number("request")?,
                frame: body.text("frame")?,
            }),
            "Progress" => Ok(Self::Progress(Progress {
                request: body.number("request")?,
                text: body.text("text")?,
            })),
            "Explored" => Ok(Self::Explored(Box::new(Explored {
                request: body.number("request")?,
                verdict: body.text("verdict")?,
                sentences: body.texts("sentences")?,
                token: body.optional_text("token")?,
                runs: body.number("runs")?,
            }))),
            "Done" => Ok(Self::Done {
                request: body.number("request")?,
                report: body.optional_text("report")?,
            }),
            _ => Err(unreadable(&variant)),
        }
    }
}

/// What stands under a variant's name; undefined if the name is all.
struct Body(JsValue);

impl Body {
    /// The name of the variant that a value is of, and its body.
    fn of(value: &JsValue) -> Result<(String, Self), JsValue> {
        if let Some(variant) = value.as_string() {
            return Ok((variant, Self(JsValue::UNDEFINED)));
        }
        let object: &Object = value.dyn_ref().ok_or_else(|| unreadable("message"))?;
        let name = Object::keys(object).get(0);
        let variant = name.as_string().ok_or_else(|| unreadable("message"))?;
        Ok((variant, Self(Reflect::get(value, &name)?)))
    }

    fn field<T>(&self, name: &str, read: fn(&JsValue) -> Option<T>) -> Result<T, JsValue> {
        read(&Reflect::get(&self.0, &JsValue::from_str(name))?).ok_or_else(|| unreadable(name))
    }

    fn number(&self, name: &str) -> Result<u32, JsValue> {
        // The cast saturates; numbers come from an encoded `u32`.
        self.field(name, |value| value.as_f64().map(|number| number as u32))
    }

    fn flag(&self, name: &str) -> Result<bool, JsValue> {
        self.field(name, JsValue::as_bool)
    }

    fn text(&self, name: &str) -> Result<String, JsValue> {
        self.field(name, JsValue::as_string)
    }

    fn optional_text(&self, name: &str) -> Result<Option<String>, JsValue> {
        self.field(name, |value| {
            if value.is_undefined() {
                return Some(None);
            }
            value.as_string().map(Some)
        })
    }

    fn texts(&self, name: &str) -> Result<Vec<String>, JsValue> {
        self.field(name, |value| {
            let array: &Array = value.dyn_ref()?;
            array.iter().map(|text| text.as_string()).collect()
        })
    }

    fn steps(&self, name: &str) -> Result<Vec<Parts>, JsValue> {
        self.field(name, |value| {
            let array: &Array = value.dyn_ref()?;
            let step = |step: JsValue| {
                let step: &Array = step.dyn_ref()?;
                let mut parts = Parts::default();
                for (part, index) in parts.iter_mut().zip(step.iter()) {
                    *part = index.as_f64()? as u32;
                }
                Some(parts)
            };
            array.iter().map(step).collect()
        })
    }
}

fn unreadable(what: &str) -> JsValue {
    JsValue::from_str(&format!("between page and worker: unreadable {what}"))
}
