//! `lab.zip`: the sources of everything, for readers who want to run the lab on their own machine.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io::{Cursor, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tool_retries::digest::sha256_hex;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipArchive, ZipWriter};

use crate::site::{self, Files};
use crate::test::{self, Parts, Tally};
use crate::tools;

/// The file's name in the site.
pub const NAME: &str = "lab.zip";

/// The folder in the archive that holds everything.
const FOLDER: &str = "tool-retries";

/// What the archive holds of the project's root. Named one by one, so that nothing gets out that only lies about there.
const FILES: [&str; 8] = [
    ".cargo/config.toml",
    "Cargo.lock",
    "Cargo.toml",
    "README.md",
    "SOURCES.md",
    "article.md",
    "fixture.json",
    "results.json",
];

/// The folders that it holds whole.
const FOLDERS: [&str; 5] = ["benches", "src", "tests", "www", "xtask"];

/// The archive. The same sources give the same bytes.
pub fn archive() -> Result<Vec<u8>> {
    pack(&sources(&tools::root())?)
}

fn sources(root: &Path) -> Result<Files> {
    let mut files = Files::new();
    for name in FILES {
        let bytes = fs::read(root.join(name)).with_context(|| format!("cannot read {name}"))?;
        files.insert(name.to_owned(), bytes);
    }
    for folder in FOLDERS {
        for (name, bytes) in site::static_files(&root.join(folder))? {
            files.insert(format!("{folder}/{name}"), bytes);
        }
    }
    Ok(files)
}

fn pack(files: &Files) -> Result<Vec<u8>> {
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .compression_level(Some(9))
        // The earliest that the format can say. No machine's clock or rights get in.
        .last_modified_time(DateTime::DEFAULT)
        .unix_permissions(0o644);
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in files {
        zip.start_file(format!("{FOLDER}/{name}"), options)?;
        zip.write_all(bytes)?;
    }
    Ok(zip.finish()?.into_inner())
}

fn unpack(archive: &[u8], dir: &Path) -> Result<PathBuf> {
    ZipArchive::new(Cursor::new(archive))?.extract(dir)?;
    Ok(dir.join(FOLDER))
}

/// That the lab works on its own: its tests pass, which are all native tests of the project, the seven scenarios print what
/// README.md shows, and the site that it builds is the one in `dist/`, if `is_site` answers that it stands. That one has
/// the lab in it, so what was tried here is what readers get.
pub fn checks(tally: &Tally, parts: &Parts, is_site: impl FnOnce() -> bool) {
    let dir = folder();
    match unpacked(&dir) {
        Ok(lab) => {
            parts.time("native tests", || {
                tally.report("lab::tests_pass", tests_pass(&lab, tally));
                tally.report("lab::prints_seven_scenarios", prints_seven(&lab));
            });
            if is_site() {
                parts.time("the lab's site", || {
                    tally.report("lab::builds_the_same_site", builds_the_same(&lab));
                });
            }
        }
        Err(error) => tally.report("lab::unpacks", Err(error)),
    }
    // Whatever is left is overwritten the next time.
    let _ = fs::remove_dir_all(&dir);
}

/// Outside the project, whose cargo configuration would reach into the lab, and the same each time: cargo tells crates by
/// their folder, and would else keep what it compiled of every lab so far.
fn folder() -> PathBuf {
    let root = sha256_hex(&tools::text(tools::root()));
    env::temp_dir().join(format!("tool-retries-lab-{root}"))
}

fn unpacked(dir: &Path) -> Result<PathBuf> {
    if dir.exists() {
        fs::remove_dir_all(dir)?;
    }
    unpack(&archive()?, dir)
}

/// Cargo in the unpacked lab. Crates of the registry that the project has compiled are not compiled again: cargo tells
/// them by version, features and flags. The lab's own crate it tells by its folder as well, so nothing of the project's
/// own stands in for it.
fn cargo(lab: &Path) -> Command {
    let mut command = tools::cargo();
    command
        .current_dir(lab)
        .env("CARGO_TARGET_DIR", tools::root().join("target"))
        // Nobody will compile this folder a second time.
        .env("CARGO_INCREMENTAL", "0");
    command
}

fn tests_pass(lab: &Path, tally: &Tally) -> Result<()> {
    let suites = test::count(
        tally,
        cargo(lab).args(["test", "--workspace", "--locked", "--no-fail-fast"]),
    )?;
    ensure!(
        suites > 1,
        "expected the tests of the lab to run, seen {suites} suites"
    );
    Ok(())
}

fn prints_seven(lab: &Path) -> Result<()> {
    let seen = tools::output(cargo(lab).args(["run", "--locked", "-q", "--", "--group", "lab"]))?;
    let readme = fs::read_to_string(lab.join("README.md"))?;
    let expected = readme
        .split_once("-- --group lab\n")
        .and_then(|(_, after)| after.split_once("\n```"))
        .map(|(lines, _)| lines)
        .context("README.md does not show the run of the lab")?;
    ensure!(
        seen == expected && seen.lines().count() == 8,
        "expected what README.md shows:\n{expected}\nseen:\n{seen}"
    );
    Ok(())
}

/// Builds the site in the lab: other folder, other target folder, so that SQLite and every crate are
/// compiled and optimised anew, by the same compilers. This program does it, and does not compile itself again first.
fn builds_the_same(lab: &Path) -> Result<()> {
    let target = lab.join("target");
    fs::create_dir(&target)?;
    // A program that was downloaded, not built.
    let binaryen = tools::root().join("target/binaryen");
    if binaryen.exists() {
        symlink(binaryen, target.join("binaryen"))?;
    }
    tools::output(
        Command::new(env::current_exe()?)
            .arg("site")
            .env("CARGO_MANIFEST_DIR", lab.join("xtask"))
            .env_remove("CARGO_TARGET_DIR"),
    )?;
    let (seen, expected) = (
        site::static_files(&lab.join("dist"))?,
        site::static_files(&site::dist())?,
    );
    let names: BTreeSet<&String> = seen.keys().chain(expected.keys()).collect();
    let differing: Vec<&str> = names
        .into_iter()
        .filter(|name| seen.get(*name) != expected.get(*name))
        .map(String::as_str)
        .collect();
    ensure!(
        differing.is_empty(),
        "expected the same files to the byte, seen others: {}",
        differing.join(", ")
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_archive_holds_the_sources_and_nothing_else() {
        let root = tools::root();
        let dir = tempfile::tempdir().unwrap();
        let lab = unpack(&archive().unwrap(), dir.path()).unwrap();
        assert_eq!(sources(&lab).unwrap(), sources(&root).unwrap());
        let mut top: Vec<String> = fs::read_dir(&lab)
            .unwrap()
            .map(|entry| tools::text(entry.unwrap().file_name()))
            .collect();
        top.sort();
        let expected = [
            ".cargo",
            "Cargo.lock",
            "Cargo.toml",
            "README.md",
            "SOURCES.md",
            "article.md",
            "benches",
            "fixture.json",
            "results.json",
            "src",
            "tests",
            "www",
            "xtask",
        ];
        assert_eq!(top, expected);
    }

    #[test]
    fn no_clock_and_no_rights_of_the_machine_get_in() {
        let files = Files::from([
            ("a".to_owned(), b"a".to_vec()),
            ("b/c".to_owned(), Vec::new()),
        ]);
        let bytes = pack(&files).unwrap();
        assert_eq!(bytes, pack(&files).unwrap());
        let mut zip = ZipArchive::new(Cursor::new(bytes)).unwrap();
        assert_eq!(zip.len(), 2);
        for index in 0..2 {
            let file = zip.by_index(index).unwrap();
            assert_eq!(file.unix_mode(), Some(0o100_644));
            assert_eq!(file.last_modified(), Some(DateTime::DEFAULT));
        }
    }
}
