//! The world a scenario runs in: clock, random numbers, trace, callers under a schedule, and a
//! network and a disk that can fail.
//!
//! Start reading at [`World`]. A world is single-threaded and shares nothing with another world,
//! so tests run in parallel, each on its own. Nothing here knows a scenario or a tool.

mod clock;
pub mod disk;
mod host;
mod journal;
mod lock_wait;
mod network;
mod rng;
mod schedule;
pub mod trace;
mod world;

pub use clock::Clock;
pub use host::{Host, Point, Struck};
pub use journal::Journal;
pub use lock_wait::{LockWait, is_busy};
pub use network::{Network, NetworkError, Verdict};
pub use rng::Rng;
pub use schedule::{Chooser, Schedule, Script, Seeded, TokenError};
pub use world::{MAX_MOVES, MOVE_TAKES, Moves, Process, Strike, World, WorldError};
