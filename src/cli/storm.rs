use tool_retries::json::Canonical;
use tool_retries::outcome::Plot;
use tool_retries::storm::{Setup, Storm};

use super::watch::Watch;
use super::{Failure, Printer, show};

/// How many events go by between two looks at the clock, some milliseconds.
const SLICE: u32 = 10_000;

/// Runs a storm and says what came of it.
pub(super) fn storm(setup: &Setup, json: bool, out: &mut Printer<'_>) -> Result<(), Failure> {
    let breakers = setup.breakers();
    let mut storm = Storm::new(setup, &breakers);
    let mut watch = Watch::new();
    loop {
        if !watch.goes_on(|| how_far(&storm, setup)) {
            return Err(Failure::interrupted("the storm was not over"));
        }
        if !storm.advance_by(SLICE) {
            break;
        }
    }
    drop(watch);
    if json {
        out.line(storm.to_json().pretty());
    } else {
        print(&storm, out);
    }
    Ok(())
}

fn how_far(storm: &Storm<'_>, setup: &Setup) -> String {
    let (run, calls) = (storm.runs_done() + 1, storm.totals().calls);
    format!("run {run} of {}: {calls} calls", setup.runs)
}

fn print(storm: &Storm<'_>, out: &mut Printer<'_>) {
    out.line(storm.summary());
    let (plot, served) = storm.load();
    show::plot(&plot, out);
    let title = "What the server did".to_owned();
    let bars = served.to_vec();
    show::plot(
        &Plot {
            title,
            bars,
            ..plot
        },
        out,
    );
}
