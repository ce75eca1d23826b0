use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::interrupt::Postponed;

/// Work that is shorter shows no line.
const FIRST_AFTER: Duration = Duration::from_millis(200);
const THEN_EVERY: Duration = Duration::from_millis(100);

/// Long work, done in slices of less than a tenth of a second: on a terminal a line says how far it
/// is, and Ctrl-C ends it between two slices.
pub(super) struct Watch {
    postponed: Postponed,
    /// When the line is next due.
    due: Instant,
    /// The line, once there was one.
    line: Option<ProgressBar>,
}

impl Watch {
    pub(super) fn new() -> Self {
        Self {
            postponed: Postponed::new(),
            due: Instant::now() + FIRST_AFTER,
            line: None,
        }
    }

    /// Between two slices: says how far the work is, and answers whether it is to go on.
    pub(super) fn goes_on(&mut self, how_far: impl FnOnce() -> String) -> bool {
        if Instant::now() >= self.due {
            self.due = Instant::now() + THEN_EVERY;
            self.line
                .get_or_insert_with(new_line)
                .set_message(how_far());
        }
        !self.postponed.is_asked()
    }

    /// Prints something while the line is out of the way.
    pub(super) fn aside(&self, print: impl FnOnce()) {
        match &self.line {
            Some(line) => line.suspend(print),
            None => print(),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(line) = &self.line {
            line.finish_and_clear();
        }
    }
}

/// It is hidden where standard error is no terminal, or one that cannot take it back.
fn new_line() -> ProgressBar {
    let style = ProgressStyle::with_template("{wide_msg}").expect("a constant");
    ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style)
}
