//! The agent loop: nodes that run again, models that call again, and runs that stop for a human.

use std::num::NonZeroU32;
use std::rc::Rc;
use std::time::Duration;

use rusqlite::Connection;

use super::refunds::{RUN, Shop, TOOL, answer_of, order};
use super::{Fixture, RunError};
use crate::client::{Breaker, Refused, timeout};
use crate::json::{self, Canonical, Value};
use crate::key::{OperationKey, action_key, node_key};
use crate::outcome::{Checks, Outcome, Premise, Table};
use crate::sim::trace::{Event, Fate, Trace, What};
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
    let died = shop.happened("the agent died before its checkpoint", 1, |event| {
        event.what == What::Killed
    });
    shop.checks.check(
        died,
        "what its three passes came to",
        Value::from(vec!["died", "ran the node", "found the checkpoint"]),
        passes,
    );
    let claim = "both runs of the node called the service; the key decides what that leaves";
    let twice = shop.called(2);
    shop.check_rows(&twice, claim, refunds, i64::from(key.is_some()))?;
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
    let key = action_key(RUN, TOOL, &order().to_json())?;
    let [first, second] = [call(&shop, Some(&key))?, call(&shop, Some(&key))?];
    let equal = first == second;
    let answered = shop.happened("a call was answered", 2, |event| {
        matches!(event.what, What::Answered { .. })
    });
    let claim = "both calls get the same answer";
    shop.checks.check(answered, claim, first, second);
    // The key makes the repetition harmless; the evaluation still wants to know of it.
    let flagged = repetitions(&world.trace());
    let twice = shop.called_with(&key, 2);
    let claim = "the repetition is flagged";
    shop.checks.check(twice.clone(), claim, 1, flagged);
    shop.check_rows(&twice, "one refund, one replay record", 1, 1)?;
    shop.outcome([("answers_equal", equal.into()), ("flagged", flagged.into())])
}

/// How many calls of a run bear a key that an earlier one bore, as an evaluation of its trajectory
/// finds them.
fn repetitions(trace: &Trace) -> usize {
    let keys = trace.events.iter().filter_map(|event| match &event.what {
        What::Called { key, .. } => key.as_deref(),
        _ => None,
    });
    let keys: Vec<&str> = keys.collect();
    let is_repeated = |&at: &usize| keys[..at].contains(&keys[at]);
    (0..keys.len()).filter(is_repeated).count()
}

/// Two runs with equal arguments are two intentions.
pub(super) fn new_run_same_arguments(world: &World, _: &Fixture) -> Result<Outcome, RunError> {
    let mut shop = Shop::open(world, Recording::WithEffect)?;
    let arguments = order().to_json();
    let mut answers = Vec::new();
    for run in [RUN, "run-43"] {
        let key = action_key(run, TOOL, &arguments)?;
        answers.push(call(&shop, Some(&key))?);
    }
    let what = "the agent called with these arguments";
    let equal = shop.happened(what, 2, |event| {
        matches!(&event.what, What::Called { payload, .. } if *payload == arguments.compact())
    });
    let refunds = [(RUN, "R1"), ("run-43", "R2")];
    for ((run, refund), answer) in refunds.into_iter().zip(answers) {
        let claim = format!("{run} has a refund of its own");
        shop.checks
            .check(equal.clone(), claim, answer_of(refund), answer);
    }
    shop.check_rows(&equal, "two refunds, two replay records", 2, 2)?;
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
    let lost = shop.answer_lost();
    shop.checks.check(
        lost.clone(),
        "the first call times out",
        "no answer within 1000 ms",
        answers[0].clone(),
    );
    shop.check_rows(&lost, "two refunds, two replay records", 2, 2)?;
    shop.outcome([])
}

/// One tool of a batch commits, its sibling stops the run for a human, and the whole batch runs
/// again when the human has approved. The sibling has no key: nothing but the stop keeps it from
/// running in both.
pub(super) fn tool_batch_paused_for_human(world: &World, _: &Fixture) -> Result<Outcome, RunError> {
    let mut shop = Shop::open(world, Recording::WithEffect)?;
    let accounts = Accounts::open(world)?;
    let human = world.start("human");
    let key = action_key(RUN, TOOL, &order().to_json())?;
    let mut answers = Vec::new();
    let mut approved = false;
    loop {
        answers.push(call(&shop, Some(&key))?);
        if approved {
            accounts.close(&shop)?;
            break;
        }
        shop.print(&shop.agent(), STOPS.to_owned());
        human.record(What::Printed("approves close_account".to_owned()));
        approved = true;
    }
    let batches = answers.len();
    let again = shop.called_with(&key, 2);
    for answer in answers {
        let claim = "the batch has the one refund";
        shop.checks
            .check(again.clone(), claim, answer_of("R1"), answer);
    }
    let stopped = shop.happened(
        "the batch stopped for a human",
        1,
        |event| matches!(&event.what, What::Printed(line) if line == STOPS),
    );
    let closures = Table::read(&accounts.observe()?, "closures")?;
    let ran = closures.rows.len();
    shop.checks.check(stopped, "the sibling ran once", 1, ran);
    shop.check_rows(&again, "one refund, one replay record", 1, 1)?;
    let mut outcome = shop.outcome([("batches", batches.into())])?;
    outcome.tables.push(closures);
    Ok(outcome)
}

/// What the agent prints instead of running the batch's second tool.
const STOPS: &str = "close_account waits for a human: the batch stops";

/// The service behind the batch's second tool, which closes an account each time that it is asked.
struct Accounts {
    network: Network,
    process: Process,
    connection: Rc<Connection>,
}

impl Accounts {
    const FILE: &str = "accounts.db";

    fn open(world: &World) -> Result<Self, RunError> {
        let process = world.start("account service");
        let connection = process.connect(Self::FILE)?;
        // As the tools do it, so that what was answered stands after a power cut.
        connection.execute_batch(
            "PRAGMA synchronous = EXTRA; CREATE TABLE closures(id INTEGER PRIMARY KEY, account TEXT)",
        )?;
        Ok(Self {
            network: Network::new(Verdict::Deliver),
            process,
            connection: Rc::new(connection),
        })
    }

    fn observe(&self) -> Result<Connection, RunError> {
        Ok(self.process.connect(Self::FILE)?)
    }

    /// The agent calls `close_account`.
    fn close(&self, shop: &Shop<'_>) -> Result<(), RunError> {
        let agent = shop.agent();
        agent.record(What::Called {
            tool: "close_account",
            key: None,
            payload: "{}".to_owned(),
        });
        let connection = Rc::clone(&self.connection);
        let work =
            async move { connection.execute("INSERT INTO closures(account) VALUES ('A')", []) };
        let answer = self.network.call(&agent, &self.process, work);
        shop.world
            .run(&agent, answer)?
            .and_then(Result::ok)
            .ok_or(RunError::NoEnd)??;
        agent.record(What::Answered {
            answer: "closed".to_owned(),
        });
        Ok(())
    }
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
    outage(world, None, 6, 6)
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
    steps: usize,
) -> Result<Outcome, RunError> {
    let network = Network::new(Verdict::Refuse);
    let (agent, service) = (world.start("agent"), world.start("refund service"));
    world
        .run(&agent, scripted_model(&agent, &service, &network, breaker))?
        .ok_or(RunError::NoEnd)?;
    let trace = world.trace();
    let taken = trace.count(|what| matches!(what, What::Called { .. }));
    let told = trace.count(|what| *what == What::Printed(TOLD.to_owned())) > 0;
    let refused = Premise::happened(&trace, "the dead service refused a request", 1, |event| {
        matches!(
            event.what,
            What::Message {
                fate: Fate::Refused,
                ..
            }
        )
    });
    let mut checks = Checks::default();
    let claim = "requests sent to the dead service";
    checks.check(refused.clone(), claim, touches, network.sent());
    let claim = "steps that the model took";
    checks.check(refused.clone(), claim, steps, taken);
    let told_off = match breaker {
        None => refused,
        Some(_) => Premise::happened(&trace, "the breaker refused a call", 1, is_told_off),
    };
    checks.check(
        told_off,
        "the user is told that the service is down",
        breaker.is_some(),
        told,
    );
    Ok(Outcome {
        values: json::object([
            ("steps", taken.into()),
            ("touches", network.sent().into()),
            ("user_told", told.into()),
        ]),
        checks: checks.into_vec(),
        tables: Vec::new(),
        plots: Vec::new(),
        trace,
    })
}

/// What a breaker's error says and a service's does not.
const TELLS_OFF: &str = "do not retry now";

fn is_told_off(event: &Event) -> bool {
    matches!(&event.what, What::Failed { error } if error.contains(TELLS_OFF))
}

/// What the model tells the user in the end.
const TOLD: &str = "the refund service is down; no refund was confirmed";

/// A model that calls again on every error which does not forbid it.
async fn scripted_model(
    agent: &Process,
    service: &Process,
    network: &Network,
    breaker: Option<&Breaker>,
) {
    for _ in 0..STEP_LIMIT {
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
            if error.contains(TELLS_OFF) {
                agent.record(What::Printed(TOLD.to_owned()));
                return;
            }
        }
    }
}
