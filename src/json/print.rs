//! The three canonical texts of a value. Each agrees with CPython's `json.dumps` to the byte.

use super::decimal::shortest;
use super::{Finite, Value};

impl Value {
    /// The text without any space: the form of stored payloads and fingerprints.
    ///
    /// Equals `json.dumps(v, sort_keys=True, separators=(",", ":"), allow_nan=False)`. Infallible for every value
    /// whose [depth](Value#depth) the stack bears.
    pub fn compact(&self) -> String {
        self.print(Style {
            comma: ",",
            colon: ":",
            indented: false,
        })
    }

    /// The text on one line with `", "` and `": "`: the form of action keys and of printed summaries.
    ///
    /// Equals `json.dumps(v, sort_keys=True)`. Infallible for every value whose [depth](Value#depth) the stack bears.
    pub fn spaced(&self) -> String {
        self.print(Style {
            comma: ", ",
            colon: ": ",
            indented: false,
        })
    }

    /// The text with one item or member a line, indented by two spaces, and no newline at the end.
    ///
    /// Equals `json.dumps(v, sort_keys=True, indent=2)`. Infallible for every value whose [depth](Value#depth) the
    /// stack bears.
    pub fn pretty(&self) -> String {
        self.print(Style {
            comma: ",",
            colon: ": ",
            indented: true,
        })
    }

    fn print(&self, style: Style) -> String {
        let mut out = String::new();
        style.value(&mut out, self, 0);
        out
    }
}

struct Style {
    comma: &'static str,
    colon: &'static str,
    indented: bool,
}

impl Style {
    fn value(&self, out: &mut String, value: &Value, depth: usize) {
        match value {
            Value::Null => out.push_str("null"),
            Value::Bool(true) => out.push_str("true"),
            Value::Bool(false) => out.push_str("false"),
            Value::Integer(integer) => out.push_str(&integer.0),
            Value::Float(float) => push_float(out, *float),
            Value::String(text) => push_string(out, text),
            Value::Array(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    self.before_item(out, index, depth);
                    self.value(out, item, depth + 1);
                }
                self.close(out, ']', items.is_empty(), depth);
            }
            Value::Object(members) => {
                out.push('{');
                for (index, (name, member)) in members.iter().enumerate() {
                    self.before_item(out, index, depth);
                    push_string(out, name);
                    out.push_str(self.colon);
                    self.value(out, member, depth + 1);
                }
                self.close(out, '}', members.is_empty(), depth);
            }
        }
    }

    fn before_item(&self, out: &mut String, index: usize, depth: usize) {
        if index > 0 {
            out.push_str(self.comma);
        }
        self.line(out, depth + 1);
    }

    /// An empty container stays on its line, as CPython leaves it.
    fn close(&self, out: &mut String, bracket: char, empty: bool, depth: usize) {
        if !empty {
            self.line(out, depth);
        }
        out.push(bracket);
    }

    fn line(&self, out: &mut String, depth: usize) {
        if self.indented {
            out.push('\n');
            for _ in 0..depth {
                out.push_str("  ");
            }
        }
    }
}

/// Appends the string in quotes and pure ASCII: CPython's `ensure_ascii`, under which DEL is escaped too.
pub(super) fn push_string(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='~' => out.push(character),
            _ => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    push_unicode_escape(out, *unit);
                }
            }
        }
    }
    out.push('"');
}

fn push_unicode_escape(out: &mut String, unit: u16) {
    out.push_str("\\u");
    for shift in [12, 8, 4, 0] {
        out.push(char::from(
            b"0123456789abcdef"[usize::from(unit >> shift & 0xf)],
        ));
    }
}

/// Appends the float as CPython's `repr` writes it: the shortest digits that read back as this float, with an exponent
/// below 1e-4 and from 1e16 on, and otherwise always with a fraction.
fn push_float(out: &mut String, float: Finite) {
    let float = float.get();
    if float.is_sign_negative() {
        out.push('-');
    }
    if float == 0.0 {
        return out.push_str("0.0");
    }
    let (digits, exponent) = shortest(float.abs());
    let mut digits = digits.into_iter().map(|digit| char::from(b'0' + digit));
    let mut next = || digits.next();
    if !(-4..16).contains(&exponent) {
        out.extend(next());
        if let Some(digit) = next() {
            out.push('.');
            out.push(digit);
        }
        out.extend(digits);
        out.push('e');
        out.push(if exponent < 0 { '-' } else { '+' });
        if exponent.abs() < 10 {
            out.push('0');
        }
        out.push_str(&exponent.abs().to_string());
        return;
    }
    if exponent < 0 {
        out.push_str("0.");
        for _ in exponent + 1..0 {
            out.push('0');
        }
    } else {
        for _ in 0..=exponent {
            out.push(next().unwrap_or('0'));
        }
        out.push('.');
        out.push(next().unwrap_or('0'));
    }
    out.extend(digits);
}
