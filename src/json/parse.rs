//! The strict parser: one pass over the bytes, recursion bounded by [`MAX_DEPTH`].

use super::decimal::nearest;
use super::print::push_string;
use super::{Finite, Integer, Members, Value};
use std::fmt;

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
/// A [`ParseError`] with the place and the [kind](ParseErrorKind) of the first thing refused.
pub fn parse(text: &str) -> Result<Value, ParseError> {
    check_length(text.len())?;
    if text.starts_with('\u{feff}') {
        return Err(ParseError::new(b"", ParseErrorKind::ByteOrderMark));
    }
    let mut parser = Parser { text, at: 0 };
    parser.skip_space();
    if parser.peek().is_none() {
        return Err(parser.error_here(ParseErrorKind::Empty));
    }
    let value = parser.value(0)?;
    parser.skip_space();
    match parser.peek() {
        None => Ok(value),
        Some(_) => Err(parser.error_here(ParseErrorKind::TrailingText)),
    }
}

/// Reads one JSON text from bytes, which must be UTF-8 (RFC 8259, section 8.1).
///
/// # Errors
///
/// As [`parse`], and [`ParseErrorKind::NotUtf8`]. Length and byte order mark are looked at first, so that a file that
/// begins with a mark is told so whatever follows.
pub fn parse_bytes(bytes: &[u8]) -> Result<Value, ParseError> {
    check_length(bytes.len())?;
    if bytes.starts_with("\u{feff}".as_bytes()) {
        return Err(ParseError::new(b"", ParseErrorKind::ByteOrderMark));
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => parse(text),
        Err(error) => {
            let offset = error.valid_up_to();
            Err(ParseError::new(
                &bytes[..offset],
                ParseErrorKind::NotUtf8 { offset },
            ))
        }
    }
}

fn check_length(bytes: usize) -> Result<(), ParseError> {
    if bytes > MAX_TEXT_BYTES {
        Err(ParseError::new(b"", ParseErrorKind::TooLong { bytes }))
    } else {
        Ok(())
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
    kind: ParseErrorKind,
}

/// What was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParseErrorKind {
    /// The text has more than [`MAX_TEXT_BYTES`] bytes. Nothing of it was read; the place is its start.
    TooLong {
        /// The length of the text.
        bytes: usize,
    },
    /// The bytes are not UTF-8. The place counts the characters before the first wrong byte.
    NotUtf8 {
        /// How many bytes stand before the first wrong one.
        offset: usize,
    },
    /// The text begins with a byte order mark, U+FEFF.
    ByteOrderMark,
    /// The text is empty or holds nothing but space.
    Empty,
    /// The text ends inside a value.
    UnexpectedEnd {
        /// What should have come.
        expected: &'static str,
    },
    /// A character cannot stand where it does.
    Unexpected {
        /// What should have come.
        expected: &'static str,
        /// What came.
        found: char,
    },
    /// Something other than space follows the value.
    TrailingText,
    /// An array or object opens inside [`MAX_DEPTH`] others.
    TooDeep,
    /// An object repeats a name; names are compared after their escapes are decoded. The place is the second name.
    DuplicateName {
        /// The decoded name.
        name: String,
    },
    /// `NaN`, `Infinity` or `-Infinity`.
    NotFinite {
        /// Which of them.
        literal: &'static str,
    },
    /// A number with a fraction or an exponent lies beyond the largest `f64`.
    FloatOverflow,
    /// An integer has more than [`MAX_INTEGER_DIGITS`] digits.
    IntegerTooLong {
        /// How many it has.
        digits: usize,
    },
    /// A number begins with `+`.
    LeadingPlus,
    /// A zero stands before other digits, as in `01` and `-00.5`.
    LeadingZero,
    /// No digit stands before the point, as in `.5`.
    MissingInteger,
    /// No digit follows the point, as in `1.`.
    MissingFraction,
    /// No digit follows the exponent's `e`, as in `1e` and `1e+`.
    MissingExponent,
    /// A character below U+0020 stands in a string unescaped.
    ControlCharacter {
        /// The character.
        found: char,
    },
    /// A backslash is followed by a character that begins no escape.
    BadEscape {
        /// The character after the backslash.
        found: char,
    },
    /// Fewer than four hexadecimal digits follow `\u`.
    BadUnicodeEscape,
    /// A `\u` escape names one half of a surrogate pair and the other half is not beside it.
    LoneSurrogate {
        /// The half that stands alone.
        unit: u16,
    },
}

impl ParseError {
    /// `before` is the text up to the place of the error.
    fn new(before: &[u8], kind: ParseErrorKind) -> Self {
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
            kind,
        }
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
    pub fn kind(&self) -> &ParseErrorKind {
        &self.kind
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "line {}, column {}: {}",
            self.line, self.column, self.kind
        )
    }
}

impl std::error::Error for ParseError {}

impl fmt::Display for ParseErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { bytes } => {
                write!(f, "the text has {bytes} bytes, more than {MAX_TEXT_BYTES}")
            }
            Self::NotUtf8 { offset } => write!(f, "not UTF-8 (after {offset} bytes)"),
            Self::ByteOrderMark => f.write_str("the text begins with a byte order mark"),
            Self::Empty => f.write_str("the text holds no value"),
            Self::UnexpectedEnd { expected } => {
                write!(f, "expected {expected}, found the end of the text")
            }
            Self::Unexpected { expected, found } => {
                write!(f, "expected {expected}, found {}", Shown(*found))
            }
            Self::TrailingText => f.write_str("text after the value"),
            Self::TooDeep => write!(
                f,
                "more than {MAX_DEPTH} arrays and objects inside each other"
            ),
            Self::DuplicateName { name } => write!(f, "duplicate name {}", shown_name(name)),
            Self::NotFinite { literal } => write!(f, "{literal} is not JSON"),
            Self::FloatOverflow => f.write_str("number too large"),
            Self::IntegerTooLong { digits } => {
                write!(
                    f,
                    "integer of {digits} digits, more than {MAX_INTEGER_DIGITS}"
                )
            }
            Self::LeadingPlus => f.write_str("number with a leading plus sign"),
            Self::LeadingZero => f.write_str("number with a leading zero"),
            Self::MissingInteger => f.write_str("number without a digit before the point"),
            Self::MissingFraction => f.write_str("number without a digit after the point"),
            Self::MissingExponent => f.write_str("number without a digit in the exponent"),
            Self::ControlCharacter { found } => {
                write!(f, "unescaped control character {}", Shown(*found))
            }
            Self::BadEscape { found } => {
                write!(f, "a backslash before {} is no escape", Shown(*found))
            }
            Self::BadUnicodeEscape => f.write_str("\\u needs four hexadecimal digits"),
            Self::LoneSurrogate { unit } => {
                write!(f, "surrogate \\u{unit:04x} without its partner")
            }
        }
    }
}

/// A character as a message shows it: by number when it might be invisible or look like another.
struct Shown(char);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            '!'..='~' => write!(f, "`{}`", self.0),
            other => write!(f, "U+{:04X}", u32::from(other)),
        }
    }
}

/// The name as JSON, cut so that a hostile one cannot flood the message.
fn shown_name(name: &str) -> String {
    const LONGEST: usize = 64;
    let cut = name
        .char_indices()
        .nth(LONGEST)
        .map_or(name.len(), |(offset, _)| offset);
    let mut out = String::new();
    push_string(&mut out, &name[..cut]);
    if cut < name.len() {
        out.push_str("...");
    }
    out
}

/// `at` is a byte offset. It moves over ASCII bytes one by one and over other characters only inside strings, whose
/// ends are ASCII, so every slice taken begins and ends between characters.
struct Parser<'t> {
    text: &'t str,
    at: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Moves over this byte if it comes next.
    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn error_at(&self, at: usize, kind: ParseErrorKind) -> ParseError {
        ParseError::new(&self.text.as_bytes()[..at], kind)
    }

    fn error_here(&self, kind: ParseErrorKind) -> ParseError {
        self.error_at(self.at, kind)
    }

    /// What comes next is not what the grammar asks for.
    fn unexpected(&self, expected: &'static str) -> ParseError {
        self.error_here(match self.text[self.at..].chars().next() {
            Some(found) => ParseErrorKind::Unexpected { expected, found },
            None => ParseErrorKind::UnexpectedEnd { expected },
        })
    }

    /// `depth` containers are open around this value.
    fn value(&mut self, depth: usize) -> Result<Value, ParseError> {
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => Ok(Value::String(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            Some(b'+') => Err(self.error_here(ParseErrorKind::LeadingPlus)),
            Some(b'.') => Err(self.error_here(ParseErrorKind::MissingInteger)),
            _ => {
                for literal in ["NaN", "Infinity"] {
                    if self.text[self.at..].starts_with(literal) {
                        return Err(self.error_here(ParseErrorKind::NotFinite { literal }));
                    }
                }
                Err(self.unexpected("a value"))
            }
        }
    }

    fn word(&mut self, word: &'static str, value: Value) -> Result<Value, ParseError> {
        for byte in word.bytes() {
            if !self.take(byte) {
                return Err(self.unexpected(word));
            }
        }
        Ok(value)
    }

    /// Moves over the bracket that opens a container and the space after it.
    fn open(&mut self, depth: usize) -> Result<(), ParseError> {
        if depth == MAX_DEPTH {
            return Err(self.error_here(ParseErrorKind::TooDeep));
        }
        self.at += 1;
        self.skip_space();
        Ok(())
    }

    fn array(&mut self, depth: usize) -> Result<Value, ParseError> {
        self.open(depth)?;
        let mut items = Vec::new();
        if self.take(b']') {
            return Ok(Value::Array(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.skip_space();
            if self.take(b']') {
                return Ok(Value::Array(items));
            }
            if !self.take(b',') {
                return Err(self.unexpected("`,` or `]`"));
            }
            self.skip_space();
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, ParseError> {
        self.open(depth)?;
        let mut read = Vec::new();
        let end = self.members(depth, &mut read);
        // Sorted once: a search for each name would take a tree, or time that grows with the square of their number. Of
        // two faults the first in the text is reported, and what ended the reading lies behind every name.
        read.sort_unstable_by(|(name, at, _), (other, place, _)| (name, at).cmp(&(other, place)));
        let repeated = read.windows(2).filter(|pair| pair[0].0 == pair[1].0);
        if let Some(at) = repeated.map(|pair| pair[1].1).min()
            && let Some((name, _, _)) = read.iter().find(|(_, place, _)| *place == at)
        {
            let name = name.clone();
            return Err(self.error_at(at, ParseErrorKind::DuplicateName { name }));
        }
        end?;
        let members = read.into_iter().map(|(name, _, value)| (name, value));
        Ok(Value::Object(Members::from_sorted(members.collect())))
    }

    /// Reads members to the end of their object, each as its name, the place of the name and its value, which is `null`
    /// until it is read.
    fn members(
        &mut self,
        depth: usize,
        read: &mut Vec<(String, usize, Value)>,
    ) -> Result<(), ParseError> {
        if self.take(b'}') {
            return Ok(());
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.unexpected("a name in double quotes"));
            }
            let name_at = self.at;
            let name = self.string()?;
            read.push((name, name_at, Value::Null));
            self.skip_space();
            if !self.take(b':') {
                return Err(self.unexpected("`:`"));
            }
            self.skip_space();
            let value = self.value(depth + 1)?;
            if let Some((_, _, null)) = read.last_mut() {
                *null = value;
            }
            self.skip_space();
            if self.take(b'}') {
                return Ok(());
            }
            if !self.take(b',') {
                return Err(self.unexpected("`,` or `}`"));
            }
            self.skip_space();
        }
    }

    /// Moves over digits and says how many there were.
    fn digits(&mut self) -> usize {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        self.at - start
    }

    fn number(&mut self) -> Result<Value, ParseError> {
        let start = self.at;
        if self.take(b'-') {
            match self.peek() {
                Some(b'0'..=b'9') => {}
                Some(b'.') => return Err(self.error_here(ParseErrorKind::MissingInteger)),
                _ if self.text[self.at..].starts_with("Infinity") => {
                    return Err(self.error_at(
                        start,
                        ParseErrorKind::NotFinite {
                            literal: "-Infinity",
                        },
                    ));
                }
                _ => return Err(self.unexpected("a digit")),
            }
        }
        let first = self.at;
        let digits = self.digits();
        if digits > 1 && self.text.as_bytes()[first] == b'0' {
            return Err(self.error_at(first, ParseErrorKind::LeadingZero));
        }
        let mut integer = true;
        if self.take(b'.') {
            integer = false;
            if self.digits() == 0 {
                return Err(self.error_here(ParseErrorKind::MissingFraction));
            }
        }
        if self.take(b'e') || self.take(b'E') {
            integer = false;
            if !self.take(b'-') {
                self.take(b'+');
            }
            if self.digits() == 0 {
                return Err(self.error_here(ParseErrorKind::MissingExponent));
            }
        }
        let text = &self.text[start..self.at];
        if !integer {
            // One too large gives an infinity.
            return Finite::try_from(nearest(text))
                .map(Value::Float)
                .map_err(|_| self.error_at(start, ParseErrorKind::FloatOverflow));
        }
        if digits > MAX_INTEGER_DIGITS {
            return Err(self.error_at(start, ParseErrorKind::IntegerTooLong { digits }));
        }
        let canonical = if text == "-0" { "0" } else { text };
        Ok(Value::Integer(Integer(canonical.to_owned())))
    }

    fn string(&mut self) -> Result<String, ParseError> {
        self.at += 1;
        let mut out = String::new();
        let mut copied = self.at;
        loop {
            match self.peek() {
                None => return Err(self.unexpected("a closing quote")),
                Some(b'"') => {
                    out.push_str(&self.text[copied..self.at]);
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => {
                    out.push_str(&self.text[copied..self.at]);
                    out.push(self.escape()?);
                    copied = self.at;
                }
                Some(control @ 0..=0x1f) => {
                    return Err(self.error_here(ParseErrorKind::ControlCharacter {
                        found: char::from(control),
                    }));
                }
                Some(_) => self.at += 1,
            }
        }
    }

    fn escape(&mut self) -> Result<char, ParseError> {
        let start = self.at;
        self.at += 1;
        let Some(found) = self.text[self.at..].chars().next() else {
            return Err(self.unexpected("the rest of an escape"));
        };
        self.at += found.len_utf8();
        Ok(match found {
            '"' | '\\' | '/' => found,
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => return self.unicode_escape(start),
            _ => return Err(self.error_at(start, ParseErrorKind::BadEscape { found })),
        })
    }

    /// Reads what follows `\u`; `start` is the backslash.
    fn unicode_escape(&mut self, start: usize) -> Result<char, ParseError> {
        let first = self.hexadecimal(start)?;
        let second_at = self.at;
        let mut units = [first, 0];
        let mut length = 1;
        if (0xd800..0xdc00).contains(&first) && self.text[second_at..].starts_with("\\u") {
            self.at += 2;
            units[1] = self.hexadecimal(second_at)?;
            length = 2;
        }
        // One unit outside the surrogates, or a pair, gives one character; anything else begins with a lone half.
        match char::decode_utf16(units[..length].iter().copied()).next() {
            Some(Ok(character)) => Ok(character),
            _ => Err(self.error_at(start, ParseErrorKind::LoneSurrogate { unit: first })),
        }
    }

    fn hexadecimal(&mut self, start: usize) -> Result<u16, ParseError> {
        let mut unit = 0;
        for _ in 0..4 {
            let Some(byte) = self.peek() else {
                return Err(self.unexpected("a hexadecimal digit"));
            };
            let Some(digit) = char::from(byte).to_digit(16) else {
                return Err(self.error_at(start, ParseErrorKind::BadUnicodeEscape));
            };
            unit = unit << 4 | digit as u16;
            self.at += 1;
        }
        Ok(unit)
    }
}
