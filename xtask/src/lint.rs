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
    // The profile of the site, so that SQLite is compiled for wasm32 once.
    tools::run(
        wasm::cargo(&tools::c_tools()?)?
            .args([
                "clippy",
                "--package",
                "tool-retries",
                "--all-targets",
                "--locked",
            ])
            .args(["--profile", "wasm", "--target", WASM])
            .args(strict),
    )
}
