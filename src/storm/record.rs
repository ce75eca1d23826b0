use super::{Setup, Storm};
use crate::json::{self, Value};

/// A storm that `results.json` records, and that a button of the page sets up.
pub struct Recorded {
    /// Its name in the record.
    pub id: &'static str,
    /// Its name for readers.
    pub title: &'static str,
    /// Its set-up, as [`Setup::parse`] reads it.
    pub setup: &'static str,
}

/// Every recorded storm, in the article's order.
pub const RECORDED: [Recorded; 7] = [
    Recorded {
        id: "aws_none",
        title: "AWS, no jitter",
        setup: "preset=aws jitter=none",
    },
    Recorded {
        id: "aws_full",
        title: "AWS, full jitter",
        setup: "preset=aws",
    },
    Recorded {
        id: "aws_equal",
        title: "AWS, equal jitter",
        setup: "preset=aws jitter=equal",
    },
    Recorded {
        id: "aws_decorrelated",
        title: "AWS, decorrelated jitter",
        setup: "preset=aws jitter=decorrelated",
    },
    Recorded {
        id: "grpc_no_budget",
        title: "gRPC, no budget",
        setup: "preset=grpc budget=none",
    },
    Recorded {
        id: "grpc_budget",
        title: "gRPC, budget",
        setup: "preset=grpc",
    },
    Recorded {
        id: "grpc_breaker",
        title: "gRPC, breaker",
        setup: "preset=grpc budget=none breaker=on",
    },
];

/// How many clients the published set-up has, in steps of 30.
const AWS_CLIENTS: [u32; 7] = [10, 40, 70, 100, 130, 160, 190];

/// How many events go by between two questions whether to go on.
const SLICE: u32 = 10_000;

/// The kinds of jitter, as [`Setup::set`] names them.
pub const JITTERS: [&str; 4] = ["none", "full", "equal", "decorrelated"];

/// How far the record of the storms has come.
#[derive(Debug, Clone, Copy)]
pub struct RecordStep {
    /// Which storm it is at, counted from 1.
    pub storm: usize,
    /// How many there are.
    pub storms: usize,
    /// How many runs of this one are over.
    pub runs_done: u32,
    /// How many it has.
    pub runs: u32,
}

/// What `results.json` says of storms: each of [`RECORDED`], and the published set-up with 10 to 190
/// clients, for each number the mean of 100 runs. Before each slice of a storm `go_on` is asked;
/// `None` when it said no.
///
/// # Errors
///
/// The word of a set-up that cannot be read, a mistake of this file.
pub fn record(mut go_on: impl FnMut(RecordStep) -> bool) -> Result<Option<Value>, String> {
    let storms = RECORDED.len() + AWS_CLIENTS.len() * JITTERS.len();
    let mut begun = 0;
    let mut play = |setup: &Setup, of: &dyn Fn(&Storm<'_>) -> Value| {
        begun += 1;
        finish_while(setup, of, |storm| {
            go_on(RecordStep {
                storm: begun,
                storms,
                runs_done: storm.runs_done(),
                runs: setup.runs,
            })
        })
    };
    let mut cases = Vec::new();
    for case in &RECORDED {
        let Some(played) = play(&Setup::parse(case.setup)?, &|storm: &Storm<'_>| {
            storm.to_json()
        }) else {
            return Ok(None);
        };
        cases.push((case.id, played));
    }
    let mut counts = Vec::new();
    for clients in AWS_CLIENTS {
        let mut kinds = Vec::new();
        for jitter in JITTERS {
            let setup = Setup::parse(&format!("clients={clients} jitter={jitter}"))?;
            let means = |storm: &Storm<'_>| {
                let calls = storm.totals().calls / u64::from(setup.runs);
                json::object([
                    ("calls", Value::from(calls)),
                    ("time_ms", Value::from(storm.time_ms())),
                ])
            };
            let Some(played) = play(&setup, &means) else {
                return Ok(None);
            };
            kinds.push((jitter, played));
        }
        counts.push((clients.to_string(), json::object(kinds)));
    }
    Ok(Some(json::object([
        ("cases", json::object(cases)),
        ("aws_by_clients", json::object(counts)),
    ])))
}

/// Runs a storm to its end, and answers what `of` takes from it.
pub fn finish<T>(setup: &Setup, of: impl FnOnce(&Storm<'_>) -> T) -> T {
    let breakers = setup.breakers();
    let mut storm = Storm::new(setup, &breakers);
    while storm.advance() {}
    of(&storm)
}

/// The same, but before each slice `go_on` is asked; `None` when it said no.
fn finish_while<T>(
    setup: &Setup,
    of: impl FnOnce(&Storm<'_>) -> T,
    mut go_on: impl FnMut(&Storm<'_>) -> bool,
) -> Option<T> {
    let breakers = setup.breakers();
    let mut storm = Storm::new(setup, &breakers);
    loop {
        if !go_on(&storm) {
            return None;
        }
        if !storm.advance_by(SLICE) {
            return Some(of(&storm));
        }
    }
}
