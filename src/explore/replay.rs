use std::rc::Rc;

use super::case::Token;
use super::search::Play;
use super::stage::Stage;
use super::{CaseError, ExploreError, Invariant};
use crate::json::{self, Value};
use crate::outcome::{Checks, Outcome, Premise};
use crate::search;
use crate::sim::disk::Moment;

/// Runs the run of a token again, watched: a check for each invariant that it puts to the test, the rows
/// left, and the whole trace.
///
/// # Errors
///
/// [`ExploreError::Case`] when the token replays nothing.
pub fn replay(token: &str) -> Result<Outcome, ExploreError> {
    replay_in_steps(token).map(|(outcome, _)| outcome)
}

/// The same with the disk after each change, as [`World::take_history`] gives it.
///
/// # Errors
///
/// As [`replay`].
///
/// [`World::take_history`]: crate::sim::World::take_history
pub fn replay_in_steps(token: &str) -> Result<(Outcome, Vec<(usize, Moment)>), ExploreError> {
    let Token { case, choices } = token.parse()?;
    let stage = Stage::new(case, true)?;
    stage.world.keep_history();
    let seen = search::run(&mut Play::new(Rc::clone(&stage)), &choices)?;
    let seen = seen.ok_or(CaseError::Foreign)?;
    let (tables, trace) = stage.evidence()?;
    let mut checks = Checks::default();
    for invariant in Invariant::ALL {
        if !stage.asks_for(invariant) {
            continue;
        }
        if seen.broken.has(invariant) {
            let premise =
                Premise::happened(&seen.broken, invariant.breach(), 1, |&one| one == invariant);
            checks.check(premise, invariant.claim(), "holds", invariant.breach());
        } else if seen.did_happen.has(invariant) {
            // This one run says nothing of an invariant that it did not put to the test.
            let premise = Premise::happened(&seen.did_happen, invariant.did_happen(), 1, |&one| {
                one == invariant
            });
            checks.check(premise, invariant.claim(), "holds", "holds");
        }
    }
    let broken = seen.broken.iter().map(|one| Value::from(one.id()));
    let outcome = Outcome {
        values: json::object([
            ("design", Value::from(case.design.id)),
            ("fault", Value::from(case.class.id)),
            ("broken", Value::from(broken.collect::<Vec<_>>())),
            ("tickets", Value::from(tables[0].rows.len() as u64)),
        ]),
        checks: checks.into_vec(),
        tables,
        plots: Vec::new(),
        trace,
    };
    Ok((outcome, stage.world.take_history()))
}
