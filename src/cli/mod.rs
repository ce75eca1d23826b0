//! The command line. Arguments become a [`Command`], which works and prints, and ends in an exit
//! code.
//!
//! | file | what |
//! | --- | --- |
//! | `arguments` | words to a [`Command`], or why not |
//! | `help` | commands and options: what they are, and what goes with what |
//! | `failure` | what ended a command, and its exit code |
//! | `printer` | standard output, whose reader may leave |
//! | `watch` | long work: the line on the terminal, and Ctrl-C |
//! | `interrupt` | what Ctrl-C does |
//! | `fixture_file`, `output_file` | the files that are read and written |
//! | `run`, `list`, `show`, `explore`, `storm` | a command each; `replay` is with `show` |

mod arguments;
mod explore;
mod failure;
mod fixture_file;
mod help;
mod interrupt;
mod list;
mod output_file;
mod printer;
mod run;
mod show;
mod storm;
mod watch;

use std::io;
use std::process::ExitCode;

use arguments::Command;
use failure::Failure;
use printer::Printer;
use tool_retries::scenario;

pub(super) fn main() -> ExitCode {
    interrupt::listen();
    let mut stdout = io::stdout().lock();
    let mut out = Printer::new(&mut stdout);
    let done = arguments::parse(std::env::args_os().skip(1)).and_then(|one| one.run(&mut out));
    let printed = out.end();
    failure::exit(done.err().into_iter().chain(printed.err()))
}

impl Command {
    fn run(self, out: &mut Printer<'_>) -> Result<(), Failure> {
        match self {
            Self::Run(options) => run::run(scenario::all(), &options, out),
            Self::List => {
                list::list(out);
                Ok(())
            }
            Self::Show(scenario, options) => show::show(scenario, &options, out),
            Self::Explore(cases, options) => explore::explore(&cases, &options, out),
            Self::Replay(token, options) => show::replay(&token, &options, out),
            Self::Storm(setup, json) => storm::storm(&setup, json, out),
            Self::Print(text) => {
                out.text(text);
                Ok(())
            }
        }
    }
}
