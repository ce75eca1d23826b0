//! Strict JSON parsing and canonical printing.

use std::collections::BTreeMap;

/// A JSON value. Objects are sorted by code point, as the canonical form prints them.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// An integer of any size.
    Integer(Integer),
    /// A finite number with a fraction or an exponent.
    Float(Finite),
    /// A string of Unicode scalar values.
    String(String),
    /// An array.
    Array(Vec<Value>),
    /// An object without duplicate names.
    Object(BTreeMap<String, Value>),
}

/// An integer in canonical decimal digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Integer(String);

impl From<i64> for Integer {
    fn from(value: i64) -> Self {
        Self(value.to_string())
    }
}

/// A finite `f64`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Finite(f64);
