//! How large the site may be.

use std::fmt::Write as _;
use std::io::Write as _;

use anyhow::{Result, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::site::Files;

/// Bytes of the whole site, uncompressed.
const TOTAL: usize = 1_500_000;
/// Bytes of one file, uncompressed.
const FILE: usize = 1_000_000;
/// Bytes of a module as a static host sends it.
const WASM_GZIP: usize = 360_000;

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
    let mut packed = 0;
    for (name, bytes) in files {
        let gzip = gzip(bytes).len();
        packed += gzip;
        let _ = writeln!(table, "{name:width$}  {:>9}  {gzip:>9}", bytes.len());
    }
    let _ = writeln!(
        table,
        "{:width$}  {:>9}  {packed:>9}",
        "total",
        total(files)
    );
    table
}

/// The limits, each with whether the site keeps it.
pub fn checks(files: &Files) -> Vec<(&'static str, Result<()>)> {
    vec![
        ("total_below_1500_kb", total_is_small(files)),
        ("no_file_above_1000_kb", every_file_is_small(files)),
        ("wasm_gzip_below_360_kb", wasm_is_small(files)),
    ]
}

fn total_is_small(files: &Files) -> Result<()> {
    let seen = total(files);
    ensure!(
        seen < TOTAL,
        "expected a site below {TOTAL} bytes, seen {seen}"
    );
    Ok(())
}

fn every_file_is_small(files: &Files) -> Result<()> {
    for (name, bytes) in files {
        ensure!(
            bytes.len() <= FILE,
            "expected no file above {FILE} bytes, seen {name} with {}",
            bytes.len()
        );
    }
    Ok(())
}

fn wasm_is_small(files: &Files) -> Result<()> {
    let mut modules = 0;
    for (name, bytes) in files.iter().filter(|(name, _)| name.ends_with(".wasm")) {
        let seen = gzip(bytes).len();
        modules += 1;
        ensure!(
            seen < WASM_GZIP,
            "expected {name} below {WASM_GZIP} bytes gzipped, seen {seen}"
        );
    }
    ensure!(modules > 0, "expected a .wasm file, seen none");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(files: &Files) -> Vec<&'static str> {
        checks(files)
            .into_iter()
            .filter(|(_, result)| result.is_err())
            .map(|(name, _)| name)
            .collect()
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
        let good = Files::from([("e.wasm".to_owned(), vec![0; 900_000])]);
        assert!(failed(&good).is_empty());
        let mut large = good.clone();
        large.insert("a.js".to_owned(), vec![0; 700_000]);
        assert_eq!(failed(&large), ["total_below_1500_kb"]);
        let one = Files::from([("e.wasm".to_owned(), vec![0; 1_000_001])]);
        assert_eq!(failed(&one), ["no_file_above_1000_kb"]);
        let dense = Files::from([("e.wasm".to_owned(), noise(400_000))]);
        assert_eq!(failed(&dense), ["wasm_gzip_below_360_kb"]);
    }

    #[test]
    fn a_site_without_its_module_is_not_small_but_broken() {
        assert_eq!(failed(&Files::new()), ["wasm_gzip_below_360_kb"]);
    }

    #[test]
    fn the_table_ends_in_the_sums() {
        let files = Files::from([("a".to_owned(), vec![0; 10]), ("b".to_owned(), vec![0; 5])]);
        let table = table(&files);
        assert_eq!(table.lines().count(), 4);
        assert!(table.lines().last().unwrap().contains("15"), "{table}");
    }
}
