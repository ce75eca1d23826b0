use super::designs;
use crate::explore::{Bounds, DESIGNS, Design, FAULTS, FaultClass, Invariant};
use crate::json::{Canonical, Value};
use crate::markup::escaped;
use crate::scenario::{self, Fixture};
use crate::sim::Journal;

/// Whose searches the table shows.
const JOURNAL: &str = "rollback";

/// The recorded searches as a table: designs by fault classes, in each cell the verdict and the buttons
/// that only a reader who can search needs.
///
/// # Errors
///
/// What the results lack, as a path in them.
pub(super) fn html(results: &Value) -> Result<String, String> {
    let mut out = String::from(
        "<div class=\"scenarios searches\">\n<button type=\"button\" class=\"run-all\" \
         id=\"explore-all\" hidden>Run all</button>\n<table class=\"matrix\" role=\"table\" \
         aria-labelledby=\"matrix-caption\">\n<caption id=\"matrix-caption\">What every schedule \
         of every design came to</caption>\n<thead role=\"rowgroup\"><tr role=\"row\">\
         <th scope=\"col\" role=\"columnheader\">Design</th>",
    );
    for class in FAULTS {
        out.extend([
            "<th scope=\"col\" role=\"columnheader\">",
            class.title,
            " <span class=\"bounds\">",
            &class.bounds.to_string(),
            "</span></th>",
        ]);
    }
    out.push_str("</tr></thead>\n<tbody role=\"rowgroup\">\n");
    for design in DESIGNS {
        out.extend([
            "<tr role=\"row\">\n<th scope=\"row\" role=\"rowheader\"><a href=\"#",
            &designs::id(design),
            "\">",
            &escaped(design.title),
            "</a></th>\n",
        ]);
        for class in FAULTS {
            out.push_str(&cell(results, design, class)?);
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table>\n</div>\n");
    Ok(out)
}

/// The workbench: a search of the reader's choice, a token to replay, and an operation of their own.
/// Hidden until it can work.
pub(super) fn workbench() -> String {
    let options = |options: &mut dyn Iterator<Item = (&str, &str)>, chosen: &str| -> String {
        options
            .map(|(value, text)| {
                let selected = if value == chosen { " selected" } else { "" };
                format!(
                    "<option value=\"{value}\"{selected}>{}</option>",
                    escaped(text)
                )
            })
            .collect()
    };
    let select = |id: &str, label: &str, options: String| {
        format!(
            "<p><label for=\"{id}\">{label}</label> <select id=\"{id}\" \
             aria-describedby=\"explore-problem\">{options}</select></p>\n"
        )
    };
    let numbers = |from: u8, to: u8, chosen: &str| {
        let numbers: Vec<String> = (from..=to).map(|number| number.to_string()).collect();
        options(
            &mut numbers.iter().map(|number| (&**number, &**number)),
            chosen,
        )
    };
    let most = Bounds::MOST;
    let designs = DESIGNS.iter().map(|design| (design.id, design.title));
    let faults = FAULTS.iter().map(|class| (class.id, class.title));
    let journals = Journal::ALL.map(|journal| (journal.id(), journal.title()));
    let ways = [("all", "every one"), ("random", "20,000 at random")];
    let lab = scenario::all().iter().filter(|one| one.group == "lab");
    let fixture = Fixture::committed();
    [
        "<section id=\"workbench\" aria-label=\"Workbench\" hidden>\n<h3>Workbench</h3>\n\
         <h4>Search within your own bounds</h4>\n\
         <p>A schedule is one order of all the moves, with the faults at their places. A run plays one on the \
         database. It is pruned, that is, broken off, where it comes to a state from which everything was \
         tried before; the schedules behind that state count without being run again.</p>\n<div class=\"fields\">\n",
        &select(
            "explore-design",
            "Design",
            options(&mut designs.into_iter(), "immediate"),
        ),
        &select(
            "explore-fault",
            "What goes wrong",
            options(&mut faults.into_iter(), "none"),
        ),
        &select(
            "explore-journal",
            "Journal",
            options(&mut journals.into_iter(), JOURNAL),
        ),
        &select("explore-callers", "Callers", numbers(1, most.callers, "2")),
        &select("explore-attempts", "Attempts of each", numbers(1, most.attempts, "2")),
        &select("explore-faults", "Faults, at most", numbers(0, most.faults, "0")),
        &select(
            "explore-way",
            "Schedules",
            options(&mut ways.into_iter(), "all"),
        ),
        "<p><label for=\"explore-seed\">Seed, if at random</label> <input id=\"explore-seed\" \
         value=\"0\" inputmode=\"numeric\" maxlength=\"20\" autocomplete=\"off\" \
         aria-describedby=\"explore-problem\"></p>\n</div>\n\
         <p class=\"problem\" id=\"explore-problem\"></p>\n\
         <p class=\"presses\"><button type=\"button\" id=\"explore\">Explore</button> \
         <button type=\"button\" id=\"explore-stop\" hidden>Stop</button> \
         <a id=\"explore-link\" href=\"#explore=immediate.none.220\">Link to this search</a></p>\n\
         <p id=\"explore-progress\"></p>\n<div id=\"explored\"></div>\n\
         <div class=\"evidence-body\" id=\"shortest\" hidden></div>\n\
         <h4>Replay a run</h4>\n<div class=\"fields\">\n\
         <p class=\"wide\"><label for=\"token\">Token of a run</label> <input id=\"token\" \
         maxlength=\"4000\" autocomplete=\"off\" spellcheck=\"false\" \
         aria-describedby=\"token-problem\"></p>\n</div>\n\
         <p class=\"problem\" id=\"token-problem\"></p>\n\
         <p class=\"presses\"><button type=\"button\" id=\"replay\">Replay</button></p>\n\
         <div class=\"evidence-body\" id=\"replayed\" hidden></div>\n\
         <h4>Run the lab with another operation</h4>\n<div class=\"fields\">\n\
         <p><label for=\"edited-scenario\">Scenario of the lab</label> \
         <select id=\"edited-scenario\">",
        &options(&mut lab.map(|one| (one.id, one.id)), ""),
        "</select></p>\n<p><label for=\"edited-key\">Operation key</label> \
         <input id=\"edited-key\" maxlength=\"500\" autocomplete=\"off\" spellcheck=\"false\" \
         aria-describedby=\"edited-key-problem\" value=\"",
        &escaped(fixture.operation_key().as_str()),
        "\"></p>\n<p class=\"problem\" id=\"edited-key-problem\"></p>\n\
         <p class=\"wide\"><label for=\"edited-payload\">Payload, as JSON</label> \
         <textarea id=\"edited-payload\" rows=\"6\" maxlength=\"20000\" spellcheck=\"false\" \
         aria-describedby=\"edited-payload-problem\">",
        &escaped(&fixture.payload().pretty()),
        "</textarea></p>\n</div>\n<p class=\"problem\" id=\"edited-payload-problem\"></p>\n\
         <p class=\"presses\"><button type=\"button\" id=\"run-edited\">Run with this operation</button></p>\n\
         <div class=\"evidence-body\" id=\"edited\" hidden></div>\n</section>\n",
    ]
    .concat()
}

fn cell(results: &Value, design: &Design, class: &FaultClass) -> Result<String, String> {
    let cell = results
        .get("matrix")
        .and_then(|matrix| matrix.get(JOURNAL)?.get(design.id)?.get(class.id));
    let member = |name: &str| {
        let found = cell.and_then(|cell| cell.get(name));
        found.ok_or_else(|| format!("matrix.{JOURNAL}.{}.{}.{name}", design.id, class.id))
    };
    let (safe, verdict) = (member("safe")?, member("verdict")?);
    let (safe, verdict) = (safe.as_bool(), verdict.as_str().unwrap_or_default());
    let (schedules, bad) = (member("schedules")?.compact(), member("bad")?.compact());
    let broken = match member("broken")? {
        Value::Array(broken) => broken.first().and_then(Value::as_str),
        _ => None,
    };
    let (class_name, glyph, words, count) = match broken.and_then(Invariant::find) {
        Some(broken) => (
            "breaks",
            "✗ ",
            broken.short_breach(),
            format!("{bad} of {schedules}"),
        ),
        None if safe == Some(true) => ("safe", "✓ ", "safe", schedules),
        None => ("open", "", "nothing shown", schedules),
    };
    let token = member("token")?.as_str().unwrap_or_default();
    let name = format!("{}/{}", design.id, class.id);
    let (design, fault) = (escaped(design.title), escaped(class.title));
    let show = match broken {
        Some(_) => [
            " <button type=\"button\" class=\"run\" aria-expanded=\"false\" aria-label=\"Show the counterexample of ",
            &design,
            ", ",
            &fault,
            "\" hidden>Show</button>",
        ]
        .concat(),
        None => String::new(),
    };
    let token_text = match token {
        "" => String::new(),
        token => format!("<code class=\"token\">{}</code>", escaped(token)),
    };
    Ok([
        "<td role=\"cell\" class=\"",
        class_name,
        "\" data-label=\"",
        &fault,
        "\" data-cell=\"",
        &name,
        "\" data-token=\"",
        &escaped(token),
        "\" title=\"",
        &escaped(verdict),
        "\"><span class=\"verdict\">",
        glyph,
        words,
        "</span> <span class=\"count\">",
        &count,
        "</span> ",
        &token_text,
        "<span class=\"live agreement\"></span> <button type=\"button\" class=\"run\" data-explore aria-label=\"Run ",
        &design,
        ", ",
        &fault,
        "\" hidden>Run</button>",
        &show,
        "</td>\n",
    ]
    .concat())
}
