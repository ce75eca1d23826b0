//! Strict JSON parsing and canonical printing.
//!
//! A payload is recognised by its text, so one value must have one text, on every target and in the Python lab whose
//! fingerprints the article repeats. [`parse()`] therefore keeps everything that the text says or refuses it, and the
//! three printers give, to the byte, what CPython's `json.dumps` gives with `sort_keys=True` and its default
//! `ensure_ascii=True`: `tests/data/python_json.py` records CPython's answers, `tests/json.rs` compares.
//!
//! # Why not `serde_json`
//!
//! As it comes, it reads an integer beyond 64 bits as an `f64` and so loses digits. With its feature
//! `arbitrary_precision` the digits stay, but travel under a private marker that a document can forge. In neither
//! form does it refuse an object that repeats a name. It is an oracle of the tests.
//!
//! # Rules
//!
//! The grammar is that of RFC 8259, and nothing beyond it is accepted. Where the RFC leaves a choice:
//!
//! | rule | source |
//! | --- | --- |
//! | a repeated name is refused; escapes are decoded before names are compared | RFC 8259, section 4: the behaviour on repeated names differs between parsers |
//! | an integer (no fraction, no exponent) keeps all its digits; `-0` is the integer 0 | CPython's `int` |
//! | at most [`MAX_INTEGER_DIGITS`] digits in an integer | CPython's `sys.int_info.default_max_str_digits` |
//! | any other number is the nearest `f64`; one that overflows is refused, one that underflows is 0.0 or -0.0 | section 6 lets range and precision be limited; CPython gives an infinity on overflow |
//! | `NaN`, `Infinity`, `-Infinity` are refused | section 6; CPython reads them |
//! | an escaped surrogate without its partner is refused | section 8.2; CPython reads it |
//! | a byte order mark is refused | section 8.1 lets a parser choose |
//! | at most [`MAX_TEXT_BYTES`] bytes, at most [`MAX_DEPTH`] containers inside each other | section 9 lets size and depth be limited |
//! | names sort by code point | CPython's order of `str` |
//! | floats print as CPython's `repr` prints them | `float.__repr__` |

mod decimal;
mod members;
mod parse;
mod print;

pub use members::Members;
pub use parse::{
    MAX_DEPTH, MAX_INTEGER_DIGITS, MAX_TEXT_BYTES, ParseError, ParseErrorKind, parse, parse_bytes,
};

use std::fmt;

/// A JSON value.
///
/// Two values are equal exactly when their canonical texts are: `1` and `1.0` differ, and so do `0.0` and `-0.0`.
///
/// # Depth
///
/// A value from [`parse()`] nests at most [`MAX_DEPTH`] deep. One built by code is not bounded: [`parse()`] refuses the
/// text of a deeper one, and printing, cloning, comparing or dropping one that nests many thousands deep can exhaust
/// the stack, because each of them recurses. Nothing in this crate builds values from unbounded input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number written without fraction and exponent, of any size.
    Integer(Integer),
    /// A number written with a fraction or an exponent.
    Float(Finite),
    /// A string of Unicode scalar values.
    String(String),
    /// An array.
    Array(Vec<Value>),
    /// An object.
    Object(Members),
}

/// An integer of any size, kept as canonical decimal text: no leading zero, no `+`, no `-0`.
///
/// Text and not a machine integer, because a payload's fingerprint must keep every digit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Integer(String);

/// An `f64` that is neither infinite nor NaN, so that printing cannot fail.
///
/// Equality is that of the bits: `0.0` and `-0.0` print differently and are different payloads.
#[derive(Debug, Clone, Copy)]
pub struct Finite(f64);

/// The error of making a [`Finite`] from an infinity or a NaN, for which JSON has no text (RFC 8259, section 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotFinite;

impl Value {
    /// An object of these pairs. When a name comes twice its last value stays, as in a Python `dict`.
    pub fn object(pairs: impl IntoIterator<Item = (impl Into<String>, Value)>) -> Value {
        let mut pairs = pairs.into_iter().map(|(name, value)| (name.into(), value));
        Self::object_of(&mut pairs)
    }

    // Apart, so that it is compiled once and not for every kind of list.
    fn object_of(pairs: &mut dyn Iterator<Item = (String, Value)>) -> Value {
        let mut members = Members::default();
        for (name, value) in pairs {
            members.insert(name, value);
        }
        Value::Object(members)
    }

    /// The member of this name; `None` when there is none or this is not an object.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.as_object()?.get(name)
    }

    /// Whether this is `null`.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// The truth value; `None` for any other kind of value.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The integer; `None` for any other kind of value, `1.0` included, and for an integer outside `i64`.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Value::Integer(value) => value.as_i64(),
            _ => None,
        }
    }

    /// The float; `None` for any other kind of value, integers included: `49` and `49.0` are different payloads.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Value::Float(value) => Some(value.get()),
            _ => None,
        }
    }

    /// The string; `None` for any other kind of value.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(value) => Some(value),
            _ => None,
        }
    }

    /// The items of the array; `None` for any other kind of value.
    pub fn as_array(&self) -> Option<&[Value]> {
        match self {
            Value::Array(items) => Some(items),
            _ => None,
        }
    }

    /// The members of the object; `None` for any other kind of value.
    pub fn as_object(&self) -> Option<&Members> {
        match self {
            Value::Object(members) => Some(members),
            _ => None,
        }
    }
}

impl Integer {
    /// The integer as an `i64`; `None` when it lies outside that type.
    pub fn as_i64(&self) -> Option<i64> {
        self.0.parse().ok()
    }
}

impl fmt::Display for Integer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<i64> for Integer {
    fn from(value: i64) -> Self {
        Self(value.to_string())
    }
}

impl From<u64> for Integer {
    fn from(value: u64) -> Self {
        Self(value.to_string())
    }
}

impl Finite {
    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl PartialEq for Finite {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

impl Eq for Finite {}

impl TryFrom<f64> for Finite {
    type Error = NotFinite;

    /// # Errors
    ///
    /// [`NotFinite`] for an infinity or a NaN.
    fn try_from(value: f64) -> Result<Self, NotFinite> {
        if value.is_finite() {
            Ok(Self(value))
        } else {
            Err(NotFinite)
        }
    }
}

impl fmt::Display for NotFinite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON has no text for an infinity or NaN")
    }
}

impl std::error::Error for NotFinite {}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Value::Bool(value)
    }
}

/// The type of a bare literal, as in `Value::from(2)`.
impl From<i32> for Value {
    fn from(value: i32) -> Self {
        i64::from(value).into()
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Value::Integer(value.into())
    }
}

impl From<u32> for Value {
    fn from(value: u32) -> Self {
        u64::from(value).into()
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Value::Integer(value.into())
    }
}

impl From<usize> for Value {
    /// Through `u64`, so that a count prints alike on targets of 32 and of 64 bits.
    fn from(value: usize) -> Self {
        (value as u64).into()
    }
}

impl From<Integer> for Value {
    fn from(value: Integer) -> Self {
        Value::Integer(value)
    }
}

impl From<Finite> for Value {
    fn from(value: Finite) -> Self {
        Value::Float(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Value::String(value.to_owned())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Value::String(value)
    }
}

impl From<Vec<Value>> for Value {
    fn from(items: Vec<Value>) -> Self {
        Value::Array(items)
    }
}
