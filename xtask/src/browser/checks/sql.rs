//! The finished module has the whole SQLite, the one that the native build has.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use tool_retries::console::{self, Console};
use tool_retries::sim::Journal;

use super::{Check, Expected, check, natively};
use crate::browser::page::{Page, Setup};
use crate::logic::{self, File, JOURNALS};

pub const ALL: &[Check] = &[check!(the_module_has_the_native_sqlite, Setup::PLAIN)];

/// What SQLite says of itself.
const SAYS: [&str; 4] = [
    "SELECT compile_options FROM pragma_compile_options",
    "SELECT DISTINCT name || '/' || narg FROM pragma_function_list",
    "SELECT name FROM pragma_module_list",
    "SELECT name FROM pragma_pragma_list",
];

const FTS3: &str = "the crate that brings the module's SQLite leaves it out; FTS5 is its successor";
const NO_FILES: &str = "there are no libraries and no mapped files in a page";
const AT_OPENING: &str = "set for each connection when it is opened";
const NO_SQL: &str = "no SQL reaches it";
const NO_THREADS: &str = "the module has one thread";

/// What the native SQLite alone says, each with the reason why it stays so.
const ONLY_NATIVELY: &[(&str, &str)] = &[
    ("COMPILER=", "each has its own"),
    ("DEFAULT_FOREIGN_KEYS", AT_OPENING),
    ("DEFAULT_PAGE_SIZE=4096", AT_OPENING),
    ("ENABLE_FTS3", FTS3),
    ("ENABLE_FTS3_PARENTHESIS", FTS3),
    ("ENABLE_LOAD_EXTENSION", NO_FILES),
    ("HAVE_ISNAN", "SQLite's own test for NaN answers the same"),
    ("MAX_MMAP_SIZE=0x7fff0000", NO_FILES),
    ("MAX_WORKER_THREADS=8", NO_THREADS),
    ("MUTEX_PTHREADS", NO_THREADS),
    ("TEMP_STORE=1", AT_OPENING),
    ("THREADSAFE=1", NO_THREADS),
    ("fts3", FTS3),
    ("fts3_tokenizer/1", FTS3),
    ("fts3_tokenizer/2", FTS3),
    ("fts3tokenize", FTS3),
    ("fts4", FTS3),
    ("fts4aux", FTS3),
    ("load_extension/1", NO_FILES),
    ("load_extension/2", NO_FILES),
    ("matchinfo/1", FTS3),
    ("matchinfo/2", FTS3),
    ("offsets/1", FTS3),
    ("optimize/1", FTS3),
];

/// The same for the module.
const ONLY_IN_THE_MODULE: &[(&str, &str)] = &[
    ("COMPILER=", "each has its own"),
    ("DEFAULT_PAGE_SIZE=8192", AT_OPENING),
    ("ENABLE_PREUPDATE_HOOK", NO_SQL),
    ("ENABLE_SESSION", NO_SQL),
    ("ENABLE_UNLOCK_NOTIFY", NO_SQL),
    ("MAX_MMAP_SIZE=0", NO_FILES),
    ("MAX_WORKER_THREADS=0", NO_THREADS),
    ("MUTEX_OMIT", NO_THREADS),
    ("OMIT_LOAD_EXTENSION", NO_FILES),
    ("OMIT_SHARED_CACHE", "the simulated disk shares no cache"),
    ("TEMP_STORE=2", AT_OPENING),
    ("THREADSAFE=0", NO_THREADS),
];

async fn the_module_has_the_native_sqlite(page: &Page, _: &Expected) -> Result<()> {
    page.load().await?;
    for file in File::all(&logic::own())? {
        for journal in JOURNALS {
            let native = natively(|| file.natively(journal))?;
            file.in_page(page, journal, &native).await?;
        }
    }
    let native = natively(|| {
        let console = Console::open(Journal::Rollback)?;
        Ok(SAYS.map(|sql| console::printed(&console.run(sql))))
    })?;
    let lines = |texts: &[String]| -> BTreeSet<String> {
        texts
            .iter()
            .flat_map(|text| text.lines())
            .map(|line| line.trim_matches('\'').to_owned())
            .collect()
    };
    let (native, module) = (
        lines(&native),
        lines(&logic::answers(page, Journal::Rollback, &SAYS).await?),
    );
    for (where_from, one, other, reasons) in [
        ("natively", &native, &module, ONLY_NATIVELY),
        ("in the module", &module, &native, ONLY_IN_THE_MODULE),
    ] {
        let seen: Vec<&str> = one.difference(other).map(String::as_str).collect();
        // A reason that ends in `=` stands for any value of its option.
        let unexplained = |line: &&&str| {
            let explains =
                |what: &str| **line == what || what.ends_with('=') && line.starts_with(what);
            !reasons.iter().any(|(what, _)| explains(what))
        };
        let unexplained: Vec<&&str> = seen.iter().filter(unexplained).collect();
        ensure!(
            unexplained.is_empty() && seen.len() == reasons.len(),
            "{where_from} only: {unexplained:?} without a reason, {} reasons for {} differences",
            reasons.len(),
            seen.len()
        );
    }
    Ok(())
}
