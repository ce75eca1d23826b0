//! Text for people: what a caller supplies never acts on the terminal or the line that shows it.

use std::fmt;

/// `text` with every character that shows nothing by itself, or acts on what stands around it,
/// written as an escape such as `\u{1b}`: controls, the separators of lines and paragraphs,
/// directions of writing, other formats, spaces but the plain one, and what no table knows.
///
/// Quotes and backslashes stay, since JSON and SQL are full of them; so this is for reading, and
/// cannot be read back.
pub fn visible(text: &str) -> impl fmt::Display {
    Visible(text)
}

struct Visible<'a>(&'a str);

impl fmt::Display for Visible<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Of whole pieces, not character by character: that would escape every combining mark.
        for piece in self.0.split_inclusive(KEPT) {
            let plain = piece.trim_end_matches(KEPT);
            write!(f, "{}", plain.escape_debug())?;
            f.write_str(&piece[plain.len()..])?;
        }
        Ok(())
    }
}

/// What [`str::escape_debug`] escapes although it can be seen.
const KEPT: [char; 3] = ['\'', '"', '\\'];

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        visible(text).to_string()
    }

    #[test]
    fn what_can_be_read_stays_as_it_is() {
        for text in [
            "",
            "approved-ticket-001",
            "ключ '; DROP TABLE tickets; --",
            r#"{"title":"a \"quoted\" \\ \u0000"}"#,
            "''\"\"\\\\",
            "कुंजी, e\u{301}, 票, 😀",
        ] {
            assert_eq!(shown(text), text);
        }
    }

    #[test]
    fn nothing_reaches_a_terminal() {
        for (text, expected) in [
            ("\u{1b}[31mred", "\\u{1b}[31mred"),
            ("\u{9b}31mred", "\\u{9b}31mred"),
            ("a\0\u{7f}\u{7}b", "a\\0\\u{7f}\\u{7}b"),
            ("one\r\ntwo\tthree", "one\\r\\ntwo\\tthree"),
            ("a\u{202e}b\u{2066}c", "a\\u{202e}b\\u{2066}c"),
            ("a\u{2028}b\u{2029}", "a\\u{2028}b\\u{2029}"),
            ("a\u{200b}b\u{feff}c\u{a0}", "a\\u{200b}b\\u{feff}c\\u{a0}"),
        ] {
            assert_eq!(shown(text), expected);
        }
    }

    /// Whatever the character: none that a terminal, a line or the direction of writing heeds.
    #[test]
    fn no_character_acts_on_what_stands_around_it() {
        for character in '\0'..=char::MAX {
            let shown = shown(&format!("a{character}b"));
            let acts = |shown: char| {
                shown.is_control()
                    || matches!(shown, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
            };
            assert!(!shown.contains(acts), "{character:?}: {shown:?}");
        }
    }
}
