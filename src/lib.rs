//! The engine behind the article *Make tool retries safe*.
//!
//! Rooms, from the ground up; a room imports only from rooms listed above it:
//!
//! | room | what lives there | never |
//! | --- | --- | --- |
//! | [`json`] | strict parsing and the one canonical printer | a second printer elsewhere |
//! | [`digest`] | SHA-256 in hex | anything secret |
//! | [`text`] | text made safe to show | reading it back |
//! | [`key`] | operation keys: the caller's intent, or derived from an action | randomness |
//! | [`sim`] | the world: clock, random numbers, trace, schedule, network, disk | the name of a scenario or tool |
//! | [`console`] | SQL as text on a fresh simulated disk | knowing what it is for |
//! | `logic` | SQL logic tests: parsing and judging (native only) | knowing where they run |
//! | [`outcome`] | what a run leaves: values, checks and their premises, rows, trace | knowing what ran |
//! | [`tool`] | the tools under test, and models of documented contracts | faults of their own |
//! | [`client`] | what a caller does: retry, backoff, timeout, breaker | sleeping in real time |
//! | [`scenario`] | the claims of the article, each a run with checks | drawing, DOM, files |
//! | [`search`] | every way in which a model can run: paths, states, counterexamples | knowing what is searched |
//! | [`explore`] | designs of the tool and faults as a model to search, invariants, the matrix | knowledge of the page |
//! | [`storm`] | clients that retry against one server, and its load over time | drawing; a trace |
//! | [`report`] | `results.json` | computing anything |
//! | [`markup`] | text in HTML and SVG | anything but escaping |
//! | [`diagram`] | drawings of a run as SVG | the DOM |
//! | [`evidence`] | one outcome to HTML, the same in the build and in the page | the DOM |
//! | [`timeline`] | a run step by step, with the rows of each step | working out what SQLite can say |
//! | `article` | `article.md` to HTML (native only) | running scenarios |
//! | `page` | the reader's page and its worker (wasm only): the one user of web-sys | engine logic |
//!
//! The data's way: `fixture.json` → [`scenario::Fixture`] → a scenario in a [`sim::World`] →
//! [`outcome::Outcome`] → [`report`] or [`evidence`] → file, terminal or page.

#[cfg(not(target_family = "wasm"))]
pub mod article;
pub mod client;
pub mod console;
pub mod diagram;
pub mod digest;
pub mod evidence;
pub mod explore;
pub mod json;
pub mod key;
#[cfg(not(target_family = "wasm"))]
pub mod logic;
pub mod markup;
pub mod outcome;
#[cfg(target_family = "wasm")]
pub mod page;
pub mod report;
pub mod scenario;
pub mod search;
pub mod sim;
pub mod storm;
pub mod text;
pub mod timeline;
pub mod tool;
