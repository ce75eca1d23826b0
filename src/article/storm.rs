use std::ops::RangeInclusive;

use crate::client::Jitter;
use crate::diagram;
use crate::json::{Canonical, Value};
use crate::markup::escaped;
use crate::storm::{
    ATTEMPTS, CAPACITY, CLIENTS, DELAY_MS, JITTERS, RECORDED, RUNS, Server, Setup, plot,
};

/// The recorded storms that are drawn in the text; the others are behind a button.
const DRAWN: [&str; 4] = ["aws_none", "aws_full", "grpc_no_budget", "grpc_budget"];

/// The recorded storms as drawings and a table, and the controls for the reader's own.
///
/// # Errors
///
/// What the results lack, as a path in them.
pub(super) fn html(results: &Value) -> Result<String, String> {
    let storm = results.get("storm");
    let mut out = String::new();
    for case in RECORDED.iter().filter(|case| DRAWN.contains(&case.id)) {
        let found = storm.and_then(|storm| storm.get("cases")?.get(case.id));
        let member = |name: &str| {
            let member = found.and_then(|case| case.get(name));
            member.ok_or_else(|| format!("storm.cases.{}.{name}", case.id))
        };
        let bars = |name: &str| -> Result<Vec<u64>, String> {
            let words = member(name)?.as_str().unwrap_or_default().split(' ');
            let bars = words.map(|word| word.parse().ok());
            let bars: Option<_> = bars.collect();
            bars.ok_or_else(|| format!("number in storm.cases.{}.{name}", case.id))
        };
        let bar_ms = member("bar_ms")?.as_i64().unwrap_or_default() as u64;
        out.extend([
            "<figure data-storm=\"",
            case.id,
            "\">\n",
            &diagram::load(&plot(bar_ms, bars("offered")?), &bars("served")?),
            "<figcaption><strong>",
            case.title,
            ".</strong> ",
            &escaped(member("summary")?.as_str().unwrap_or_default()),
            "</figcaption>\n</figure>\n",
        ]);
    }
    out.push_str(&table(storm)?);
    out.push_str(&controls()?);
    Ok(out)
}

/// What the published set-up comes to, by the number of clients and the kind of jitter.
fn table(storm: Option<&Value>) -> Result<String, String> {
    let Some(Value::Object(counts)) = storm.and_then(|storm| storm.get("aws_by_clients")) else {
        return Err("storm.aws_by_clients".to_owned());
    };
    let mut out = String::from(
        "<table class=\"stack\" role=\"table\">\n<caption>AWS: calls, and time until the last client is done, mean \
         of 100 runs</caption>\n<thead role=\"rowgroup\"><tr role=\"row\"><th scope=\"col\" \
         role=\"columnheader\">Clients</th>",
    );
    for jitter in JITTERS {
        out.extend([
            "<th scope=\"col\" role=\"columnheader\" class=\"right\">",
            jitter,
            "</th>",
        ]);
    }
    out.push_str("</tr></thead>\n<tbody role=\"rowgroup\">\n");
    let mut counts: Vec<_> = counts.iter().collect();
    counts.sort_by_key(|(clients, _)| clients.parse::<u32>().unwrap_or_default());
    for (clients, kinds) in counts {
        out.extend([
            "<tr role=\"row\"><th scope=\"row\" role=\"rowheader\">",
            &escaped(clients),
            "</th>",
        ]);
        for jitter in JITTERS {
            let member = |name: &str| {
                let found = kinds.get(jitter).and_then(|means| means.get(name));
                let number = found.map(Value::compact);
                number.ok_or_else(|| format!("storm.aws_by_clients.{clients}.{jitter}.{name}"))
            };
            out.extend([
                "<td role=\"cell\" class=\"right\" data-label=\"",
                jitter,
                "\">",
                &member("calls")?,
                " calls, ",
                &member("time_ms")?,
                " ms</td>",
            ]);
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table>\n");
    Ok(out)
}

/// The controls, which the style sheet shows to those who have the engine. Their names are those of
/// [`crate::storm::Setup::set`].
fn controls() -> Result<String, String> {
    let mut out = String::from(
        "<div id=\"storm\" class=\"storm\" role=\"group\" aria-label=\"A storm of your own\">\n<p class=\"storm-presets\">",
    );
    for case in &RECORDED {
        out.extend([
            "<button type=\"button\" data-setup=\"",
            &words(&Setup::parse(case.setup)?),
            "\" data-case=\"",
            case.id,
            "\">",
            case.title,
            "</button>\n",
        ]);
    }
    out.push_str("</p>\n<div class=\"storm-fields\">\n");
    choice(
        &mut out,
        "server",
        "Server",
        &[
            ("row", "a row, optimistic locking"),
            ("queue", "a queue, stalled for 2 s"),
        ],
    );
    number(&mut out, "clients", "Clients", CLIENTS, 100);
    number(
        &mut out,
        "capacity",
        "Queue: requests in each 100 ms",
        CAPACITY,
        15,
    );
    number(
        &mut out,
        "attempts",
        "Attempts at most",
        ATTEMPTS,
        *ATTEMPTS.end(),
    );
    number(&mut out, "base", "Base, ms", DELAY_MS, 5);
    number(&mut out, "cap", "Cap, ms", DELAY_MS, 2_000);
    choice(
        &mut out,
        "jitter",
        "Jitter",
        &[
            ("full", "full"),
            ("none", "none"),
            ("equal", "equal"),
            ("decorrelated", "decorrelated"),
        ],
    );
    field(
        &mut out,
        "budget",
        "Retry budget, tokens:ratio",
        "<input type=\"text\" value=\"none\" autocomplete=\"off\" spellcheck=\"false\"",
        "",
    );
    number(&mut out, "runs", "Runs", RUNS, 100);
    number(&mut out, "seed", "Seed", 0..=u32::MAX, 7);
    field(
        &mut out,
        "breaker",
        "Breaker: five failures open it for 1 s",
        "<input type=\"checkbox\"",
        "",
    );
    out.push_str(
        "</div>\n<p><button type=\"button\" id=\"storm-run\">Run the storm</button> \
         <button type=\"button\" id=\"storm-stop\">Stop the storm</button></p>\n\
         <div id=\"storm-shown\"></div>\n</div>\n",
    );
    Ok(out)
}

/// A set-up with every control's value.
fn words(setup: &Setup) -> String {
    let server = match setup.server {
        Server::Row => "row",
        Server::Queue => "queue",
    };
    let jitter = match setup.jitter {
        Jitter::None => "none",
        Jitter::Full => "full",
        Jitter::Equal => "equal",
        Jitter::Decorrelated => "decorrelated",
    };
    let budget = setup.budget.map_or("none".to_owned(), |budget| {
        let ratio = budget.ratio_thousandths;
        let tokens = budget.most_thousandths / 1_000;
        format!("{tokens}:{}.{:03}", ratio / 1_000, ratio % 1_000)
    });
    let breaker = if setup.breaker { "on" } else { "off" };
    let Setup {
        base_ms,
        cap_ms,
        attempts,
        clients,
        capacity,
        runs,
        seed,
        ..
    } = setup;
    format!(
        "server={server} clients={clients} capacity={capacity} attempts={attempts} base={base_ms} \
         cap={cap_ms} jitter={jitter} budget={budget} runs={runs} seed={seed} breaker={breaker}"
    )
}

fn number(out: &mut String, name: &str, label: &str, range: RangeInclusive<u32>, value: u32) {
    let (least, most) = range.into_inner();
    let start = format!(
        "<input type=\"number\" inputmode=\"numeric\" min=\"{least}\" max=\"{most}\" value=\"{value}\""
    );
    field(out, name, label, &start, "");
}

fn choice(out: &mut String, name: &str, label: &str, options: &[(&str, &str)]) {
    let options: Vec<String> = options
        .iter()
        .map(|(value, text)| format!("<option value=\"{value}\">{text}</option>"))
        .collect();
    field(
        out,
        name,
        label,
        "<select",
        &(options.concat() + "</select>"),
    );
}

/// A label, the control whose tag `start` begins, and the place for what is wrong with its value.
fn field(out: &mut String, name: &str, label: &str, start: &str, rest: &str) {
    out.push_str(&format!(
        "<div><label for=\"storm-{name}\">{label}</label>{start} id=\"storm-{name}\" name=\"{name}\" \
         aria-describedby=\"storm-{name}-error\">{rest}<span class=\"storm-error\" id=\"storm-{name}-error\"></span></div>\n"
    ));
}
