use std::rc::Rc;

use super::case::Case;
use super::stage::Stage;
use super::{ExploreError, Invariant, Invariants};
use crate::search::{self, Forks, Model, Seen, Strategy};
use crate::sim::Moves;

/// How far a search has come.
pub type Progress = search::Progress<Invariants>;

/// A search of one case: a value that is advanced in slices.
pub struct Search(search::Search<Play>);

/// A run that breaks an invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counterexample {
    /// Replays it: [`super::replay`].
    pub token: String,
    /// The invariants that it breaks.
    pub broken: Invariants,
    /// How often it departs from the usual: another than the longest waiting moves, or a fault
    /// strikes.
    pub departures: usize,
}

impl Search {
    /// A search that has not begun.
    ///
    /// # Errors
    ///
    /// What SQLite says.
    pub fn new(case: Case, strategy: Strategy) -> Result<Self, ExploreError> {
        let play = Play::new(Stage::new(case, false)?);
        Ok(Self(search::Search::new(play, strategy)))
    }

    /// What is searched.
    pub fn case(&self) -> &Case {
        &self.0.model().stage.case
    }

    /// How far it has come.
    pub fn progress(&self) -> Progress {
        self.0.progress()
    }

    /// How many states it remembers, at most [`search::MAX_STATES`]; none once it is shortening.
    pub fn states(&self) -> usize {
        self.0.states()
    }

    /// The shortest counterexample so far; the shortest there is when the search is done.
    pub fn counterexample(&self) -> Option<Counterexample> {
        let found = self.0.counterexample()?;
        Some(Counterexample {
            token: self.case().token(&found.choices),
            broken: found.broken,
            departures: found.departures,
        })
    }

    /// Goes on for at most so many runs.
    ///
    /// # Errors
    ///
    /// [`ExploreError`], a mistake of the engine: no run may fail.
    pub fn advance(&mut self, runs: u32) -> Result<Progress, ExploreError> {
        self.0.advance(runs)
    }

    /// Goes on to the end.
    ///
    /// # Errors
    ///
    /// As [`Search::advance`].
    pub fn finish(self) -> Result<Self, ExploreError> {
        self.0.finish().map(Self)
    }
}

impl Invariant {
    /// Whether a finished search may claim it: it was asked for, never broke, and what makes it
    /// worth something did happen.
    pub fn is_shown_by(self, search: &Search) -> bool {
        let progress = search.progress();
        let stage = &search.0.model().stage;
        stage.asks_for(self) && !progress.broken.has(self) && progress.did_happen.has(self)
    }
}

/// A stage and what moves on it.
pub(super) struct Play {
    stage: Rc<Stage>,
    moves: Moves,
}

impl Play {
    pub(super) fn new(stage: Rc<Stage>) -> Self {
        let moves = stage.world.moves();
        Self { stage, moves }
    }

    /// Ends what has not come to its end.
    fn clear(&mut self) {
        self.moves = self.stage.world.moves();
    }
}

impl Model for Play {
    type Properties = Invariants;
    type Error = ExploreError;

    fn begin(&mut self, forks: &Forks) -> Result<(), ExploreError> {
        self.stage.end_faults();
        self.clear();
        self.stage.begin(forks)
    }

    fn movers(&mut self) -> Result<usize, ExploreError> {
        Ok(self.moves.movers()?)
    }

    fn step(&mut self, mover: usize) -> Result<(), ExploreError> {
        Ok(self.moves.step(mover)?)
    }

    fn fingerprint(&self) -> u64 {
        self.stage.state()
    }

    fn finish(&mut self) -> Result<(), ExploreError> {
        self.clear();
        self.stage.finish()
    }

    fn seen(&self) -> Seen<Invariants> {
        self.stage.seen()
    }
}
