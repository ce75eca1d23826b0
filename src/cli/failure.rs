use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use tool_retries::explore::ExploreError;

/// Why a command did not do what was asked for.
#[derive(Debug)]
pub(super) struct Failure {
    code: u8,
    /// A line each, without `error:`.
    messages: Vec<String>,
}

impl Failure {
    /// The command line makes no sense.
    pub(super) fn usage(message: impl Display) -> Self {
        Self {
            code: 2,
            messages: vec![format!("{message}; see --help")],
        }
    }

    /// Something could not be done, such as reading or writing a file.
    pub(super) fn work(message: impl Display) -> Self {
        Self::checks(vec![message.to_string()])
    }

    /// Checks that failed.
    pub(super) fn checks(messages: Vec<String>) -> Self {
        Self { code: 1, messages }
    }

    /// The user ended it. The code is that of a shell for a program that SIGINT ended.
    pub(super) fn interrupted(message: impl Display) -> Self {
        Self {
            code: super::interrupt::EXIT_CODE,
            messages: vec![format!("interrupted: {message}")],
        }
    }

    /// A file of this path has this problem.
    pub(super) fn at(path: &Path, problem: impl Display) -> Self {
        Self::work(format_args!("{}: {problem}", path.display()))
    }

    #[cfg(test)]
    pub(super) fn messages(&self) -> &[String] {
        &self.messages
    }
}

impl From<lexopt::Error> for Failure {
    fn from(error: lexopt::Error) -> Self {
        Self::usage(error)
    }
}

impl From<ExploreError> for Failure {
    fn from(error: ExploreError) -> Self {
        match error {
            ExploreError::Case(error) => Self::usage(error),
            other => Self::work(other),
        }
    }
}

/// Says what failed. The first failure gives the exit code; without any it is success.
pub(super) fn exit(failures: impl IntoIterator<Item = Failure>) -> ExitCode {
    let mut code = None;
    for failure in failures {
        code.get_or_insert(failure.code);
        for message in failure.messages {
            // Where nobody can read it the exit code still tells.
            let _ = writeln!(io::stderr(), "error: {message}");
        }
    }
    code.map_or(ExitCode::SUCCESS, ExitCode::from)
}
