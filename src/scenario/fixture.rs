use std::fmt;

use crate::json::{self, Members, ParseError, Value};
use crate::key::{KeyError, OperationKey};

/// What the scenarios are fed: one accepted operation.
#[derive(Debug, Clone, PartialEq)]
pub struct Fixture {
    operation_key: OperationKey,
    payload: Members,
}

/// Text that is no fixture.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum FixtureError {
    /// The text is not JSON.
    Json(ParseError),
    /// Something else stands where `expected` should.
    Shape {
        /// Where, as a path of member names.
        place: &'static str,
        /// What should stand there.
        expected: &'static str,
    },
    /// A member that no fixture has.
    Unknown {
        /// Its name.
        name: String,
    },
    /// `operation_key` is no key.
    Key(KeyError),
    /// `operation_key` leaves no room for the second key, which is longer.
    KeyTooLong {
        /// How many characters it has.
        chars: usize,
    },
}

impl fmt::Display for FixtureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(error) => error.fmt(f),
            Self::Shape { place, expected } => write!(f, "{place}: expected {expected}"),
            Self::Unknown { name } => write!(
                f,
                "unknown member {name:?}: expected operation_key and payload"
            ),
            Self::Key(error) => write!(f, "operation_key: {error}"),
            Self::KeyTooLong { chars } => write!(
                f,
                "operation_key: {chars} characters; at most {MAX_KEY_CHARS} may stand, as a second \
                 key is this one and {NEW_INTENT:?}"
            ),
        }
    }
}

impl std::error::Error for FixtureError {}

/// What the second intention's key ends in.
const NEW_INTENT: &str = "-new-intent";

/// The longest key, in characters: the second one is a key too.
const MAX_KEY_CHARS: usize = OperationKey::MAX_CHARS - NEW_INTENT.len();

/// The priority that a changed payload has.
const CHANGED_PRIORITY: &str = "urgent";

impl Fixture {
    /// The project's own `fixture.json`, as it was at build time.
    ///
    /// # Panics
    ///
    /// Never in a build that passed its tests: one of them reads the file.
    pub fn committed() -> Self {
        Self::parse(include_bytes!("../../fixture.json")).expect("fixture.json was tested")
    }

    /// Reads `{"operation_key": KEY, "payload": {"project", "title", "priority", …}}`. The payload
    /// may have further members.
    ///
    /// # Errors
    ///
    /// [`FixtureError`], naming the place. A priority of `urgent` is refused, since a scenario
    /// changes the payload to it, and a key is refused that leaves no room for the second one.
    pub fn parse(bytes: &[u8]) -> Result<Self, FixtureError> {
        let shape = |place, expected| FixtureError::Shape { place, expected };
        let Value::Object(members) = json::parse_bytes(bytes).map_err(FixtureError::Json)? else {
            return Err(shape("fixture", "an object"));
        };
        let key = match members.get("operation_key") {
            Some(Value::String(text)) => match text.chars().count() {
                chars if chars > MAX_KEY_CHARS => return Err(FixtureError::KeyTooLong { chars }),
                _ => OperationKey::new(text.as_str()).map_err(FixtureError::Key)?,
            },
            _ => return Err(shape("operation_key", "a string")),
        };
        let Some(Value::Object(payload)) = members.get("payload") else {
            return Err(shape("payload", "an object"));
        };
        for (member, place) in [
            ("project", "payload.project"),
            ("title", "payload.title"),
            ("priority", "payload.priority"),
        ] {
            if payload.get(member).and_then(Value::as_str).is_none() {
                return Err(shape(place, "a string"));
            }
        }
        if payload.get("priority").and_then(Value::as_str) == Some(CHANGED_PRIORITY) {
            return Err(shape(
                "payload.priority",
                "another value than urgent, which the changed payload has",
            ));
        }
        let mut names = members.keys();
        if let Some(name) =
            names.find(|name| !["operation_key", "payload"].contains(&name.as_str()))
        {
            return Err(FixtureError::Unknown { name: name.clone() });
        }
        Ok(Self {
            operation_key: key,
            payload: payload.clone(),
        })
    }

    /// The key made when the operation was accepted.
    pub fn operation_key(&self) -> &OperationKey {
        &self.operation_key
    }

    /// The key of a second, separate intention.
    pub fn new_intent_key(&self) -> OperationKey {
        OperationKey::new(new_intent(&self.operation_key))
            .expect("checked when the fixture was read")
    }

    /// The payload.
    pub fn payload(&self) -> Value {
        Value::Object(self.payload.clone())
    }

    /// The payload with its priority raised.
    pub fn changed_payload(&self) -> Value {
        let mut payload = self.payload.clone();
        payload.insert("priority".to_owned(), Value::from(CHANGED_PRIORITY));
        Value::Object(payload)
    }
}

/// The key that the second intention of `key` has.
fn new_intent(key: &OperationKey) -> String {
    format!("{}{NEW_INTENT}", key.as_str())
}
