//! SQL logic tests on the simulated disk: natively, and in the finished module with the same answers.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use tool_retries::console::{self, Console};
use tool_retries::logic::{self, Record};
use tool_retries::sim::Journal;

use crate::browser::{self, Page};
use crate::site;
use crate::tools;

/// Where the project's own files are.
pub fn own() -> PathBuf {
    tools::root().join("tests/sql")
}

/// A file of statements and queries.
pub struct File {
    name: String,
    records: Vec<Record>,
}

/// What became of a file's records.
pub struct Ran {
    /// One a record, as the console prints them.
    answers: Vec<String>,
    /// The file, the line and what was expected there.
    wrong: Vec<String>,
}

impl File {
    /// Every file of a folder whose name ends in `.test`, by name.
    ///
    /// # Errors
    ///
    /// A folder that cannot be read or has none, a file that is not in the format.
    pub fn all(dir: &Path) -> Result<Vec<Self>> {
        let entries =
            fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))?;
        let mut paths = entries
            .map(|entry| Ok(entry?.path()))
            .collect::<Result<Vec<PathBuf>>>()?;
        paths.retain(|path| path.extension() == Some(OsStr::new("test")));
        paths.sort();
        ensure!(
            !paths.is_empty(),
            "no file in {} has a name that ends in .test",
            dir.display()
        );
        let read = |path: &PathBuf| {
            let text = fs::read_to_string(path).with_context(|| tools::text(path))?;
            Ok(Self {
                name: tools::text(path.file_name().unwrap_or_default()),
                records: logic::parse(&text)
                    .map_err(|error| anyhow!("{}: {error}", path.display()))?,
            })
        };
        paths.iter().map(read).collect()
    }

    /// Runs the records one after the other on a fresh database.
    ///
    /// # Errors
    ///
    /// A database that cannot be opened.
    pub fn natively(&self, journal: Journal) -> Result<Ran> {
        let console = Console::open(journal)?;
        let mut ran = Ran {
            answers: Vec::new(),
            wrong: Vec::new(),
        };
        for record in &self.records {
            let answer = console.run(&record.sql);
            if let Err(told) = record.judge(&answer) {
                let place = format!("{}, line {}", self.name, record.line);
                ran.wrong.push(format!("{place}: {told}"));
            }
            ran.answers.push(console::printed(&answer));
        }
        Ok(ran)
    }

    /// Runs them in a worker of the page, on a fresh database there.
    ///
    /// # Errors
    ///
    /// The first answer that is not the native one.
    pub async fn in_page(&self, page: &Page, journal: Journal, native: &Ran) -> Result<()> {
        let statements: Vec<&str> = self
            .records
            .iter()
            .map(|record| record.sql.as_str())
            .collect();
        let answers = answers(page, journal, &statements).await?;
        ensure!(
            answers.len() == native.answers.len(),
            "{}: expected {} answers, seen {}",
            self.name,
            native.answers.len(),
            answers.len()
        );
        for ((record, seen), expected) in self.records.iter().zip(&answers).zip(&native.answers) {
            ensure!(
                seen == expected,
                "{}, line {}: expected `{expected}` as natively, seen `{seen}`",
                self.name,
                record.line
            );
        }
        Ok(())
    }
}

/// What a worker of the page, which must have loaded, answers to statements on a fresh database.
///
/// # Errors
///
/// A worker that fails.
pub async fn answers(page: &Page, journal: Journal, statements: &[&str]) -> Result<Vec<String>> {
    const ASK: &str = "
        const [wal, statements, done] = arguments;
        const worker = new Worker('worker.js', { type: 'module' });
        worker.onerror = (event) => done({ error: event.message });
        worker.onmessage = ({ data }) => {
          if (data === 'Ready') worker.postMessage({ Sql: { request: 1, wal, statements } });
          if (data.Answers) { worker.terminate(); done(data.Answers.answers); }
        };
        fetch('engine_bg.wasm')
          .then((response) => response.arrayBuffer())
          .then(WebAssembly.compile)
          .then((module) => worker.postMessage(module))
          .catch((error) => done({ error: `${error}` }));";
    let answers = page
        .finish(
            ASK,
            vec![(journal == Journal::WalFull).into(), statements.into()],
        )
        .await?;
    serde_json::from_value(answers.clone()).with_context(|| format!("seen {answers}"))
}

/// How a database may be kept: every file is run once with each.
pub const JOURNALS: [Journal; 2] = [Journal::Rollback, Journal::WalFull];

/// Runs every file of `dir` natively and in a browser, prints the figures, and says whether all is right.
pub fn run(dir: &Path) -> Result<bool> {
    let files = File::all(dir)?;
    site::build(None, None)?;
    let mut right = true;
    let mut records = 0;
    let (mut natively, mut in_page) = (0.0, 0.0);
    browser::visit(async |page| {
        page.load().await?;
        for (file, journal) in files
            .iter()
            .flat_map(|file| JOURNALS.map(|journal| (file, journal)))
        {
            let begun = Instant::now();
            let ran = browser::natively(|| file.natively(journal))?;
            natively += begun.elapsed().as_secs_f64();
            let begun = Instant::now();
            let same = file.in_page(page, journal, &ran).await;
            in_page += begun.elapsed().as_secs_f64();
            records += file.records.len();
            println!(
                "{} ({journal:?}): {} records, {} wrong natively, {}",
                file.name,
                file.records.len(),
                ran.wrong.len(),
                match &same {
                    Ok(()) => "the same answers in the module".to_owned(),
                    Err(error) => format!("{error:#}"),
                }
            );
            ran.wrong.iter().for_each(|wrong| println!("  {wrong}"));
            right &= ran.wrong.is_empty() && same.is_ok();
        }
        Ok(())
    })?;
    println!("{records} records: {natively:.1} s natively, {in_page:.1} s in the module");
    Ok(right)
}
