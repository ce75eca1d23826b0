//! Strict JSON reading and canonical printing, both through `serde_json`.
//!
//! A payload is recognised by its text, so one value must have one text, on every target and in the Python lab whose
//! fingerprints the article repeats. [`parse()`] therefore keeps everything that the text says or refuses it, and the
//! three forms of [`Canonical`] give, to the byte, what CPython's `json.dumps` gives with `sort_keys=True` and its
//! default `ensure_ascii=True`: `tests/data/python_json.py` records CPython's answers, `tests/json.rs` compares.
//!
//! # What is ours
//!
//! As it comes, `serde_json` reads an integer beyond 64 bits as an `f64` and so loses digits, keeps the last of two
//! members of one name, and prints floats as Rust does. With its feature `arbitrary_precision` the digits stay; a
//! visitor of ours refuses the second name and brings floats into one form; a formatter of ours prints.
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
//!
//! # Values
//!
//! A [`Value`] from [`parse()`] equals another exactly when their canonical texts are the same: `1` and `1.0` differ,
//! and so do `0.0` and `-0.0`. It nests at most [`MAX_DEPTH`] deep. One built by code is not bounded: [`parse()`]
//! refuses the text of a deeper one, and printing, cloning, comparing or dropping one that nests many thousands deep can
//! exhaust the stack. Nothing in this crate builds values from unbounded input.

mod parse;
mod print;

pub use parse::{MAX_DEPTH, MAX_INTEGER_DIGITS, MAX_TEXT_BYTES, ParseError, parse, parse_bytes};
pub use print::Canonical;
pub use serde_json::Value;

use std::fmt;

/// The members of an object, each name once, ordered by the UTF-8 bytes of their names, which is the order of code
/// points.
pub type Members = serde_json::Map<String, Value>;

/// An object of these pairs. When a name comes twice its last value stays, as in a Python `dict`.
pub fn object(pairs: impl IntoIterator<Item = (impl Into<String>, Value)>) -> Value {
    fn collect(pairs: &mut dyn Iterator<Item = (String, Value)>) -> Value {
        let mut members = Members::new();
        for (name, value) in pairs {
            members.insert(name, value);
        }
        Value::Object(members)
    }
    // Apart, so that it is compiled once and not for every kind of list.
    collect(&mut pairs.into_iter().map(|(name, value)| (name.into(), value)))
}

/// An `f64` that is neither infinite nor NaN, so that it has a text in JSON.
///
/// Equality is that of the bits: `0.0` and `-0.0` print differently and are different payloads.
#[derive(Debug, Clone, Copy)]
pub struct Finite(f64);

/// The error of making a [`Finite`] from an infinity or a NaN, for which JSON has no text (RFC 8259, section 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotFinite;

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

impl From<Finite> for Value {
    fn from(float: Finite) -> Self {
        Value::from(float.0)
    }
}

impl fmt::Display for NotFinite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON has no text for an infinity or NaN")
    }
}

impl std::error::Error for NotFinite {}
