//! The three canonical texts of a value. Each agrees with CPython's `json.dumps` to the byte.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{Formatter, Serializer};

/// The canonical texts of a value, infallible for every one whose depth the stack bears.
pub trait Canonical {
    /// The text without any space: the form of stored payloads and fingerprints.
    ///
    /// Equals `json.dumps(v, sort_keys=True, separators=(",", ":"), allow_nan=False)`.
    fn compact(&self) -> String;

    /// The text on one line with `", "` and `": "`: the form of action keys and of printed summaries.
    ///
    /// Equals `json.dumps(v, sort_keys=True)`.
    fn spaced(&self) -> String;

    /// The text with one item or member a line, indented by two spaces, and no newline at the end.
    ///
    /// Equals `json.dumps(v, sort_keys=True, indent=2)`.
    fn pretty(&self) -> String;
}

impl Canonical for Value {
    fn compact(&self) -> String {
        print(self, Style::new(",", ":", false))
    }

    fn spaced(&self) -> String {
        print(self, Style::new(", ", ": ", false))
    }

    fn pretty(&self) -> String {
        print(self, Style::new(",", ": ", true))
    }
}

fn print(value: &Value, style: Style) -> String {
    let mut out = Vec::new();
    let printed = value.serialize(&mut Serializer::with_formatter(&mut out, style));
    printed.expect("names are strings, and memory takes every byte");
    String::from_utf8(out).expect("the style prints ASCII")
}

struct Style {
    comma: &'static str,
    colon: &'static str,
    indented: bool,
    depth: usize,
    /// Nothing has been printed since the last bracket that opens. CPython leaves an empty container on its line.
    empty: bool,
}

impl Style {
    fn new(comma: &'static str, colon: &'static str, indented: bool) -> Self {
        Self {
            comma,
            colon,
            indented,
            depth: 0,
            empty: true,
        }
    }

    fn open(&mut self, writer: &mut (impl ?Sized + Write), bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.empty = true;
        writer.write_all(bracket)
    }

    fn item(&mut self, writer: &mut (impl ?Sized + Write), first: bool) -> io::Result<()> {
        self.empty = false;
        if !first {
            writer.write_all(self.comma.as_bytes())?;
        }
        self.line(writer)
    }

    fn close(&mut self, writer: &mut (impl ?Sized + Write), bracket: &[u8]) -> io::Result<()> {
        self.depth -= 1;
        if !self.empty {
            self.line(writer)?;
        }
        self.empty = false;
        writer.write_all(bracket)
    }

    fn line(&self, writer: &mut (impl ?Sized + Write)) -> io::Result<()> {
        if self.indented {
            writer.write_all(b"\n")?;
            for _ in 0..self.depth {
                writer.write_all(b"  ")?;
            }
        }
        Ok(())
    }
}

impl Formatter for Style {
    /// An integer as it is, a float as CPython's `repr` writes it: the shortest digits that read back as this float,
    /// of several as short those nearest to it, with an exponent below 1e-4 and from 1e16 on, and otherwise always
    /// with a fraction. `serde_json` writes the same digits, but 1e-5 without an exponent and 1e-7 with one of one digit.
    fn write_number_str<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        text: &str,
    ) -> io::Result<()> {
        let (sign, magnitude) = match text.strip_prefix('-') {
            Some(magnitude) => ("-", magnitude),
            None => ("", text),
        };
        if let Some(digits) = magnitude.strip_prefix("0.0000") {
            let (first, rest) = digits.split_at(1);
            let point = if rest.is_empty() { "" } else { "." };
            return write!(writer, "{sign}{first}{point}{rest}e-05");
        }
        match text.split_once("e-") {
            Some((digits, exponent)) => write!(writer, "{digits}e-{exponent:0>2}"),
            None => writer.write_all(text.as_bytes()),
        }
    }

    /// What `serde_json` leaves unescaped, in pure ASCII: CPython's `ensure_ascii`, under which DEL is escaped too.
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        for character in fragment.chars() {
            if let ' '..='~' = character {
                writer.write_all(&[character as u8])?;
                continue;
            }
            for unit in character.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
        }
        Ok(())
    }

    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"[")
    }

    fn begin_array_value<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.item(writer, first)
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"]")
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"{")
    }

    fn begin_object_key<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.item(writer, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(self.colon.as_bytes())
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"}")
    }
}
