//! `article.md` to the page: Markdown on one side, the recorded run on the other, one HTML file out.
//!
//! Besides plain Markdown with tables, the text may hold *scenario tables*: a comment
//! `<!-- scenarios: GROUP | Caption -->` directly before a table with the columns
//! `Scenario | What happens | Recorded`. Each becomes a table whose rows can be run, with the recorded values, their
//! digests and the recorded evidence in place, so that the page is complete before any script has loaded.
//! What the text calls recorded must be what `results.json` records; everything else is an [`ArticleError`]
//! that names the place.
//!
//! A comment `<!-- matrix -->` stands for the table of what the searches of every design said, `<!-- designs -->` for
//! the source of these designs, to which the table leads, `<!-- workbench -->` for the form in which a reader searches,
//! replays and runs what they choose.
//!
//! A comment `<!-- storm -->` stands for the recorded storms and the controls that turn one's own.
//!
//! A comment `<!-- answer -->` directly before a block quote folds the quote away behind a button, as the answer
//! to the question above it.
//!
//! No other raw HTML is let through. It is refused rather than escaped: the author learns of it from the build,
//! where escaping would let readers find tags in the prose.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

use pulldown_cmark::{Alignment, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};

mod designs;
mod matrix;
mod storm;

use crate::evidence::members;
use crate::explore::DESIGNS;
use crate::json::{Canonical, Value};
use crate::markup::escaped;

/// Renders `markdown` into `template`.
///
/// The template holds `{{title}}`, `{{description}}`, `{{lead}}` (all before the first section), `{{contents}}`
/// and `{{article}}` (the sections). `results` is the parsed `results.json`; `shown` answers a scenario
/// id with its recorded run.
pub fn render(
    template: &str,
    markdown: &str,
    results: &Value,
    shown: &dyn Fn(&str) -> Option<Shown>,
) -> Result<String, ArticleError> {
    let mut writer = Writer::new(markdown, results, shown);
    writer.write()?;
    writer.check_fragments()?;
    let title = writer.title.as_deref().ok_or(ArticleError::NoTitle)?;
    let description = writer
        .description
        .as_deref()
        .ok_or(ArticleError::NoDescription)?;
    let sections = writer.sections_start.unwrap_or(writer.out.len());
    fill(template, |name| match name {
        "title" => Some(escaped(title)),
        "description" => Some(escaped(description)),
        "lead" => Some(writer.out[..sections].to_owned()),
        "contents" => Some(contents(&writer.headings)),
        "article" => Some(writer.out[sections..].to_owned()),
        _ => None,
    })
}

/// A recorded run as the article shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shown {
    /// Its evidence, as [`crate::evidence::html`] writes it.
    pub evidence: String,
    /// Its sequence diagram, as [`crate::diagram::sequence`] writes it.
    pub diagram: String,
}

/// Why the article cannot be rendered. Lines are lines of `article.md`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArticleError {
    /// The text has no first-level heading.
    NoTitle,
    /// A second first-level heading.
    SecondTitle {
        /// Where it stands.
        line: usize,
    },
    /// No paragraph follows the title.
    NoDescription,
    /// Raw HTML that is no marker.
    RawHtml {
        /// Where it stands.
        line: usize,
        /// The HTML as written.
        html: String,
    },
    /// A scenario or diagram marker that cannot be read, that names an unknown scenario or that no table follows, an answer marker that no block quote
    /// follows, or a designs marker where an id is taken or a source has another form.
    Marker {
        /// Where it stands.
        line: usize,
        /// What was expected.
        reason: String,
    },
    /// A scenario table that does not have the agreed form.
    Table {
        /// Where the row stands.
        line: usize,
        /// What was expected.
        reason: String,
    },
    /// The text calls something recorded that the results do not record.
    Recorded {
        /// Where the row stands.
        line: usize,
        /// The row's scenario.
        scenario: String,
        /// What the text has.
        written: String,
        /// What the results have.
        recorded: String,
    },
    /// `results.json` lacks something that a row needs.
    Results {
        /// Where the row stands.
        line: usize,
        /// What is missing, as a path in the results.
        missing: String,
    },
    /// A link or an image that the page may not or cannot follow.
    Link {
        /// Where it stands.
        line: usize,
        /// Where it leads.
        target: String,
        /// Why not.
        reason: &'static str,
    },
    /// A placeholder of the template that nothing fills, or that is not closed.
    Template {
        /// Line of the template.
        line: usize,
        /// The placeholder as written.
        placeholder: String,
    },
}

impl fmt::Display for ArticleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTitle => write!(f, "article.md: no title; expected a line `# Title`"),
            Self::SecondTitle { line } => {
                write!(
                    f,
                    "article.md, line {line}: a second `# Title`; sections start with `##`"
                )
            }
            Self::NoDescription => write!(
                f,
                "article.md: no paragraph after the title; it becomes the description of the page"
            ),
            Self::RawHtml { line, html } => write!(
                f,
                "article.md, line {line}: raw HTML {html:?}; only `<!-- scenarios: GROUP | Caption -->`, `<!-- matrix -->`, `<!-- designs -->`, `<!-- workbench -->`, `<!-- storm -->` and `<!-- answer -->` are allowed"
            ),
            Self::Marker { line, reason } | Self::Table { line, reason } => {
                write!(f, "article.md, line {line}: {reason}")
            }
            Self::Recorded {
                line,
                scenario,
                written,
                recorded,
            } => write!(
                f,
                "article.md, line {line}: {scenario} is given as {written}, but results.json records {recorded}"
            ),
            Self::Results { line, missing } => write!(
                f,
                "article.md, line {line}: results.json has no {missing}; record the run again, or mend the name"
            ),
            Self::Link {
                line,
                target,
                reason,
            } => {
                write!(f, "article.md, line {line}: {target:?} {reason}")
            }
            Self::Template { line, placeholder } => {
                write!(f, "template, line {line}: nothing fills {placeholder:?}")
            }
        }
    }
}

impl std::error::Error for ArticleError {}

/// Ids of the template and of the parts around scenario tables: no heading may take them.
const RESERVED_IDS: [&str; 19] = [
    "contents",
    "dismiss",
    "edited",
    "every-run",
    "explore",
    "explore-all",
    "explored",
    "progress",
    "replay",
    "replayed",
    "report",
    "run-all",
    "shortest",
    "status",
    "stop",
    "storm",
    "take-it-along",
    "token",
    "workbench",
];

/// The group whose button and report carry the plain ids `run-all` and `report`.
const FIRST_GROUP: &str = "lab";

/// The columns that a scenario table has in the text.
const WRITTEN_COLUMNS: [&str; 3] = ["Scenario", "What happens", "Recorded"];

/// The columns that only a reader who can run scenarios needs.
const LIVE_COLUMNS: [&str; 3] = ["Run", "Your run", "Agreement"];

/// The beginning of an answer. It opens without a script.
const ANSWER: &str = "<details class=\"answer\"><summary>Show the answer</summary>\n";

type Events<'a> = Vec<Event<'a>>;

struct Heading {
    level: HeadingLevel,
    id: String,
    html: String,
}

struct Marker {
    line: usize,
    group: String,
    caption: String,
}

struct Row<'a> {
    line: usize,
    cells: Vec<Events<'a>>,
}

struct Writer<'a> {
    markdown: &'a str,
    results: &'a Value,
    shown: &'a dyn Fn(&str) -> Option<Shown>,
    events: pulldown_cmark::OffsetIter<'a>,
    /// HTML written so far.
    out: String,
    /// Events that need nothing of ours and wait to be written by `pulldown_cmark`.
    plain: Events<'a>,
    ids: BTreeSet<String>,
    fragments: Vec<(usize, String)>,
    title: Option<String>,
    description: Option<String>,
    headings: Vec<Heading>,
    /// Where in `out` the first section starts.
    sections_start: Option<usize>,
    /// A marker that waits for its table.
    marker: Option<Marker>,
    /// The line of an answer marker that waits for its block quote.
    answer: Option<usize>,
    /// Of each open block quote, outermost first, whether it is an answer.
    quotes: Vec<bool>,
}

impl<'a> Writer<'a> {
    fn new(
        markdown: &'a str,
        results: &'a Value,
        shown: &'a dyn Fn(&str) -> Option<Shown>,
    ) -> Self {
        Self {
            markdown,
            results,
            shown,
            events: Parser::new_ext(markdown, Options::ENABLE_TABLES).into_offset_iter(),
            out: String::new(),
            plain: Vec::new(),
            ids: RESERVED_IDS.map(str::to_owned).into(),
            fragments: Vec::new(),
            title: None,
            description: None,
            headings: Vec::new(),
            sections_start: None,
            marker: None,
            answer: None,
            quotes: Vec::new(),
        }
    }

    fn write(&mut self) -> Result<(), ArticleError> {
        while let Some((event, range)) = self.next()? {
            self.check_markers(Some(&event))?;
            match event {
                Event::Start(Tag::Heading { level, .. }) => self.heading(level, &range)?,
                Event::Start(Tag::Table(alignments)) => self.table(&alignments)?,
                Event::Start(Tag::HtmlBlock) => self.html_block(&range)?,
                Event::Start(Tag::BlockQuote(_)) => {
                    let is_answer = self.answer.take().is_some();
                    self.quotes.push(is_answer);
                    self.flush();
                    self.out
                        .push_str(if is_answer { ANSWER } else { "<blockquote>\n" });
                }
                Event::End(TagEnd::BlockQuote(_)) => {
                    let is_answer = self.quotes.pop() == Some(true);
                    self.flush();
                    self.out.push_str(if is_answer {
                        "</details>\n"
                    } else {
                        "</blockquote>\n"
                    });
                }
                Event::Start(Tag::Paragraph)
                    if self.title.is_some() && self.description.is_none() =>
                {
                    let inner = self.until(TagEnd::Paragraph)?;
                    self.description = Some(plain_text(&inner));
                    self.plain.push(Event::Start(Tag::Paragraph));
                    self.plain.extend(inner);
                    self.plain.push(Event::End(TagEnd::Paragraph));
                }
                other => self.plain.push(other),
            }
        }
        self.flush();
        self.check_markers(None)
    }

    /// That what a marker announced is what comes `next`.
    fn check_markers(&self, next: Option<&Event<'_>>) -> Result<(), ArticleError> {
        let (line, reason) = match (&self.marker, self.answer) {
            (Some(marker), _) if !matches!(next, Some(Event::Start(Tag::Table(_)))) => (
                marker.line,
                "no table stands directly after this scenario marker",
            ),
            (_, Some(line)) if !matches!(next, Some(Event::Start(Tag::BlockQuote(_)))) => (
                line,
                "no block quote stands directly after this answer marker",
            ),
            _ => return Ok(()),
        };
        Err(ArticleError::Marker {
            line,
            reason: reason.to_owned(),
        })
    }

    /// The next event, with links, images and raw HTML in running text judged on the way.
    fn next(&mut self) -> Result<Option<(Event<'a>, Range<usize>)>, ArticleError> {
        let Some((event, range)) = self.events.next() else {
            return Ok(None);
        };
        let line = self.line(&range);
        match &event {
            Event::InlineHtml(html) => {
                return Err(ArticleError::RawHtml {
                    line,
                    html: html.to_string(),
                });
            }
            Event::Start(Tag::Link { dest_url, .. }) => {
                if let Some(fragment) = dest_url.strip_prefix('#') {
                    self.fragments.push((line, fragment.to_owned()));
                } else if !is_web(dest_url) && !is_relative(dest_url) {
                    return Err(ArticleError::Link {
                        line,
                        target: dest_url.to_string(),
                        reason: "is neither a web address nor relative to the page",
                    });
                }
            }
            Event::Start(Tag::Image { dest_url, .. }) if !is_relative(dest_url) => {
                return Err(ArticleError::Link {
                    line,
                    target: dest_url.to_string(),
                    reason: "is not relative to the page, which loads nothing from elsewhere",
                });
            }
            _ => {}
        }
        Ok(Some((event, range)))
    }

    /// All events up to `end`, which is consumed. Nothing that is asked for here nests in itself.
    fn until(&mut self, end: TagEnd) -> Result<Events<'a>, ArticleError> {
        let mut events = Vec::new();
        while let Some((event, _)) = self.next()? {
            if event == Event::End(end) {
                break;
            }
            events.push(event);
        }
        Ok(events)
    }

    fn flush(&mut self) {
        html::push_html(&mut self.out, self.plain.drain(..));
    }

    fn line(&self, range: &Range<usize>) -> usize {
        line_at(self.markdown, range.start)
    }

    fn heading(&mut self, level: HeadingLevel, range: &Range<usize>) -> Result<(), ArticleError> {
        self.flush();
        let inner = self.until(TagEnd::Heading(level))?;
        let text = plain_text(&inner);
        if level == HeadingLevel::H1 {
            if self.title.is_some() {
                return Err(ArticleError::SecondTitle {
                    line: self.line(range),
                });
            }
            self.push(&["<h1>", &inline(inner), "</h1>\n"]);
            self.title = Some(text);
            return Ok(());
        }
        if level == HeadingLevel::H2 && self.sections_start.is_none() {
            self.sections_start = Some(self.out.len());
        }
        let id = self.free_id(&slug(&text));
        let level_name = level.to_string();
        // The link in the contents must not hold the heading's own links.
        let unlinked = inner
            .iter()
            .filter(|event| {
                !matches!(
                    event,
                    Event::Start(Tag::Link { .. }) | Event::End(TagEnd::Link)
                )
            })
            .cloned()
            .collect();
        self.push(&[
            "<",
            &level_name,
            " id=\"",
            &id,
            "\">",
            &inline(inner),
            " ",
            &anchor(&id, &text),
            "</",
            &level_name,
            ">\n",
        ]);
        self.headings.push(Heading {
            level,
            id,
            html: inline(unlinked),
        });
        Ok(())
    }

    /// `wanted`, or `wanted` with the first free number from 2.
    fn free_id(&mut self, wanted: &str) -> String {
        let scenarios = self.results.get("scenarios");
        let mut id = wanted.to_owned();
        let mut number = 2_u32;
        while self.ids.contains(&id) || scenarios.is_some_and(|known| known.get(&id).is_some()) {
            id = format!("{wanted}-{number}");
            number += 1;
        }
        self.ids.insert(id.clone());
        id
    }

    fn html_block(&mut self, range: &Range<usize>) -> Result<(), ArticleError> {
        let line = self.line(range);
        let text: String = self
            .until(TagEnd::HtmlBlock)?
            .iter()
            .map(|event| match event {
                Event::Html(html) => html.as_ref(),
                _ => "",
            })
            .collect();
        if text.trim() == "<!-- answer -->" {
            self.answer = Some(line);
            return Ok(());
        }
        if text.trim() == "<!-- matrix -->" {
            self.flush();
            let missing = |missing| ArticleError::Results { line, missing };
            self.out
                .push_str(&matrix::html(self.results).map_err(missing)?);
            let links = DESIGNS.iter().map(|design| (line, designs::id(design)));
            self.fragments.extend(links);
            return Ok(());
        }
        if text.trim() == "<!-- designs -->" {
            return self.designs(line);
        }
        if text.trim() == "<!-- storm -->" {
            self.flush();
            let missing = |missing| ArticleError::Results { line, missing };
            self.out
                .push_str(&storm::html(self.results).map_err(missing)?);
            return Ok(());
        }
        if text.trim() == "<!-- workbench -->" {
            self.flush();
            self.out.push_str(&matrix::workbench());
            return Ok(());
        }
        let marker = text
            .trim()
            .strip_prefix("<!--")
            .and_then(|rest| rest.strip_suffix("-->")?.split_once(':'))
            .map(|(kind, rest)| (kind.trim(), rest));
        let Some((kind @ ("scenarios" | "diagram"), inner)) = marker else {
            return Err(ArticleError::RawHtml {
                line,
                html: text.trim().to_owned(),
            });
        };
        let parts = inner.split_once('|').map(|(a, b)| (a.trim(), b.trim()));
        let Some((name, caption)) =
            parts.filter(|(name, caption)| is_group(name) && !caption.is_empty())
        else {
            return Err(ArticleError::Marker {
                line,
                reason: format!(
                    "expected `<!-- {kind}: NAME | Caption -->`, NAME in lower-case letters, digits, - and _"
                ),
            });
        };
        if kind == "diagram" {
            return self.figure(line, name, caption);
        }
        self.marker = Some(Marker {
            line,
            group: name.to_owned(),
            caption: caption.to_owned(),
        });
        Ok(())
    }

    /// The source of the designs.
    fn designs(&mut self, line: usize) -> Result<(), ArticleError> {
        let marker = |reason| ArticleError::Marker { line, reason };
        for id in DESIGNS.iter().map(designs::id) {
            if !self.ids.insert(id.clone()) {
                return Err(marker(format!("the id {id:?} is taken")));
            }
        }
        self.flush();
        self.out.push_str(&designs::html().map_err(marker)?);
        Ok(())
    }

    /// The diagram of a recorded run, in the open. It leads to the row with the rest of the evidence.
    fn figure(&mut self, line: usize, name: &str, caption: &str) -> Result<(), ArticleError> {
        let shown = (self.shown)(name).ok_or_else(|| ArticleError::Marker {
            line,
            reason: format!("no scenario of the engine is called {name}"),
        })?;
        self.fragments.push((line, name.to_owned()));
        self.flush();
        self.push(&[
            "<figure>\n<div class=\"diagram\" tabindex=\"0\" role=\"group\" aria-label=\"Sequence diagram of ",
            name,
            "\">",
            &shown.diagram,
            "</div>\n<figcaption>",
            &escaped(caption),
            " <a href=\"#",
            name,
            "\"><code>",
            name,
            "</code></a></figcaption>\n</figure>\n",
        ]);
        Ok(())
    }

    fn table(&mut self, alignments: &[Alignment]) -> Result<(), ArticleError> {
        self.flush();
        let mut rows: Vec<Row<'a>> = Vec::new();
        while let Some((event, range)) = self.next()? {
            match event {
                Event::Start(Tag::TableHead | Tag::TableRow) => rows.push(Row {
                    line: self.line(&range),
                    cells: Vec::new(),
                }),
                Event::Start(Tag::TableCell) => {
                    let cell = self.until(TagEnd::TableCell)?;
                    if let Some(row) = rows.last_mut() {
                        row.cells.push(cell);
                    }
                }
                Event::End(TagEnd::Table) => break,
                _ => {}
            }
        }
        let body = rows.split_off(rows.len().min(1));
        let head = rows.pop().map(|row| row.cells).unwrap_or_default();
        match self.marker.take() {
            Some(marker) => self.scenario_table(&marker, &head, body),
            None => {
                self.plain_table(alignments, &head, body);
                Ok(())
            }
        }
    }

    /// Classes instead of the `style` attributes that Markdown renderers write, which the policy of the page
    /// forbids; roles because the style sheet shows rows as cards where the screen is narrow.
    fn plain_table(&mut self, alignments: &[Alignment], head: &[Events<'a>], body: Vec<Row<'a>>) {
        let class = |column: usize| match alignments.get(column) {
            Some(Alignment::Center) => " class=\"centre\"",
            Some(Alignment::Right) => " class=\"right\"",
            _ => "",
        };
        self.out.push_str(
            "<table class=\"stack\" role=\"table\">\n<thead role=\"rowgroup\"><tr role=\"row\">",
        );
        for (column, cell) in head.iter().enumerate() {
            let html = inline(cell.clone());
            self.push(&[
                "<th scope=\"col\" role=\"columnheader\"",
                class(column),
                ">",
                &html,
                "</th>",
            ]);
        }
        self.out
            .push_str("</tr></thead>\n<tbody role=\"rowgroup\">\n");
        for row in body {
            self.out.push_str("<tr role=\"row\">");
            for (column, cell) in row.cells.into_iter().enumerate() {
                let label = head
                    .get(column)
                    .map(|cell| plain_text(cell))
                    .unwrap_or_default();
                self.push(&[
                    "<td role=\"cell\"",
                    class(column),
                    " data-label=\"",
                    &escaped(&label),
                    "\">",
                    &inline(cell),
                    "</td>",
                ]);
            }
            self.out.push_str("</tr>\n");
        }
        self.out.push_str("</tbody>\n</table>\n");
    }

    fn scenario_table(
        &mut self,
        marker: &Marker,
        head: &[Events<'a>],
        body: Vec<Row<'a>>,
    ) -> Result<(), ArticleError> {
        let names: Vec<String> = head.iter().map(|cell| plain_text(cell)).collect();
        if names != WRITTEN_COLUMNS {
            return Err(ArticleError::Table {
                line: marker.line,
                reason: format!(
                    "the table of {:?} has the columns {}; expected {}",
                    marker.group,
                    names.join(" | "),
                    WRITTEN_COLUMNS.join(" | ")
                ),
            });
        }
        let suffix = if marker.group == FIRST_GROUP {
            String::new()
        } else {
            format!("-{}", marker.group)
        };
        let group = escaped(&marker.group);
        // The button is drawn in the caption but stands before the table: what has the role of a table may
        // own rows, groups of rows and a caption, and no button.
        let caption_id = format!("caption-{group}");
        if !self.ids.insert(caption_id.clone()) {
            return Err(ArticleError::Marker {
                line: marker.line,
                reason: format!("a second table of the group {:?}", marker.group),
            });
        }
        self.push(&[
            "<div class=\"scenarios\" data-group=\"",
            &group,
            "\">\n<button type=\"button\" class=\"run-all\" id=\"run-all",
            &suffix,
            "\" data-run-all=\"",
            &group,
            "\" hidden>Run all</button>\n<table class=\"stack runs\" role=\"table\" aria-labelledby=\"",
            &caption_id,
            "\">\n<caption id=\"",
            &caption_id,
            "\">",
            &escaped(&marker.caption),
            "</caption>\n<thead role=\"rowgroup\"><tr role=\"row\">",
        ]);
        for name in WRITTEN_COLUMNS {
            self.push(&["<th scope=\"col\" role=\"columnheader\">", name, "</th>"]);
        }
        for name in LIVE_COLUMNS {
            self.push(&[
                "<th scope=\"col\" role=\"columnheader\" class=\"live\">",
                name,
                "</th>",
            ]);
        }
        self.out
            .push_str("</tr></thead>\n<tbody role=\"rowgroup\">\n");
        for row in body {
            self.scenario_row(row)?;
        }
        self.push(&[
            "</tbody>\n</table>\n</div>\n<details class=\"report\" data-report=\"",
            &group,
            "\" hidden><summary>Your results.json</summary>\n",
            "<p><button type=\"button\" data-download>Download results.json</button></p>\n<pre id=\"report",
            &suffix,
            "\"></pre></details>\n",
        ]);
        Ok(())
    }

    fn scenario_row(&mut self, row: Row<'a>) -> Result<(), ArticleError> {
        let line = row.line;
        let malformed = |reason: &str| ArticleError::Table {
            line,
            reason: reason.to_owned(),
        };
        let missing = |path: String| ArticleError::Results {
            line,
            missing: path,
        };
        let [name, happens, recorded]: [Events<'a>; 3] = row
            .cells
            .try_into()
            .map_err(|_| malformed("expected three cells in this row"))?;
        let name = code_span(&name).ok_or_else(|| {
            malformed("expected one code span with the scenario's id in the first cell")
        })?;
        let written = code_span(&recorded).ok_or_else(|| {
            malformed("expected one code span with the recorded values in the third cell")
        })?;
        let values = self
            .results
            .get("scenarios")
            .and_then(|scenarios| scenarios.get(name))
            .ok_or_else(|| missing(format!("scenarios.{name}")))?
            .spaced();
        if written != values {
            return Err(ArticleError::Recorded {
                line,
                scenario: name.to_owned(),
                written: written.to_owned(),
                recorded: values,
            });
        }
        let digest = |part: &str| {
            self.results
                .get("digests")
                .and_then(|digests| digests.get(name)?.get(part)?.as_str())
                .ok_or_else(|| missing(format!("digests.{name}.{part}")))
        };
        let (checks, trace) = (digest("checks")?, digest("trace")?);
        let Shown { evidence, .. } = (self.shown)(name)
            .ok_or_else(|| malformed("no scenario of the engine has the id in the first cell"))?;
        if !self.ids.insert(name.to_owned()) {
            return Err(malformed("this scenario has a row already"));
        }
        let id = escaped(name);
        let shown: Vec<String> = members(&values)
            .map(|member| format!("<span>{}</span>", escaped(member)))
            .collect();
        let values = escaped(&values);
        self.push(&[
            "<tr role=\"row\" class=\"scenario\" id=\"",
            &id,
            "\" data-scenario=\"",
            &id,
            "\" data-recorded=\"",
            &values,
            "\" data-checks=\"",
            &escaped(checks),
            "\" data-trace=\"",
            &escaped(trace),
            "\">\n<th scope=\"row\" role=\"rowheader\"><code>",
            // A long id breaks between its words.
            &id.replace('_', "_<wbr>"),
            "</code> ",
            &anchor(&id, name),
            "</th>\n<td role=\"cell\" class=\"happens\" data-label=\"What happens\">",
            &inline(happens),
            "</td>\n<td role=\"cell\" class=\"recorded\" data-label=\"Recorded\"><code>",
            &shown.join(" "),
            "</code></td>\n<td role=\"cell\" class=\"live press\"><button type=\"button\" class=\"run\" data-run=\"",
            &id,
            "\" aria-label=\"Run ",
            &id,
            "\" hidden>Run</button></td>\n",
            "<td role=\"cell\" class=\"live reader\" data-label=\"Your run\"></td>\n",
            "<td role=\"cell\" class=\"live agreement\" data-label=\"Agreement\"></td>\n</tr>\n",
            "<tr role=\"row\" class=\"evidence-row\"><td role=\"cell\" colspan=\"6\"><details class=\"evidence\" id=\"evidence-",
            &id,
            "\" data-evidence=\"",
            &id,
            "\"><summary>Evidence of <code>",
            &id,
            "</code>: <span class=\"whose\">the recorded run</span></summary>\n<p class=\"copies\" hidden><button type=\"button\" data-copy=\"link\" aria-label=\"Copy link to ",
            &id,
            "\">Copy link</button> <button type=\"button\" data-copy=\"embed\" aria-label=\"Copy embed code of ",
            &id,
            "\">Copy embed code</button></p>\n<div class=\"evidence-body\">\n",
            &evidence,
            "</div></details></td></tr>\n",
        ]);
        Ok(())
    }

    fn push(&mut self, pieces: &[&str]) {
        self.out.extend(pieces.iter().copied());
    }

    /// Every `#fragment` in the text must name a heading, a scenario or a design of the page.
    fn check_fragments(&self) -> Result<(), ArticleError> {
        for (line, fragment) in &self.fragments {
            if !self.ids.contains(fragment) {
                return Err(ArticleError::Link {
                    line: *line,
                    target: format!("#{fragment}"),
                    reason: "leads to no heading, scenario or design of the article",
                });
            }
        }
        Ok(())
    }
}

/// Sections, with their subsections nested. Deeper headings are left out.
fn contents(headings: &[Heading]) -> String {
    let mut out = String::from("<ol>\n");
    let mut in_section = false;
    let mut in_subsections = false;
    for heading in headings {
        match heading.level {
            HeadingLevel::H2 => {
                if in_subsections {
                    out.push_str("</li>\n</ol>\n");
                }
                if in_section {
                    out.push_str("</li>\n");
                }
                (in_section, in_subsections) = (true, false);
            }
            HeadingLevel::H3 if in_section => {
                out.push_str(if in_subsections {
                    "</li>\n"
                } else {
                    "\n<ol>\n"
                });
                in_subsections = true;
            }
            _ => continue,
        }
        out.extend(["<li><a href=\"#", &heading.id, "\">", &heading.html, "</a>"]);
    }
    if in_subsections {
        out.push_str("</li>\n</ol>\n");
    }
    if in_section {
        out.push_str("</li>\n");
    }
    out.push_str("</ol>");
    out
}

fn fill(template: &str, value: impl Fn(&str) -> Option<String>) -> Result<String, ArticleError> {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    // One pass: what a value holds is never read as a placeholder.
    while let Some(start) = rest.find("{{") {
        let inner = &rest[start + 2..];
        let end = inner.find("}}");
        let filled = end.and_then(|end| value(inner[..end].trim()));
        let (Some(end), Some(filled)) = (end, filled) else {
            let shown = end.map_or(2, |end| end + 4);
            return Err(ArticleError::Template {
                line: line_at(template, template.len() - rest.len() + start),
                placeholder: rest[start..start + shown].to_owned(),
            });
        };
        out.push_str(&rest[..start]);
        out.push_str(&filled);
        rest = &inner[end + 2..];
    }
    out.push_str(rest);
    Ok(out)
}

fn anchor(id: &str, text: &str) -> String {
    format!(
        "<a class=\"anchor\" href=\"#{id}\" aria-label=\"Link to {}\">#</a>",
        escaped(text)
    )
}

fn inline(events: Events<'_>) -> String {
    let mut out = String::new();
    html::push_html(&mut out, events.into_iter());
    out
}

fn plain_text(events: &[Event<'_>]) -> String {
    let mut out = String::new();
    for event in events {
        match event {
            Event::Text(text) | Event::Code(text) => out.push_str(text),
            Event::SoftBreak | Event::HardBreak => out.push(' '),
            _ => {}
        }
    }
    out
}

/// The text of a cell that is one code span and nothing else.
fn code_span<'e>(cell: &'e [Event<'_>]) -> Option<&'e str> {
    match cell {
        [Event::Code(text)] => Some(text),
        _ => None,
    }
}

/// Letters and digits in lower case, everything between them one hyphen.
fn slug(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars() {
        if character.is_alphanumeric() {
            out.extend(character.to_lowercase());
        } else if !out.is_empty() && !out.ends_with('-') {
            out.push('-');
        }
    }
    let out = out.trim_end_matches('-');
    if out.is_empty() { "section" } else { out }.to_owned()
}

fn line_at(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

fn is_group(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_'))
}

fn is_web(target: &str) -> bool {
    ["https://", "http://", "mailto:"]
        .iter()
        .any(|scheme| target.starts_with(scheme))
}

/// Whether `target` stays below the page wherever the site is hosted: no scheme, no host, no root.
fn is_relative(target: &str) -> bool {
    let first = target.split(['/', '?', '#']).next().unwrap_or_default();
    !target.is_empty() && !target.starts_with(['/', '\\']) && !first.contains(':')
}
