//! One outcome as HTML: what was claimed, what was seen, what is left, what happened.
//!
//! The build writes the recorded run with it and the page writes the reader's run, so the two can be
//! compared line by line. It is a pure function of the outcome. It emits classes only, no ids, no headings
//! and no inline style: it may stand several times in one document, under any heading, behind any CSP.

use crate::diagram;
use crate::markup::push_text;
use crate::scenario::{Check, Outcome, Plot, Table};

/// The evidence of one run.
#[must_use]
pub fn html(outcome: &Outcome) -> String {
    parts(
        &outcome.checks,
        &outcome.tables,
        &outcome.plots,
        outcome.trace.events.iter().map(ToString::to_string),
        &outcome.checks_sha256(),
        &outcome.trace_sha256(),
    )
}

/// The evidence from its parts. Every text is escaped here, whatever it holds.
pub fn parts<I>(
    checks: &[Check],
    tables: &[Table],
    plots: &[Plot],
    trace: I,
    checks_sha256: &str,
    trace_sha256: &str,
) -> String
where
    I: IntoIterator,
    I::Item: AsRef<str>,
{
    let mut out = String::new();
    push_checks(&mut out, checks);
    if !tables.is_empty() {
        out.push_str("<p class=\"part\">Rows left</p>\n");
    }
    for table in tables {
        push_table(&mut out, table);
    }
    for plot in plots {
        out.push_str("<p class=\"part\">");
        push_text(&mut out, &plot.title);
        out.push_str("</p>\n");
        out.push_str(&diagram::bars(plot));
    }
    push_trace(&mut out, trace);
    out.push_str("<dl class=\"digests\">\n");
    for (name, digest) in [("checks", checks_sha256), ("trace", trace_sha256)] {
        out.push_str("<div><dt>SHA-256 of the ");
        out.push_str(name);
        out.push_str("</dt><dd><code>");
        push_text(&mut out, digest);
        out.push_str("</code></dd></div>\n");
    }
    out.push_str("</dl>\n");
    out
}

/// The pieces of printed values between which a line may break: after a comma that no string holds. Joined by single
/// spaces they are `values` again.
pub fn members(values: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(values);
    std::iter::from_fn(move || {
        let text = rest?;
        let (mut in_string, mut escaped) = (false, false);
        let comma = text.char_indices().find(|&(at, character)| {
            match character {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '"' => in_string = !in_string,
                _ => {}
            }
            !in_string && text[at..].starts_with(", ")
        });
        let (member, after) = match comma {
            Some((comma, _)) => (&text[..=comma], Some(&text[comma + 2..])),
            None => (text, None),
        };
        rest = after;
        Some(member)
    })
}

fn push_checks(out: &mut String, checks: &[Check]) {
    out.push_str("<p class=\"part\">Checks</p>\n<ol class=\"checks\">\n");
    for check in checks {
        let (class, verdict) = if check.holds() {
            ("holds", "✓ holds")
        } else {
            ("fails", "✗ fails")
        };
        out.push_str("<li class=\"");
        out.push_str(class);
        out.push_str("\"><span class=\"claim\">");
        push_text(out, &check.claim);
        out.push_str("</span> <span class=\"verdict\">");
        out.push_str(verdict);
        out.push_str("</span>\n<dl>");
        for (name, value) in [("expected", &check.expected), ("seen", &check.seen)] {
            out.push_str("<div><dt>");
            out.push_str(name);
            out.push_str("</dt><dd><code>");
            push_text(out, &value.spaced());
            out.push_str("</code></dd></div>");
        }
        out.push_str("</dl></li>\n");
    }
    out.push_str("</ol>\n");
}

/// Explicit roles keep the table a table where the style sheet shows its rows as cards.
pub(crate) fn push_table(out: &mut String, table: &Table) {
    if table.rows.is_empty() {
        out.push_str("<p class=\"no-rows\"><code>");
        push_text(out, &table.name);
        out.push_str("</code> is empty.</p>\n");
        return;
    }
    out.push_str("<table class=\"stack rows\" role=\"table\">\n<caption><code>");
    push_text(out, &table.name);
    out.push_str("</code>, ");
    out.push_str(&counted(table.rows.len(), "row"));
    out.push_str("</caption>\n<thead role=\"rowgroup\"><tr role=\"row\">");
    for column in &table.columns {
        out.push_str("<th scope=\"col\" role=\"columnheader\">");
        push_text(out, column);
        out.push_str("</th>");
    }
    out.push_str("</tr></thead>\n<tbody role=\"rowgroup\">\n");
    for row in &table.rows {
        out.push_str("<tr role=\"row\">");
        for (position, cell) in row.iter().enumerate() {
            out.push_str("<td role=\"cell\" data-label=\"");
            push_text(out, table.columns.get(position).map_or("", String::as_str));
            out.push_str("\"><code>");
            // A text cell is shown as the text that SQLite holds: a payload is JSON already, and
            // printing it as a JSON string once more would hide it behind backslashes.
            match cell.as_str() {
                Some(text) => push_text(out, text),
                None => push_text(out, &cell.spaced()),
            }
            out.push_str("</code></td>");
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table>\n");
}

fn push_trace<I>(out: &mut String, trace: I)
where
    I: IntoIterator,
    I::Item: AsRef<str>,
{
    let mut items = String::new();
    let mut count = 0;
    for line in trace {
        items.push_str("<li>");
        push_text(&mut items, line.as_ref());
        items.push_str("</li>\n");
        count += 1;
    }
    out.push_str("<details class=\"trace\"><summary>Trace: ");
    out.push_str(&counted(count, "event"));
    out.push_str("</summary>\n<ol>\n");
    out.push_str(&items);
    out.push_str("</ol></details>\n");
}

fn counted(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}
