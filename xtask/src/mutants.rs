//! Faults put into the engine one at a time, to see whether the tests notice: cargo-mutants on a share of them.

use std::fs;
use std::process::Command;
use std::str::FromStr;

use anyhow::{Context, Error, Result, ensure};

use crate::tools;

/// What is changed: the rooms whose behaviour the article's claims rest on.
const FILES: [&str; 6] = [
    "src/key.rs",
    "src/tool/**",
    "src/client/**",
    "src/sim/**",
    "src/explore/**",
    "src/scenario/**",
];

/// The quick native tests beside those in the library: none takes more than half a minute, since they run once a mutant.
const TESTS: [&str; 17] = [
    "article",
    "client",
    "contracts",
    "crash",
    "desk",
    "diagram",
    "evidence",
    "exercises",
    "explore",
    "lab",
    "lesson",
    "premises",
    "sqlite",
    "storm",
    "timeline",
    "truth",
    "world",
];

/// The longest that the tests of one mutant may take: ten times what they take on two cores that nobody else uses. One
/// that loops is caught by that.
const LIMIT_S: &str = "600";

/// One of several shares of the mutants, dealt round: that many apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    shard: u32,
    of: u32,
}

impl FromStr for Share {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let share = || {
            let (shard, of) = text.split_once('/')?;
            let (shard, of) = (shard.parse().ok()?, of.parse().ok()?);
            (shard < of).then_some(Self { shard, of })
        };
        share().with_context(|| {
            format!("expected SHARD/OF such as 3/40, from 0/40 to 39/40, not `{text}`")
        })
    }
}

/// Tries the mutants of a share, prints what became of them, and says whether all were noticed.
pub fn run(share: Share) -> Result<bool> {
    let program = tools::cargo_mutants()?;
    let place = tools::target_dir().join("mutants");
    fs::create_dir_all(&place)?;
    let mut command = Command::new(program);
    command
        .current_dir(tools::root())
        .arg("mutants")
        .args([
            "--package",
            "tool-retries",
            "--no-shuffle",
            "--colors=never",
        ])
        .args(["--sharding", "round-robin", "--shard"])
        .arg(format!("{}/{}", share.shard, share.of))
        .args(["--timeout", LIMIT_S])
        .arg("--output")
        .arg(&place)
        .args(FILES.iter().flat_map(|file| ["--file", file]))
        .args(["--", "--locked", "--lib"])
        .args(TESTS.iter().flat_map(|test| ["--test", test]));
    let status = command
        .status()
        .with_context(|| format!("cannot start `{}`", tools::shown(&command)))?;
    // What it says of mutants that were missed, or that took too long.
    ensure!(
        [Some(0), Some(2), Some(3)].contains(&status.code()),
        "`{}` failed ({status})",
        tools::shown(&command)
    );
    let list = |name: &str| -> Result<Vec<String>> {
        let path = place.join("mutants.out").join(name);
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(text.lines().map(str::to_owned).collect())
    };
    let (caught, late) = (list("caught.txt")?, list("timeout.txt")?);
    let (unviable, missed) = (list("unviable.txt")?, list("missed.txt")?);
    println!(
        "share {}/{}: {} caught, {} more by the limit of {LIMIT_S} s, {} do not build, {} survive",
        share.shard,
        share.of,
        caught.len(),
        late.len(),
        unviable.len(),
        missed.len()
    );
    for (what, list) in [("by the limit", &late), ("survives", &missed)] {
        for mutant in list {
            println!("{what}: {mutant}");
        }
    }
    Ok(missed.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_one_of_several() {
        let share = |text: &str| text.parse::<Share>();
        assert_eq!(share("3/40").unwrap(), Share { shard: 3, of: 40 });
        assert_eq!(share("0/1").unwrap(), Share { shard: 0, of: 1 });
        for wrong in ["", "3", "40/40", "-1/2", "1/0", "0/0", "a/b", "1/2/3"] {
            let message = share(wrong).unwrap_err().to_string();
            assert!(message.ends_with(&format!("`{wrong}`")), "{message}");
        }
    }

    #[test]
    fn what_is_changed_and_what_notices_exist() {
        let root = tools::root();
        for file in FILES {
            let place = root.join(file.trim_end_matches("/**"));
            assert!(place.exists(), "{}", place.display());
        }
        for test in TESTS {
            let place = root.join(format!("tests/{test}.rs"));
            assert!(place.is_file(), "{}", place.display());
        }
    }
}
