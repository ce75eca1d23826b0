//! The engine behind the article *Make tool retries safe*.
//!
//! Rooms, from the ground up; a room imports only from rooms listed above it:
//!
//! | room | what lives there |
//! | --- | --- |
//! | [`json`] | strict parsing and the one canonical printer |
//! | [`scenario`] | the claims of the article, each a run with checks |
//! | [`report`] | `results.json` |

pub mod json;
pub mod report;
pub mod scenario;
