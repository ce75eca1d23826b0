//! SQLite's compile options in the module.
//!
//! They are set where cargo is run, in `.cargo/config.toml`, which reaches this working folder alone. A crate that depends
//! on this one by path has to set the same ones, or it does not build: it would be another engine.

const CONFIGURATION: &[u8] = include_bytes!("../../../.cargo/config.toml");

const _: () = assert!(
    match option_env!("SQLITE_WASM_RS_FLAGS") {
        Some(flags) => stands_between_quotes(flags.as_bytes()),
        None => false,
    },
    "the environment variable SQLITE_WASM_RS_FLAGS has to be as .cargo/config.toml of tool-retries sets it"
);

/// Whether `value` is a multi-line string of the configuration.
const fn stands_between_quotes(value: &[u8]) -> bool {
    let mut at = 0;
    while at < CONFIGURATION.len() {
        let begins = at + 4;
        if stands_at(at, b"\"\"\"\n")
            && stands_at(begins, value)
            && stands_at(begins + value.len(), b"\"\"\"")
        {
            return true;
        }
        at += 1;
    }
    false
}

const fn stands_at(at: usize, text: &[u8]) -> bool {
    let mut index = 0;
    while index < text.len() {
        if at + index >= CONFIGURATION.len() || CONFIGURATION[at + index] != text[index] {
            return false;
        }
        index += 1;
    }
    true
}
