//! The engine behind the article *Make tool retries safe*.
//!
//! Rooms, from the ground up; a room imports only from rooms listed above it:
//!
//! | room | what lives there | never |
//! | --- | --- | --- |
//! | [`json`] | strict parsing and the one canonical printer | a second printer elsewhere |
//! | [`key`] | operation keys | randomness |
//! | [`sim`] | the world: clock, random numbers, trace, schedule, disk | the name of a scenario or tool |
//! | [`tool`] | the tools under test | faults of their own |
//! | [`scenario`] | the claims of the article, each a run with checks | drawing, DOM, files |
//! | [`report`] | `results.json` | computing anything |
//!
//! The data's way: `fixture.json` → [`scenario::Fixture`] → a scenario in a [`sim::World`] →
//! [`scenario::Outcome`] → [`report`] → file, terminal or page.

pub mod json;
pub mod key;
pub mod report;
pub mod scenario;
pub mod sim;
pub mod tool;
