use std::fmt::Display;
use std::io::{self, Write};

use super::Failure;

/// Standard output. Once it cannot be written to, what is printed is dropped and the work goes on,
/// so that how it comes out does not depend on who reads.
pub(super) struct Printer<'a> {
    out: &'a mut dyn Write,
    lost: Option<io::Error>,
}

impl<'a> Printer<'a> {
    pub(super) fn new(out: &'a mut dyn Write) -> Self {
        Self { out, lost: None }
    }

    /// Prints a line.
    pub(super) fn line(&mut self, line: impl Display) {
        self.text(format_args!("{line}\n"));
    }

    /// Prints text as it is.
    pub(super) fn text(&mut self, text: impl Display) {
        if self.lost.is_none() {
            self.lost = write!(self.out, "{text}").err();
        }
    }

    /// Whether nobody gets what is printed.
    pub(super) fn is_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// Passes on what is still held back. That a reader left is no failure.
    pub(super) fn end(self) -> Result<(), Failure> {
        let ended = match self.lost {
            Some(error) => Err(error),
            None => self.out.flush(),
        };
        match ended {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(Failure::work(format_args!("standard output: {error}")))
            }
            _ => Ok(()),
        }
    }
}
