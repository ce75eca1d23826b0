//! The native command line: runs scenarios, prints what they showed, writes `results.json`.

#[cfg(target_family = "wasm")]
fn main() {}

#[cfg(not(target_family = "wasm"))]
fn main() -> std::process::ExitCode {
    native::main()
}

#[cfg(not(target_family = "wasm"))]
mod native {
    use std::ffi::{OsStr, OsString};
    use std::fmt::Display;
    use std::fs::{self, File};
    use std::io::{self, Read, Write};
    use std::ops::RangeInclusive;
    use std::path::{Path, PathBuf};
    use std::process::ExitCode;
    use std::str::FromStr;

    use lexopt::prelude::*;
    use tool_retries::explore::{
        self, Bounds, Case, Cell, DESIGNS, ExploreError, FAULTS, Search, Strategy,
    };
    use tool_retries::json;
    use tool_retries::report;
    use tool_retries::scenario::{self, Check, Fixture, Outcome, Plot, Scenario, Table};
    use tool_retries::storm::{self, Setup, Storm};

    const HELP: &str = "\
Make tool retries safe: runs the article's scenarios on a real SQLite and checks what they show.

Usage:
  tool-retries [--group NAME] [--fixture FILE] [--output FILE]
                         run every scenario, or those of one group, and check them
  tool-retries list      name the scenarios, by group
  tool-retries show ID [--json] [--fixture FILE]
                         checks, rows and trace of one scenario
  tool-retries explore [--design NAME] [--fault NAME] [--callers N]
                       [--attempts N] [--faults N] [--random N] [--json]
                         try every schedule and every place of a fault
  tool-retries replay TOKEN [--json]
                         checks, rows and trace of the run that a token names: one of a
                         search, or a scenario, whose id is its token
  tool-retries storm [--preset aws|grpc] [--server row|queue] [--base MS] [--cap MS]
                     [--jitter none|full|equal|decorrelated] [--attempts N] [--clients N]
                     [--capacity N] [--budget TOKENS:RATIO|none] [--breaker] [--runs N]
                     [--seed N] [--json]
                         many clients that retry against one server; what is not given is
                         as the preset has it, aws if none is given

Options:
  --group NAME     run one group only
  --fixture FILE   the operation to run with; without it, the project's own fixture.json
  --output FILE    write the record of the run to FILE, if every check held; without --group it
                   holds what explore and storm say too
  --design NAME    explore one design only
  --fault NAME     explore one class of faults only
  --callers N      explore with so many callers, 1 to 4
  --attempts N     explore with so many attempts of each caller, 1 to 3
  --faults N       explore with so many faults in one run, 0 to 2
  --random N       run N random schedules instead of all
  --json           print for programs
  -h, --help       print this
  -V, --version    print the versions of this program and of SQLite
";

    /// Ended by a reader that closed the pipe: no failure of ours.
    const SUCCESS_ON_CLOSED_PIPE: ExitCode = ExitCode::SUCCESS;

    pub(super) fn main() -> ExitCode {
        match parse(std::env::args_os().skip(1)).and_then(|command| command.run()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(Failure::ClosedPipe) => SUCCESS_ON_CLOSED_PIPE,
            Err(Failure::Usage(message)) => {
                eprintln!("error: {message}; see --help");
                ExitCode::from(2)
            }
            Err(Failure::Run(message)) => {
                eprintln!("error: {message}");
                ExitCode::FAILURE
            }
        }
    }

    enum Failure {
        /// The command line makes no sense. Exit code 2.
        Usage(String),
        /// A check failed, or a file could not be read or written. Exit code 1.
        Run(String),
        /// Nobody reads our output any more.
        ClosedPipe,
    }

    impl From<lexopt::Error> for Failure {
        fn from(error: lexopt::Error) -> Self {
            Self::Usage(error.to_string())
        }
    }

    impl From<ExploreError> for Failure {
        fn from(error: ExploreError) -> Self {
            match error {
                ExploreError::Case(error) => Self::Usage(error.to_string()),
                other => Self::Run(other.to_string()),
            }
        }
    }

    impl From<io::Error> for Failure {
        /// Only for writing to standard output; files name their path.
        fn from(error: io::Error) -> Self {
            match error.kind() {
                io::ErrorKind::BrokenPipe => Self::ClosedPipe,
                _ => Self::Run(format!("standard output: {error}")),
            }
        }
    }

    #[derive(Default)]
    struct Options {
        group: Option<String>,
        fixture: Option<PathBuf>,
        output: Option<PathBuf>,
        design: Option<String>,
        fault: Option<String>,
        callers: Option<u8>,
        attempts: Option<u8>,
        faults: Option<u8>,
        random: Option<u32>,
        json: bool,
    }

    impl Options {
        /// The options that were given, but for `wanted`, are of no use.
        fn allow(&self, wanted: &[&str]) -> Result<(), Failure> {
            let given = [
                ("--group", self.group.is_some()),
                ("--fixture", self.fixture.is_some()),
                ("--output", self.output.is_some()),
                ("--design", self.design.is_some()),
                ("--fault", self.fault.is_some()),
                ("--callers", self.callers.is_some()),
                ("--attempts", self.attempts.is_some()),
                ("--faults", self.faults.is_some()),
                ("--random", self.random.is_some()),
                ("--json", self.json),
            ];
            let unwanted = |&&(name, given): &&(&str, bool)| given && !wanted.contains(&name);
            match given.iter().find(unwanted) {
                Some((name, _)) => Err(Failure::Usage(format!(
                    "{name} does not go with this command"
                ))),
                None => Ok(()),
            }
        }
    }

    enum Command {
        Run(Options),
        List,
        Show(&'static Scenario, Options),
        Explore(Vec<Case>, Options),
        Replay(String, Options),
        Storm(Setup, bool),
        Print(String),
    }

    fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, Failure> {
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
                Short('h') | Long("help") => return Ok(Command::Print(HELP.to_owned())),
                Short('V') | Long("version") => {
                    return Ok(Command::Print(format!(
                        "tool-retries {}, SQLite {}\n",
                        env!("CARGO_PKG_VERSION"),
                        rusqlite::version()
                    )));
                }
                Long("group") => set(&mut options.group, parser.value()?.string()?, "--group")?,
                Long("fixture") => set(&mut options.fixture, parser.value()?.into(), "--fixture")?,
                Long("output") => set(&mut options.output, parser.value()?.into(), "--output")?,
                Long("design") => set(&mut options.design, parser.value()?.string()?, "--design")?,
                Long("fault") => set(&mut options.fault, parser.value()?.string()?, "--fault")?,
                Long("callers") => {
                    let most = Bounds::MOST.callers;
                    number(&mut options.callers, parser.value()?, 1..=most, "--callers")?;
                }
                Long("attempts") => {
                    let most = Bounds::MOST.attempts;
                    number(
                        &mut options.attempts,
                        parser.value()?,
                        1..=most,
                        "--attempts",
                    )?;
                }
                Long("faults") => {
                    let most = Bounds::MOST.faults;
                    number(&mut options.faults, parser.value()?, 0..=most, "--faults")?;
                }
                Long("random") => {
                    number(
                        &mut options.random,
                        parser.value()?,
                        1..=u32::MAX,
                        "--random",
                    )?;
                }
                Long("json") => options.json = true,
                Value(word) => words.push(word.string()?),
                _ => return Err(argument.unexpected().into()),
            }
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words[..] {
            [] => {
                options.allow(&["--group", "--fixture", "--output"])?;
                if let Some(group) = &options.group
                    && !scenario::groups().contains(&group.as_str())
                {
                    return Err(Failure::Usage(format!(
                        "no group {group:?}; there is {}",
                        scenario::groups().join(", ")
                    )));
                }
                Ok(Command::Run(options))
            }
            ["list"] => {
                options.allow(&[])?;
                Ok(Command::List)
            }
            ["show", id] => {
                options.allow(&["--fixture", "--json"])?;
                let scenario = scenario::find(id).ok_or_else(|| {
                    Failure::Usage(format!("no scenario {id:?}; `list` names them"))
                })?;
                Ok(Command::Show(scenario, options))
            }
            ["show"] => Err(Failure::Usage("show wants the id of a scenario".to_owned())),
            ["explore"] => {
                options.allow(&[
                    "--design",
                    "--fault",
                    "--callers",
                    "--attempts",
                    "--faults",
                    "--random",
                    "--json",
                ])?;
                let cases = cases(&options).map_err(ExploreError::from)?;
                Ok(Command::Explore(cases, options))
            }
            ["replay", token] => {
                options.allow(&["--json"])?;
                Ok(match scenario::find(token) {
                    Some(scenario) => Command::Show(scenario, options),
                    None => Command::Replay(token.to_owned(), options),
                })
            }
            ["replay"] => Err(Failure::Usage("replay wants a token".to_owned())),
            ["list" | "show" | "explore" | "replay", ..] => {
                Err(Failure::Usage("too many arguments".to_owned()))
            }
            [word, ..] => Err(Failure::Usage(format!("unknown command {word:?}"))),
        }
    }

    fn parse_storm(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, Failure> {
        const WITH_VALUE: [&str; 11] = [
            "preset", "server", "base", "cap", "jitter", "attempts", "clients", "capacity",
            "budget", "runs", "seed",
        ];
        let mut parser = lexopt::Parser::from_args(arguments);
        let mut given: Vec<(String, String)> = Vec::new();
        let mut json = false;
        while let Some(argument) = parser.next()? {
            let (name, value) = match argument {
                Short('h') | Long("help") => return Ok(Command::Print(HELP.to_owned())),
                Long("json") => {
                    json = true;
                    continue;
                }
                Long("breaker") => ("breaker".to_owned(), "on".to_owned()),
                Long(name) if WITH_VALUE.contains(&name) => {
                    let name = name.to_owned();
                    (name, parser.value()?.string()?)
                }
                _ => return Err(argument.unexpected().into()),
            };
            if given.iter().any(|(known, _)| *known == name) {
                return Err(Failure::Usage(format!("--{name} is given twice")));
            }
            given.push((name, value));
        }
        // A preset sets everything, so it goes first.
        given.sort_by_key(|(name, _)| name != "preset");
        let mut setup = Setup::AWS;
        for (name, value) in &given {
            setup
                .set(name, value)
                .map_err(|good| Failure::Usage(format!("--{name} {value:?} is not {good}")))?;
        }
        Ok(Command::Storm(setup, json))
    }

    fn set<T>(option: &mut Option<T>, value: T, name: &str) -> Result<(), Failure> {
        match option.replace(value) {
            None => Ok(()),
            Some(_) => Err(Failure::Usage(format!("{name} is given twice"))),
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
            None => Err(Failure::Usage(format!(
                "{name}: expected a number from {} to {}, found {text:?}",
                range.start(),
                range.end()
            ))),
        }
    }

    /// The cases that the options ask for. A class keeps to its own bounds where it cannot have
    /// those asked for, unless it was asked for by name.
    fn cases(options: &Options) -> Result<Vec<Case>, explore::CaseError> {
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
                let usual = Case::find(design, fault)?;
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
                    Err(_) if options.fault.is_none() => {
                        usual.within(without_faults).unwrap_or(usual)
                    }
                    asked => asked?,
                });
            }
        }
        Ok(cases)
    }

    impl Command {
        fn run(self) -> Result<(), Failure> {
            match self {
                Self::Run(options) => run_all(scenario::all(), &options, &mut io::stdout().lock()),
                Self::List => list(),
                Self::Show(scenario, options) => show(scenario, &options),
                Self::Explore(cases, options) => explore(&cases, &options),
                Self::Replay(token, options) => replay(&token, &options),
                Self::Storm(setup, json) => storm::finish(&setup, |storm| print_storm(storm, json)),
                Self::Print(text) => Ok(io::stdout().write_all(text.as_bytes())?),
            }
        }
    }

    fn run_all(
        scenarios: &[Scenario],
        options: &Options,
        out: &mut impl Write,
    ) -> Result<(), Failure> {
        let fixture = read_fixture(options.fixture.as_deref())?;
        let mut outcomes = Vec::new();
        let mut failed = Vec::new();
        for scenario in scenarios {
            if options
                .group
                .as_deref()
                .is_some_and(|group| group != scenario.group)
            {
                continue;
            }
            let outcome = run(scenario, &fixture)?;
            writeln!(out, "{}", report::line(scenario.id, &outcome))?;
            failed.extend(broken_checks(scenario.id, &outcome));
            outcomes.push((scenario.id, outcome));
        }
        if !failed.is_empty() {
            return Err(Failure::Run(failed.join("\nerror: ")));
        }
        if let Some(path) = &options.output {
            let mut record = report::report(&outcomes);
            if options.group.is_none() {
                record = report::with_matrix(record, &explore::matrix()?);
                record = report::with_storm(record, storm::record().map_err(Failure::Run)?);
            }
            let text = record.pretty() + "\n";
            replace_file(path, text.as_bytes())
                .map_err(|error| at(path, format_args!("cannot be written: {error}")))?;
        }
        writeln!(out, "PASS: {} scenarios", outcomes.len())?;
        Ok(())
    }

    fn run(scenario: &Scenario, fixture: &Fixture) -> Result<Outcome, Failure> {
        scenario
            .run(fixture)
            .map_err(|error| Failure::Run(format!("{}: {error}", scenario.id)))
    }

    fn broken_checks(id: &str, outcome: &Outcome) -> Vec<String> {
        if outcome.checks.is_empty() {
            return vec![format!("{id}: it checks nothing")];
        }
        let broken = |check: &Check| format!("{id}: check failed: {check}");
        outcome
            .checks
            .iter()
            .filter(|check| !check.holds())
            .map(broken)
            .collect()
    }

    fn list() -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        for group in scenario::groups() {
            writeln!(out, "{group}")?;
            for scenario in scenario::all().iter().filter(|one| one.group == group) {
                writeln!(out, "  {:<34}{}", scenario.id, scenario.title)?;
            }
        }
        Ok(())
    }

    fn show(scenario: &Scenario, options: &Options) -> Result<(), Failure> {
        let fixture = read_fixture(options.fixture.as_deref())?;
        let outcome = run(scenario, &fixture)?;
        let mut out = io::stdout().lock();
        if options.json {
            writeln!(out, "{}", report::evidence(scenario.id, &outcome).pretty())?;
        } else {
            print_evidence(&mut out, scenario.id, scenario.title, &outcome)?;
        }
        match broken_checks(scenario.id, &outcome) {
            broken if broken.is_empty() => Ok(()),
            broken => Err(Failure::Run(broken.join("\nerror: "))),
        }
    }

    /// Searches each case. A counterexample is a result, not a failure.
    fn explore(cases: &[Case], options: &Options) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        let mut cells = Vec::new();
        for &case in cases {
            let search = match options.random {
                None => Search::new(case, Strategy::Exhaustive)?.finish()?,
                Some(runs) => {
                    let mut search = Search::new(case, Strategy::Random { seed: 0 })?;
                    search.advance(runs)?;
                    search
                }
            };
            let cell = Cell::of(&search);
            if !options.json {
                writeln!(
                    out,
                    "{:<19}{:<16}{:<32}{}",
                    cell.design,
                    cell.fault,
                    cell.bounds.to_string(),
                    cell.verdict()
                )?;
                if let Some(found) = &cell.counterexample {
                    writeln!(out, "{:>67}replay {}", "", found.token)?;
                }
            }
            cells.push(cell);
        }
        if options.json {
            writeln!(out, "{}", explore::to_json(&cells).pretty())?;
        }
        Ok(())
    }

    /// Runs one run of a search again. That it breaks an invariant is what it is there to show.
    fn replay(token: &str, options: &Options) -> Result<(), Failure> {
        let outcome = explore::replay(token)?;
        let mut out = io::stdout().lock();
        if options.json {
            writeln!(out, "{}", report::evidence(token, &outcome).pretty())?;
        } else {
            print_evidence(&mut out, token, "a run of the search", &outcome)?;
        }
        Ok(())
    }

    fn print_evidence(
        out: &mut impl Write,
        id: &str,
        title: &str,
        outcome: &Outcome,
    ) -> io::Result<()> {
        writeln!(out, "{}", report::line(id, outcome))?;
        writeln!(out, "  {title}")?;
        writeln!(out, "\nChecks")?;
        for check in &outcome.checks {
            let verdict = if check.holds() { "holds" } else { "FAILS" };
            writeln!(out, "  {verdict}  {check}")?;
            if check.premise.is_met() {
                writeln!(out, "         as it happened: {}", check.premise)?;
            }
        }
        if !outcome.tables.is_empty() {
            writeln!(out, "\nRows left")?;
        }
        for table in &outcome.tables {
            print_table(out, table)?;
        }
        for plot in &outcome.plots {
            print_plot(out, plot)?;
        }
        writeln!(out, "\nTrace (virtual time, process, event)")?;
        for event in &outcome.trace.events {
            writeln!(out, "{event}")?;
        }
        writeln!(out, "\nSHA-256")?;
        writeln!(out, "  checks  {}", outcome.checks_sha256())?;
        writeln!(out, "  trace   {}", outcome.trace_sha256())
    }

    fn print_table(out: &mut impl Write, table: &Table) -> io::Result<()> {
        writeln!(out, "  {}({})", table.name, table.columns.join(", "))?;
        if table.rows.is_empty() {
            writeln!(out, "    no rows")?;
        }
        for row in &table.rows {
            let cells: Vec<String> = row.iter().map(json::Value::spaced).collect();
            writeln!(out, "    {}", cells.join("  "))?;
        }
        Ok(())
    }

    /// A line for each bar that is not zero.
    fn print_plot(out: &mut impl Write, plot: &Plot) -> io::Result<()> {
        const WIDEST: u64 = 40;
        writeln!(out, "\n{}, in {}", plot.title, plot.unit)?;
        let highest = plot.bars.iter().copied().max().unwrap_or(0).max(1);
        for (label, &bar) in plot.labels.iter().zip(&plot.bars) {
            if bar > 0 {
                let marks = "#".repeat((bar * WIDEST).div_ceil(highest) as usize);
                writeln!(out, "  {label:>9}  {bar:>5}  {marks}")?;
            }
        }
        Ok(())
    }

    fn print_storm(storm: &Storm<'_>, json: bool) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        if json {
            writeln!(out, "{}", storm.to_json().pretty())?;
            return Ok(());
        }
        writeln!(out, "{}", storm.summary())?;
        let (plot, served) = storm.load();
        print_plot(&mut out, &plot)?;
        let title = "What the server did".to_owned();
        let bars = served.to_vec();
        print_plot(
            &mut out,
            &Plot {
                title,
                bars,
                ..plot
            },
        )?;
        Ok(())
    }

    fn read_fixture(path: Option<&Path>) -> Result<Fixture, Failure> {
        let Some(path) = path else {
            return Ok(Fixture::committed());
        };
        // One byte more than may stand, so that the parser sees that it is too much.
        let limit = json::MAX_TEXT_BYTES as u64 + 1;
        let mut bytes = Vec::new();
        File::open(path)
            .and_then(|file| file.take(limit).read_to_end(&mut bytes))
            .map_err(|error| at(path, format_args!("cannot be read: {error}")))?;
        Fixture::parse(&bytes).map_err(|error| at(path, error))
    }

    fn at(path: &Path, problem: impl Display) -> Failure {
        Failure::Run(format!("{}: {problem}", path.display()))
    }

    /// Writes beside the file and renames, so that whoever reads it finds the old text or the new
    /// one. What is no file, such as a terminal or a pipe, is written to as it is.
    fn replace_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        match fs::metadata(&target) {
            Ok(found) if found.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(found) if !found.is_file() => {
                return File::options().write(true).open(&target)?.write_all(bytes);
            }
            Ok(found) if found.permissions().readonly() => {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            _ => {}
        }
        let folder = match target.parent() {
            Some(folder) if folder != OsStr::new("") => folder,
            _ => Path::new("."),
        };
        let mut builder = tempfile::Builder::new();
        #[cfg(unix)]
        let permissions = {
            use std::os::unix::fs::PermissionsExt;
            fs::Permissions::from_mode(0o666)
        };
        #[cfg(unix)]
        builder.permissions(permissions);
        let mut beside = builder.tempfile_in(folder)?;
        beside.write_all(bytes)?;
        beside.as_file().sync_all()?;
        beside.persist(&target)?;
        Ok(())
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        /// The first scenario with one check broken, or with none left.
        fn planted(check: Option<Check>) -> Scenario {
            thread_local! {
                static CHECKS: std::cell::RefCell<Vec<Check>> = const { std::cell::RefCell::new(Vec::new()) };
            }
            CHECKS.set(check.into_iter().collect());
            Scenario {
                play: |world, fixture| {
                    let mut outcome = (scenario::all()[0].play)(world, fixture)?;
                    outcome.checks = CHECKS.with_borrow(Clone::clone);
                    Ok(outcome)
                },
                ..scenario::all()[0]
            }
        }

        fn failure(scenario: Scenario, output: &Path) -> (String, String) {
            let options = Options {
                output: Some(output.to_owned()),
                ..Options::default()
            };
            let mut printed = Vec::new();
            match run_all(&[scenario], &options, &mut printed) {
                Err(Failure::Run(message)) => (message, String::from_utf8(printed).unwrap()),
                _ => panic!("it did not fail"),
            }
        }

        /// A broken check is named, nothing passes, and an older record stays as it was.
        #[test]
        fn a_broken_check_is_named_and_the_record_unharmed() {
            let folder = tempfile::tempdir().unwrap();
            let output = folder.path().join("results.json");
            fs::write(&output, "precious").unwrap();
            let broken = Check {
                premise: scenario::all()[0]
                    .run(&Fixture::committed())
                    .unwrap()
                    .checks[0]
                    .premise
                    .clone(),
                claim: "two and two".to_owned(),
                expected: json::Value::from(4),
                seen: json::Value::from(5),
            };
            for (check, expected) in [
                (
                    Some(broken),
                    "naive_retry: check failed: two and two: expected 4, saw 5",
                ),
                (None, "naive_retry: it checks nothing"),
            ] {
                let (message, printed) = failure(planted(check), &output);
                assert_eq!(message, expected);
                assert!(printed.starts_with("naive_retry: ") && !printed.contains("PASS"));
                assert_eq!(fs::read_to_string(&output).unwrap(), "precious");
            }
        }
    }
}
