//! Native command line.
fn main() {}
