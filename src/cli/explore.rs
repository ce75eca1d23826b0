use std::time::Instant;

use tool_retries::explore::{self, Case, Cell, Search};
use tool_retries::json::{self, Canonical, Value};
use tool_retries::search::{MAX_RUNS, MAX_STATES, Strategy};

use super::arguments::Options;
use super::watch::Watch;
use super::{Failure, Printer};

/// How many runs go by between two looks at the clock; the slowest take a millisecond each.
const SLICE: u32 = 32;

/// Searches each case. A counterexample is a result, not a failure.
pub(super) fn explore(
    cases: &[Case],
    options: &Options,
    out: &mut Printer<'_>,
) -> Result<(), Failure> {
    let mut watch = Watch::new();
    let mut cells = Vec::new();
    let mut stopped = None;
    for (index, &case) in cases.iter().enumerate() {
        let place = (index + 1, cases.len());
        let searched = search(case, options.random, place, &mut watch)?;
        if !options.json {
            watch.aside(|| print(&searched, out));
        }
        if !searched.whole {
            stopped = Some(Stopped {
                case,
                index,
                of: cases.len(),
            });
        }
        cells.push(searched.cell);
        if stopped.is_some() || out.is_lost() {
            break;
        }
    }
    drop(watch);
    if options.json {
        let mut found = explore::to_json(&cells);
        if let (Some(stopped), Value::Object(members)) = (&stopped, &mut found) {
            members.insert("interrupted".to_owned(), stopped.to_json());
        }
        out.line(found.pretty());
    } else if let Some(stopped) = &stopped {
        out.line(format_args!("NOT COMPLETE: {}", stopped.words()));
    }
    match stopped {
        Some(stopped) => Err(Failure::interrupted(stopped.words())),
        None => Ok(()),
    }
}

/// The search in which the user wanted an end.
struct Stopped {
    case: Case,
    index: usize,
    of: usize,
}

impl Stopped {
    fn words(&self) -> String {
        let Self { case, index, of } = self;
        let (design, fault) = (case.design.id, case.class.id);
        format!("{index} of {of} searches are complete, {design} × {fault} in part")
    }

    fn to_json(&self) -> Value {
        json::object([
            ("complete", Value::from(self.index)),
            ("of", Value::from(self.of)),
            ("design", Value::from(self.case.design.id)),
            ("fault", Value::from(self.case.class.id)),
        ])
    }
}

/// What came of a search.
pub(super) struct Searched {
    pub(super) cell: Cell,
    /// Whether it came to its end before the user wanted one.
    pub(super) whole: bool,
}

/// Searches a case, all of it or so many schedules at random. It is the first number of `place`, of
/// so many as the second.
pub(super) fn search(
    case: Case,
    random: Option<u32>,
    place: (usize, usize),
    watch: &mut Watch,
) -> Result<Searched, Failure> {
    let strategy = match random {
        None => Strategy::Exhaustive,
        Some(_) => Strategy::Random { seed: 0 },
    };
    let runs = random.map_or(u64::MAX, u64::from);
    let mut search = Search::new(case, strategy)?;
    let begun = Instant::now();
    let mut whole = true;
    loop {
        let progress = search.progress();
        let left = runs - progress.runs;
        if progress.done || left == 0 {
            break;
        }
        whole = watch.goes_on(|| how_far(&search, random, place, begun));
        if !whole {
            break;
        }
        search.advance(SLICE.min(u32::try_from(left).unwrap_or(SLICE)))?;
    }
    Ok(Searched {
        cell: Cell::of(&search),
        whole,
    })
}

/// What comes first is what a narrow terminal still shows.
fn how_far(
    search: &Search,
    random: Option<u32>,
    (index, of): (usize, usize),
    begun: Instant,
) -> String {
    let case = search.case();
    let (schedules, runs) = (search.progress().schedules, search.progress().runs);
    let states = search.states();
    let rate = runs as f64 / begun.elapsed().as_secs_f64().max(0.001);
    let most_runs = random.map_or(MAX_RUNS, u64::from);
    let share = (runs as f64 / most_runs as f64).max(states as f64 / MAX_STATES as f64);
    format!(
        "{index}/{of} {} × {}: {schedules} schedules, {rate:.0} runs/s, {:.1} % of the bound \
         ({runs} runs, {states} states)",
        case.design.id,
        case.class.id,
        share * 100.0,
    )
}

fn print(searched: &Searched, out: &mut Printer<'_>) {
    let cell = &searched.cell;
    let so_far = if searched.whole { "" } else { ", so far" };
    out.line(format_args!(
        "{:<19}{:<16}{:<32}{}{so_far}",
        cell.design,
        cell.fault,
        cell.bounds.to_string(),
        cell.verdict()
    ));
    if let Some(found) = &cell.counterexample {
        out.line(format_args!("{:>67}replay {}", "", found.token));
    }
}
