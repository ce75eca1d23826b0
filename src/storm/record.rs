use super::{Setup, Storm};
use crate::json::Value;

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

/// The kinds of jitter, as [`Setup::set`] names them.
pub const JITTERS: [&str; 4] = ["none", "full", "equal", "decorrelated"];

/// What `results.json` says of storms: each of [`RECORDED`], and the published set-up with 10 to 190
/// clients, for each number the mean of 100 runs.
///
/// # Errors
///
/// The word of a set-up that cannot be read, a mistake of this file.
pub fn record() -> Result<Value, String> {
    let mut cases = Vec::new();
    for case in &RECORDED {
        let setup = Setup::parse(case.setup)?;
        cases.push((case.id, finish(&setup, |storm| storm.to_json())));
    }
    let mut counts = Vec::new();
    for clients in AWS_CLIENTS {
        let mut kinds = Vec::new();
        for jitter in JITTERS {
            let setup = Setup::parse(&format!("clients={clients} jitter={jitter}"))?;
            let means = finish(&setup, |storm| {
                let calls = storm.totals().calls / u64::from(setup.runs);
                Value::object([
                    ("calls", Value::from(calls)),
                    ("time_ms", Value::from(storm.time_ms())),
                ])
            });
            kinds.push((jitter, means));
        }
        counts.push((clients.to_string(), Value::object(kinds)));
    }
    Ok(Value::object([
        ("cases", Value::object(cases)),
        ("aws_by_clients", Value::object(counts)),
    ]))
}

/// Runs a storm to its end, and answers what `of` takes from it.
pub fn finish<T>(setup: &Setup, of: impl FnOnce(&Storm<'_>) -> T) -> T {
    let breakers = setup.breakers();
    let mut storm = Storm::new(setup, &breakers);
    while storm.advance() {}
    of(&storm)
}
