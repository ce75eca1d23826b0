//! A run as a sequence diagram: who told whom what, in which order, and what got lost on the way.
//!
//! Lanes stand from the callers on the left over the tools and services to the databases on the right; time runs
//! downwards, one line an event. Points, locks and disk operations are not lines: locks are bars, and the step control
//! shows the rest.

use std::fmt::Write as _;

use crate::markup::push_text;
use crate::sim::trace::{Event, Fate, LockLevel, Trace, What};
use crate::text::visible;

/// What the drawing calls a client's breaker, whose errors say that the circuit is open.
const BREAKER: &str = "breaker";
const OPEN_CIRCUIT: &str = "circuit open";

/// Left of it stand the times.
const TIMES: usize = 42;
const HEAD: usize = 34;
const LINE: usize = 26;
/// Of the style sheet's font at its size: labels are set in a monospaced one.
const LETTER_TENTHS: usize = 66;
/// Drawn at the pen's place.
const CROSS: &str = "m-5 -5 10 10m0 -10-10 10";
/// The longest label, in characters.
const LONGEST: usize = 66;
/// Longer runs are cut before their last lines, and say so.
const MOST_LINES: usize = 26;
/// The same for a run of notes alone, whose point is elsewhere.
const MOST_NOTES: usize = 16;
const LAST_LINES: usize = 6;
/// The most processes that all have a lane.
const MOST_PROCESSES: usize = 24;
/// How many callers of a larger crowd have one.
const FIRST_CALLERS: usize = 3;

/// The sequence diagram of a run; nothing for a run in which nobody did anything that is drawn.
///
/// Each line is a group with the index of its event in `data-step`, counted from 0.
#[must_use]
pub fn sequence(trace: &Trace) -> Option<String> {
    let mut drawing = Drawing::default();
    Reading::new(&trace.events).read(&mut drawing);
    (!drawing.lines.is_empty()).then(|| drawing.svg())
}

/// From left to right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Caller,
    Breaker,
    Tool,
    Database,
}

#[derive(Debug)]
struct Lane<'a> {
    name: &'a str,
    kind: Kind,
}

/// How a line looks, and so what it says without words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// It arrives.
    Call,
    /// An answer.
    Answer,
    /// It never arrives.
    Lost,
    /// It arrives as an error.
    Error,
    /// It makes work durable.
    Commit,
    /// It puts right what a crash left.
    Recovery,
    /// Something at one place.
    Note,
    /// Something bad at one place.
    Fault,
    /// All at once.
    World,
    /// Lines left out here.
    Cut,
}

impl Look {
    fn class(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Answer => "answer",
            Self::Lost => "lost",
            Self::Error => "error",
            Self::Commit => "commit",
            Self::Recovery => "recovery",
            Self::Note => "note",
            Self::Fault => "fault",
            Self::World => "world",
            Self::Cut => "cut",
        }
    }
}

#[derive(Debug)]
struct Line {
    step: usize,
    at_ms: u128,
    from: usize,
    to: usize,
    look: Look,
    label: String,
}

/// Something that lasts: from one line to another on one lane.
#[derive(Debug)]
struct Bar {
    lane: usize,
    class: &'static str,
    title: String,
    first: usize,
    last: usize,
}

impl Bar {
    fn stands_for(&self) -> (usize, &str, &str) {
        (self.lane, self.class, &self.title)
    }
}

#[derive(Debug, Default)]
struct Drawing<'a> {
    lanes: Vec<Lane<'a>>,
    lines: Vec<Line>,
    bars: Vec<Bar>,
    /// How many callers are not drawn.
    left_out: usize,
}

impl<'a> Drawing<'a> {
    fn lane(&mut self, name: &'a str, kind: Kind) -> usize {
        let known = self.lanes.iter().position(|lane| lane.name == name);
        known.unwrap_or_else(|| {
            self.lanes.push(Lane { name, kind });
            self.lanes.len() - 1
        })
    }

    fn line(
        &mut self,
        step: usize,
        event: &Event,
        ends: (usize, usize),
        look: Look,
        label: String,
    ) {
        self.lines.push(Line {
            step,
            at_ms: event.at.as_millis(),
            from: ends.0,
            to: ends.1,
            look,
            // A key or a statement is what a caller supplied.
            label: visible(&label).to_string(),
        });
    }

    /// Begins a bar at the line drawn last.
    fn bar(&mut self, lane: usize, class: &'static str, title: String) -> usize {
        self.bars.push(Bar {
            lane,
            class,
            title,
            first: self.lines.len().saturating_sub(1),
            last: usize::MAX,
        });
        self.bars.len() - 1
    }

    fn end(&mut self, bar: Option<usize>) {
        if let Some(bar) = bar {
            self.bars[bar].last = self.lines.len().saturating_sub(1);
        }
    }
}

/// What is known of a process while its events are read.
#[derive(Debug, Default)]
struct Actor {
    /// The lane of the tool that it is in, when it called one within itself.
    inside: Option<usize>,
    /// Its bars, by what they stand for.
    active: Option<usize>,
    waiting: Option<usize>,
    holding: Option<usize>,
    /// The event of an answer that its message has shown already. Nobody is answered in the first event.
    shown: usize,
}

struct Reading<'a> {
    events: &'a [Event],
    names: Vec<&'a str>,
    actors: Vec<Actor>,
}

impl<'a> Reading<'a> {
    fn new(events: &'a [Event]) -> Self {
        let mut names: Vec<&str> = Vec::new();
        for event in events {
            if !names.contains(&&*event.who) {
                names.push(&event.who);
            }
        }
        let actors = names.iter().map(|_| Actor::default()).collect();
        Self {
            events,
            names,
            actors,
        }
    }

    /// The events of `who` after `step`, up to its next call.
    fn rest<'s>(
        &'s self,
        step: usize,
        who: &'s str,
    ) -> impl Iterator<Item = (usize, &'a What)> + 's {
        let later = self.events.iter().enumerate().skip(step + 1);
        later
            .filter(move |(_, event)| *event.who == *who)
            .map(|(step, event)| (step, &event.what))
            .take_while(|(_, what)| !matches!(what, What::Called { .. }))
    }

    /// A service is first heard of when it is sent something.
    fn is_service(&self, name: &str) -> bool {
        self.events
            .iter()
            .find_map(|event| match &event.what {
                What::Message { to, .. } if **to == *name => Some(true),
                What::Message { .. } | What::Called { .. } if *event.who == *name => Some(false),
                _ => None,
            })
            .unwrap_or(false)
    }

    fn kind(&self, name: &str) -> Kind {
        if self.is_service(name) {
            Kind::Tool
        } else {
            Kind::Caller
        }
    }

    /// The database of a process: the first file that it locks.
    fn database(&self, who: &str) -> Option<&'a str> {
        self.events.iter().find_map(|event| match &event.what {
            What::Lock { file, .. } if *event.who == *who => Some(&**file),
            _ => None,
        })
    }

    /// Whether several processes are inside that tool.
    fn is_shared(&self, tool: &str) -> bool {
        let mut callers = self.events.iter().filter_map(|event| match event.what {
            What::Called { tool: called, .. } if called == tool => Some(&event.who),
            _ => None,
        });
        let first = callers.next();
        callers.any(|other| Some(other) != first)
    }

    fn read(mut self, out: &mut Drawing<'a>) {
        let left_out = self.left_out();
        for (step, event) in self.events.iter().enumerate() {
            let Some(actor) = self.names.iter().position(|name| *name == &*event.who) else {
                continue;
            };
            let is_left_out = |name: &str| left_out.contains(&name);
            let aside = match &event.what {
                What::Message { to, .. } => is_left_out(to),
                _ => false,
            };
            if !aside && !is_left_out(&event.who) {
                self.event(step, event, actor, out);
            }
        }
        out.left_out = left_out.len();
    }

    /// The callers of a crowd for whom there is no room.
    fn left_out(&self) -> Vec<&'a str> {
        if self.names.len() <= MOST_PROCESSES {
            return Vec::new();
        }
        let callers = self.names.iter().filter(|name| !self.is_service(name));
        callers.skip(FIRST_CALLERS).copied().collect()
    }

    fn event(&mut self, step: usize, event: &'a Event, actor: usize, out: &mut Drawing<'a>) {
        let who: &'a str = &event.who;
        let kind = self.kind(who);
        match &event.what {
            What::Called { tool, key, payload } => {
                let label = self.call(step, tool, key.as_deref(), payload);
                let own = out.lane(who, Kind::Caller);
                let next = self.rest(step, who).next();
                // The message that carries the call is drawn as the call.
                if let Some((_, What::Message { to, fate })) = next {
                    let there = out.lane(to, Kind::Tool);
                    let (look, label) = sent(*fate, Look::Call, &label);
                    out.line(step, event, (own, there), look, label);
                    self.wake(to, there, *fate, out);
                    return;
                }
                let stopped = matches!(next, Some((_, What::Failed { error })) if error.contains(OPEN_CIRCUIT));
                let inside = if stopped {
                    out.lane(BREAKER, Kind::Breaker)
                } else {
                    out.lane(tool, Kind::Tool)
                };
                out.line(step, event, (own, inside), Look::Call, label);
                self.actors[actor].inside = Some(inside);
                self.actors[actor].active =
                    Some(out.bar(inside, "active", format!("{who} is in it")));
            }
            What::Message { to, fate } => {
                let previous = step.checked_sub(1).map(|step| &self.events[step]);
                if previous.is_some_and(|call| {
                    *call.who == *who && matches!(call.what, What::Called { .. })
                }) {
                    return;
                }
                let own = out.lane(who, kind);
                let there = out.lane(to, self.kind(to));
                let mut label = "its request".to_owned();
                let mut look = Look::Call;
                if kind == Kind::Tool {
                    (label, look) = ("its answer".to_owned(), Look::Answer);
                    let ends = self.rest(step, to).find_map(|(at, what)| match what {
                        What::Answered { answer } => Some((at, answer.clone(), Look::Answer)),
                        What::Failed { error } => Some((at, format!("✗ {error}"), Look::Error)),
                        _ => None,
                    });
                    if let (Some((at, text, seen)), Fate::Arrives) = (ends, fate)
                        && let Some(reader) = self.names.iter().position(|name| *name == &**to)
                    {
                        self.actors[reader].shown = at;
                        (label, look) = (text, seen);
                    }
                    let active = self.actors[actor].active.take();
                    let (look, label) = sent(*fate, look, &label);
                    out.line(step, event, (own, there), look, label);
                    out.end(active);
                    return;
                }
                let (look, label) = sent(*fate, look, &label);
                out.line(step, event, (own, there), look, label);
                self.wake(to, there, *fate, out);
            }
            What::Answered { .. } if self.actors[actor].shown == step => {}
            What::Answered { answer } => {
                self.returned(step, event, actor, Look::Answer, answer.clone(), out);
            }
            What::Failed { .. } if self.actors[actor].shown == step => {}
            What::Failed { error } => {
                let timeout = error.starts_with("timeout");
                let look = if timeout { Look::Lost } else { Look::Error };
                self.returned(step, event, actor, look, format!("✗ {error}"), out);
            }
            What::Sql(sql) => self.sql(step, event, actor, sql, out),
            What::Waits => {
                let own = out.lane(who, kind);
                let place = self.place(actor, kind, out);
                out.line(
                    step,
                    event,
                    (place, place),
                    Look::Fault,
                    self.named(actor, place, "SQLITE_BUSY", out),
                );
                self.actors[actor].waiting =
                    Some(out.bar(own, "waiting", format!("{who} waits for the lock")));
            }
            What::AwaitsTurn => {
                let own = out.lane(who, kind);
                let label = "waits for its turn on the connection".to_owned();
                out.line(step, event, (own, own), Look::Note, label);
            }
            What::Waited { waited } => {
                let own = out.lane(who, kind);
                let waiting = self.actors[actor].waiting.take();
                let label = format!("waited {} ms", waited.as_millis());
                out.line(step, event, (own, own), Look::Note, label);
                out.end(waiting);
            }
            What::Lock {
                file,
                from,
                to,
                held,
            } => {
                if *from == LockLevel::Shared && *to == LockLevel::Exclusive && held == to {
                    let place = self.place(actor, kind, out);
                    let there = out.lane(file, Kind::Database);
                    let label = "rolls back the hot journal".to_owned();
                    out.line(step, event, (place, there), Look::Recovery, label);
                }
                let holding = self.actors[actor].holding;
                if *held >= LockLevel::Reserved && holding.is_none() && !out.lines.is_empty() {
                    let there = out.lane(file, Kind::Database);
                    let title = format!("{who} holds the write lock");
                    self.actors[actor].holding = Some(out.bar(there, "held", title));
                } else if *held < LockLevel::Reserved {
                    out.end(holding);
                    self.actors[actor].holding = None;
                }
            }
            What::Struck(point) => {
                let place = self.place(actor, kind, out);
                out.line(
                    step,
                    event,
                    (place, place),
                    Look::Fault,
                    format!("✗ fault at {point}"),
                );
            }
            What::Killed => {
                let place = self.place(actor, kind, out);
                out.line(
                    step,
                    event,
                    (place, place),
                    Look::Fault,
                    format!("✗ {who} is killed"),
                );
                self.died(actor, out);
            }
            What::PowerLost(loss) => {
                let label = format!("✗ the power fails: {loss}");
                out.line(step, event, (0, 0), Look::World, label);
                for actor in 0..self.actors.len() {
                    self.died(actor, out);
                }
            }
            What::Timer { until } => {
                let own = out.lane(who, kind);
                let after_message =
                    step > 0 && matches!(self.events[step - 1].what, What::Message { .. });
                let doing = if after_message {
                    "waits at most"
                } else {
                    "sleeps"
                };
                let label = format!("{doing} until {} ms", until.as_millis());
                out.line(step, event, (own, own), Look::Note, label);
            }
            What::Printed(line) => {
                let own = out.lane(who, kind);
                out.line(step, event, (own, own), Look::Note, format!("“{line}”"));
            }
            What::DiskFails {
                file,
                access,
                failing,
            } => {
                let place = self.place(actor, kind, out);
                let there = out.lane(file, Kind::Database);
                let label = format!("✗ {} fails: {failing}", access.name());
                out.line(step, event, (there, place), Look::Fault, label);
            }
            What::Reached(_) | What::Disk { .. } => {}
        }
    }

    fn call(&self, step: usize, tool: &str, key: Option<&str>, payload: &str) -> String {
        let Some(key) = key else {
            return format!("{tool}, no key");
        };
        let differs = self.events[..step].iter().any(|event| {
            matches!(&event.what, What::Called { key: Some(other), payload: first, .. } if other == key && first != payload)
        });
        let other = if differs { ", other payload" } else { "" };
        format!("{tool}, key {}{other}", cut(key, 28))
    }

    /// A service is at work from the message that arrives.
    fn wake(&mut self, name: &str, lane: usize, fate: Fate, out: &mut Drawing<'a>) {
        if let (Fate::Arrives, Some(actor)) =
            (fate, self.names.iter().position(|other| *other == name))
        {
            self.actors[actor].active = Some(out.bar(lane, "active", format!("{name} is at work")));
        }
    }

    fn returned(
        &mut self,
        step: usize,
        event: &'a Event,
        actor: usize,
        look: Look,
        label: String,
        out: &mut Drawing<'a>,
    ) {
        let own = out.lane(&event.who, Kind::Caller);
        // Out of the tool for good only with its last answer: two calls may be under way.
        let more = self
            .rest(step, &event.who)
            .any(|(_, what)| matches!(what, What::Answered { .. } | What::Failed { .. }));
        let inside = self.actors[actor].inside;
        match inside {
            Some(inside) => out.line(step, event, (inside, own), look, label),
            None if look == Look::Answer => out.line(step, event, (own, own), Look::Note, label),
            None => out.line(step, event, (own, own), Look::Fault, label),
        }
        if !more {
            self.actors[actor].inside = None;
            let active = self.actors[actor].active.take();
            out.end(active);
        }
    }

    fn sql(
        &mut self,
        step: usize,
        event: &'a Event,
        actor: usize,
        sql: &str,
        out: &mut Drawing<'a>,
    ) {
        let kind = self.kind(&event.who);
        let inside = self.actors[actor].inside;
        // Setting up and looking on are no part of the story.
        let word = sql.split([' ', '(']).next().unwrap_or_default();
        let hidden = matches!(word, "PRAGMA" | "CREATE")
            || (matches!(word, "BEGIN" | "SELECT" | "COMMIT")
                && kind == Kind::Caller
                && inside.is_none());
        let (false, Some(file)) = (hidden, self.database(&event.who)) else {
            return;
        };
        let own = self.place(actor, kind, out);
        let there = out.lane(file, Kind::Database);
        let look = match word {
            "COMMIT" => Look::Commit,
            "ROLLBACK" => Look::Error,
            _ => Look::Call,
        };
        let label = self.named(actor, own, &statement(sql), out);
        out.line(step, event, (own, there), look, label);
    }

    /// Where a process acts: in the tool that it is inside of, else on a lane of its own.
    fn place(&self, actor: usize, kind: Kind, out: &mut Drawing<'a>) -> usize {
        match self.actors[actor].inside {
            Some(inside) => inside,
            None => out.lane(self.names[actor], kind),
        }
    }

    /// A label with the name of its process, where the lane does not tell.
    fn named(&self, actor: usize, lane: usize, label: &str, out: &Drawing<'_>) -> String {
        let lane = out.lanes[lane].name;
        if lane != self.names[actor] && self.is_shared(lane) {
            format!("{}: {label}", self.names[actor])
        } else {
            label.to_owned()
        }
    }

    fn died(&mut self, actor: usize, out: &mut Drawing<'a>) {
        let actor = &mut self.actors[actor];
        for bar in [
            actor.active.take(),
            actor.waiting.take(),
            actor.holding.take(),
        ] {
            out.end(bar);
        }
        actor.inside = None;
    }
}

fn sent(fate: Fate, look: Look, label: &str) -> (Look, String) {
    match fate {
        Fate::Arrives => (look, label.to_owned()),
        Fate::Lost => (Look::Lost, format!("{label}: lost")),
        Fate::Refused => (Look::Error, format!("{label}: refused")),
    }
}

/// A statement without its values: `INSERT INTO tickets`, `SELECT … FROM requests`.
fn statement(sql: &str) -> String {
    match sql.find(" FROM ") {
        Some(from) if sql.starts_with("SELECT") => {
            let rest = &sql[from + 1..];
            let end = rest.find(" WHERE").unwrap_or(rest.len());
            format!("SELECT … {}", &rest[..end])
        }
        _ => {
            let end = [" WHERE", " VALUES", "("]
                .iter()
                .filter_map(|stop| sql.find(stop))
                .min();
            sql[..end.unwrap_or(sql.len())].to_owned()
        }
    }
}

/// At most `longest` characters, the last of them an ellipsis where some are left out.
fn cut(text: &str, longest: usize) -> String {
    if text.chars().count() <= longest {
        return text.to_owned();
    }
    text.chars().take(longest - 1).chain(['…']).collect()
}

impl Drawing<'_> {
    fn svg(mut self) -> String {
        self.shorten();
        let mut order: Vec<usize> = (0..self.lanes.len()).collect();
        order.sort_by_key(|&lane| self.lanes[lane].kind);
        let count = order.len();
        let space = (420 / count.saturating_sub(1).max(1)).clamp(112, 210);
        let mut x = vec![0; count];
        let mut next = TIMES + 54;
        for &lane in &order {
            // Statements need room, and several callers may write theirs into one gap.
            if self.lanes[lane].kind == Kind::Database && next > TIMES + 54 {
                next += 216usize.saturating_sub(space);
            }
            x[lane] = next;
            next += space;
        }
        let last = next - space;
        // Notes stand to the right of their lane.
        let notes = self.lines.iter().filter(|line| line.from == line.to);
        let widest = notes
            .map(|line| x[line.from] + 12 + width(&line.label))
            .max();
        let right = (last + 56).max(widest.unwrap_or(0));
        let floor = HEAD + (self.lines.len() + 1) * LINE;
        let y = |line: usize| HEAD + (line.min(self.lines.len() - 1) + 1) * LINE;

        let mut out = String::new();
        let calls = self
            .lines
            .iter()
            .filter(|line| line.look == Look::Call && self.lanes[line.from].kind == Kind::Caller);
        let lost = self
            .lines
            .iter()
            .filter(|line| line.look == Look::Lost)
            .count();
        let commits = self
            .lines
            .iter()
            .filter(|line| line.look == Look::Commit)
            .count();
        let faults = self
            .lines
            .iter()
            .filter(|line| matches!(line.look, Look::Fault | Look::World))
            .count();
        let names: Vec<&str> = order.iter().map(|&lane| self.lanes[lane].name).collect();
        let _ = write!(
            out,
            "<svg class=\"sequence\" role=\"img\" width=\"{right}\" height=\"{floor}\" viewBox=\"0 0 {right} {floor}\"><title>Sequence diagram: "
        );
        push_text(&mut out, &names.join(", "));
        let _ = write!(
            out,
            "</title><desc>{} lines: {} calls that arrive, {lost} messages or answers lost, {commits} commits, {faults} faults and waits. The trace below has every event in words.</desc>",
            self.lines.len(),
            calls.count()
        );
        for (lane, &x) in self.lanes.iter().zip(&x) {
            let _ = write!(out, "<path class=\"lane\" d=\"M{x} {HEAD}V{floor}\"/>");
            let half = 52.min(space / 2 - 3);
            let _ = write!(
                out,
                "<rect class=\"head\" x=\"{}\" y=\"4\" width=\"{}\" height=\"24\" rx=\"4\"/><text class=\"name\" x=\"{x}\" y=\"20\">",
                x - half,
                2 * half
            );
            push_text(&mut out, &cut(lane.name, 2 * half * 10 / LETTER_TENTHS));
            out.push_str("</text>");
        }
        // What says the same of one lane is one path, with one tooltip.
        self.bars
            .sort_by(|a, b| a.stands_for().cmp(&b.stands_for()));
        for same in self.bars.chunk_by(|a, b| a.stands_for() == b.stands_for()) {
            let _ = write!(out, "<path class=\"{}\" d=\"", same[0].class);
            for bar in same {
                let (top, bottom) = (y(bar.first), y(bar.last));
                let _ = write!(
                    out,
                    "M{} {top}h8v{}h-8z",
                    x[bar.lane] - 4,
                    bottom.saturating_sub(top).max(4)
                );
            }
            out.push_str("\"><title>");
            push_text(&mut out, &same[0].title);
            out.push_str("</title></path>");
        }
        let mut time = None;
        for (index, line) in self.lines.iter().enumerate() {
            // The height stands once, here: lines between the same lanes are then the same
            // text, and the page packs to less.
            let _ = write!(
                out,
                "<g class=\"{}\" data-step=\"{}\" transform=\"translate(0 {})\">",
                line.look.class(),
                line.step,
                y(index)
            );
            if time != Some(line.at_ms) {
                let _ = write!(
                    out,
                    "<text class=\"time\" x=\"{TIMES}\" y=\"4\">{}</text>",
                    line.at_ms
                );
                time = Some(line.at_ms);
            }
            line.draw(&mut out, x[line.from], x[line.to], right);
            out.push_str("</g>");
        }
        let _ = writeln!(
            out,
            "<text class=\"time\" x=\"{TIMES}\" y=\"20\">ms</text></svg>"
        );
        out
    }

    /// Cuts a long run before its last lines, and says how many are gone.
    fn shorten(&mut self) {
        let count = self.lines.len();
        let most = if self.lines.iter().all(|line| line.from == line.to) {
            MOST_NOTES
        } else {
            MOST_LINES
        };
        let others = match self.left_out {
            0 => String::new(),
            callers => format!(" {callers} callers"),
        };
        if count <= most {
            if let Some(last) = self.lines.last().filter(|_| self.left_out > 0) {
                self.lines.push(Line {
                    look: Look::Cut,
                    label: format!("…{others} left out: the trace has them"),
                    ..*last
                });
            }
            return;
        }
        let (first, behind) = (most - LAST_LINES - 1, count - LAST_LINES);
        let cut = Line {
            look: Look::Cut,
            label: format!(
                "… {} lines{}{others} left out: the trace has them",
                behind - first,
                if others.is_empty() { "" } else { " and" }
            ),
            ..self.lines[first]
        };
        self.lines.splice(first..behind, [cut]);
        for bar in &mut self.bars {
            for line in [&mut bar.first, &mut bar.last] {
                if *line >= behind {
                    *line = line.saturating_sub(behind - first - 1);
                } else {
                    *line = (*line).min(first);
                }
            }
        }
    }
}

fn width(label: &str) -> usize {
    label.chars().count().min(LONGEST) * LETTER_TENTHS / 10
}

impl Line {
    fn draw(&self, out: &mut String, from: usize, to: usize, right: usize) {
        let label = cut(&self.label, LONGEST);
        let wide = width(&label);
        if self.look == Look::World {
            let _ = write!(out, "<path d=\"M{TIMES} 0H{right}\"/>");
            self.text(out, TIMES + 8, -5, &label);
            return;
        }
        if self.look == Look::Cut {
            self.text(out, TIMES + 8, 4, &label);
            return;
        }
        if from == to {
            let mark = if self.look == Look::Fault {
                CROSS
            } else {
                "m-3 0h6"
            };
            let _ = write!(out, "<path d=\"M{from} 0{mark}\"/>");
            self.text(out, from + 10, 4, &label);
            return;
        }
        let rightwards = from < to;
        let stops = match self.look {
            // On the way.
            Look::Lost => (from + 3 * to) / 4,
            _ => to,
        };
        let _ = write!(out, "<path d=\"M{from} 0H{stops}");
        if self.look == Look::Lost {
            // Apart, since its line is dashed.
            let _ = write!(out, "\"/><path class=\"cross\" d=\"M{stops} 0{CROSS}");
        } else {
            out.push_str(if rightwards {
                "m-7 -4 7 4-7 4"
            } else {
                "m7 -4-7 4 7 4"
            });
        }
        out.push_str("\"/>");
        let middle = (from + to) / 2;
        let x = middle
            .saturating_sub(wide / 2)
            .min(right.saturating_sub(wide + 2))
            .max(TIMES + 2);
        self.text(out, x, -5, &label);
    }

    fn text(&self, out: &mut String, x: usize, y: i8, label: &str) {
        let _ = write!(out, "<text x=\"{x}\" y=\"{y}\">");
        push_text(out, label);
        out.push_str("</text>");
    }
}
