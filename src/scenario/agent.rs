//! The agent loop: nodes that run again, models that call again, and runs that stop for a human.

use std::num::NonZeroU32;
use std::time::Duration;

use super::refunds::{RUN, Shop, TOOL, answer_of, order};
use super::{Checks, Fixture, Outcome, RunError};
use crate::client::{Breaker, Refused, timeout};
use crate::json::Value;
use crate::key::{OperationKey, action_key, node_key};
use crate::sim::trace::What;
use crate::sim::{Host, Network, Point, Process, Strike, Verdict, World};
use crate::tool::refunds::Recording;

/// After a node's side effect, before its checkpoint is written.
const BEFORE_CHECKPOINT: Point = Point("before_checkpoint");

/// The agent dies between a node's side effect and its checkpoint, and the node runs again.
pub(super) fn resumed_node_without_key(world: &World, _: &Fixture) -> Result<Outcome, RunError> {
    resumed_node(world, None, 2)
}

/// The same, with a key made of run and node.
pub(super) fn resumed_node_with_node_key(world: &World, _: &Fixture) -> Result<Outcome, RunError> {
    resumed_node(world, Some(node_key(RUN, NODE)?), 1)
}

const NODE: &str = "refund_node";

/// The agent is started three times: it dies in its first pass, runs the node again in the second,
/// and finds the checkpoint in the third.
fn resumed_node(
    world: &World,
    key: Option<OperationKey>,
    refunds: i64,
) -> Result<Outcome, RunError> {
    let mut shop = Shop::open(world, Recording::WithEffect)?;
    world.strike("agent", BEFORE_CHECKPOINT, 1, Strike::Kill);
    let mut passes = Vec::new();
    for _ in 0..3 {
        let agent = shop.agent();
        let pass = world.run(&agent, pass(&shop, &agent, key.as_ref()))?;
        passes.push(match pass {
            None => Value::from("died"),
            Some(did) => Value::from(did?),
        });
        shop.restart_agent();
    }
    shop.checks.check(
        "what its three passes came to",
        Value::from(vec![
            "died".into(),
            "ran the node".into(),
            "found the checkpoint".into(),
        ]),
        passes,
    );
    let claim = "both runs of the node called the service; the key decides what that leaves";
    shop.check_rows(claim, refunds, i64::from(key.is_some()))?;
    shop.outcome([])
}

/// Runs the node unless its checkpoint is there, then writes the checkpoint.
async fn pass(
    shop: &Shop<'_>,
    agent: &Process,
    key: Option<&OperationKey>,
) -> rusqlite::Result<&'static str> {
    let checkpoints = agent.connect("agent.db")?;
    checkpoints.execute_batch("CREATE TABLE IF NOT EXISTS checkpoints(node TEXT PRIMARY KEY)")?;
    let done: i64 = checkpoints.query_row(
        "SELECT count(*) FROM checkpoints WHERE node = ?1",
        [NODE],
        |row| row.get(0),
    )?;
    if done > 0 {
        return Ok("found the checkpoint");
    }
    if shop.attempt(&order(), key).await.is_err() {
        return Ok("failed");
    }
    // A strike here is a kill: nothing returns from it.
    let _ = agent.reach(BEFORE_CHECKPOINT).await;
    checkpoints.execute("INSERT INTO checkpoints VALUES (?1)", [NODE])?;
    Ok("ran the node")
}

/// The model calls the refund tool twice in one run: the second call is a replay, and flagged.
pub(super) fn model_repeats_call(world: &World, _: &Fixture) -> Result<Outcome, RunError> {
    let mut shop = Shop::open(world, Recording::WithEffect)?;
    let mut seen: Vec<OperationKey> = Vec::new();
    let mut flagged = 0_u32;
    let mut answers = Vec::new();
    for _ in 0..2 {
        let key = action_key(RUN, TOOL, &order().to_json())?;
        // The key makes the repetition harmless; the evaluation still wants to know of it.
        if seen.contains(&key) {
            flagged += 1;
        }
        answers.push(call(&shop, Some(&key))?);
        seen.push(key);
    }
    let equal = answers[0] == answers[1];
    let claim = "both calls get the same answer";
    shop.checks
        .check(claim, answers[0].clone(), answers[1].clone());
    shop.checks.check("the repetition is flagged", 1, flagged);
    shop.check_rows("one refund, one replay record", 1, 1)?;
    shop.outcome([("answers_equal", equal.into()), ("flagged", flagged.into())])
}

/// Two runs with equal arguments are two intentions.
pub(super) fn new_run_same_arguments(world: &World, _: &Fixture) -> Result<Outcome, RunError> {
    let mut shop = Shop::open(world, Recording::WithEffect)?;
    for (run, refund) in [(RUN, "R1"), ("run-43", "R2")] {
        let key = action_key(run, TOOL, &order().to_json())?;
        let answer = call(&shop, Some(&key))?;
        let claim = format!("{run} has a refund of its own");
        shop.checks.check(claim, answer_of(refund), answer);
    }
    shop.check_rows("two refunds, two replay records", 2, 2)?;
    shop.outcome([])
}

/// After a timeout the model starts over with a key that it made up.
pub(super) fn new_key_after_timeout(world: &World, _: &Fixture) -> Result<Outcome, RunError> {
    let mut shop = Shop::open(world, Recording::WithEffect)?;
    shop.network.place(1, Verdict::LoseResponse);
    let mut answers = Vec::new();
    for made_up in ["refund-A-7", "refund-A-7-second-try"] {
        let key = OperationKey::new(made_up).expect("a short text");
        answers.push(call(&shop, Some(&key))?);
    }
    shop.checks.check(
        "the first call times out",
        "no answer within 1000 ms",
        answers[0].clone(),
    );
    shop.check_rows("two refunds, two replay records", 2, 2)?;
    shop.outcome([])
}

/// The tools that the model calls in one batch.
#[derive(Debug, Clone, Copy)]
enum BatchTool {
    Refund,
    CloseAccount,
}

/// One tool of a batch commits, its sibling stops the run for a human, and the whole batch runs
/// again when the human has approved.
pub(super) fn tool_batch_paused_for_human(world: &World, _: &Fixture) -> Result<Outcome, RunError> {
    let mut shop = Shop::open(world, Recording::WithEffect)?;
    let key = action_key(RUN, TOOL, &order().to_json())?;
    let (mut batches, mut closed) = (0_u32, 0_u32);
    for approved in [false, true] {
        batches += 1;
        for tool in [BatchTool::Refund, BatchTool::CloseAccount] {
            let line = match tool {
                BatchTool::Refund => {
                    let answer = call(&shop, Some(&key))?;
                    let claim = "the batch has the one refund";
                    shop.checks.check(claim, answer_of("R1"), answer);
                    continue;
                }
                BatchTool::CloseAccount if approved => {
                    closed += 1;
                    "close_account runs"
                }
                BatchTool::CloseAccount => "close_account waits for a human: the batch stops",
            };
            shop.print(&shop.agent(), line.to_owned());
        }
    }
    shop.checks.check("the sibling ran once", 1, closed);
    shop.check_rows("one refund, one replay record", 1, 1)?;
    shop.outcome([("batches", batches.into())])
}

/// What the model reads of one call: the answer, or the error. It waits a second at most.
fn call(shop: &Shop<'_>, key: Option<&OperationKey>) -> Result<Value, RunError> {
    let agent = shop.agent();
    let order = order();
    let attempt = timeout(&agent, Duration::from_secs(1), shop.attempt(&order, key));
    let answer = shop.world.run(&agent, attempt)?.ok_or(RunError::NoEnd)?;
    Ok(match answer {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => Value::from(error.to_string()),
        Err(elapsed) => Value::from(elapsed.to_string()),
    })
}

/// The model's step limit: it gives up after so many calls.
const STEP_LIMIT: u32 = 6;

/// Nobody tells the model to stop, so it calls a dead service until its steps are used up.
pub(super) fn model_retries_through_outage(
    world: &World,
    _: &Fixture,
) -> Result<Outcome, RunError> {
    outage(world, None, STEP_LIMIT, STEP_LIMIT)
}

/// The breaker opens and its error forbids a retry: the model tells the user instead.
pub(super) fn breaker_tells_model_to_stop(world: &World, _: &Fixture) -> Result<Outcome, RunError> {
    let threshold = const { NonZeroU32::new(2).expect("two failures") };
    let breaker = Breaker::new(threshold, Duration::from_secs(60));
    outage(world, Some(&breaker), 2, 3)
}

fn outage(
    world: &World,
    breaker: Option<&Breaker>,
    touches: u32,
    steps: u32,
) -> Result<Outcome, RunError> {
    let network = Network::new(Verdict::Refuse);
    let (agent, service) = (world.start("agent"), world.start("refund service"));
    let (taken, told) = world
        .run(&agent, scripted_model(&agent, &service, &network, breaker))?
        .ok_or(RunError::NoEnd)?;
    let mut checks = Checks::default();
    checks.check("requests sent to the dead service", touches, network.sent());
    checks.check("steps that the model took", steps, taken);
    checks.check(
        "the user is told that the service is down",
        breaker.is_some(),
        told,
    );
    Ok(Outcome {
        values: Value::object([
            ("steps", taken.into()),
            ("touches", network.sent().into()),
            ("user_told", told.into()),
        ]),
        checks: checks.into_vec(),
        tables: Vec::new(),
        plots: Vec::new(),
        trace: world.trace(),
    })
}

/// A model that calls again on every error which does not forbid it. Returns its steps, and
/// whether it told the user.
async fn scripted_model(
    agent: &Process,
    service: &Process,
    network: &Network,
    breaker: Option<&Breaker>,
) -> (u32, bool) {
    for step in 1..=STEP_LIMIT {
        agent.record(What::Called {
            tool: TOOL,
            key: None,
            payload: order().to_json().compact(),
        });
        let touch = async || network.call(agent, service, async {}).await;
        let result = match breaker {
            None => touch().await.map_err(Refused::Failed),
            Some(breaker) => breaker.call(agent, touch).await,
        };
        if let Err(refused) = result {
            let error = refused.to_string();
            agent.record(What::Failed {
                error: error.clone(),
            });
            // A model reads text and nothing else.
            if error.contains("do not retry now") {
                let line = "the refund service is down; no refund was confirmed";
                agent.record(What::Printed(line.to_owned()));
                return (step, true);
            }
        }
    }
    (STEP_LIMIT, false)
}
