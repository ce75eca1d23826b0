//! The claims of the article, each a run with checks.
//!
//! A scenario is ordinary code over a [`Stage`]: it lets callers call a tool, places faults, and
//! checks what is left and what came back. [`all`] is the registry, one entry a row of the article.

mod fixture;
pub mod lab;
mod outcome;
mod stage;

pub use fixture::{Fixture, FixtureError};
pub use outcome::{Check, Checks, Outcome, Table};
pub use stage::{RunError, Stage};

use crate::sim::World;

/// One row of the article.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// The name in tables, `results.json` and on the command line; never changes.
    pub id: &'static str,
    /// The table it stands in.
    pub group: &'static str,
    /// What happens, in a few words.
    pub title: &'static str,
    /// Runs it in a new world.
    pub run: fn(&Fixture) -> Result<Outcome, RunError>,
}

macro_rules! registry {
    ($($group:ident { $($id:ident = $title:literal,)+ })+) => {
        &[$($(Scenario {
            id: stringify!($id),
            group: stringify!($group),
            title: $title,
            run: |fixture| $group::$id(&World::new(), fixture),
        },)+)+]
    };
}

const ALL: &[Scenario] = registry! {
    lab {
    naive_retry = "no key, the answer is lost, the call is made again",
    stable_key_retry = "one key for three calls, the first answer is lost",
    changed_payload = "that key again, with another priority",
    failure_before_commit = "the process fails between the two inserts, then a retry",
    concurrent_same_key = "eight callers at once with one key",
    new_key_same_payload = "two keys, one payload",
    deleted_replay_record = "the replay record is deleted, then the same key again",
    }
};

/// Every scenario, in the article's order.
pub fn all() -> &'static [Scenario] {
    ALL
}

/// The scenario of this id.
pub fn find(id: &str) -> Option<&'static Scenario> {
    ALL.iter().find(|scenario| scenario.id == id)
}

/// The names of the groups, in the article's order.
pub fn groups() -> Vec<&'static str> {
    let mut groups: Vec<&str> = ALL.iter().map(|scenario| scenario.group).collect();
    groups.dedup();
    groups
}
