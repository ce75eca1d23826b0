//! Everything of the project that is not `cargo build`: the site, its server, its tests.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use browser::{Browser, Choice};
use lexopt::prelude::*;
use mutants::Share;
use url::Url;

mod browser;
mod budget;
mod install;
mod lab;
mod lighthouse;
mod lint;
mod logic;
mod mutants;
mod serve;
mod site;
mod test;
mod tools;
mod wasm;

const HELP: &str = "\
cargo xtask COMMAND

site [--module FILE] [--base-url URL]
                        build dist/, the deployable site; FILE is a module compiled elsewhere,
                        URL the address of the folder where the site will be published
serve [--port N] [--prefix PATH] [--wasm-type TYPE]
                        build the site and serve it on loopback
test [--browsers LIST]  run every test: lint, native, size limits, the lab, browsers, Lighthouse, and
                        print what each took; LIST is all, as without it, or names of
                        chromium,firefox,webkit
browsers [LIST] [--only PART] [--repeat N] [--at-once N]
                        make the browsers' checks alone, those with PART in their name, on dist/ as it
                        stands, each N times, N at a time
lighthouse              build the site and measure it with Lighthouse, five times
size                    build the site and compare its sizes with their limits
lint                    formatting, and clippy for the native target and wasm32
logic-tests DIR         build the site and run the SQL logic tests of a folder, files in the format of
                        SQLite's own whose names end in .test, natively and in Chromium
mutants SHARD/OF        put faults into the engine, one at a time, and tell which of them the quick native
                        tests do not notice; of all faults every OFth, from SHARD on, which is 0 to OF-1
screenshots DIR         build the site and write pictures of the page to DIR
help                    this text
";

/// A command with its arguments.
#[derive(Debug, PartialEq)]
enum Job {
    Site {
        module: Option<PathBuf>,
        base_url: Option<Url>,
    },
    Serve {
        port: Option<u16>,
        prefix: Option<String>,
        wasm_type: Option<String>,
    },
    Test {
        browsers: Vec<Browser>,
    },
    Browsers(Choice),
    Lighthouse,
    Size,
    Lint,
    LogicTests {
        dir: PathBuf,
    },
    Mutants(Share),
    Screenshots {
        dir: PathBuf,
    },
    Help,
}

fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Job> {
    let mut parser = lexopt::Parser::from_args(args);
    let command = match parser.next()? {
        Some(Value(name)) => name.string()?,
        Some(Long("help") | Short('h')) => return Ok(Job::Help),
        Some(arg) => return Err(arg.unexpected().into()),
        None => bail!("no command"),
    };
    let mut job = match command.as_str() {
        "site" => Job::Site {
            module: None,
            base_url: None,
        },
        "serve" => Job::Serve {
            port: None,
            prefix: None,
            wasm_type: None,
        },
        "test" => Job::Test {
            browsers: Browser::ALL.to_vec(),
        },
        "browsers" => Job::Browsers(Choice::all(Browser::ALL.to_vec())),
        "lighthouse" => Job::Lighthouse,
        "size" => Job::Size,
        "lint" => Job::Lint,
        "logic-tests" => match parser.next()? {
            Some(Value(dir)) => Job::LogicTests { dir: dir.into() },
            _ => bail!("`logic-tests` needs a folder to read from"),
        },
        "mutants" => match parser.next()? {
            Some(Value(share)) => Job::Mutants(share.string()?.parse()?),
            _ => bail!("`mutants` needs a share such as 3/40"),
        },
        "screenshots" => match parser.next()? {
            Some(Value(dir)) => Job::Screenshots { dir: dir.into() },
            _ => bail!("`screenshots` needs a folder to write to"),
        },
        "help" => Job::Help,
        _ => bail!("no command `{command}`"),
    };
    while let Some(arg) = parser.next()? {
        match (&mut job, arg) {
            (_, Long("help") | Short('h')) => return Ok(Job::Help),
            (Job::Site { module, .. }, Long("module")) => *module = Some(parser.value()?.into()),
            (Job::Site { base_url, .. }, Long("base-url")) => {
                *base_url = Some(site::base_url(&parser.value()?.string()?)?)
            }
            (Job::Serve { port, .. }, Long("port")) => *port = Some(parser.value()?.parse()?),
            (Job::Serve { prefix, .. }, Long("prefix")) => {
                let value = parser.value()?.string()?;
                let inner = value.trim_matches('/');
                *prefix = Some(if inner.is_empty() {
                    "/".to_owned()
                } else {
                    format!("/{inner}/")
                });
            }
            (Job::Serve { wasm_type, .. }, Long("wasm-type")) => {
                *wasm_type = Some(parser.value()?.string()?)
            }
            (Job::Test { browsers }, Long("browsers")) => {
                *browsers = Browser::list(&parser.value()?.string()?)?
            }
            (Job::Browsers(choice), Value(list)) => {
                choice.browsers = Browser::list(&list.string()?)?
            }
            (Job::Browsers(choice), Long("only")) => choice.part = parser.value()?.string()?,
            (Job::Browsers(choice), Long("repeat")) => choice.repeat = count(&mut parser)?,
            (Job::Browsers(choice), Long("at-once")) => choice.at_once = count(&mut parser)?,
            (_, arg) => return Err(arg.unexpected().into()),
        }
    }
    Ok(job)
}

/// The value of an option that says how many.
fn count(parser: &mut lexopt::Parser) -> Result<usize> {
    Ok(parser.value()?.parse::<NonZeroUsize>()?.get())
}

fn run(job: Job) -> Result<bool> {
    match job {
        Job::Help => print!("{HELP}"),
        Job::Site { module, base_url } => site::build(module.as_deref(), base_url.as_ref())?,
        Job::Serve {
            port,
            prefix,
            wasm_type,
        } => {
            // Before the build, so that a port that is taken is told at once.
            let listener = serve::listen(port)?;
            site::build(None, None)?;
            let default = serve::Options::default();
            let options = serve::Options {
                prefix: prefix.unwrap_or(default.prefix),
                wasm_type: wasm_type.unwrap_or(default.wasm_type),
                ..default
            };
            let server = serve::Server::start(&site::dist(), listener, options)?;
            println!("{}", server.url());
            server.wait();
        }
        Job::Test { browsers } => return test::run(&browsers),
        Job::Browsers(choice) => return test::run_browsers(&choice),
        Job::Lighthouse => lighthouse::measure()?,
        Job::Size => {
            site::build(None, None)?;
            let budgets = budget::budgets(&site::static_files(&site::dist())?);
            print!("{}", budget::budget_table(&budgets));
            return Ok(budgets.into_iter().all(|budget| budget.check().is_ok()));
        }
        Job::Lint => lint::run()?,
        Job::LogicTests { dir } => return logic::run(&dir),
        Job::Mutants(share) => return mutants::run(share),
        Job::Screenshots { dir } => {
            site::build(None, None)?;
            browser::screenshots(&dir)?;
        }
    }
    Ok(true)
}

fn main() -> ExitCode {
    let job = match parse(std::env::args_os().skip(1)) {
        Ok(job) => job,
        Err(error) => {
            eprintln!("xtask: {error}; `cargo xtask help` lists the commands");
            return ExitCode::from(2);
        }
    };
    match run(job) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_words(words: &str) -> Result<Job> {
        parse(words.split_whitespace().map(OsString::from))
    }

    #[test]
    fn commands_take_their_own_options_only() {
        assert_eq!(
            parse_words("test").unwrap(),
            Job::Test {
                browsers: Browser::ALL.to_vec()
            }
        );
        assert_eq!(
            parse_words("test --browsers firefox").unwrap(),
            Job::Test {
                browsers: vec![Browser::Firefox]
            }
        );
        assert_eq!(
            parse_words("browsers webkit --only permalink --repeat 20 --at-once 3").unwrap(),
            Job::Browsers(Choice {
                browsers: vec![Browser::WebKit],
                part: "permalink".to_owned(),
                repeat: 20,
                at_once: 3,
            })
        );
        assert_eq!(parse_words("size").unwrap(), Job::Size);
        assert_eq!(parse_words("--help").unwrap(), Job::Help);
        assert_eq!(
            parse_words("serve --port 9000 --prefix docs/x").unwrap(),
            Job::Serve {
                port: Some(9000),
                prefix: Some("/docs/x/".to_owned()),
                wasm_type: None
            }
        );
        for words in [
            "",
            "sit",
            "test --port 1",
            "test extra",
            "test --browsers",
            "test --browsers edge",
            "test --only x",
            "browsers edge",
            "browsers --repeat 0",
            "browsers --at-once x",
            "lighthouse x",
            "size extra",
            "serve --port",
            "serve --port x",
            "serve --port 70000",
            "logic-tests",
            "logic-tests a b",
            "mutants",
            "mutants 3",
            "mutants 40/40",
            "mutants 1/2 3",
            "screenshots",
            "screenshots a b",
            "--port 1",
            "site --wasm-type x",
            "site --base-url example.org",
        ] {
            let message = parse_words(words).unwrap_err().to_string();
            assert!(
                !message.contains('\n'),
                "`{words}` gave more than one line: {message}"
            );
        }
    }
}
