use std::sync::atomic::{AtomicBool, Ordering};

/// The exit code of a command that Ctrl-C ended: 128 and the number of SIGINT.
pub(super) const EXIT_CODE: u8 = 130;

/// Whether the next Ctrl-C ends the program at once.
static AT_ONCE: AtomicBool = AtomicBool::new(true);
static ASKED: AtomicBool = AtomicBool::new(false);

/// From now on Ctrl-C ends the program with [`EXIT_CODE`].
pub(super) fn listen() {
    use signal_hook::{consts::SIGINT, flag};
    // They are called in this order: the first must not see what this same Ctrl-C sets. Where a
    // handler cannot be set the system's own stays.
    let _ = flag::register_conditional_shutdown(SIGINT, EXIT_CODE.into(), &AT_ONCE)
        .and_then(|_| flag::register(SIGINT, &AT_ONCE))
        .and_then(|_| flag::register(SIGINT, &ASKED));
}

/// As long as it lives the first Ctrl-C is only noted; a second one still ends the program at once.
pub(super) struct Postponed(());

impl Postponed {
    pub(super) fn new() -> Self {
        AT_ONCE.store(false, Ordering::SeqCst);
        Self(())
    }

    /// Whether the user wants an end.
    pub(super) fn is_asked(&self) -> bool {
        ASKED.load(Ordering::SeqCst)
    }
}

impl Drop for Postponed {
    fn drop(&mut self) {
        AT_ONCE.store(true, Ordering::SeqCst);
    }
}
