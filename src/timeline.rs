//! A run step by step: for each event of its trace what each caller knows, the SQL that runs, who holds which lock,
//! and the rows: those that a fresh reader would see, and those that a power cut would leave.
//!
//! Nothing is worked out from the trace that the database can say itself: rows are read by SQLite from the disk as
//! it was at that step, in a world of its own, with the locks of that step held.

use std::rc::Rc;

use rusqlite::{Connection, ErrorCode};

use crate::evidence;
use crate::markup::push_text;
use crate::outcome::{Outcome, Table};
use crate::sim::World;
use crate::sim::disk::Moment;
use crate::sim::trace::{Event, LockLevel, What, lock_name};
use crate::text::visible;

/// What a fresh reader finds.
#[derive(Debug, Clone, PartialEq)]
pub enum Rows {
    /// The tables, in the order of their creation; file by file.
    Tables(Vec<Table>),
    /// No rows, and why: in the words of a reader.
    None(String),
}

/// The run after one event.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// What each caller has learnt so far, by its name.
    pub callers: Vec<(Rc<str>, Vec<String>)>,
    /// The statement that the event's process began last.
    pub sql: Option<String>,
    /// What a fresh reader would see.
    pub seen: Rc<Rows>,
    /// What a fresh reader would see if the power failed now and all that is not synced were lost.
    pub durable: Rc<Rows>,
    /// Who holds which lock, in words.
    pub locks: Vec<String>,
}

/// The steps of a run, one an event of its trace.
///
/// `history` is what [`World::take_history`] gave after the run.
pub fn steps(outcome: &Outcome, history: &[(usize, Moment)]) -> Vec<Step> {
    let nothing = || Rc::new(Rows::None("No database exists yet.".to_owned()));
    let mut seen = nothing();
    let mut durable = nothing();
    let mut locks = Vec::new();
    let mut later = history.iter().peekable();
    let mut callers: Vec<(Rc<str>, Vec<String>)> = Vec::new();
    let mut statements: Vec<(Rc<str>, String)> = Vec::new();
    let mut steps = Vec::with_capacity(outcome.trace.events.len());
    for (index, event) in outcome.trace.events.iter().enumerate() {
        learn(&mut callers, event);
        if let What::Sql(sql) = &event.what {
            statements.retain(|(who, _)| *who != event.who);
            statements.push((Rc::clone(&event.who), sql.clone()));
        }
        // The last moment of those taken before the next event is the disk at this step.
        let mut moment = None;
        while let Some((_, taken)) = later.next_if(|(events, _)| *events <= index + 1) {
            moment = Some(taken);
        }
        if let Some(moment) = moment {
            seen = same_or_new(&seen, rows(&World::seen(moment), moment));
            durable = same_or_new(&durable, rows(&World::after_power_cut(moment), moment));
            locks = moment
                .locks()
                .iter()
                .map(|lock| {
                    format!(
                        "{} holds {} on {}",
                        lock.process,
                        lock_name(lock.level),
                        lock.file
                    )
                })
                .collect();
        }
        let sql = statements.iter().find(|(who, _)| *who == event.who);
        steps.push(Step {
            callers: callers.clone(),
            sql: sql.map(|(_, sql)| sql.clone()),
            seen: Rc::clone(&seen),
            durable: Rc::clone(&durable),
            locks: locks.clone(),
        });
    }
    steps
}

fn same_or_new(old: &Rc<Rows>, new: Rows) -> Rc<Rows> {
    if **old == new {
        Rc::clone(old)
    } else {
        Rc::new(new)
    }
}

/// Adds what an event teaches its process, if that is one that calls.
fn learn(callers: &mut Vec<(Rc<str>, Vec<String>)>, event: &Event) {
    if let What::PowerLost(_) = event.what {
        for (_, known) in callers {
            *known = vec!["dead: knows nothing any more".to_owned()];
        }
        return;
    }
    let known = callers.iter().position(|(who, _)| *who == event.who);
    let (known, text) = match (&event.what, known) {
        (What::Called { tool, .. }, known) => (known, format!("{tool}: no answer yet")),
        (What::Answered { answer }, Some(known)) => (Some(known), format!("answer {answer}")),
        (What::Failed { error }, Some(known)) => (Some(known), format!("✗ {error}")),
        (What::Killed, Some(known)) => {
            callers[known].1 = vec!["dead: knows nothing any more".to_owned()];
            return;
        }
        _ => return,
    };
    let known = known.unwrap_or_else(|| {
        callers.push((Rc::clone(&event.who), Vec::new()));
        callers.len() - 1
    });
    let known = &mut callers[known].1;
    let open = known
        .iter()
        .position(|text| text.ends_with(": no answer yet"));
    match (&event.what, open) {
        (What::Called { .. }, _) | (_, None) => known.push(text),
        (_, Some(open)) => {
            let tool = known[open].trim_end_matches(": no answer yet").to_owned();
            known[open] = format!("{tool}: {text}");
        }
    }
}

fn rows(world: &World, moment: &Moment) -> Rows {
    let reader = world.start("reader");
    let mut tables = Vec::new();
    let is_database = |file: &&str| !file.ends_with("-journal") && !file.ends_with("-wal");
    let databases = moment.files().filter(is_database);
    for file in databases {
        let read = reader
            .connect(file)
            .and_then(|connection| read(&connection));
        match read {
            Ok(found) => tables.extend(found),
            Err(error) => return Rows::None(refusal(&error, moment)),
        }
    }
    if tables.is_empty() {
        Rows::None("No table exists.".to_owned())
    } else {
        Rows::Tables(tables)
    }
}

fn read(connection: &Connection) -> rusqlite::Result<Vec<Table>> {
    let mut statement =
        connection.prepare("SELECT name FROM sqlite_master WHERE type = 'table'")?;
    let names = statement.query_map([], |row| row.get::<_, String>(0))?;
    names.map(|name| Table::read(connection, &name?)).collect()
}

fn refusal(error: &rusqlite::Error, moment: &Moment) -> String {
    let holder = moment
        .locks()
        .iter()
        .find(|lock| lock.level >= LockLevel::Pending);
    match (error.sqlite_error_code(), holder) {
        (Some(ErrorCode::DatabaseBusy), Some(lock)) => {
            format!(
                "SQLITE_BUSY: a reader waits, {} holds {}.",
                lock.process,
                lock_name(lock.level)
            )
        }
        _ => error.to_string(),
    }
}

/// What a step shows, in the order of [`PARTS`].
pub type Parts = [u32; PARTS.len()];

/// The names of what a step shows.
pub const PARTS: [&str; 6] = ["event", "callers", "sql", "locks", "rows", "durable"];

/// The steps as HTML: each part of each step is a text by its index, and no text stands twice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pages {
    /// The texts. `event` is plain text, the others are markup, escaped here.
    pub texts: Vec<String>,
    /// For each step, the index of the text for each of [`PARTS`].
    pub steps: Vec<Parts>,
}

/// The steps of a run for the page.
pub fn pages(outcome: &Outcome, history: &[(usize, Moment)]) -> Pages {
    let mut pages = Pages::default();
    let steps = steps(outcome, history);
    let mut last: Option<(&Step, Parts)> = None;
    for (step, event) in steps.iter().zip(&outcome.trace.events) {
        let before = last;
        // What has not changed is not written anew, and rows are the larger part by far.
        let kept = |part: usize, same: fn(&Step, &Step) -> bool| {
            before
                .filter(|(old, _)| same(old, step))
                .map(|(_, parts)| parts[part])
        };
        let parts = [
            None,
            kept(1, |old, new| old.callers == new.callers),
            kept(2, |old, new| old.sql == new.sql),
            kept(3, |old, new| old.locks == new.locks),
            kept(4, |old, new| Rc::ptr_eq(&old.seen, &new.seen)),
            kept(5, |old, new| {
                Rc::ptr_eq(&old.durable, &new.durable) && Rc::ptr_eq(&old.seen, &new.seen)
            }),
        ];
        let mut indices = Parts::default();
        for (part, kept) in parts.into_iter().enumerate() {
            indices[part] = kept.unwrap_or_else(|| pages.add(text(part, step, event)));
        }
        pages.steps.push(indices);
        last = Some((step, indices));
    }
    pages
}

impl Pages {
    fn add(&mut self, text: String) -> u32 {
        let known = self.texts.iter().position(|other| *other == text);
        known.unwrap_or_else(|| {
            self.texts.push(text);
            self.texts.len() - 1
        }) as u32
    }
}

fn text(part: usize, step: &Step, event: &Event) -> String {
    let mut out = String::new();
    match part {
        0 => {
            out = event
                .to_string()
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
        }
        1 => list(
            &mut out,
            "Nobody has called yet.",
            step.callers
                .iter()
                .map(|(who, known)| (&**who, known.join("; "))),
        ),
        2 => match &step.sql {
            Some(sql) => {
                out.push_str("<p><code>");
                push_text(&mut out, &visible(sql).to_string());
                out.push_str("</code></p>");
            }
            None => out.push_str("<p>None yet.</p>"),
        },
        3 => list(
            &mut out,
            "Nobody holds one.",
            step.locks.iter().map(|lock| ("", lock.clone())),
        ),
        4 => rows_html(&mut out, &step.seen),
        _ if step.durable == step.seen => out.push_str("<p>The same rows.</p>"),
        _ => rows_html(&mut out, &step.durable),
    }
    out
}

fn list<'a>(out: &mut String, none: &str, items: impl Iterator<Item = (&'a str, String)>) {
    let mut any = false;
    for (name, text) in items {
        any = true;
        out.push_str("<p>");
        if !name.is_empty() {
            out.push_str("<b>");
            push_text(out, name);
            out.push_str("</b> ");
        }
        push_text(out, &visible(&text).to_string());
        out.push_str("</p>");
    }
    if !any {
        out.push_str("<p>");
        out.push_str(none);
        out.push_str("</p>");
    }
}

fn rows_html(out: &mut String, rows: &Rows) {
    match rows {
        Rows::Tables(tables) => tables
            .iter()
            .for_each(|table| evidence::push_table(out, table)),
        Rows::None(why) => {
            out.push_str("<p>");
            push_text(out, why);
            out.push_str("</p>");
        }
    }
}
