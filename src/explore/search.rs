use std::rc::Rc;

use super::case::Case;
use super::path::Path;
use super::stage::{End, Stage};
use super::states::{Count, States};
use super::{ExploreError, Invariant, Invariants};
use crate::sim::Chooser;

/// The most runs of one search. What it did not come to is not claimed.
pub const MAX_RUNS: u64 = 20_000_000;

/// The most states that a search remembers.
pub const MAX_STATES: usize = 2_000_000;

/// The most runs that the way to the shortest counterexample may take.
const MAX_RUNS_SHORTEST: u64 = 20_000;

/// How the paths are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// Every schedule and every place of a fault, each state gone on from once.
    Exhaustive,
    /// The same without leaving anything out: slow, and only there to compare.
    Unpruned,
    /// Random ones, as long as the search is advanced.
    Random {
        /// Seed of the first; each next run takes the next number.
        seed: u64,
    },
}

/// How far a search has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Schedules that are settled, faults placed in them included: those that ran, and those that
    /// would only have gone on from a state that was gone on from before.
    pub schedules: u64,
    /// How many of them broke an invariant.
    pub bad: u64,
    /// Runs on the database.
    pub runs: u64,
    /// Runs that stopped at a state that was gone on from before.
    pub pruned: u64,
    /// Schedules that ran and in which a fault struck.
    pub struck: u64,
    /// Invariants that broke.
    pub broken: Invariants,
    /// Invariants whose "did happen" happened.
    pub did_happen: Invariants,
    /// Whether the search is over.
    pub done: bool,
    /// Whether it is over because it came to a limit.
    pub limited: bool,
}

/// A search in progress: a value that is advanced in slices.
pub struct Search {
    stage: Rc<Stage>,
    strategy: Strategy,
    progress: Progress,
    phase: Phase,
    /// How each state that was gone on from came out.
    states: States,
    /// Of each choice of the path, what is known so far.
    nodes: Vec<Node>,
    counterexample: Option<Counterexample>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Searching,
    /// Looking for a counterexample with so many departures from the usual.
    Shortening {
        departures: usize,
        runs_left: u64,
    },
}

#[derive(Debug, Clone, Copy, Default)]
struct Node {
    /// The state at which the choice was made; only moves have one.
    state: Option<u64>,
    count: Count,
}

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
    /// How many choices it has.
    choices: usize,
}

impl Search {
    /// A search that has not begun.
    ///
    /// # Errors
    ///
    /// What SQLite says.
    pub fn new(case: Case, strategy: Strategy) -> Result<Self, ExploreError> {
        Ok(Self {
            stage: Stage::new(case, false)?,
            strategy,
            progress: Progress::default(),
            phase: Phase::Searching,
            states: States::default(),
            nodes: Vec::new(),
            counterexample: None,
        })
    }

    /// What is searched.
    pub fn case(&self) -> &Case {
        &self.stage.case
    }

    /// How far it has come.
    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// How many states it remembers, at most [`MAX_STATES`]; none once it is shortening.
    pub fn states(&self) -> usize {
        self.states.len()
    }

    /// The shortest counterexample so far; the shortest there is when the search is done.
    pub fn counterexample(&self) -> Option<&Counterexample> {
        self.counterexample.as_ref()
    }

    /// Goes on for at most so many runs.
    ///
    /// # Errors
    ///
    /// [`ExploreError`], a mistake of the engine: no run may fail.
    pub fn advance(&mut self, runs: u32) -> Result<Progress, ExploreError> {
        for _ in 0..runs {
            if self.progress.done {
                break;
            }
            match self.phase {
                Phase::Searching => self.search_one()?,
                Phase::Shortening {
                    departures,
                    runs_left,
                } => self.shorten_one(departures, runs_left)?,
            }
        }
        Ok(self.progress)
    }

    /// Goes on to the end.
    ///
    /// # Errors
    ///
    /// As [`Search::advance`].
    pub fn finish(mut self) -> Result<Self, ExploreError> {
        while !self.progress.done {
            self.advance(1_000)?;
        }
        Ok(self)
    }

    fn search_one(&mut self) -> Result<(), ExploreError> {
        if let Strategy::Random { seed } = self.strategy {
            let seed = seed.wrapping_add(self.progress.runs);
            self.stage.path().randomise(seed);
        }
        let mut mover = Mover::unpruned(&self.stage);
        if self.strategy == Strategy::Exhaustive {
            mover.pruning = Some(Pruning {
                states: &self.states,
                nodes: &mut self.nodes,
            });
        }
        let end = self.stage.run(&mut mover)?;
        let stopped = mover.stopped;
        self.progress.runs += 1;
        self.progress.did_happen.insert_all(end.marks);
        let count = match stopped {
            Some(count) => {
                self.progress.pruned += 1;
                count
            }
            None => {
                self.progress.struck += u64::from(end.struck);
                self.progress.broken.insert_all(end.broken);
                let bad = u64::from(!end.broken.is_empty());
                if bad > 0 {
                    self.keep_if_shorter(end);
                }
                Count { schedules: 1, bad }
            }
        };
        self.progress.schedules = self.progress.schedules.saturating_add(count.schedules);
        self.progress.bad = self.progress.bad.saturating_add(count.bad);
        if let Strategy::Random { .. } = self.strategy {
            self.nodes.clear();
            self.progress.limited = self.progress.runs >= MAX_RUNS;
            self.progress.done = self.progress.limited;
            return Ok(());
        }
        self.nodes.resize(self.stage.path().len(), Node::default());
        if let Some(last) = self.nodes.last_mut() {
            last.count.add(count);
        }
        let next = self.stage.path().advance(usize::MAX);
        self.settle_nodes(next.map_or(0, |index| index + 1));
        if next.is_none() {
            self.begin_shortening();
        } else if self.progress.runs >= MAX_RUNS || self.states.len() >= MAX_STATES {
            self.progress.limited = true;
            self.begin_shortening();
        }
        Ok(())
    }

    /// Settles every choice from this one on: what came of its state is known for good.
    fn settle_nodes(&mut self, kept: usize) {
        while self.nodes.len() > kept {
            let Some(node) = self.nodes.pop() else { break };
            if let Some(state) = node.state {
                self.states.insert(state, node.count);
            }
            if let Some(parent) = self.nodes.last_mut() {
                parent.count.add(node.count);
            }
        }
    }

    fn keep_if_shorter(&mut self, end: End) {
        let path = self.stage.path();
        let (departures, choices) = (path.departures(), path.len());
        let shorter =
            |known: &Counterexample| (departures, choices) < (known.departures, known.choices);
        if self.counterexample.as_ref().is_none_or(shorter) {
            self.counterexample = Some(Counterexample {
                token: self.stage.case.token(&path.schedule()),
                broken: end.broken,
                departures,
                choices,
            });
        }
    }

    fn begin_shortening(&mut self) {
        self.states = States::default();
        self.nodes.clear();
        self.progress.done = self.counterexample.is_none();
        self.phase = Phase::Shortening {
            departures: 0,
            runs_left: MAX_RUNS_SHORTEST,
        };
        *self.stage.path() = Path::default();
    }

    /// One run with at most so many departures. All with fewer have been tried and break nothing.
    fn shorten_one(&mut self, departures: usize, runs_left: u64) -> Result<(), ExploreError> {
        let end = self.stage.run(&mut Mover::unpruned(&self.stage))?;
        self.progress.runs += 1;
        if !end.broken.is_empty() {
            self.keep_if_shorter(end);
        }
        let next = self.stage.path().advance(departures);
        let known = self.counterexample.as_ref();
        let known = known.map_or(0, |known| known.departures);
        let mut departures = departures;
        if next.is_none() {
            *self.stage.path() = Path::default();
            departures += 1;
        }
        self.progress.done = departures > known || runs_left == 0;
        self.phase = Phase::Shortening {
            departures,
            runs_left: runs_left.saturating_sub(1),
        };
        Ok(())
    }
}

/// Lets the path choose who moves, and stops at a state that was gone on from before.
pub(super) struct Mover<'a> {
    stage: &'a Stage,
    pruning: Option<Pruning<'a>>,
    stopped: Option<Count>,
}

struct Pruning<'a> {
    states: &'a States,
    nodes: &'a mut Vec<Node>,
}

impl<'a> Mover<'a> {
    pub(super) fn unpruned(stage: &'a Stage) -> Self {
        Self {
            stage,
            pruning: None,
            stopped: None,
        }
    }
}

impl Chooser for Mover<'_> {
    fn choose(&mut self, movers: &[&str]) -> usize {
        if let Some(Pruning { states, nodes }) = &mut self.pruning
            && self.stage.path().is_at_end()
        {
            let state = self.stage.state();
            if let Some(count) = states.get(state) {
                self.stopped = Some(count);
                return usize::MAX;
            }
            nodes.resize(self.stage.path().len(), Node::default());
            nodes.push(Node {
                state: Some(state),
                count: Count::default(),
            });
        }
        self.stage.choose_mover(movers.len())
    }
}

impl Invariant {
    /// Whether a finished search may claim it: it was asked for, never broke, and what makes it
    /// worth something did happen.
    pub fn is_shown_by(self, search: &Search) -> bool {
        let progress = search.progress;
        search.stage.asks_for(self) && !progress.broken.has(self) && progress.did_happen.has(self)
    }
}
