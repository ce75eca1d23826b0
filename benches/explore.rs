//! How fast the search is: runs a second, and schedules a second after pruning.
//!
//! `cargo bench --bench explore` prints the best of five measurements, since other work on the
//! machine only ever slows one down, and how much memory a million runs added.

#[cfg(target_family = "wasm")]
fn main() {}

#[cfg(not(target_family = "wasm"))]
fn main() {
    native::main();
}

#[cfg(not(target_family = "wasm"))]
mod native {
    use std::time::Instant;

    use tool_retries::explore::{Bounds, Case, Search};
    use tool_retries::search::Strategy;
    use tool_retries::sim::Journal;

    const MEASUREMENTS: usize = 5;

    pub(super) fn main() {
        let two = case("immediate", "none", 2);
        let runs = best(|| {
            // Every schedule runs to its checked end.
            let mut search = Search::new(two, Strategy::Unpruned).expect("it opens");
            let began = Instant::now();
            while !search.advance(100).expect("it runs").done {}
            search.progress().runs as f64 / began.elapsed().as_secs_f64()
        });
        println!(
            "immediate, two callers: {runs:.0} runs a second, each from BEGIN to the checked end"
        );
        let three = case("immediate", "none", 3);
        let (mut schedules, mut searched_runs) = (0, 0);
        let seconds = 1.0
            / best(|| {
                let began = Instant::now();
                let search = Search::new(three, Strategy::Exhaustive)
                    .and_then(Search::finish)
                    .expect("it runs");
                let progress = search.progress();
                (schedules, searched_runs) = (progress.schedules, progress.runs);
                1.0 / began.elapsed().as_secs_f64()
            });
        println!(
            "immediate, three callers: all {schedules} schedules by {searched_runs} runs in {seconds:.2} s, {:.0} schedules a second",
            schedules as f64 / seconds
        );
        for journal in Journal::ALL {
            let seconds = 1.0
                / best(|| {
                    let began = Instant::now();
                    tool_retries::explore::matrix(journal).expect("it runs");
                    1.0 / began.elapsed().as_secs_f64()
                });
            println!("the matrix, {}: {seconds:.2} s", journal.title());
        }
        if std::env::args().any(|argument| argument == "--memory") {
            memory(two);
        }
    }

    fn case(design: &str, fault: &str, callers: u8) -> Case {
        let case = Case::find(design, fault).expect("a known case");
        let bounds = Bounds {
            callers,
            ..case.bounds
        };
        case.within(bounds).expect("known bounds")
    }

    fn best(mut measure: impl FnMut() -> f64) -> f64 {
        (0..MEASUREMENTS).map(|_| measure()).fold(0.0, f64::max)
    }

    /// Where the system tells how much memory is resident.
    fn memory(case: Case) {
        let mut search = Search::new(case, Strategy::Random { seed: 0 }).expect("it opens");
        search.advance(10_000).expect("it runs");
        let before = resident_pages();
        search.advance(1_000_000).expect("it runs");
        let after = resident_pages();
        println!(
            "resident memory before and after a million runs, in pages: {before:?}, {after:?}"
        );
    }

    fn resident_pages() -> Option<u64> {
        let numbers = std::fs::read_to_string("/proc/self/statm").ok()?;
        numbers.split(' ').nth(1)?.parse().ok()
    }
}
