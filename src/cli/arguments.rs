use std::ffi::OsString;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

use lexopt::prelude::*;
use tool_retries::explore::{Bounds, Case, CaseError, DESIGNS, ExploreError, FAULTS};
use tool_retries::scenario::{self, Scenario};
use tool_retries::sim::Journal;
use tool_retries::storm::Setup;

use super::Failure;
use super::help;

/// What is to be done.
pub(super) enum Command {
    Run(Options),
    List,
    Show(&'static Scenario, Options),
    Explore(Vec<Case>, Options),
    /// A token that is no scenario's id.
    Replay(String, Options),
    /// A set-up, and whether to print for programs.
    Storm(Setup, bool),
    Print(String),
}

/// The options of every command but `storm`.
#[derive(Default)]
pub(super) struct Options {
    pub(super) group: Option<String>,
    pub(super) fixture: Option<PathBuf>,
    pub(super) output: Option<PathBuf>,
    pub(super) design: Option<String>,
    pub(super) fault: Option<String>,
    pub(super) callers: Option<u8>,
    pub(super) attempts: Option<u8>,
    pub(super) faults: Option<u8>,
    pub(super) journal: Option<String>,
    pub(super) random: Option<u32>,
    pub(super) json: bool,
}

impl Options {
    /// The options that were given must go with the command.
    fn are_for(&self, command: &str) -> Result<(), Failure> {
        let given = [
            ("group", self.group.is_some()),
            ("fixture", self.fixture.is_some()),
            ("output", self.output.is_some()),
            ("design", self.design.is_some()),
            ("fault", self.fault.is_some()),
            ("callers", self.callers.is_some()),
            ("attempts", self.attempts.is_some()),
            ("faults", self.faults.is_some()),
            ("journal", self.journal.is_some()),
            ("random", self.random.is_some()),
            ("json", self.json),
        ];
        let unwanted = |&&(name, given): &&(&str, bool)| {
            given && !help::options(command).any(|option| option == name)
        };
        match given.iter().find(unwanted) {
            Some((name, _)) => Err(Failure::usage(format_args!(
                "--{name} does not go with this command"
            ))),
            None => Ok(()),
        }
    }
}

/// Reads the words after the program's name.
pub(super) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, Failure> {
    let mut arguments = arguments.into_iter().peekable();
    // Its options are its own: `--attempts` has other bounds elsewhere.
    if arguments.next_if(|word| word == "storm").is_some() {
        return parse_storm(arguments);
    }
    let mut parser = lexopt::Parser::from_args(arguments);
    let mut words: Vec<String> = Vec::new();
    let mut options = Options::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => return help_to(words.first().map(String::as_str)),
            Short('V') | Long("version") => return Ok(version()),
            Long("group") => set(&mut options.group, parser.value()?.string()?, "--group")?,
            Long("fixture") => set(&mut options.fixture, parser.value()?.into(), "--fixture")?,
            Long("output") => set(&mut options.output, parser.value()?.into(), "--output")?,
            Long("design") => set(&mut options.design, parser.value()?.string()?, "--design")?,
            Long("fault") => set(&mut options.fault, parser.value()?.string()?, "--fault")?,
            Long("callers") => {
                let range = 1..=Bounds::MOST.callers;
                number(&mut options.callers, parser.value()?, range, "--callers")?;
            }
            Long("attempts") => {
                let range = 1..=Bounds::MOST.attempts;
                number(&mut options.attempts, parser.value()?, range, "--attempts")?;
            }
            Long("faults") => {
                let range = 0..=Bounds::MOST.faults;
                number(&mut options.faults, parser.value()?, range, "--faults")?;
            }
            Long("journal") => set(&mut options.journal, parser.value()?.string()?, "--journal")?,
            Long("random") => {
                let range = 1..=u32::MAX;
                number(&mut options.random, parser.value()?, range, "--random")?;
            }
            Long("json") => options.json = true,
            Value(word) => words.push(word.string()?),
            _ => {
                let command = words.first().map_or("", String::as_str);
                return Err(unexpected(argument, help::options(command)));
            }
        }
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if let Some(command) = words.first() {
        known_command(command)?;
    }
    options.are_for(words.first().copied().unwrap_or_default())?;
    match words[..] {
        [] => {
            if let Some(group) = &options.group
                && !scenario::groups().contains(&group.as_str())
            {
                return Err(Failure::usage(format_args!(
                    "no group {group:?}; there is {}",
                    scenario::groups().join(", ")
                )));
            }
            Ok(Command::Run(options))
        }
        ["list"] => Ok(Command::List),
        ["show", id] => match scenario::find(id) {
            Some(scenario) => Ok(Command::Show(scenario, options)),
            None => Err(Failure::usage(format_args!(
                "no scenario {id:?}{}; `list` names them",
                did_you_mean(help::near(id, scenario::all().iter().map(|one| one.id)))
            ))),
        },
        ["show"] => Err(Failure::usage("show wants the id of a scenario")),
        ["explore"] => {
            let cases = cases(&options).map_err(ExploreError::from)?;
            Ok(Command::Explore(cases, options))
        }
        ["replay", token] => Ok(match scenario::find(token) {
            Some(scenario) => Command::Show(scenario, options),
            None => Command::Replay(token.to_owned(), options),
        }),
        ["replay"] => Err(Failure::usage("replay wants a token")),
        ["help"] => help_to(None),
        ["help", command] => help_to(Some(command)),
        ["storm"] => Err(Failure::usage("storm goes before its options")),
        _ => Err(Failure::usage("too many arguments")),
    }
}

fn known_command(word: &str) -> Result<(), Failure> {
    if help::commands().any(|command| command == word) {
        return Ok(());
    }
    Err(Failure::usage(format_args!(
        "unknown command {word:?}{}",
        did_you_mean(help::near(word, help::commands()))
    )))
}

fn help_to(command: Option<&str>) -> Result<Command, Failure> {
    if let Some(command) = command {
        known_command(command)?;
    }
    Ok(Command::Print(help::text(command)))
}

fn version() -> Command {
    Command::Print(format!(
        "tool-retries {}, SQLite {}\n",
        env!("CARGO_PKG_VERSION"),
        rusqlite::version()
    ))
}

/// ` (did you mean this?)`, or nothing.
fn did_you_mean(near: Option<impl Display>) -> String {
    near.map_or_else(String::new, |near| format!(" (did you mean {near}?)"))
}

fn unexpected<'a>(argument: lexopt::Arg<'_>, known: impl IntoIterator<Item = &'a str>) -> Failure {
    let near = match &argument {
        Long(name) => help::near(name, known).map(|near| format!("--{near}")),
        _ => None,
    };
    let near = did_you_mean(near);
    Failure::usage(format_args!("{}{near}", argument.unexpected()))
}

fn parse_storm(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, Failure> {
    const WITH_VALUE: [&str; 11] = [
        "preset", "server", "base", "cap", "jitter", "attempts", "clients", "capacity", "budget",
        "runs", "seed",
    ];
    let mut parser = lexopt::Parser::from_args(arguments);
    let mut given: Vec<(String, String)> = Vec::new();
    let mut json = false;
    while let Some(argument) = parser.next()? {
        let (name, value) = match argument {
            Short('h') | Long("help") => return help_to(Some("storm")),
            Short('V') | Long("version") => return Ok(version()),
            Long("json") => {
                json = true;
                continue;
            }
            Long("breaker") => ("breaker".to_owned(), "on".to_owned()),
            Long(name) if WITH_VALUE.contains(&name) => {
                let name = name.to_owned();
                (name, parser.value()?.string()?)
            }
            _ => {
                let known = WITH_VALUE.into_iter().chain(["breaker"]);
                return Err(unexpected(argument, known.chain(help::options("storm"))));
            }
        };
        if given.iter().any(|(known, _)| *known == name) {
            return Err(Failure::usage(format_args!("--{name} is given twice")));
        }
        given.push((name, value));
    }
    // A preset sets everything, so it goes first.
    given.sort_by_key(|(name, _)| name != "preset");
    let mut setup = Setup::AWS;
    for (name, value) in &given {
        setup
            .set(name, value)
            .map_err(|good| Failure::usage(format_args!("--{name} {value:?} is not {good}")))?;
    }
    Ok(Command::Storm(setup, json))
}

fn set<T>(option: &mut Option<T>, value: T, name: &str) -> Result<(), Failure> {
    match option.replace(value) {
        None => Ok(()),
        Some(_) => Err(Failure::usage(format_args!("{name} is given twice"))),
    }
}

fn number<T: FromStr + PartialOrd + Display>(
    option: &mut Option<T>,
    value: OsString,
    range: RangeInclusive<T>,
    name: &str,
) -> Result<(), Failure> {
    let text = value.string()?;
    match text.parse().ok().filter(|number| range.contains(number)) {
        Some(number) => set(option, number, name),
        None => Err(Failure::usage(format_args!(
            "{name}: expected a number from {} to {}, found {text:?}",
            range.start(),
            range.end()
        ))),
    }
}

/// The cases that the options ask for. A class keeps to its own bounds where it cannot have those
/// asked for, unless it was asked for by name.
fn cases(options: &Options) -> Result<Vec<Case>, CaseError> {
    let journal = match &options.journal {
        Some(id) => Journal::find(id).ok_or_else(|| CaseError::Journal(id.clone()))?,
        None => Journal::default(),
    };
    let mut cases = Vec::new();
    let designs = match &options.design {
        Some(design) => vec![design.as_str()],
        None => DESIGNS.iter().map(|design| design.id).collect(),
    };
    let faults = match &options.fault {
        Some(fault) => vec![fault.as_str()],
        None => FAULTS.iter().map(|class| class.id).collect(),
    };
    for design in designs {
        for fault in &faults {
            let usual = Case::find(design, fault)?.with_journal(journal);
            let asked = Bounds {
                callers: options.callers.unwrap_or(usual.bounds.callers),
                attempts: options.attempts.unwrap_or(usual.bounds.attempts),
                faults: options.faults.unwrap_or(usual.bounds.faults),
            };
            let without_faults = Bounds {
                faults: usual.bounds.faults,
                ..asked
            };
            cases.push(match usual.within(asked) {
                Err(_) if options.fault.is_none() => usual.within(without_faults).unwrap_or(usual),
                asked => asked?,
            });
        }
    }
    Ok(cases)
}
