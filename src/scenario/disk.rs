//! A disk that fails and lets the process live: what the caller is told, and what the retry finds.

use crate::sim::disk::{DiskError, Done, Failing, Lasting};
use crate::sim::trace::What;
use crate::sim::{Journal, World};

use super::lab::{Expected, Lab};
use super::sweep::{Stretch, Swept, sweep};
use super::{Fixture, RunError};
use crate::outcome::{Outcome, Premise};

/// The commit takes effect and reports an error: the journal is deleted, and its directory cannot be
/// synced.
pub(super) fn commit_reports_error(world: &World, fixture: &Fixture) -> Result<Outcome, RunError> {
    let mut lab = Lab::open(world)?;
    let agent = lab.agent("agent")?;
    let key = Some(fixture.operation_key());
    let failing = Failing {
        error: DiskError::Delete,
        done: Done::All,
    };
    let from_now_on = world.disk_accesses() + 1;
    world.fail_disk(from_now_on, failing, Lasting::FromThenOn);
    let first = lab.call(&agent, &fixture.payload(), key)?;
    world.repair_disk();
    let failed = lab.happened(
        "the disk failed when it had done its work",
        1,
        |what| matches!(what, What::DiskFails { failing: seen, .. } if *seen == failing),
    );
    lab.answer(
        &failed,
        "the first call learns that nobody knows",
        Expected::Told("outcome unknown, the commit reported: disk I/O error"),
        &first,
    );
    let before = lab.rows(&failed, "it took effect all the same", 1, 1)?;
    let retry = lab.call(&agent, &fixture.payload(), key)?;
    let claim = "the retry has the ticket";
    lab.answer(&failed, claim, Expected::Ticket(1), &retry);
    let after = lab.rows(&failed, "one ticket, one replay record", 1, 1)?;
    lab.outcome([
        ("tickets_before_retry", before.tickets.into()),
        ("tickets_after_retry", after.tickets.into()),
    ])
}

/// Every error at every access of one call.
pub(super) fn disk_errors_in_call(world: &World, fixture: &Fixture) -> Result<Outcome, RunError> {
    swept(world, fixture, Stretch::Call)
}

/// The same while a desk opens an empty disk and serves its first call.
pub(super) fn disk_errors_in_opening(
    world: &World,
    fixture: &Fixture,
) -> Result<Outcome, RunError> {
    swept(world, fixture, Stretch::Opening)
}

/// The same while a desk opens a disk on which a commit was cut off, rolls that back and serves a call.
pub(super) fn disk_errors_in_recovery(
    world: &World,
    fixture: &Fixture,
) -> Result<Outcome, RunError> {
    swept(world, fixture, Stretch::Recovery)
}

/// Sweeps in worlds of their own; this one shows the call that nothing disturbs.
fn swept(world: &World, fixture: &Fixture, stretch: Stretch) -> Result<Outcome, RunError> {
    let mut lab = Lab::open(world)?;
    let (payload, key) = (fixture.payload(), fixture.operation_key());
    let agent = lab.agent("agent")?;
    let undisturbed = lab.call(&agent, &payload, Some(key))?;
    let called = lab.called(key, 1);
    let claim = "a call that nothing disturbs opens the ticket";
    lab.answer(&called, claim, Expected::Ticket(1), &undisturbed);
    lab.rows(&called, "one ticket, one replay record", 1, 1)?;

    let swept = sweep(
        stretch,
        Journal::Rollback,
        DiskError::is_reported,
        &payload,
        key,
    )?;
    let answered = "whoever has an answer has the ticket, and so has the retry";
    swept.check(answered, &mut lab.checks);
    let unknown_and_same = |run: &Swept| run.told.is_unknown() && run.same_process;
    let what = "the disk failed in the commit, and the same process retried";
    lab.checks.check(
        Premise::happened(&swept, what, 1, |run| run.struck && unknown_and_same(run)),
        "what the same process then answers stands after a power cut",
        0,
        swept.count(|run| unknown_and_same(run) && run.undone_by_power),
    );
    let undone_by_power = swept.count(|run| run.undone_by_power);
    let mut values = Vec::from(swept.values());
    values.push(("undone_by_power", undone_by_power.into()));
    lab.outcome(values)
}

/// Reads of the journal that end early, while a desk rolls it back. SQLite takes that for the journal's
/// end.
pub(super) fn short_reads_in_recovery(
    world: &World,
    fixture: &Fixture,
) -> Result<Outcome, RunError> {
    let mut lab = Lab::open(world)?;
    let (payload, key) = (fixture.payload(), fixture.operation_key());
    let agent = lab.agent("agent")?;
    let undisturbed = lab.call(&agent, &payload, Some(key))?;
    let called = lab.called(key, 1);
    let claim = "a call that nothing disturbs opens the ticket";
    lab.answer(&called, claim, Expected::Ticket(1), &undisturbed);
    lab.rows(&called, "one ticket, one replay record", 1, 1)?;

    let wanted = |error: DiskError| error == DiskError::ShortRead;
    let swept = sweep(Stretch::Recovery, Journal::Rollback, wanted, &payload, key)?;
    let broken = swept.broken();
    lab.checks.check(
        Premise::happened(&swept, "a read ended early", 1, |run| run.struck),
        "some of them do harm that no tool can see",
        true,
        broken > 0,
    );
    lab.outcome([
        ("runs", swept.count(|_| true).into()),
        ("broken", broken.into()),
    ])
}
