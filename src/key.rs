//! Operation keys: the name of one intention, made by the caller before the first attempt.

use std::fmt;

use crate::digest::sha256_hex;
use crate::json::Value;

/// An idempotency key: one key means one intention, through every retry of it.
///
/// The caller makes it when it accepts the operation and stores it before dispatch. The key names
/// the operation; it grants nothing to whoever holds it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OperationKey(String);

/// Text that is no key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyError {
    /// There is no text.
    Empty,
    /// The text has more than [`OperationKey::MAX_CHARS`] characters.
    TooLong {
        /// How many it has.
        chars: usize,
    },
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("an operation key is empty"),
            Self::TooLong { chars } => write!(
                f,
                "an operation key has {chars} characters; at most {} may stand",
                OperationKey::MAX_CHARS
            ),
        }
    }
}

impl std::error::Error for KeyError {}

impl OperationKey {
    /// The longest key, in characters: Stripe's limit
    /// (<https://docs.stripe.com/api/idempotent_requests>).
    pub const MAX_CHARS: usize = 255;

    /// Takes the caller's text as it is.
    ///
    /// # Errors
    ///
    /// [`KeyError`] for an empty or too long text.
    pub fn new(text: impl Into<String>) -> Result<Self, KeyError> {
        let text = text.into();
        match text.chars().count() {
            0 => Err(KeyError::Empty),
            chars if chars > Self::MAX_CHARS => Err(KeyError::TooLong { chars }),
            _ => Ok(Self(text)),
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The key of an action: what an agent run does with one tool and these arguments, however often it
/// is attempted. A new run gets a new key.
///
/// 64 hex digits: the SHA-256 of the compact array `[run, tool, arguments]`. A canonical array can be
/// read back, so different actions have different texts. What counts as different follows
/// [`Value`]: the order of members does not matter, `1` and `1.0` differ while `1.0` and `1e0` are
/// one float, and text is compared by code point, so that composed and decomposed accents differ.
pub fn action_key(run: &str, tool: &str, arguments: &Value) -> OperationKey {
    let action = Value::from(vec![run.into(), tool.into(), arguments.clone()]);
    OperationKey(sha256_hex(&action.compact()))
}

/// The key of a node of an agent run: the same when the node runs again after a crash, whatever its
/// arguments have become. 64 hex digits: the SHA-256 of the compact array `[run, node]`.
pub fn node_key(run: &str, node: &str) -> OperationKey {
    let node = Value::from(vec![run.into(), node.into()]);
    OperationKey(sha256_hex(&node.compact()))
}

/// The key of an action as the lesson publishes it: the first 16 hex digits of the SHA-256 of
/// `run|tool|arguments`, the arguments in spaced form.
///
/// Kept for its known answer. A `|` inside a part moves the border between parts: run `r|x` with
/// tool `t` and run `r` with tool `x|t` share one key. [`action_key`] has no such pairs.
pub fn published_action_key(run: &str, tool: &str, arguments: &Value) -> OperationKey {
    let mut digest = sha256_hex(&format!("{run}|{tool}|{}", arguments.spaced()));
    digest.truncate(16);
    OperationKey(digest)
}

impl fmt::Display for OperationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whose key it is: the same text is another key for another tenant. Its text is as an
/// [`OperationKey`]'s.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tenant(OperationKey);

impl Tenant {
    /// Takes the text as it is.
    ///
    /// # Errors
    ///
    /// As [`OperationKey::new`].
    pub fn new(text: impl Into<String>) -> Result<Self, KeyError> {
        OperationKey::new(text).map(Self)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(text: &str) -> Value {
        crate::json::parse(text).unwrap()
    }

    #[test]
    fn the_published_key_is_the_published_one() {
        let arguments = arguments(r#"{"order_id": "A-7", "amount": 49.0}"#);
        let key = published_action_key("run-42", "issue_refund", &arguments);
        assert_eq!(key.as_str(), "91329aaacb7155b3");
    }

    #[test]
    fn parts_cannot_be_moved_across_a_border() {
        let none = arguments("{}");
        assert_eq!(
            published_action_key("r|x", "t", &none),
            published_action_key("r", "x|t", &none)
        );
        for [one, other] in [
            [("r|x", "t"), ("r", "x|t")],
            [("r\",\"x", "t"), ("r", "x\",\"t")],
            [("", "rt"), ("r", "t")],
            [("r", "t"), ("t", "r")],
        ] {
            assert_ne!(
                action_key(one.0, one.1, &none),
                action_key(other.0, other.1, &none),
                "{one:?} {other:?}"
            );
        }
    }

    #[test]
    fn a_node_is_no_other_node_and_no_action() {
        let key = node_key("run-42", "refund");
        assert_eq!(key, node_key("run-42", "refund"));
        assert_ne!(key, node_key("run-43", "refund"));
        assert_ne!(key, node_key("run-42", "notify"));
        assert_ne!(node_key("r|x", "n"), node_key("r", "x|n"));
        assert_ne!(key, action_key("run-42", "refund", &arguments("null")));
    }

    #[test]
    fn what_is_the_same_action() {
        for (one, other, same) in [
            (r#"{"a": 1, "b": 2}"#, r#"{"b": 2, "a": 1}"#, true),
            (r#"{"a": 1.0}"#, r#"{"a": 1e0}"#, true),
            (r#"{"a": 1}"#, r#"{"a": 1.0}"#, false),
            (r#"{"a": "\u00e9"}"#, r#"{"a": "é"}"#, true),
            (r#"{"a": "\u00e9"}"#, r#"{"a": "e\u0301"}"#, false),
            (r#"{"a": "1"}"#, r#"{"a": 1}"#, false),
            (r#"{}"#, r#"{"a": null}"#, false),
        ] {
            for derive in [action_key, published_action_key] {
                let key = |text: &str| derive("run", "tool", &arguments(text));
                assert_eq!(key(one) == key(other), same, "{one} {other}");
            }
        }
    }

    #[test]
    fn limits_are_in_characters() {
        assert_eq!(OperationKey::new(""), Err(KeyError::Empty));
        assert!(OperationKey::new("é".repeat(255)).is_ok());
        assert_eq!(
            OperationKey::new("é".repeat(256)),
            Err(KeyError::TooLong { chars: 256 })
        );
    }
}
