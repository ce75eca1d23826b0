//! The tools under test, written as an engineer would ship them: rusqlite and plain SQL; and
//! beside them, in [`contracts`], what other services' documents promise.
//!
//! A tool has no faults of its own. It passes named points of its [`Host`](crate::sim::Host), and
//! whoever runs it may strike there.

pub mod contracts;
mod database;
mod error;
mod record;
pub mod refunds;
pub mod tickets;

pub use database::LOCK_WAIT_LIMIT;
pub use error::ToolError;

use crate::sim::Point;

/// Before the transaction begins.
pub const BEFORE_BEGIN: Point = Point("before_begin");
/// The write lock is held, nothing is read or written yet.
pub const AFTER_BEGIN: Point = Point("after_begin");
/// The effect is written, its replay record is not.
pub const BEFORE_COMMIT: Point = Point("before_commit");
/// The effect is written or, where record and effect are committed apart, committed; its replay
/// record is not.
pub const BEFORE_RECORD: Point = Point("before_record");
/// The transaction is durable and the answer has not left.
pub const AFTER_COMMIT: Point = Point("after_commit");

/// Every point that a ticket's call can pass, in order.
pub const POINTS: [Point; 4] = [BEFORE_BEGIN, AFTER_BEGIN, BEFORE_COMMIT, AFTER_COMMIT];
