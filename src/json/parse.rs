//! The strict reader: `serde_json` knows the grammar, a visitor what is refused beyond it.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;
use serde_json::{Map, Number, Value};

use super::Canonical;

/// The longest text that is read, 1 MiB: far above any payload, and small enough that a hostile one costs little.
///
/// RFC 8259, section 9, lets a parser limit size.
pub const MAX_TEXT_BYTES: usize = 1 << 20;

/// How many arrays and objects may be open inside each other.
///
/// RFC 8259, section 9, lets a parser limit depth. The limit also bounds the recursion of whatever walks a parsed
/// value: printing, comparing, dropping.
pub const MAX_DEPTH: usize = 128;

/// How many digits an integer may have, the sign not counted.
///
/// CPython's own limit, `sys.int_info.default_max_str_digits`: a longer one could not be compared with it.
pub const MAX_INTEGER_DIGITS: usize = 4300;

/// Reads one JSON text by the [rules of this room](super#rules).
///
/// # Errors
///
/// A [`ParseError`] with the place of the first thing refused and what is wrong with it.
pub fn parse(text: &str) -> Result<Value, ParseError> {
    check_start(text.as_bytes())?;
    let mut reader = serde_json::Deserializer::from_str(text);
    // Its own limit is one less than ours.
    reader.disable_recursion_limit();
    let value = Strict { depth: 0 }.deserialize(&mut reader);
    value
        .and_then(|value| reader.end().map(|()| value))
        .map_err(|error| ParseError::explain(text, &error))
}

/// Reads one JSON text from bytes, which must be UTF-8 (RFC 8259, section 8.1).
///
/// # Errors
///
/// As [`parse`], and for bytes that are not UTF-8. Length and byte order mark are looked at first, so that a file that
/// begins with a mark is told so whatever follows.
pub fn parse_bytes(bytes: &[u8]) -> Result<Value, ParseError> {
    check_start(bytes)?;
    match std::str::from_utf8(bytes) {
        Ok(text) => parse(text),
        Err(error) => {
            let offset = error.valid_up_to();
            let reason = format!("not UTF-8 (after {offset} bytes)");
            Err(ParseError::new(&bytes[..offset], reason))
        }
    }
}

fn check_start(bytes: &[u8]) -> Result<(), ParseError> {
    if bytes.len() > MAX_TEXT_BYTES {
        let bytes = bytes.len();
        let reason = format!("the text has {bytes} bytes, more than {MAX_TEXT_BYTES}");
        return Err(ParseError::new(b"", reason));
    }
    if bytes.starts_with("\u{feff}".as_bytes()) {
        let reason = "the text begins with a byte order mark".to_owned();
        return Err(ParseError::new(b"", reason));
    }
    Ok(())
}

/// Reads a value that stands inside `depth` containers.
#[derive(Clone, Copy)]
struct Strict {
    depth: usize,
}

impl Strict {
    fn inside(self) -> Self {
        Self {
            depth: self.depth + 1,
        }
    }

    /// Whether a container may stand here.
    fn check_depth<E: Error>(self) -> Result<(), E> {
        if self.depth < MAX_DEPTH {
            return Ok(());
        }
        Err(E::custom(format_args!(
            "more than {MAX_DEPTH} arrays and objects inside each other"
        )))
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        self.check_depth()?;
        let mut read = Vec::new();
        while let Some(item) = items.next_element_seed(self.inside())? {
            read.push(item);
        }
        Ok(Value::Array(read))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut read = Map::new();
        while let Some(name) = members.next_key_seed(Name(self))? {
            let Some(name) = name else {
                return number(&members.next_value::<String>()?);
            };
            if read.contains_key(&name) {
                let name = shown_name(&name);
                return Err(A::Error::custom(format_args!("duplicate name {name}")));
            }
            let value = members.next_value_seed(self.inside())?;
            read.insert(name, value);
        }
        self.check_depth()?;
        Ok(Value::Object(read))
    }
}

/// Reads the name of a member of the object here, or `None` for the marker under which `serde_json`, with its feature
/// `arbitrary_precision`, hands over the text of a number that no 64-bit integer holds.
///
/// A document may use the marker as a name. But it offers its own names as optional, as other formats have names that
/// are null, and the marker plainly.
struct Name(Strict);

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Option<String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for Name {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_some<D: Deserializer<'de>>(self, name: D) -> Result<Self::Value, D::Error> {
        // Before the name is read, so that the error's place is that of the bracket.
        self.0.check_depth()?;
        String::deserialize(name).map(Some)
    }

    fn visit_str<E>(self, _marker: &str) -> Result<Self::Value, E> {
        Ok(None)
    }
}

/// The number that this text writes.
fn number<E: Error>(text: &str) -> Result<Value, E> {
    if text.contains(['.', 'e', 'E']) {
        // One too large gives an infinity.
        return match text.parse().ok().and_then(Number::from_f64) {
            Some(float) => Ok(Value::Number(float)),
            None => Err(E::custom("number too large")),
        };
    }
    let digits = text.trim_start_matches('-').len();
    if digits > MAX_INTEGER_DIGITS {
        return Err(E::custom(format_args!(
            "integer of {digits} digits, more than {MAX_INTEGER_DIGITS}"
        )));
    }
    let canonical = if text == "-0" { "0" } else { text };
    canonical.parse().map(Value::Number).map_err(E::custom)
}

/// The name as JSON, cut so that a hostile one cannot flood the message.
fn shown_name(name: &str) -> String {
    const LONGEST: usize = 64;
    match name.char_indices().nth(LONGEST) {
        Some((cut, _)) => Value::from(&name[..cut]).compact() + "...",
        None => Value::from(name).compact(),
    }
}

/// Why a text was refused, and where.
///
/// The place is the start of whatever is refused; where something is missing, it is the place at which that was
/// expected. Lines end at line feeds. Displayed as `line 3, column 14: duplicate name "key"`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    line: usize,
    column: usize,
    reason: String,
}

impl ParseError {
    /// `before` is the text up to the place of the error.
    fn new(before: &[u8], reason: String) -> Self {
        let line_start = before
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |newline| newline + 1);
        let newlines = before.iter().filter(|byte| **byte == b'\n').count();
        // A character has one byte that is not of the form 10xxxxxx.
        let characters = before[line_start..]
            .iter()
            .filter(|byte| **byte & 0xc0 != 0x80)
            .count();
        Self {
            line: newlines + 1,
            column: characters + 1,
            reason,
        }
    }

    /// What `serde_json` says of `text`, with the place as this room counts it, and with what was found there.
    ///
    /// It stops behind the byte that it refuses, and behind what our visitor refuses.
    fn explain(text: &str, error: &serde_json::Error) -> Self {
        let lines_before = text.split_inclusive('\n').take(error.line() - 1);
        let stop = lines_before.map(str::len).sum::<usize>() + error.column();
        let reason = error.to_string();
        let place = format!(" at line {} column {}", error.line(), error.column());
        let reason = reason.strip_suffix(&place).unwrap_or(&reason);
        let (at, reason) = match error.classify() {
            Category::Eof => (text.len(), reason.to_owned()),
            Category::Data => (token_start(&text[..stop]), reason.to_owned()),
            Category::Syntax | Category::Io => syntax(
                text,
                text.floor_char_boundary(stop.saturating_sub(1)),
                reason,
            ),
        };
        Self::new(&text.as_bytes()[..at], reason)
    }

    /// The line, counted from 1.
    pub fn line(&self) -> usize {
        self.line
    }

    /// The column, counted in characters from 1.
    pub fn column(&self) -> usize {
        self.column
    }

    /// What was refused.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            line,
            column,
            reason,
        } = self;
        write!(f, "line {line}, column {column}: {reason}")
    }
}

impl std::error::Error for ParseError {}

/// The start of the last name, number or opening bracket before this place. `serde_json` goes on to the end of a
/// container in which our visitor refuses something, over space and a bracket or a comma.
fn token_start(before: &str) -> usize {
    let before = before.trim_end_matches([' ', '\t', '\n', '\r', ',', ']', '}']);
    if let Some(name) = before.strip_suffix('"') {
        let escaped = |at: usize| {
            let backslashes = name[..at].bytes().rev().take_while(|byte| *byte == b'\\');
            backslashes.count() % 2 == 1
        };
        let mut quotes = name.rmatch_indices('"').map(|(at, _)| at);
        return quotes.find(|at| !escaped(*at)).unwrap_or(0);
    }
    if let Some(outside) = before.strip_suffix(['[', '{']) {
        return outside.len();
    }
    let in_number = |found: char| found.is_ascii_alphanumeric() || ['-', '+', '.'].contains(&found);
    before.trim_end_matches(in_number).len()
}

/// The place and the reason of a breach of the grammar: `at` is the character that `serde_json` refused for `reason`.
fn syntax(text: &str, at: usize, reason: &str) -> (usize, String) {
    let before = &text[..at];
    let found = Found(&text[at..]);
    match reason {
        "invalid number" if text[at..].starts_with(|found: char| found.is_ascii_digit()) => {
            (at - 1, "number with a leading zero".to_owned())
        }
        "invalid number" => (at, format!("expected a digit, found {found}")),
        "expected ident" => (at, format!("expected true, false or null, found {found}")),
        "invalid escape" => {
            let at = before.rfind('\\').unwrap_or(at);
            let reason = match &text[at + 1..] {
                rest if rest.starts_with('u') => "\\u needs four hexadecimal digits".to_owned(),
                rest => format!("a backslash before {} is no escape", Found(rest)),
            };
            (at, reason)
        }
        "lone leading surrogate in hex escape" | "unexpected end of hex escape" => {
            let mut pairs = before.as_bytes().windows(2);
            let last = pairs.rposition(|pair| pair == b"\\u").unwrap_or(at);
            // Of two escapes the second was to be the partner of the first.
            let at = match last.checked_sub(ESCAPE) {
                Some(first) if reason.starts_with("lone") && !is_second_half(&text[last..]) => {
                    first
                }
                _ => last,
            };
            (
                at,
                format!("surrogate {} without its partner", &text[at..at + ESCAPE]),
            )
        }
        "trailing characters" => (at, reason.to_owned()),
        _ if reason.starts_with("control character") => {
            (at, format!("unescaped control character {found}"))
        }
        _ => (at, format!("{reason}, found {found}")),
    }
}

/// The length of a `\u` escape.
const ESCAPE: usize = "\\u0000".len();

/// Whether this escape names the second half of a surrogate pair.
fn is_second_half(escape: &str) -> bool {
    let unit = escape
        .get(2..ESCAPE)
        .map(|hex| u16::from_str_radix(hex, 16));
    matches!(unit, Some(Ok(0xdc00..=0xdfff)))
}

/// What begins a text, as a message shows it: a word whole, another character by number when it might be invisible or
/// look like another.
struct Found<'t>(&'t str);

impl fmt::Display for Found<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LONGEST: usize = 16;
        let letters = self.0.bytes().take(LONGEST);
        let word = letters.take_while(u8::is_ascii_alphabetic).count();
        match self.0.chars().next() {
            Some('!'..='~') => write!(f, "`{}`", &self.0[..word.max(1)]),
            Some(other) => write!(f, "U+{:04X}", u32::from(other)),
            None => f.write_str("the end of the text"),
        }
    }
}
