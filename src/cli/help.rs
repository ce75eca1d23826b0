//! What there is on the command line. What goes with what is read from here too.

/// A command; that without a name runs the scenarios.
struct Command {
    name: &'static str,
    usage: &'static str,
}

const COMMANDS: [Command; 7] = [
    Command {
        name: "",
        usage: "\
  tool-retries [--group NAME] [--fixture FILE] [--output FILE]
                         run every scenario, or those of one group, and check them
",
    },
    Command {
        name: "list",
        usage: "tool-retries list      name the scenarios, by group\n",
    },
    Command {
        name: "show",
        usage: "\
  tool-retries show ID [--json] [--fixture FILE]
                         checks, rows and trace of one scenario
",
    },
    Command {
        name: "explore",
        usage: "\
  tool-retries explore [--design NAME] [--fault NAME] [--callers N]
                       [--attempts N] [--faults N] [--journal NAME]
                       [--random N] [--json]
                         try every schedule and every place of a fault; Ctrl-C ends it
                         with what was found so far
",
    },
    Command {
        name: "replay",
        usage: "\
  tool-retries replay TOKEN [--json]
                         checks, rows and trace of the run that a token names: one of a
                         search, or a scenario, whose id is its token
",
    },
    Command {
        name: "storm",
        usage: "\
  tool-retries storm [--preset aws|grpc] [--server row|queue] [--base MS] [--cap MS]
                     [--jitter none|full|equal|decorrelated] [--attempts N] [--clients N]
                     [--capacity N] [--budget TOKENS:RATIO|none] [--breaker] [--runs N]
                     [--seed N] [--json]
                         many clients that retry against one server; what is not given is
                         as the preset has it, aws if none is given
",
    },
    Command {
        name: "help",
        usage: "tool-retries help [COMMAND]\n                         print this, or what is to one command\n",
    },
];

/// An option, what its value is called, the commands that it goes with (none: all), what it does.
struct Given {
    name: &'static str,
    value: &'static str,
    commands: &'static [&'static str],
    does: &'static str,
}

const fn given(
    name: &'static str,
    value: &'static str,
    commands: &'static [&'static str],
    does: &'static str,
) -> Given {
    Given {
        name,
        value,
        commands,
        does,
    }
}

const OPTIONS: [Given; 13] = [
    given("--group", "NAME", &[""], "run one group only"),
    given(
        "--fixture",
        "FILE",
        &["", "show"],
        "the operation to run with; without it, the project's own fixture.json",
    ),
    given(
        "--output",
        "FILE",
        &[""],
        "write the record of the run to FILE, if every check held; without --group it
                   holds what explore and storm say too",
    ),
    given("--design", "NAME", &["explore"], "explore one design only"),
    given(
        "--fault",
        "NAME",
        &["explore"],
        "explore one class of faults only",
    ),
    given(
        "--callers",
        "N",
        &["explore"],
        "explore with so many callers, 1 to 4",
    ),
    given(
        "--attempts",
        "N",
        &["explore"],
        "explore with so many attempts of each caller, 1 to 3",
    ),
    given(
        "--faults",
        "N",
        &["explore"],
        "explore with so many faults in one run, 0 to 2",
    ),
    given(
        "--journal",
        "NAME",
        &["explore"],
        "explore with rollback (the usual), wal-full or wal-normal",
    ),
    given(
        "--random",
        "N",
        &["explore"],
        "run N random schedules instead of all",
    ),
    given(
        "--json",
        "",
        &["show", "explore", "replay", "storm"],
        "print for programs",
    ),
    given("-h, --help", "", &[], "print this"),
    given(
        "-V, --version",
        "",
        &[],
        "print the versions of this program and of SQLite",
    ),
];

/// The names of the commands.
pub(super) fn commands() -> impl Iterator<Item = &'static str> {
    COMMANDS
        .iter()
        .map(|one| one.name)
        .filter(|name| !name.is_empty())
}

/// The names of the options that go with a command, `--` left out, and of those that go with all.
pub(super) fn options(command: &str) -> impl Iterator<Item = &'static str> {
    let goes = move |one: &&Given| one.commands.is_empty() || one.commands.contains(&command);
    let names = OPTIONS.iter().filter(goes).map(|one| one.name);
    names.map(|name| name.rsplit("--").next().unwrap_or(name))
}

/// Everything, or what is to this command.
pub(super) fn text(command: Option<&str>) -> String {
    let mut text = String::new();
    if command.is_none() {
        text.push_str(
            "Make tool retries safe: runs the article's scenarios on a real SQLite and checks \
             what they show.\n\n",
        );
    }
    text.push_str("Usage:\n");
    for one in COMMANDS
        .iter()
        .filter(|one| command.is_none_or(|name| name == one.name))
    {
        text.push_str("  ");
        text.push_str(one.usage);
    }
    text.push_str("\nOptions:\n");
    for one in &OPTIONS {
        let is_wanted = |name| one.commands.is_empty() || one.commands.contains(&name);
        if command.is_none_or(is_wanted) {
            let name = format!("{} {}", one.name, one.value);
            text.push_str(&format!("  {:<17}{}\n", name.trim_end(), one.does));
        }
    }
    text
}

/// The one of `known` that somebody may have meant who wrote `word`.
pub(super) fn near<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let slips = |one: &str| strsim::damerau_levenshtein(word, one);
    // More than two slips, or more than half as many as letters, make another word.
    let is_near = |one: &&str| slips(one) <= 2.min(one.chars().count() / 2);
    known
        .into_iter()
        .filter(is_near)
        .min_by_key(|one| slips(one))
}
