//! `results.json`: the record of an observed run.
