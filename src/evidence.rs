//! One outcome as HTML: what was claimed, what was seen and what had to happen for that to count, what
//! is left, what happened.
//!
//! The build writes the recorded run with it and the page writes the reader's run, so the two can be
//! compared line by line. It is a pure function of the outcome. It emits classes only, no ids, no headings
//! and no inline style: it may stand several times in one document, under any heading, behind any CSP.

use crate::diagram;
use crate::json::Canonical;
use crate::markup::push_text;
use crate::outcome::{Check, Outcome, Table};
use crate::sim::trace::Trace;

/// Where the trace of a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceAt<'a> {
    /// In the evidence.
    Here,
    /// In a page beside the article, at this relative address: a trace is longer than all the rest.
    Page(&'a str),
}

/// The evidence of one run, with the token that replays it. Every text is escaped here, whatever it holds.
#[must_use]
pub fn html(outcome: &Outcome, token: &str, trace_at: TraceAt<'_>) -> String {
    let mut out = String::new();
    push_checks(&mut out, &outcome.checks);
    // Where there is a curve, it is the point.
    for plot in &outcome.plots {
        out.push_str("<p class=\"part\">");
        push_text(&mut out, &plot.title);
        out.push_str("</p>\n");
        out.push_str(&diagram::bars(plot));
    }
    if let Some(svg) = diagram::sequence(&outcome.trace) {
        // It may be wider than the page, and then it is scrolled, with the keyboard too.
        out.push_str("<p class=\"part\">What happened</p>\n<div class=\"diagram\" tabindex=\"0\" role=\"group\" aria-label=\"Sequence diagram\">");
        out.push_str(&svg);
        out.push_str("</div>\n<div class=\"steps\"><button type=\"button\" class=\"step-through\">Step through</button></div>\n");
    }
    if !outcome.tables.is_empty() {
        out.push_str("<p class=\"part\">Rows left</p>\n");
    }
    for table in &outcome.tables {
        push_table(&mut out, table);
    }
    push_trace(&mut out, &outcome.trace, trace_at);
    out.push_str("<dl class=\"digests\">\n");
    for (name, value) in [
        ("Replay token", token),
        ("SHA-256 of the checks", &outcome.checks_sha256()),
        ("SHA-256 of the trace", &outcome.trace_sha256()),
    ] {
        out.push_str("<div><dt>");
        out.push_str(name);
        out.push_str("</dt><dd><code>");
        push_text(&mut out, value);
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
        out.push_str("<div class=\"premise\"><dt>");
        out.push_str(if check.premise.is_met() {
            "happened"
        } else {
            "did not happen"
        });
        out.push_str("</dt><dd>");
        push_text(out, &check.premise.to_string());
        out.push_str("</dd></div></dl></li>\n");
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

fn push_trace(out: &mut String, trace: &Trace, trace_at: TraceAt<'_>) {
    let title = format!("Trace: {}", counted(trace.events.len(), "event"));
    match trace_at {
        TraceAt::Here => {
            out.push_str("<details class=\"trace\"><summary>");
            out.push_str(&title);
            out.push_str("</summary>\n<ol>\n");
            for event in &trace.events {
                out.push_str("<li>");
                push_text(out, &event.to_string());
                out.push_str("</li>\n");
            }
            out.push_str("</ol></details>\n");
        }
        TraceAt::Page(address) => {
            out.push_str("<p class=\"trace\"><a href=\"");
            push_text(out, address);
            out.push_str("\">");
            out.push_str(&title);
            out.push_str("</a></p>\n");
        }
    }
}

fn counted(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}
