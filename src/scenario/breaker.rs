//! The circuit breaker: failing fast in front of a service that is down.

use std::num::NonZeroU32;
use std::time::Duration;

use super::{Fixture, RunError};
use crate::client::{Breaker, Refused, State};
use crate::json::{self, Value};
use crate::outcome::{Checks, Outcome, Premise};
use crate::sim::trace::{Event, Fate, What};
use crate::sim::{Host, Network, NetworkError, Point, Process, Script, Verdict, World};

const COOL_DOWN: Duration = Duration::from_secs(60);

/// Two failures open it: the third and fourth call never reach the service.
pub(super) fn breaker_opens(world: &World, _: &Fixture) -> Result<Outcome, RunError> {
    let mut line = Line::open(world, Verdict::Refuse);
    let messages: Vec<Value> = line.calls(4)?.into_iter().map(Value::from).collect();
    let refused = line.refused(2);
    line.checks.check(
        line.fast_failed(2),
        "two refused connections, then two refusals of the breaker",
        Value::from(vec![
            "ConnectionError: connection refused",
            "ConnectionError: connection refused",
            "RuntimeError: service unavailable (circuit open); do not retry now",
            "RuntimeError: service unavailable (circuit open); do not retry now",
        ]),
        messages.clone(),
    );
    line.check_touches(refused, 2);
    Ok(line.outcome([("messages", Value::from(messages))]))
}

/// After the cool-down one trial goes through; its success closes the breaker.
pub(super) fn breaker_half_open_success_closes(
    world: &World,
    _: &Fixture,
) -> Result<Outcome, RunError> {
    let mut line = Line::open(world, Verdict::Deliver);
    line.refuse(2);
    line.calls(2)?;
    let refused = line.refused(2);
    line.check_state(refused, "it is open after two failures", "open");
    line.cool_down()?;
    let claim = "it is half-open after the cool-down";
    line.check_state(line.cooled_down(), claim, "half-open");
    line.calls(1)?;
    let answered = line.answered_after_refusals(1);
    let claim = "a successful trial closes it";
    line.check_state(answered, claim, "closed, 0 counted");
    line.calls(1)?;
    line.check_touches(line.answered_after_refusals(2), 4);
    Ok(line.outcome([]))
}

/// A failed trial opens it again, for a whole new cool-down.
pub(super) fn breaker_half_open_failure_reopens(
    world: &World,
    _: &Fixture,
) -> Result<Outcome, RunError> {
    let mut line = Line::open(world, Verdict::Refuse);
    line.calls(2)?;
    line.cool_down()?;
    line.calls(1)?;
    let trial = line.refused(3);
    line.check_state(trial.clone(), "a failed trial opens it again", "open");
    let nearly = Duration::from_millis(10);
    line.sleep(COOL_DOWN - nearly)?;
    line.calls(1)?;
    let claim = "just before a whole cool-down it is still open";
    line.check_state(line.fast_failed(1), claim, "open");
    line.check_touches(trial, 3);
    Ok(line.outcome([]))
}

/// Only consecutive failures count.
pub(super) fn breaker_success_resets_count(
    world: &World,
    _: &Fixture,
) -> Result<Outcome, RunError> {
    let mut line = Line::open(world, Verdict::Deliver);
    line.network.place(1, Verdict::Refuse);
    line.network.place(3, Verdict::Refuse);
    type Happened = fn(&Line<'_>) -> Premise;
    let steps: [(Happened, &str); 3] = [
        (|line| line.refused(1), "closed, 1 counted"),
        (|line| line.answered_after_refusals(1), "closed, 0 counted"),
        (|line| line.refused(2), "closed, 1 counted"),
    ];
    for (happened, state) in steps {
        line.calls(1)?;
        let claim = "the count follows the last results";
        line.check_state(happened(&line), claim, state);
    }
    line.check_touches(line.refused(2), 3);
    Ok(line.outcome([]))
}

/// Two callers meet a half-open breaker: one of them is the trial, the other is refused.
pub(super) fn breaker_one_trial_at_a_time(world: &World, _: &Fixture) -> Result<Outcome, RunError> {
    let mut line = Line::open(world, Verdict::Deliver);
    line.refuse(2);
    line.calls(2)?;
    line.cool_down()?;
    let callers = [world.start("caller 1"), world.start("caller 2")];
    let tasks = callers
        .iter()
        .map(|caller| (caller.clone(), Box::pin(line.call(caller))));
    let answers = world.run_together(tasks, &mut Script::default())?;
    let answers = answers.into_iter().map(|answer| answer.unwrap_or_default());
    let answers: Vec<Value> = answers.map(Value::from).collect();
    let half_open = line.refused(2);
    line.checks.check(
        line.fast_failed(1),
        "one caller is answered, the other is refused at once",
        Value::from(vec![
            "ok",
            "RuntimeError: service unavailable (circuit open); do not retry now",
        ]),
        answers,
    );
    line.check_touches(half_open, 3);
    Ok(line.outcome([]))
}

/// A slow success that was admitted before the opening does not close it.
pub(super) fn breaker_late_result_ignored(world: &World, _: &Fixture) -> Result<Outcome, RunError> {
    let mut line = Line::open(world, Verdict::Refuse);
    line.network
        .place(1, Verdict::Delay(Duration::from_secs(30)));
    let (slow, fast) = (world.start("slow caller"), world.start("fast caller"));
    let answers = {
        let line = &line;
        let slow_call = async { vec![line.call(&slow).await] };
        let fast_calls = async {
            // The slow call is under way before the first fast one.
            let _ = fast.reach(Point("between_calls")).await;
            vec![line.call(&fast).await, line.call(&fast).await]
        };
        type Calls<'a> = std::pin::Pin<Box<dyn Future<Output = Vec<String>> + 'a>>;
        let tasks: [(Process, Calls<'_>); 2] = [
            (slow.clone(), Box::pin(slow_call)),
            (fast.clone(), Box::pin(fast_calls)),
        ];
        world.run_together(tasks, &mut Script::default())?
    };
    let slow_answer = answers.into_iter().next().flatten().unwrap_or_default();
    let late = line.answered_after_refusals(1);
    line.checks.check(
        late.clone(),
        "the slow call is answered",
        Value::from(vec!["ok"]),
        slow_answer.into_iter().map(Value::from).collect::<Vec<_>>(),
    );
    let claim = "its success comes too late to close the breaker";
    line.check_state(late, claim, "open");
    line.check_touches(line.refused(2), 3);
    Ok(line.outcome([]))
}

/// A caller, a breaker, and the line to a service.
struct Line<'a> {
    world: &'a World,
    network: Network,
    breaker: Breaker,
    service: Process,
    agent: Process,
    checks: Checks,
}

impl<'a> Line<'a> {
    /// Threshold 2, cool-down 60 s.
    fn open(world: &'a World, usual: Verdict) -> Self {
        Self {
            world,
            network: Network::new(usual),
            breaker: Breaker::new(
                const { NonZeroU32::new(2).expect("two failures") },
                COOL_DOWN,
            ),
            service: world.start("service"),
            agent: world.start("agent"),
            checks: Checks::default(),
        }
    }

    /// The first `requests` find nobody listening.
    fn refuse(&self, requests: u32) {
        for number in 1..=requests {
            self.network.place(number, Verdict::Refuse);
        }
    }

    /// One call through the breaker; what the caller sees, errors under the names of the lesson.
    async fn call(&self, caller: &Process) -> String {
        caller.record(What::Called {
            tool: "ping",
            key: None,
            payload: "{}".to_owned(),
        });
        let result = self
            .breaker
            .call(caller, async || {
                self.network.call(caller, &self.service, async {}).await
            })
            .await;
        match result {
            Ok(()) => {
                caller.record(What::Answered {
                    answer: "ok".to_owned(),
                });
                "ok".to_owned()
            }
            Err(refused) => {
                let error = match refused {
                    Refused::Open(open) => format!("RuntimeError: {open}"),
                    Refused::Failed(error) => format!("{}: {error}", name(error)),
                };
                caller.record(What::Failed {
                    error: error.clone(),
                });
                error
            }
        }
    }

    /// Calls of the agent, one after the other.
    fn calls(&self, count: u32) -> Result<Vec<String>, RunError> {
        let calls = async {
            let mut seen = Vec::new();
            for _ in 0..count {
                seen.push(self.call(&self.agent).await);
            }
            seen
        };
        self.world.run(&self.agent, calls)?.ok_or(RunError::NoEnd)
    }

    fn sleep(&self, time: Duration) -> Result<(), RunError> {
        let until = self.agent.now() + time;
        let sleep = self.agent.sleep_until(until);
        self.world.run(&self.agent, sleep)?.ok_or(RunError::NoEnd)
    }

    fn cool_down(&self) -> Result<(), RunError> {
        self.sleep(COOL_DOWN)
    }

    /// That `times` requests were refused.
    fn refused(&self, times: usize) -> Premise {
        let what = "a request was refused";
        Premise::happened(&self.world.trace(), what, times, is_refusal)
    }

    /// That `times` calls were answered after a refusal.
    fn answered_after_refusals(&self, times: usize) -> Premise {
        let mut after = self.world.trace();
        let first = after.events.iter().position(is_refusal);
        after.events.drain(..first.unwrap_or(after.events.len()));
        let what = "a call was answered after a refused one";
        Premise::happened(&after, what, times, |event| {
            matches!(event.what, What::Answered { .. })
        })
    }

    /// That the breaker refused `times` calls.
    fn fast_failed(&self, times: usize) -> Premise {
        let what = "the breaker let a call fail at once";
        Premise::happened(
            &self.world.trace(),
            what,
            times,
            |event| matches!(&event.what, What::Failed { error } if error.contains("circuit open")),
        )
    }

    /// That the agent slept through a cool-down after a refused request.
    fn cooled_down(&self) -> Premise {
        let trace = self.world.trace();
        let refusal = trace.events.iter().rfind(|event| is_refusal(event));
        let over = refusal.map(|refusal| refusal.at + COOL_DOWN);
        let now = self.agent.now();
        let what = "the agent slept through a cool-down after a refused request";
        Premise::happened(&trace, what, 1, |event| match event.what {
            What::Timer { until } => over.is_some_and(|over| (over..=now).contains(&until)),
            _ => false,
        })
    }

    fn check_state(&mut self, premise: Premise, claim: &str, expected: &str) {
        let state = match self.breaker.state(self.agent.now()) {
            State::Closed { failures } => format!("closed, {failures} counted"),
            State::Open { .. } => "open".to_owned(),
            State::HalfOpen => "half-open".to_owned(),
        };
        self.checks.check(premise, claim, expected, state);
    }

    fn check_touches(&mut self, premise: Premise, expected: u32) {
        let claim = "requests sent to the service";
        let sent = self.network.sent();
        self.checks.check(premise, claim, expected, sent);
    }

    /// `touches` and the final `state` beside `values`.
    fn outcome<const N: usize>(mut self, values: [(&'static str, Value); N]) -> Outcome {
        let state = match self.breaker.state(self.agent.now()) {
            State::Closed { .. } => "closed",
            State::Open { .. } => "open",
            State::HalfOpen => "half-open",
        };
        let values = values.into_iter().chain([
            ("state", Value::from(state)),
            ("touches", self.network.sent().into()),
        ]);
        Outcome {
            values: json::object(values),
            checks: std::mem::take(&mut self.checks).into_vec(),
            tables: Vec::new(),
            plots: Vec::new(),
            trace: self.world.trace(),
        }
    }
}

fn is_refusal(event: &Event) -> bool {
    matches!(
        event.what,
        What::Message {
            fate: Fate::Refused,
            ..
        }
    )
}

/// The name that the lesson's language gives such an error.
fn name(error: NetworkError) -> &'static str {
    match error {
        NetworkError::ConnectionRefused => "ConnectionError",
        _ => "TimeoutError",
    }
}
