//! Operation keys: the name of one intention, made by the caller before the first attempt.

use std::fmt;

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

impl fmt::Display for OperationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
