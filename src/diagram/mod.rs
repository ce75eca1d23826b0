//! Drawings of a run as SVG: classes only, no ids and no inline style, so that one document may hold
//! several of them behind any CSP. Coordinates are whole numbers, the same on every target.

mod plot;
mod sequence;

pub use plot::{bars, load};
pub use sequence::sequence;
