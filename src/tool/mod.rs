//! The tools under test, written as an engineer would ship them: rusqlite and plain SQL.
//!
//! A tool has no faults of its own. It passes named points of its [`Host`](crate::sim::Host), and
//! whoever runs it may strike there.

pub mod tickets;
