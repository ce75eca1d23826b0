//! Operation keys: the name of one intention, made by the caller before the first attempt.

use std::fmt;

use crate::digest::sha256_hex;
use crate::json::{Canonical, Value};
use crate::text::visible;

/// An idempotency key: one key means one intention, through every retry of it.
///
/// The caller makes it when it accepts the operation and stores it before dispatch. The key names
/// the operation; it grants nothing to whoever holds it.
///
/// [`OperationKey::as_str`] is the key itself, for storing and comparing. What [`fmt::Display`]
/// writes is for people: what cannot be seen is escaped, as by [`visible`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OperationKey(String);

/// What a text names, in a [`KeyError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part {
    /// A whole key.
    Key,
    /// The run of an action or a node.
    Run,
    /// The tool of an action.
    Tool,
    /// The node of a run.
    Node,
    /// The tenant whose key it is.
    Tenant,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Key => "an operation key",
            Self::Run => "the run in an operation key",
            Self::Tool => "the tool in an operation key",
            Self::Node => "the node in an operation key",
            Self::Tenant => "the tenant of an operation key",
        })
    }
}

/// Text that is no key, or no part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyError {
    /// There is no text.
    Empty(
        /// Where.
        Part,
    ),
    /// Nothing of the text shows: it has white space only, or characters that are drawn as nothing.
    Blank(
        /// Where.
        Part,
    ),
    /// A character acts on the text around it. See [`OperationKey::new`].
    Control {
        /// Where.
        part: Part,
        /// Its place, in characters from 1.
        position: usize,
        /// The character.
        character: char,
    },
    /// The key has more than [`OperationKey::MAX_CHARS`] characters.
    TooLong {
        /// How many it has.
        chars: usize,
    },
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Empty(part) => write!(f, "{part} is empty"),
            Self::Blank(part) => write!(f, "{part} is blank"),
            Self::Control {
                part,
                position,
                character,
            } => write!(
                f,
                "{part} has a control character at position {position}: U+{:04X}",
                u32::from(character)
            ),
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
    /// [`KeyError`] for a text that is empty, blank or too long, or has a character that acts on
    /// what stands around it:
    ///
    /// - a control character, C0, DEL or C1: it can end a line, a header or a C string, and begin a
    ///   terminal's command;
    /// - the separators of lines and paragraphs, U+2028 and U+2029: some readers end a line there;
    /// - a character that sets the direction of writing (`Bidi_Control` in
    ///   <https://www.unicode.org/reports/tr9/#Directional_Formatting_Characters>): with it two keys
    ///   can look alike, or a line of a log read as another.
    ///
    /// Text of any script may stand, right-to-left ones included.
    pub fn new(text: impl Into<String>) -> Result<Self, KeyError> {
        let text = text.into();
        checked(Part::Key, &text)?;
        match text.chars().count() {
            chars if chars > Self::MAX_CHARS => Err(KeyError::TooLong { chars }),
            _ => Ok(Self(text)),
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// `text`, if it can name something.
fn checked(part: Part, text: &str) -> Result<&str, KeyError> {
    if text.is_empty() {
        return Err(KeyError::Empty(part));
    }
    if text.chars().all(shows_nothing) {
        return Err(KeyError::Blank(part));
    }
    match text.chars().enumerate().find(|(_, found)| acts(*found)) {
        Some((index, character)) => Err(KeyError::Control {
            part,
            position: index + 1,
            character,
        }),
        None => Ok(text),
    }
}

/// Whether a character acts on what stands around it, as [`OperationKey::new`] lists them.
fn acts(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

/// Whether nothing is drawn for a character: white space, and what Unicode lets a font leave out
/// (`Default_Ignorable_Code_Point` of
/// <https://www.unicode.org/Public/17.0.0/ucd/DerivedCoreProperties.txt>), and the blank Braille
/// pattern.
fn shows_nothing(character: char) -> bool {
    character.is_whitespace()
        || matches!(
            character,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
        )
}

/// The key of an action: what an agent run does with one tool and these arguments, however often it
/// is attempted. A new run gets a new key.
///
/// 64 hex digits: the SHA-256 of the compact array `[run, tool, arguments]`. A canonical array can be
/// read back, so different actions have different texts. What counts as different follows
/// [`Value`]: the order of members does not matter, `1` and `1.0` differ while `1.0` and `1e0` are
/// one float, and text is compared by code point, so that composed and decomposed accents differ.
///
/// # Errors
///
/// [`KeyError`] for a run or a tool that could not be a key, but for its length: with an empty run,
/// say, all runs would share their keys. The arguments are any JSON.
pub fn action_key(run: &str, tool: &str, arguments: &Value) -> Result<OperationKey, KeyError> {
    let (run, tool) = (checked(Part::Run, run)?, checked(Part::Tool, tool)?);
    let action = Value::Array(vec![run.into(), tool.into(), arguments.clone()]);
    Ok(OperationKey(sha256_hex(&action.compact())))
}

/// The key of a node of an agent run: the same when the node runs again after a crash, whatever its
/// arguments have become. 64 hex digits: the SHA-256 of the compact array `[run, node]`.
///
/// # Errors
///
/// [`KeyError`] for a run or a node, as with [`action_key`].
pub fn node_key(run: &str, node: &str) -> Result<OperationKey, KeyError> {
    let (run, node) = (checked(Part::Run, run)?, checked(Part::Node, node)?);
    let node = Value::from(vec![run, node]);
    Ok(OperationKey(sha256_hex(&node.compact())))
}

/// The key of an action as the lesson publishes it: the first 16 hex digits of the SHA-256 of
/// `run|tool|arguments`, the arguments in spaced form.
///
/// Kept for its known answer. A `|` inside a part moves the border between parts: run `r|x` with
/// tool `t` and run `r` with tool `x|t` share one key. [`action_key`] has no such pairs.
///
/// # Errors
///
/// [`KeyError`] for a run or a tool, as with [`action_key`].
pub fn published_action_key(
    run: &str,
    tool: &str,
    arguments: &Value,
) -> Result<OperationKey, KeyError> {
    let (run, tool) = (checked(Part::Run, run)?, checked(Part::Tool, tool)?);
    let mut digest = sha256_hex(&format!("{run}|{tool}|{}", arguments.spaced()));
    digest.truncate(16);
    Ok(OperationKey(digest))
}

impl fmt::Display for OperationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        visible(&self.0).fmt(f)
    }
}

/// Whose key it is: one text is another key for another tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tenant(String);

impl Tenant {
    /// Takes the text as it is.
    ///
    /// # Errors
    ///
    /// [`KeyError`] for a text that could not be a key, but for its length.
    pub fn new(text: impl Into<String>) -> Result<Self, KeyError> {
        let text = text.into();
        checked(Part::Tenant, &text)?;
        Ok(Self(text))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
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
        let key = published_action_key("run-42", "issue_refund", &arguments).unwrap();
        assert_eq!(key.as_str(), "91329aaacb7155b3");
    }

    #[test]
    fn parts_cannot_be_moved_across_a_border() {
        let none = arguments("{}");
        assert_eq!(
            published_action_key("r|x", "t", &none).unwrap(),
            published_action_key("r", "x|t", &none).unwrap()
        );
        for [one, other] in [
            [("r|x", "t"), ("r", "x|t")],
            [("r\",\"x", "t"), ("r", "x\",\"t")],
            [("r", "tt"), ("rt", "t")],
            [("r", "t"), ("t", "r")],
        ] {
            assert_ne!(
                action_key(one.0, one.1, &none).unwrap(),
                action_key(other.0, other.1, &none).unwrap(),
                "{one:?} {other:?}"
            );
        }
    }

    #[test]
    fn a_node_is_no_other_node_and_no_action() {
        let node = |run, node| node_key(run, node).unwrap();
        let key = node("run-42", "refund");
        assert_eq!(key, node("run-42", "refund"));
        assert_ne!(key, node("run-43", "refund"));
        assert_ne!(key, node("run-42", "notify"));
        assert_ne!(node("r|x", "n"), node("r", "x|n"));
        assert_ne!(
            key,
            action_key("run-42", "refund", &arguments("null")).unwrap()
        );
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
                let key = |text: &str| derive("run", "tool", &arguments(text)).unwrap();
                assert_eq!(key(one) == key(other), same, "{one} {other}");
            }
        }
    }

    #[test]
    fn limits_are_in_characters() {
        assert!(OperationKey::new("é".repeat(255)).is_ok());
        assert_eq!(
            OperationKey::new("é".repeat(256)),
            Err(KeyError::TooLong { chars: 256 })
        );
    }

    /// Each part is refused by its name, wherever it stands; the arguments are any JSON.
    #[test]
    fn a_part_that_names_nothing_is_refused_by_its_name() {
        let any = arguments(r#"{"": "\u0000\u001b[31m", " ": "\u202e"}"#);
        type Derive<'a> = &'a dyn Fn(&str) -> Result<OperationKey, KeyError>;
        let derivations: [(&str, Derive<'_>); 8] = [
            ("the tenant of an operation key", &|tenant| {
                Tenant::new(tenant).and_then(|tenant| OperationKey::new(tenant.as_str()))
            }),
            ("an operation key", &|text| OperationKey::new(text)),
            ("the run in an operation key", &|run| {
                action_key(run, "tool", &any)
            }),
            ("the tool in an operation key", &|tool| {
                action_key("run", tool, &any)
            }),
            ("the run in an operation key", &|run| {
                published_action_key(run, "tool", &any)
            }),
            ("the tool in an operation key", &|tool| {
                published_action_key("run", tool, &any)
            }),
            ("the run in an operation key", &|run| node_key(run, "node")),
            ("the node in an operation key", &|node| {
                node_key("run", node)
            }),
        ];
        for (part, derive) in derivations {
            assert!(derive("x").is_ok());
            for (text, problem) in [
                ("", "is empty"),
                (" ", "is blank"),
                ("\t \r\n", "is blank"),
                ("\u{a0}\u{2003}\u{3000}\u{2028}", "is blank"),
                ("\u{feff}\u{200b}\u{2800} ", "is blank"),
                ("\0", "has a control character at position 1: U+0000"),
                ("ключ\0", "has a control character at position 5: U+0000"),
                (
                    "a\u{1b}[2J",
                    "has a control character at position 2: U+001B",
                ),
                ("a\u{7f}b", "has a control character at position 2: U+007F"),
                ("a\u{9b}2J", "has a control character at position 2: U+009B"),
                ("a\nb", "has a control character at position 2: U+000A"),
                (
                    "a\u{2029}b",
                    "has a control character at position 2: U+2029",
                ),
                (
                    "a\u{202e}b",
                    "has a control character at position 2: U+202E",
                ),
            ] {
                let error = derive(text).unwrap_err().to_string();
                assert_eq!(error, format!("{part} {problem}"), "{text:?}");
            }
        }
    }

    /// Every character inside a key: refused if it acts, else kept, and shown so that it does not.
    #[test]
    fn whatever_is_accepted_can_be_printed() {
        let mut refused = Vec::new();
        for character in '\0'..=char::MAX {
            match OperationKey::new(format!("a{character}b")) {
                Err(_) => refused.push(u32::from(character)),
                Ok(key) => {
                    assert_eq!(key.as_str().chars().nth(1), Some(character));
                    assert!(!key.to_string().contains(acts), "{character:?}");
                }
            }
        }
        let expected: Vec<u32> = [
            0..=0x1f,
            0x7f..=0x9f,
            0x61c..=0x61c,
            0x200e..=0x200f,
            0x2028..=0x202e,
            0x2066..=0x2069,
        ]
        .into_iter()
        .flatten()
        .collect();
        assert_eq!(refused, expected);
    }

    #[test]
    fn a_key_is_shown_with_what_hides_in_it() {
        for (text, shown) in [
            (
                "ключ '; DROP TABLE tickets; --",
                "ключ '; DROP TABLE tickets; --",
            ),
            ("a\u{200b}b", "a\\u{200b}b"),
            (" a ", " a "),
            ("\u{5de}\u{5e4}", "\u{5de}\u{5e4}"),
        ] {
            assert_eq!(OperationKey::new(text).unwrap().to_string(), shown);
        }
    }
}
