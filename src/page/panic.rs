//! What a panic says. Without a hook it would end in a bare trap, which tells nothing.

use std::panic::{self, PanicHookInfo};

/// Throws every panic from now on as an error of JavaScript with its message and place, which reaches
/// the error event of the page or of the worker that it ends.
pub(super) fn throw() {
    panic::set_hook(Box::new(|info| wasm_bindgen::throw_str(&told(info))));
}

fn told(info: &PanicHookInfo<'_>) -> String {
    let message = info.payload_as_str().unwrap_or("a panic");
    match info.location() {
        Some(location) => format!("{message} ({location})"),
        None => message.to_owned(),
    }
}
