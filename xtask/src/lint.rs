//! Formatting and clippy, for both targets.

use anyhow::Result;

use crate::tools::{self, WASM};
use crate::wasm;

/// Fails on unformatted code and on any warning.
pub fn run() -> Result<()> {
    tools::ensure_component("rustfmt", &["fmt", "--version"])?;
    tools::ensure_component("clippy", &["clippy", "--version"])?;
    tools::run(tools::cargo().args(["fmt", "--all", "--check"]))?;
    let strict = ["--", "--deny", "warnings"];
    tools::run(
        tools::cargo()
            .args(["clippy", "--workspace", "--all-targets", "--locked"])
            .args(strict),
    )?;
    tools::ensure_wasm_target()?;
    // In the profile for development: nothing is linked, so SQLite, which comes before, need not be optimised.
    tools::run(
        wasm::cargo(&tools::c_tools()?)?
            .args(["clippy", "--package", "tool-retries", "--all-targets"])
            .args(["--locked", "--target", WASM])
            .args(strict),
    )
}
