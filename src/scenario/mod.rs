//! The claims of the article, each a run with checks.
//!
//! A scenario is ordinary code over a [`Stage`]: it lets callers call a tool, places faults, and
//! checks what is left and what came back. A check also names, as a [`Premise`](crate::outcome::Premise), what must have
//! happened for it to be worth anything. [`all`] is the registry, one entry a row of the article.

mod agent;
mod breaker;
pub mod contracts;
mod disk;
mod fixture;
pub mod lab;
mod records;
mod refunds;
mod retries;
mod stage;
mod sweep;
mod wal;

pub use fixture::{Fixture, FixtureError};
pub use stage::{RunError, Stage};

use crate::outcome::Outcome;
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
    /// The kind of world that it is for, in which nothing has happened yet.
    pub world: fn() -> World,
    /// Runs it in such a world.
    pub play: fn(&World, &Fixture) -> Result<Outcome, RunError>,
}

impl Scenario {
    /// Runs it in a new world.
    ///
    /// # Errors
    ///
    /// [`RunError`] when the run came to no outcome.
    pub fn run(&self, fixture: &Fixture) -> Result<Outcome, RunError> {
        (self.play)(&(self.world)(), fixture)
    }
}

macro_rules! registry {
    (@world) => { World::new };
    (@world $world:ident) => { $world };
    ($($group:ident { $($id:ident $(in $world:ident)? = $title:literal,)+ })+) => {
        &[$($(Scenario {
            id: stringify!($id),
            group: stringify!($group),
            title: $title,
            world: registry!(@world $($world)?),
            play: $group::$id,
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
    records {
    overlapping_calls = "eight callers at once with one key, at a desk with one connection",
    key_of_another_operation = "the desk's key at a refund service, on one database",
    key_of_another_tenant = "two tenants with one key",
    opening_while_another_writes = "a service is opened while a call writes",
    reused_ticket_id = "a ticket is deleted, and its id goes to the next one",
    }
    disk {
    commit_reports_error = "the commit takes effect and reports an error, then a retry",
    disk_errors_in_call = "every access of one call fails, in every way",
    disk_errors_in_opening = "the same while the desk is opened",
    disk_errors_in_recovery = "the same after a kill, with a journal to roll back",
    short_reads_in_recovery = "reads end early there, and nobody is told",
    }
    wal {
    wal_snapshot_too_old = "a read, another call's commit, then a write in the same transaction",
    wal_full_keeps_answers = "an answer, a power cut, a retry; every commit synced",
    wal_normal_loses_answers = "the same, commits not synced",
    wal_crashes = "kills and power cuts at every place of a call, a checkpoint, a recovery",
    wal_disk_errors = "every access of a call, an opening, a recovery, a checkpoint fails",
    }
    refunds {
    refund_without_key = "no key, the connection breaks after the refund, retried",
    refund_with_action_key = "one key for the action, retried",
    refund_key_per_attempt = "a new key for each attempt",
    refund_key_recorded_after_crash = "the key is recorded apart, the service crashes between",
    refund_key_recorded_with_effect = "the same crash, refund and key in one transaction",
    }
    retries {
    retry_only_retryable = "each kind of failure, three attempts at most",
    backoff_without_jitter = "five delays, not randomised",
    backoff_full_jitter = "five delays with full jitter",
    backoff_equal_jitter = "five delays with equal jitter",
    backoff_decorrelated_jitter = "five delays with decorrelated jitter",
    retry_after_seconds = "the server asks for two seconds",
    retry_after_date = "the server asks to wait until a date",
    retry_after_over_cap = "the server asks for an hour",
    retry_after_unreadable = "the server asks for something unreadable",
    attempts_capped = "the service stays down, three attempts at most",
    total_time_capped = "the service stays down, two seconds at most",
    unknown_outcome_is_told = "the answer is lost after the refund, then nobody listens",
    three_layers_multiply = "three layers, each with three attempts",
    one_layer_retries = "one layer with three attempts",
    call_without_timeout_hangs = "a lost request, no timeout",
    call_with_timeout_returns = "a lost request, a timeout of one second",
    lockstep_stampede in many_machines = "100 clients back off without jitter",
    jitter_spreads_load in many_machines = "100 clients back off with full jitter",
    }
    breaker {
    breaker_opens = "four calls to a dead service",
    breaker_half_open_success_closes = "the trial after the cool-down succeeds",
    breaker_half_open_failure_reopens = "the trial after the cool-down fails",
    breaker_success_resets_count = "failure, success, failure",
    breaker_one_trial_at_a_time = "two callers meet a half-open breaker",
    breaker_late_result_ignored = "a slow success that was admitted before the opening",
    }
    agent {
    resumed_node_without_key = "a node runs again after a crash, no key",
    resumed_node_with_node_key = "the same, with a key of run and node",
    model_repeats_call = "the model calls the tool twice in one run",
    new_run_same_arguments = "two runs with equal arguments",
    model_retries_through_outage = "a dead service, nobody tells the model to stop",
    breaker_tells_model_to_stop = "a dead service behind a breaker",
    new_key_after_timeout = "the model makes up a new key after a timeout",
    tool_batch_paused_for_human = "a batch runs again after a human approved",
    }
    contracts {
    contract_500_then_retry = "the first answer is a 500, then the same request again",
    contract_invalid_then_corrected = "an invalid payload, then the corrected one under its key",
    contract_changed_payload = "a success, then another payload under its key",
    contract_second_while_first_runs = "the same request twice, the second while the first runs",
    contract_retry_after_retention = "a success, then the same request when its key is forgotten",
    }
};

/// A world in which no move takes time, as if each process had a machine of its own: in the usual
/// one a hundred clients that act at one moment do so one after the other.
fn many_machines() -> World {
    World::timeless(true)
}

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
