//! The native command line: runs scenarios, prints what they showed, writes `results.json`.

#[cfg(not(target_family = "wasm"))]
mod cli;

#[cfg(target_family = "wasm")]
fn main() {}

#[cfg(not(target_family = "wasm"))]
fn main() -> std::process::ExitCode {
    cli::main()
}
