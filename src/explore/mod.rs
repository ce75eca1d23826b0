//! Every design of the tool against every fault: the search tries *all* of it on the real database.
//!
//! A [`Case`] is a design, a class of faults and bounds. A [`Search`] runs it again and again, each
//! time along another path of choices (who moves next, and whether a fault strikes there), until
//! no path is left; it tells how many schedules there were, and shows the shortest that breaks an
//! [`Invariant`]. The token of a run is its case and its path: [`replay`] runs it again, watched.
//!
//! Nothing here knows the page.

mod call;
mod case;
mod design;
mod invariant;
mod matrix;
mod replay;
mod search;
mod stage;

pub use case::{Bounds, Case, CaseError, FAULTS, Fault, FaultClass};
pub use design::{DESIGNS, Design, Key, Shape};
pub use invariant::{Invariant, Invariants};
pub use matrix::{Cell, cases, matrix, to_json};
pub use replay::{replay, replay_in_steps};
pub use search::{Counterexample, Progress, Search};

use std::fmt;

use crate::sim::WorldError;

/// Why a search or a replay gave nothing.
#[derive(Debug)]
#[non_exhaustive]
pub enum ExploreError {
    /// The case or token makes no sense.
    Case(CaseError),
    /// SQLite refused outside the design: a mistake of the engine.
    Database(rusqlite::Error),
    /// A run came to no end: a mistake of the engine.
    World(WorldError),
}

impl fmt::Display for ExploreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Case(error) => error.fmt(f),
            Self::Database(error) => write!(f, "database: {error}"),
            Self::World(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ExploreError {}

impl From<CaseError> for ExploreError {
    fn from(error: CaseError) -> Self {
        Self::Case(error)
    }
}

impl From<rusqlite::Error> for ExploreError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error)
    }
}

impl From<WorldError> for ExploreError {
    fn from(error: WorldError) -> Self {
        Self::World(error)
    }
}
