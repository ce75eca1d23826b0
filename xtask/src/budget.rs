//! How large the site may be.

use std::fmt::Write as _;
use std::io::Write as _;

use anyhow::{Context, Result, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::lab;
use crate::site::{self, Files};

/// What the page shows before any script runs.
const FIRST_PAINT: [&str; 2] = ["index.html", "style.css"];

/// A limit on a size, and the size that was seen.
pub struct Budget {
    /// Names the check.
    pub name: &'static str,
    what: &'static str,
    limit_bytes: usize,
    seen_bytes: Result<usize>,
}

impl Budget {
    /// Fails when the limit is exceeded or there was nothing to measure.
    pub fn check(self) -> Result<()> {
        let Self {
            what, limit_bytes, ..
        } = self;
        let seen = self.seen_bytes.context(what)?;
        ensure!(
            seen <= limit_bytes,
            "{what}: expected at most {limit_bytes} bytes, seen {seen}"
        );
        Ok(())
    }
}

/// All limits, in the order of the table.
pub fn budgets(files: &Files) -> Vec<Budget> {
    let budget = |name, what, limit_bytes, seen_bytes| Budget {
        name,
        what,
        limit_bytes,
        seen_bytes,
    };
    vec![
        budget(
            "first_paint",
            "index.html and style.css, gzip",
            90_000,
            first_paint(files),
        ),
        budget(
            "first_visit",
            "every file that is fetched unasked, gzip",
            840_000,
            first_visit(files),
        ),
        budget("module", ".wasm, gzip", 735_000, module(files)),
        budget("file", "the largest file, raw", 2_000_000, largest(files)),
    ]
}

/// The budgets as a table, each with its limit and what is left of it.
pub fn budget_table(budgets: &[Budget]) -> String {
    let width = budgets.iter().map(|it| it.what.len()).max().unwrap_or(0);
    let mut table = format!("{:width$}  {:>9}  {:>9}\n", "budget", "bytes", "limit");
    for budget in budgets {
        let limit = budget.limit_bytes;
        let _ = match &budget.seen_bytes {
            Ok(seen) => writeln!(
                table,
                "{:width$}  {seen:>9}  {limit:>9}{}",
                budget.what,
                if *seen > limit { "  EXCEEDED" } else { "" }
            ),
            Err(error) => writeln!(table, "{:width$}  {error:#}", budget.what),
        };
    }
    table
}

/// How many bytes a host that compresses sends.
fn packed(bytes: &[u8]) -> usize {
    gzip(bytes).len()
}

fn first_paint(files: &Files) -> Result<usize> {
    let sizes = FIRST_PAINT.map(|name| Ok(packed(file(files, name)?)));
    sizes.into_iter().sum()
}

fn first_visit(files: &Files) -> Result<usize> {
    module(files)?;
    // All else is used at once or kept for reading offline.
    let fetched = files
        .iter()
        .filter(|(name, _)| *name != lab::NAME && !site::LATER.contains(&name.as_str()));
    Ok(fetched.map(|(_, bytes)| packed(bytes)).sum())
}

fn module(files: &Files) -> Result<usize> {
    let mut sizes = files
        .iter()
        .filter(|(name, _)| name.ends_with(".wasm"))
        .map(|(_, bytes)| packed(bytes));
    let first = sizes.next().context("there is no .wasm file")?;
    Ok(first + sizes.sum::<usize>())
}

fn largest(files: &Files) -> Result<usize> {
    let sizes = files.values().map(Vec::len);
    sizes.max().context("there is no file")
}

fn file<'a>(files: &'a Files, name: &str) -> Result<&'a [u8]> {
    let bytes = files.get(name);
    bytes
        .map(Vec::as_slice)
        .with_context(|| format!("there is no {name}"))
}

/// A file as a static host sends it.
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder
        .write_all(bytes)
        .and_then(|()| encoder.finish())
        .expect("writing to memory cannot fail")
}

fn total(files: &Files) -> usize {
    files.values().map(Vec::len).sum()
}

/// The size of each file in bytes, raw and compressed, and the sums.
pub fn table(files: &Files) -> String {
    let width = files
        .keys()
        .map(String::len)
        .max()
        .unwrap_or(0)
        .max("total".len());
    let mut table = format!("{:width$}  {:>9}  {:>9}\n", "file", "bytes", "gzip");
    let mut sum = 0;
    for (name, bytes) in files {
        let gzip = packed(bytes);
        sum += gzip;
        let _ = writeln!(table, "{name:width$}  {:>9}  {gzip:>9}", bytes.len());
    }
    let _ = writeln!(table, "{:width$}  {:>9}  {sum:>9}", "total", total(files));
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(files: &Files) -> Vec<&'static str> {
        budgets(files)
            .into_iter()
            .map(|budget| (budget.name, budget.check()))
            .filter(|(_, outcome)| outcome.is_err())
            .map(|(name, _)| name)
            .collect()
    }

    /// A site that keeps every limit, with one file more or another one.
    fn with(name: &str, bytes: Vec<u8>) -> Files {
        let mut files = Files::new();
        for name in FIRST_PAINT.into_iter().chain(["engine_bg.wasm", lab::NAME]) {
            files.insert(name.to_owned(), vec![b' '; 100]);
        }
        files.insert(name.to_owned(), bytes);
        files
    }

    /// Bytes that do not compress, from a linear congruential generator.
    fn noise(length: usize) -> Vec<u8> {
        let mut state = 1u32;
        std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        })
        .take(length)
        .collect()
    }

    #[test]
    fn each_limit_bites_alone() {
        assert!(failed(&with(lab::NAME, noise(900_000))).is_empty());
        assert_eq!(failed(&with("style.css", noise(90_000))), ["first_paint"]);
        assert_eq!(failed(&with("engine.js", noise(840_001))), ["first_visit"]);
        assert_eq!(failed(&with("engine_bg.wasm", noise(735_001))), ["module"]);
        assert_eq!(failed(&with("a.zip", vec![0; 2_000_001])), ["file"]);
    }

    #[test]
    fn a_site_without_its_files_is_not_small_but_broken() {
        let whole = with("a.js", Vec::new());
        let without = |name: &str| {
            let mut files = whole.clone();
            files.remove(name);
            failed(&files)
        };
        assert_eq!(without("engine_bg.wasm"), ["first_visit", "module"]);
        assert_eq!(without("index.html"), ["first_paint"]);
        assert_eq!(
            failed(&Files::new()),
            ["first_paint", "first_visit", "module", "file"]
        );
    }

    #[test]
    fn the_table_names_what_is_exceeded() {
        let table = budget_table(&budgets(&with("engine_bg.wasm", noise(735_001))));
        let exceeded: Vec<&str> = table
            .lines()
            .filter(|line| line.contains("EXCEEDED"))
            .collect();
        assert!(
            matches!(exceeded[..], [line] if line.starts_with(".wasm")),
            "{table}"
        );
    }

    #[test]
    fn the_table_ends_in_the_sums() {
        let files = Files::from([("a".to_owned(), vec![0; 10]), ("b".to_owned(), vec![0; 5])]);
        let table = table(&files);
        assert_eq!(table.lines().count(), 4);
        assert!(table.lines().last().unwrap().contains("15"), "{table}");
    }
}
