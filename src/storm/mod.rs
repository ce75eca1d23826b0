//! A retry storm: many clients call one server, fail, and come back. What comes of it follows from a
//! [`Setup`], seed included, and is the same to the byte on every target.
//!
//! A discrete-event simulation in whole microseconds. Not milliseconds: with a delay that varies by
//! two of them, ties would decide who wins.

mod record;
mod setup;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::time::Duration;

pub use record::{JITTERS, RECORDED, RecordStep, Recorded, finish, record};
pub use setup::{ATTEMPTS, Budget, CAPACITY, CLIENTS, DELAY_MS, RUNS, Server, Setup, TOKENS};

use crate::client::{Backoff, Breaker, Permit};
use crate::json::{self, Value};
use crate::outcome::Plot;
use crate::sim::Rng;

/// Operations that each client begins at a [`Server::Queue`], one a second, whether or not those
/// before it have ended: what users ask for does not wait.
const OPERATIONS: u32 = 10;
const PERIOD_US: u64 = 1_000_000;
/// While the server stalls it takes requests and begins none.
const STALL_US: Range<u64> = 2_000_000..4_000_000;
/// A caller waits so long for its answer.
const TIMEOUT_US: u64 = 500_000;
/// A request behind more work than this is refused at once.
const BACKLOG_US: u64 = 1_000_000;
/// In this time a server does as many requests as its capacity says.
const SLOT_US: u64 = 100_000;

/// A row's bars begin with this width, a queue's with a slot.
const ROW_BAR_US: u64 = 10_000;
/// With more bars than this two become one.
const MOST_BARS: usize = 150;

/// What was counted, over all runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Operations that were begun.
    pub operations: u64,
    /// Requests that arrived at the server; at a row, its writes.
    pub calls: u64,
    /// Calls that their caller knows to have succeeded, and with them their operations.
    pub successes: u64,
    /// Calls that failed or were not answered in time.
    pub failures: u64,
    /// Operations that ended without a success.
    pub given_up: u64,
    /// Attempts that the breaker stopped before they became calls; with them their operation ends.
    pub stopped: u64,
    /// Requests that were done when their caller waited no more: a retry does them again.
    pub in_vain: u64,
    /// When the last caller had its end, summed over the runs.
    pub time_us: u64,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// A client begins an attempt.
    Begin,
    /// The attempt arrives at the server, at a row as a read.
    Arrive,
    /// A write that names this version arrives at the row.
    Write(u32),
    /// The queue has done a request, in vain or not.
    Done { in_vain: bool },
    /// The client learns how its attempt ended.
    End { success: bool },
}

struct Operation<'a> {
    backoff: Backoff,
    /// Counted from 1.
    attempt: u32,
    began_us: u64,
    permit: Option<Permit<'a>>,
}

/// The simulation, advanced in slices.
///
/// **Network**: each way takes |N(10 ms, 2 ms)|, as in the simulator behind [`Setup::AWS`]. The
/// normal deviate is a sum of twelve uniform ones (Irwin-Hall), whose mean and variance are exact
/// and which is normal but for its tails: it never leaves six standard deviations. It needs no
/// logarithm, so no platform's mathematics library has a say.
///
/// **[`Server::Row`]**: a client reads, writes, and after a lost write waits and reads again, until
/// its write is taken; all begin at once.
///
/// **[`Server::Queue`]**: ours, a single server with a fixed time for each request (`G/D/1`) and a
/// bounded backlog. Each client begins ten operations, one a second; clients are spread over the
/// second. From second 2 to second 4 the server stalls: it takes requests and begins none. A request
/// that comes behind more than a second's work is refused at once. A caller waits for half a second;
/// a request whose caller has gone is done all the same.
pub struct Storm<'a> {
    setup: &'a Setup,
    breakers: &'a [Breaker],
    run: u32,
    now_us: u64,
    /// When, which one of all, of which operation, what. Among equal times the first one planned
    /// comes first.
    events: BinaryHeap<Reverse<(u64, u32, u32, What)>>,
    planned: u32,
    network: Rng,
    operations: Vec<Operation<'a>>,
    /// The row's version.
    version: u32,
    /// When the queue will be empty.
    free_us: u64,
    tokens_thousandths: u32,
    ended_us: u64,
    totals: Totals,
    bar_us: u64,
    offered: Vec<u64>,
    served: Vec<u64>,
}

impl<'a> Storm<'a> {
    /// The storm before its first event. `breakers` are those of [`Setup::breakers`].
    pub fn new(setup: &'a Setup, breakers: &'a [Breaker]) -> Self {
        let mut storm = Self {
            setup,
            breakers,
            run: 0,
            now_us: 0,
            events: BinaryHeap::new(),
            planned: 0,
            network: Rng::new(0),
            operations: Vec::new(),
            version: 0,
            free_us: 0,
            tokens_thousandths: 0,
            ended_us: 0,
            totals: Totals::default(),
            bar_us: match setup.server {
                Server::Row => ROW_BAR_US,
                Server::Queue => SLOT_US,
            },
            offered: Vec::new(),
            served: Vec::new(),
        };
        storm.begin_run();
        storm
    }

    /// Goes on for a slice: a run, or, of a storm that has only one, to the end of a bar. Says
    /// whether there is more to come.
    pub fn advance(&mut self) -> bool {
        let slice_us = if self.setup.runs > 1 {
            u64::MAX
        } else {
            (self.now_us / self.bar_us + 1) * self.bar_us
        };
        while let Some(Reverse((at_us, ..))) = self.events.peek() {
            if *at_us >= slice_us {
                self.now_us = slice_us;
                return true;
            }
            self.happen_next();
        }
        self.end_run()
    }

    /// Goes on for at most so many events, and not into the next run: a run may have many millions.
    /// Says whether there is more to come.
    pub fn advance_by(&mut self, events: u32) -> bool {
        for _ in 0..events {
            if !self.happen_next() {
                return self.end_run();
            }
        }
        true
    }

    /// Whether there was another event in this run.
    fn happen_next(&mut self) -> bool {
        let next = self.events.pop();
        if let Some(Reverse((at_us, _, operation, what))) = next {
            self.now_us = at_us;
            self.happen(operation, what);
            return true;
        }
        false
    }

    /// Whether there is another run.
    fn end_run(&mut self) -> bool {
        self.totals.time_us += self.ended_us;
        self.run += 1;
        if self.run == self.setup.runs {
            return false;
        }
        self.begin_run();
        true
    }

    /// How many of its runs are over.
    pub fn runs_done(&self) -> u32 {
        self.run
    }

    /// What was counted so far.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Calls over time so far, summed over the runs, as bars; and for each bar what the server did
    /// of them.
    pub fn load(&self) -> (Plot, &[u64]) {
        (
            plot(self.bar_us / 1_000, self.offered.clone()),
            &self.served,
        )
    }

    /// The totals in words.
    pub fn summary(&self) -> String {
        let Totals {
            operations,
            calls,
            successes,
            failures,
            given_up,
            stopped,
            in_vain,
            ..
        } = self.totals;
        let runs = self.run;
        let time_ms = self.time_ms();
        format!(
            "Runs: {runs}. Operations: {operations}, of which {given_up} were given up. Calls: {calls}, \
             of which {successes} succeeded and {failures} failed; {in_vain} were done when nobody \
             waited any more. Stopped by the breaker: {stopped}. Time until the last end, on average: \
             {time_ms} ms."
        )
    }

    /// The mean over the runs that are over.
    fn time_ms(&self) -> u64 {
        self.totals.time_us / 1_000 / u64::from(self.run.max(1))
    }

    /// As it stands in `results.json`. The load is one text, as a bar a line would be long.
    pub fn to_json(&self) -> Value {
        let totals = &self.totals;
        json::object([
            ("bar_ms", Value::from(self.bar_us / 1_000)),
            ("calls", Value::from(totals.calls)),
            ("failures", Value::from(totals.failures)),
            ("given_up", Value::from(totals.given_up)),
            ("in_vain", Value::from(totals.in_vain)),
            ("offered", Value::from(numbers(&self.offered))),
            ("operations", Value::from(totals.operations)),
            ("served", Value::from(numbers(&self.served))),
            ("stopped", Value::from(totals.stopped)),
            ("successes", Value::from(totals.successes)),
            ("summary", Value::from(self.summary())),
            ("time_ms", Value::from(self.time_ms())),
        ])
    }

    fn begin_run(&mut self) {
        let Self { setup, .. } = *self;
        let mut rng = Rng::new(u64::from(setup.seed) << 32 | u64::from(self.run));
        let each = match setup.server {
            Server::Row => 1,
            Server::Queue => OPERATIONS,
        };
        (self.now_us, self.ended_us, self.free_us) = (0, 0, 0);
        self.tokens_thousandths = setup.budget.map_or(0, |budget| budget.most_thousandths);
        self.operations.clear();
        for client in 0..setup.clients {
            for nth in 0..each {
                let at_us = match setup.server {
                    Server::Row => 0,
                    Server::Queue => {
                        u64::from(nth) * PERIOD_US
                            + u64::from(client) * PERIOD_US / u64::from(setup.clients)
                    }
                };
                let operation = self.operations.len() as u32;
                self.operations.push(Operation {
                    backoff: setup.backoff(Rng::new(rng.next_u64())),
                    attempt: 0,
                    began_us: 0,
                    permit: None,
                });
                self.plan(at_us, operation, What::Begin);
            }
        }
        self.network = rng;
        self.totals.operations += self.operations.len() as u64;
    }

    fn plan(&mut self, at_us: u64, operation: u32, what: What) {
        self.events
            .push(Reverse((at_us, self.planned, operation, what)));
        self.planned = self.planned.wrapping_add(1);
    }

    fn happen(&mut self, id: u32, what: What) {
        match what {
            What::Begin => self.begin(id),
            What::Arrive => match self.setup.server {
                Server::Row => {
                    let at_us = self.now_us + self.network_us() + self.network_us();
                    self.plan(at_us, id, What::Write(self.version));
                }
                Server::Queue => self.enter(id),
            },
            What::Write(version) => {
                self.totals.calls += 1;
                self.count(false);
                let success = version == self.version;
                if success {
                    self.version += 1;
                    self.count(true);
                }
                let at_us = self.now_us + self.network_us();
                self.plan(at_us, id, What::End { success });
            }
            What::Done { in_vain } => {
                self.totals.in_vain += u64::from(in_vain);
                self.count(true);
            }
            What::End { success } => self.end(id, success),
        }
    }

    fn begin(&mut self, id: u32) {
        let permit = self
            .breakers
            .get(self.run as usize)
            .map(|breaker| breaker.admit(Duration::from_micros(self.now_us)));
        if let Some(Err(_)) = permit {
            // As around `client::retry`, where an open breaker is final.
            self.totals.stopped += 1;
            self.give_up();
            return;
        }
        let operation = &mut self.operations[id as usize];
        operation.attempt += 1;
        operation.began_us = self.now_us;
        operation.permit = permit.and_then(Result::ok);
        let at_us = self.now_us + self.network_us();
        self.plan(at_us, id, What::Arrive);
    }

    /// A request comes to the queue.
    fn enter(&mut self, id: u32) {
        self.totals.calls += 1;
        self.count(false);
        let late_us = self.operations[id as usize].began_us + TIMEOUT_US;
        let mut able_us = self.now_us;
        if STALL_US.contains(&able_us) {
            able_us = STALL_US.end;
        }
        let begins_us = self.free_us.max(able_us);
        let taken = begins_us - able_us <= BACKLOG_US;
        let mut answered_us = self.now_us;
        if taken {
            // Rounded up, so that no slot holds more than the capacity.
            self.free_us = begins_us + SLOT_US.div_ceil(self.setup.capacity.into());
            answered_us = self.free_us;
        }
        answered_us += self.network_us();
        let in_vain = taken && answered_us > late_us;
        if taken {
            self.plan(self.free_us, id, What::Done { in_vain });
        }
        let success = taken && !in_vain;
        self.plan(answered_us.min(late_us), id, What::End { success });
    }

    fn end(&mut self, id: u32, success: bool) {
        let Self { setup, now_us, .. } = *self;
        let operation = &mut self.operations[id as usize];
        if let Some(permit) = operation.permit.take() {
            // A row that answers is up, whatever it says.
            if success || setup.server == Server::Row {
                permit.succeeded();
            } else {
                permit.failed(Duration::from_micros(now_us));
            }
        }
        if success {
            self.totals.successes += 1;
            self.ended_us = now_us;
            if let Some(budget) = setup.budget {
                self.tokens_thousandths = (self.tokens_thousandths + budget.ratio_thousandths)
                    .min(budget.most_thousandths);
            }
            return;
        }
        self.totals.failures += 1;
        self.tokens_thousandths = self.tokens_thousandths.saturating_sub(1_000);
        let spent = setup
            .budget
            .is_some_and(|budget| self.tokens_thousandths <= budget.most_thousandths / 2);
        if spent || operation.attempt == setup.attempts {
            self.give_up();
            return;
        }
        // The simulator of the row counts its retries from 1, gRPC from 0.
        let retry = match setup.server {
            Server::Row => operation.attempt,
            Server::Queue => operation.attempt - 1,
        };
        let delay_us = operation.backoff.delay(retry).as_micros() as u64;
        self.plan(now_us + delay_us, id, What::Begin);
    }

    fn give_up(&mut self) {
        self.totals.given_up += 1;
        self.ended_us = self.now_us;
    }

    /// One way through the network.
    fn network_us(&mut self) -> u64 {
        // Twelve of variance 2000^2 / 12 have a standard deviation of 2000, around 12000.
        let sum: u64 = (0..12).map(|_| self.network.below(2_001)).sum();
        sum.abs_diff(2_000)
    }

    fn count(&mut self, is_served: bool) {
        let mut bar = (self.now_us / self.bar_us) as usize;
        while bar >= MOST_BARS {
            self.bar_us *= 2;
            bar /= 2;
            for bars in [&mut self.offered, &mut self.served] {
                *bars = bars.chunks(2).map(|pair| pair.iter().sum()).collect();
            }
        }
        if self.offered.len() <= bar {
            self.offered.resize(bar + 1, 0);
            self.served.resize(bar + 1, 0);
        }
        let bars = if is_served {
            &mut self.served
        } else {
            &mut self.offered
        };
        bars[bar] += 1;
    }
}

/// Calls over time as a plot.
pub fn plot(bar_ms: u64, bars: Vec<u64>) -> Plot {
    let labels = (0..bars.len() as u64).map(|bar| format!("{} ms", bar * bar_ms));
    Plot {
        title: format!("Calls in each {bar_ms} ms"),
        unit: "calls".to_owned(),
        labels: labels.collect(),
        bars,
    }
}

fn numbers(bars: &[u64]) -> String {
    let words: Vec<String> = bars.iter().map(u64::to_string).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean 10 ms, standard deviation 2 ms, and, as with a normal deviate, 68 % within one of them
    /// and 95 % within two.
    #[test]
    fn the_network_takes_a_normal_time() {
        let mut storm = Storm::new(&Setup::AWS, &[]);
        let draws: Vec<u64> = (0..100_000).map(|_| storm.network_us()).collect();
        let mean = draws.iter().sum::<u64>() / 100_000;
        assert!(mean.abs_diff(10_000) < 30, "{mean}");
        let squares: u64 = draws.iter().map(|us| us.abs_diff(10_000).pow(2)).sum();
        assert!(
            (squares / 100_000).abs_diff(4_000_000) < 80_000,
            "{squares}"
        );
        for (within_us, expected) in [(2_000, 68_300), (4_000, 95_400)] {
            let near = draws.iter().filter(|us| us.abs_diff(10_000) < within_us);
            let seen = near.count();
            assert!(seen.abs_diff(expected) < 600, "{within_us}: {seen}");
        }
    }
}
