//! How the tool could be built: twelve designs, each a row of data over one of five shapes of code.
//!
//! A shape is what an engineer would write, one file each; it passes the tool's named points and
//! knows nothing of faults.

mod claim;
mod effect_then_record;
mod memory;
mod one_transaction;
mod unique;

use std::time::Duration;

use super::call::{Call, Refusal};
use super::stage::LEASE;

/// One way to build the tool.
#[derive(Debug, PartialEq, Eq)]
pub struct Design {
    /// The name on the command line, in tokens and in `results.json`; never changes.
    pub id: &'static str,
    /// What it does, in a few words.
    pub title: &'static str,
    /// What the key names.
    pub key: Key,
    /// Whether a known key with another payload is refused.
    pub compares_payload: bool,
    /// Whether a call waits until no other call of its process has a transaction open, since both
    /// would be in the same one: a process has one connection.
    pub takes_turns: bool,
    /// The code.
    pub shape: Shape,
}

/// What the key of a call names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// There is none.
    None,
    /// The attempt.
    Attempt,
    /// The payload.
    Body,
    /// The intention, through all attempts.
    Intention,
}

/// What the tool does with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Look, effect and record in one transaction that begins with this statement.
    OneTransaction(&'static str),
    /// A dictionary of seen keys in the process, filled after the commit.
    Memory,
    /// The effect in one transaction, its record in a second one.
    EffectThenRecord,
    /// A claim first, then effect and answer in a second transaction.
    Claim {
        /// How long nobody else may take the claim over; for ever without one.
        lease: Option<Duration>,
    },
    /// One transaction that begins by inserting the key, or ignoring that it is there.
    Unique,
}

const IMMEDIATE: Shape = Shape::OneTransaction("BEGIN IMMEDIATE");

/// Every design, from the barest to the safe ones.
pub const DESIGNS: &[Design] = &[
    Design {
        id: "no_key",
        title: "no key",
        key: Key::None,
        compares_payload: false,
        takes_turns: true,
        shape: IMMEDIATE,
    },
    Design {
        id: "key_per_attempt",
        title: "a new key for each attempt",
        key: Key::Attempt,
        compares_payload: true,
        takes_turns: true,
        shape: IMMEDIATE,
    },
    Design {
        id: "key_from_body",
        title: "the key is derived from the payload",
        key: Key::Body,
        compares_payload: true,
        takes_turns: true,
        shape: IMMEDIATE,
    },
    Design {
        id: "memory",
        title: "seen keys in the memory of the process",
        key: Key::Intention,
        compares_payload: true,
        takes_turns: true,
        shape: Shape::Memory,
    },
    Design {
        id: "effect_then_record",
        title: "effect, then record: two transactions",
        key: Key::Intention,
        compares_payload: true,
        takes_turns: true,
        shape: Shape::EffectThenRecord,
    },
    Design {
        id: "no_comparison",
        title: "one transaction, the payload is not compared",
        key: Key::Intention,
        compares_payload: false,
        takes_turns: true,
        shape: IMMEDIATE,
    },
    Design {
        id: "deferred",
        title: "one deferred transaction",
        key: Key::Intention,
        compares_payload: true,
        takes_turns: true,
        shape: Shape::OneTransaction("BEGIN DEFERRED"),
    },
    Design {
        id: "shared_connection",
        title: "one immediate transaction, calls overlap on a connection",
        key: Key::Intention,
        compares_payload: true,
        takes_turns: false,
        shape: IMMEDIATE,
    },
    Design {
        id: "claim_for_ever",
        title: "claim without a lease, then effect and answer",
        key: Key::Intention,
        compares_payload: true,
        takes_turns: true,
        shape: Shape::Claim { lease: None },
    },
    Design {
        id: "claim",
        title: "claim with a lease, then effect and answer",
        key: Key::Intention,
        compares_payload: true,
        takes_turns: true,
        shape: Shape::Claim { lease: Some(LEASE) },
    },
    Design {
        id: "unique",
        title: "unique key, insert or ignore",
        key: Key::Intention,
        compares_payload: true,
        takes_turns: true,
        shape: Shape::Unique,
    },
    Design {
        id: "immediate",
        title: "one immediate transaction: the lab's tool",
        key: Key::Intention,
        compares_payload: true,
        takes_turns: true,
        shape: IMMEDIATE,
    },
];

impl Design {
    /// The design of this id.
    pub fn find(id: &str) -> Option<&'static Self> {
        DESIGNS.iter().find(|design| design.id == id)
    }

    /// The statements that make its tables.
    pub fn schema(&self) -> &'static str {
        match self.shape {
            Shape::Claim { .. } => claim::SCHEMA,
            Shape::Unique => unique::SCHEMA,
            _ => one_transaction::SCHEMA,
        }
    }

    /// Whether it keeps replay records.
    pub(super) fn records(&self) -> bool {
        self.key != Key::None && self.shape != Shape::Memory
    }

    /// Does what `call` asks for, and answers with the ticket's id.
    pub(super) async fn serve(&self, call: &Call) -> Result<i64, Refusal> {
        match self.shape {
            Shape::OneTransaction(begin) => one_transaction::serve(call, begin).await,
            Shape::Memory => memory::serve(call).await,
            Shape::EffectThenRecord => effect_then_record::serve(call).await,
            Shape::Claim { lease } => claim::serve(call, lease).await,
            Shape::Unique => unique::serve(call).await,
        }
    }
}
