use super::{Bounds, Case, Counterexample, DESIGNS, ExploreError, FAULTS, Invariant, Search};
use crate::json::{self, Value};
use crate::search::Strategy;
use crate::sim::Journal;

/// What a finished search says of one design under one class of faults.
#[derive(Debug)]
pub struct Cell {
    /// The design's name.
    pub design: &'static str,
    /// The fault class's name.
    pub fault: &'static str,
    /// How the database got its commits to the disk.
    pub journal: Journal,
    /// What the search kept to.
    pub bounds: Bounds,
    /// Schedules, with every place of a fault.
    pub schedules: u64,
    /// How many of them break an invariant.
    pub bad: u64,
    /// Runs that this took.
    pub runs: u64,
    /// The invariants that hold in all schedules and are worth something.
    pub shown: Vec<Invariant>,
    /// The invariants that break in some schedule.
    pub broken: Vec<Invariant>,
    /// The shortest counterexample.
    pub counterexample: Option<Counterexample>,
    /// Not all was tried: the search is random, came to a limit, or is not over.
    pub limited: bool,
}

impl Cell {
    /// What a search says, as far as it has come.
    pub fn of(search: &Search) -> Self {
        let progress = search.progress();
        let all = Invariant::ALL.into_iter();
        Self {
            design: search.case().design.id,
            fault: search.case().class.id,
            journal: search.case().journal,
            bounds: search.case().bounds,
            schedules: progress.schedules,
            bad: progress.bad,
            runs: progress.runs,
            shown: all.filter(|one| one.is_shown_by(search)).collect(),
            broken: progress.broken.iter().collect(),
            counterexample: search.counterexample(),
            limited: progress.limited || !progress.done,
        }
    }

    /// Whether no schedule breaks anything, all were tried, and something was shown.
    pub fn is_safe(&self) -> bool {
        self.bad == 0 && !self.limited && !self.shown.is_empty()
    }

    /// The verdict in words.
    pub fn verdict(&self) -> String {
        let schedules = match self.schedules {
            1 => "1 schedule".to_owned(),
            more => format!("{more} schedules"),
        };
        match &self.counterexample {
            Some(found) => {
                let breach = found.broken.iter().next().map_or("", Invariant::breach);
                format!("{breach} in {} of {schedules}", self.bad)
            }
            None if self.is_safe() => format!("safe in {schedules}"),
            None if self.limited => format!("nothing found in {schedules}"),
            None => format!("nothing shown in {schedules}"),
        }
    }

    /// As it stands in `results.json`.
    pub fn to_json(&self) -> Value {
        let ids = |list: &[Invariant]| {
            let ids = list.iter().map(|one| Value::from(one.id()));
            Value::from(ids.collect::<Vec<_>>())
        };
        let token = self.counterexample.as_ref();
        json::object([
            ("verdict", Value::from(self.verdict())),
            ("bounds", Value::from(self.bounds.to_string())),
            ("safe", Value::from(self.is_safe())),
            ("schedules", Value::from(self.schedules)),
            ("bad", Value::from(self.bad)),
            ("shown", ids(&self.shown)),
            ("broken", ids(&self.broken)),
            (
                "token",
                token.map_or(Value::Null, |found| Value::from(found.token.as_str())),
            ),
        ])
    }
}

/// Every design under every fault class, in the usual bounds: what the matrix of this journal searches.
pub fn cases(journal: Journal) -> impl ExactSizeIterator<Item = Case> {
    (0..DESIGNS.len() * FAULTS.len()).map(move |index| {
        let class = &FAULTS[index % FAULTS.len()];
        Case {
            design: &DESIGNS[index / FAULTS.len()],
            class,
            bounds: class.bounds,
            journal,
        }
    })
}

/// What the searches of all [`cases`] say.
///
/// # Errors
///
/// [`ExploreError`], a mistake of the engine.
pub fn matrix(journal: Journal) -> Result<Vec<Cell>, ExploreError> {
    cases(journal)
        .map(|case| {
            Ok(Cell::of(
                &Search::new(case, Strategy::Exhaustive)?.finish()?,
            ))
        })
        .collect()
}

/// Cells as `results.json` records them: an object of designs, each an object of fault classes.
pub fn to_json(cells: &[Cell]) -> Value {
    let of = |design: &str| {
        let cells = cells.iter().filter(|cell| cell.design == design);
        json::object(cells.map(|cell| (cell.fault, cell.to_json())))
    };
    json::object(cells.iter().map(|cell| (cell.design, of(cell.design))))
}
