//! A search over every way in which something can run.
//!
//! It knows a [`Model`]: what may happen next, how it is done, what the state looks like, what broke and what did happen.
//! A run is a path of choices, [`Schedule`]: who moves where several can, and what else is open on the way. The search
//! takes every path, goes on from each state once, counts as if it had not left any out, and shows the counterexample that
//! departs least from the usual. The choices of a run are plain data, and run it again.
//!
//! The shape is that of stateright's `Model` (<https://docs.rs/stateright>), whose "sometimes" properties are
//! [`Seen::did_happen`] here, and a schedule is a short text as in shuttle (<https://docs.rs/shuttle>).
//!
//! # Example
//!
//! A lock that is looked at and then taken, in two steps, is held by two:
//!
//! ```
//! use tool_retries::search::{Forks, Model, Search, Seen, Strategy};
//!
//! /// What each of two has done: looked, and if it was free, taken.
//! #[derive(Default)]
//! struct Lock {
//!     looked: [Option<bool>; 2],
//!     done: [bool; 2],
//!     held: u8,
//! }
//!
//! impl Model for Lock {
//!     type Properties = bool;
//!     type Error = std::convert::Infallible;
//!
//!     fn begin(&mut self, _: &Forks) -> Result<(), Self::Error> {
//!         *self = Self::default();
//!         Ok(())
//!     }
//!     fn movers(&mut self) -> Result<usize, Self::Error> {
//!         Ok(self.done.iter().filter(|done| !**done).count())
//!     }
//!     fn step(&mut self, mover: usize) -> Result<(), Self::Error> {
//!         let who = (0..2).filter(|&who| !self.done[who]).nth(mover).unwrap();
//!         match self.looked[who] {
//!             None => self.looked[who] = Some(self.held == 0),
//!             Some(free) => {
//!                 self.held += u8::from(free);
//!                 self.done[who] = true;
//!             }
//!         }
//!         Ok(())
//!     }
//!     fn fingerprint(&self) -> u64 {
//!         let bits = self.looked.map(|seen| seen.map_or(2, u64::from));
//!         let done = self.done.map(u64::from);
//!         (bits[0] << 4 | bits[1] << 2 | done[0] << 1 | done[1]) << 2 | u64::from(self.held)
//!     }
//!     fn finish(&mut self) -> Result<(), Self::Error> {
//!         Ok(())
//!     }
//!     fn seen(&self) -> Seen<bool> {
//!         Seen {
//!             broken: self.held > 1,
//!             did_happen: self.held > 0,
//!             struck: false,
//!         }
//!     }
//! }
//!
//! let search = Search::new(Lock::default(), Strategy::Exhaustive).finish()?;
//! assert_eq!((search.progress().schedules, search.progress().bad), (6, 4));
//! // The first looks, the second looks, and then both take.
//! assert_eq!(search.counterexample().unwrap().choices.to_string(), "01");
//! # Ok::<(), std::convert::Infallible>(())
//! ```

mod forks;
mod model;
mod path;
mod states;

pub use forks::Forks;
pub use model::{Model, Properties, Seen};

use path::Path;
use states::{Count, States};

use crate::sim::Schedule;

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
pub struct Progress<P> {
    /// Schedules that are settled, faults placed in them included: those that ran, and those that
    /// would only have gone on from a state that was gone on from before.
    pub schedules: u64,
    /// How many of them broke a property.
    pub bad: u64,
    /// Runs of the model.
    pub runs: u64,
    /// Runs that stopped at a state that was gone on from before.
    pub pruned: u64,
    /// Schedules that ran and in which a fault struck.
    pub struck: u64,
    /// Properties that broke.
    pub broken: P,
    /// Properties whose "did happen" happened.
    pub did_happen: P,
    /// Whether the search is over.
    pub done: bool,
    /// Whether it is over because it came to a limit.
    pub limited: bool,
}

/// A search in progress: a value that is advanced in slices.
pub struct Search<M: Model> {
    model: M,
    forks: Forks,
    strategy: Strategy,
    progress: Progress<M::Properties>,
    phase: Phase,
    /// How each state that was gone on from came out.
    states: States,
    /// Of each choice of the path, what is known so far.
    nodes: Vec<Node>,
    counterexample: Option<Counterexample<M::Properties>>,
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

/// A run that breaks a property.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counterexample<P> {
    /// Its choices; [`run`] runs it again.
    pub choices: Schedule,
    /// The properties that it breaks.
    pub broken: P,
    /// How often it departs from the usual: another than the longest waiting moves, or a fault
    /// strikes.
    pub departures: usize,
    /// How many choices it has, those included that are the usual ones to its end.
    length: usize,
}

impl<M: Model> Search<M> {
    /// A search that has not begun.
    pub fn new(model: M, strategy: Strategy) -> Self {
        Self {
            model,
            forks: Forks::default(),
            strategy,
            progress: Progress::default(),
            phase: Phase::Searching,
            states: States::default(),
            nodes: Vec::new(),
            counterexample: None,
        }
    }

    /// What is searched.
    pub fn model(&self) -> &M {
        &self.model
    }

    /// How far it has come.
    pub fn progress(&self) -> Progress<M::Properties> {
        self.progress
    }

    /// How many states it remembers, at most [`MAX_STATES`]; none once it is shortening.
    pub fn states(&self) -> usize {
        self.states.len()
    }

    /// The shortest counterexample so far; the shortest there is when the search is done.
    pub fn counterexample(&self) -> Option<&Counterexample<M::Properties>> {
        self.counterexample.as_ref()
    }

    /// Goes on for at most so many runs.
    ///
    /// # Errors
    ///
    /// What the model says.
    pub fn advance(&mut self, runs: u32) -> Result<Progress<M::Properties>, M::Error> {
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
    pub fn finish(mut self) -> Result<Self, M::Error> {
        while !self.progress.done {
            self.advance(1_000)?;
        }
        Ok(self)
    }

    fn search_one(&mut self) -> Result<(), M::Error> {
        if let Strategy::Random { seed } = self.strategy {
            let seed = seed.wrapping_add(self.progress.runs);
            self.forks.path().randomise(seed);
        }
        let pruning = (self.strategy == Strategy::Exhaustive).then_some(Pruning {
            states: &self.states,
            nodes: &mut self.nodes,
        });
        let stopped = play(&mut self.model, &self.forks, pruning)?;
        let seen = self.model.seen();
        self.progress.runs += 1;
        self.progress.did_happen.join(seen.did_happen);
        let count = match stopped {
            Some(count) => {
                self.progress.pruned += 1;
                count
            }
            None => {
                self.progress.struck += u64::from(seen.struck);
                self.progress.broken.join(seen.broken);
                let bad = u64::from(!seen.broken.is_empty());
                if bad > 0 {
                    self.keep_if_shorter(seen.broken);
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
        self.nodes.resize(self.forks.path().len(), Node::default());
        if let Some(last) = self.nodes.last_mut() {
            last.count.add(count);
        }
        let next = self.forks.path().advance(usize::MAX);
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

    fn keep_if_shorter(&mut self, broken: M::Properties) {
        let path = self.forks.path();
        let (departures, length) = (path.departures(), path.len());
        let shorter =
            |known: &Counterexample<_>| (departures, length) < (known.departures, known.length);
        if self.counterexample.as_ref().is_none_or(shorter) {
            self.counterexample = Some(Counterexample {
                choices: path.schedule(),
                broken,
                departures,
                length,
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
        *self.forks.path() = Path::default();
    }

    /// One run with at most so many departures. All with fewer have been tried and break nothing.
    fn shorten_one(&mut self, departures: usize, runs_left: u64) -> Result<(), M::Error> {
        play(&mut self.model, &self.forks, None)?;
        self.progress.runs += 1;
        let broken = self.model.seen().broken;
        if !broken.is_empty() {
            self.keep_if_shorter(broken);
        }
        let next = self.forks.path().advance(departures);
        let known = self.counterexample.as_ref();
        let known = known.map_or(0, |known| known.departures);
        let mut departures = departures;
        if next.is_none() {
            *self.forks.path() = Path::default();
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

/// Where a run is broken off: at a state that was gone on from before.
struct Pruning<'a> {
    states: &'a States,
    nodes: &'a mut Vec<Node>,
}

/// One run along the path; what comes of the state at which it was broken off, if it was.
fn play<M: Model>(
    model: &mut M,
    forks: &Forks,
    mut pruning: Option<Pruning<'_>>,
) -> Result<Option<Count>, M::Error> {
    forks.path().rewind();
    model.begin(forks)?;
    loop {
        let mover = match model.movers()? {
            0 => break,
            1 => 0,
            movers => {
                if let Some(Pruning { states, nodes }) = &mut pruning
                    && forks.path().is_at_end()
                {
                    let state = model.fingerprint();
                    if let Some(count) = states.get(state) {
                        return Ok(Some(count));
                    }
                    nodes.resize(forks.path().len(), Node::default());
                    nodes.push(Node {
                        state: Some(state),
                        count: Count::default(),
                    });
                }
                forks.pick(movers)
            }
        };
        model.step(mover)?;
    }
    model.finish()?;
    Ok(None)
}

/// Runs a model once by these choices, and in the usual way behind their end. `None` when they are no run of this model.
///
/// # Errors
///
/// What the model says.
pub fn run<M: Model>(
    model: &mut M,
    choices: &Schedule,
) -> Result<Option<Seen<M::Properties>>, M::Error> {
    let forks = Forks::default();
    *forks.path() = Path::of(choices);
    play(model, &forks, None)?;
    let foreign = forks.path().is_foreign();
    Ok((!foreign).then(|| model.seen()))
}
