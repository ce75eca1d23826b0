use tool_retries::explore;
use tool_retries::json::{Canonical, Value};
use tool_retries::outcome::{Outcome, Plot, Table};
use tool_retries::report;
use tool_retries::scenario::Scenario;

use super::arguments::Options;
use super::{Failure, Printer, fixture_file, run};

/// Everything that one scenario shows.
pub(super) fn show(
    scenario: &Scenario,
    options: &Options,
    out: &mut Printer<'_>,
) -> Result<(), Failure> {
    let fixture = fixture_file::read(options.fixture.as_deref())?;
    let outcome = run::play(scenario, &fixture)?;
    evidence(scenario.id, scenario.title, &outcome, options.json, out);
    match run::broken_checks(scenario.id, &outcome) {
        broken if broken.is_empty() => Ok(()),
        broken => Err(Failure::checks(broken)),
    }
}

/// Runs one run of a search again. That it breaks an invariant is what it is there to show.
pub(super) fn replay(token: &str, options: &Options, out: &mut Printer<'_>) -> Result<(), Failure> {
    let outcome = explore::replay(token)?;
    evidence(token, "a run of the search", &outcome, options.json, out);
    Ok(())
}

fn evidence(id: &str, title: &str, outcome: &Outcome, json: bool, out: &mut Printer<'_>) {
    if json {
        return out.line(report::evidence(id, outcome).pretty());
    }
    out.line(report::line(id, outcome));
    out.line(format_args!("  {title}"));
    out.line("\nChecks");
    for check in &outcome.checks {
        let verdict = if check.holds() { "holds" } else { "FAILS" };
        out.line(format_args!("  {verdict}  {check}"));
        if check.premise.is_met() {
            out.line(format_args!("         as it happened: {}", check.premise));
        }
    }
    if !outcome.tables.is_empty() {
        out.line("\nRows left");
    }
    for one in &outcome.tables {
        table(one, out);
    }
    for one in &outcome.plots {
        plot(one, out);
    }
    out.line("\nTrace (virtual time, process, event)");
    for event in &outcome.trace.events {
        out.line(event);
    }
    out.line("\nSHA-256");
    out.line(format_args!("  checks  {}", outcome.checks_sha256()));
    out.line(format_args!("  trace   {}", outcome.trace_sha256()));
}

fn table(table: &Table, out: &mut Printer<'_>) {
    out.line(format_args!(
        "  {}({})",
        table.name,
        table.columns.join(", ")
    ));
    if table.rows.is_empty() {
        out.line("    no rows");
    }
    for row in &table.rows {
        let cells: Vec<String> = row.iter().map(Value::spaced).collect();
        out.line(format_args!("    {}", cells.join("  ")));
    }
}

/// A line for each bar that is not zero.
pub(super) fn plot(plot: &Plot, out: &mut Printer<'_>) {
    const WIDEST: u64 = 40;
    out.line(format_args!("\n{}, in {}", plot.title, plot.unit));
    let highest = plot.bars.iter().copied().max().unwrap_or(0).max(1);
    for (label, &bar) in plot.labels.iter().zip(&plot.bars) {
        if bar > 0 {
            let marks = "#".repeat((bar * WIDEST).div_ceil(highest) as usize);
            out.line(format_args!("  {label:>9}  {bar:>5}  {marks}"));
        }
    }
}
