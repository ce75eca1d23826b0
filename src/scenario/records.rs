//! What a replay record answers for: calls that overlap, other tools and tenants on the same database,
//! and ids that come back.

use std::rc::Rc;

use crate::json::{self, Canonical, Finite, Value};
use crate::key::{OperationKey, Tenant};
use crate::sim::trace::{Event, What};
use crate::sim::{Host, Network, Process, Script, Verdict, World};
use crate::tool::refunds::{Recording, RefundRequest, RefundService};
use crate::tool::{AFTER_BEGIN, BEFORE_BEGIN, ToolError};

use super::lab::{self, Answer, Expected, Lab};
use super::refunds::{TOOL, answer_of, order};
use super::{Fixture, RunError, Stage};
use crate::outcome::{Outcome, Premise, Table};

/// How many call at once.
const CALLERS: usize = 8;

/// Eight callers at once with one key, at a desk that has one connection.
pub(super) fn overlapping_calls(world: &World, fixture: &Fixture) -> Result<Outcome, RunError> {
    let mut lab = Lab::open(world)?;
    let desk = Rc::new(lab.agent("desk")?);
    let network = Network::new(Verdict::Deliver);
    let callers = (1..=CALLERS).map(|number| {
        let caller = world.start(&format!("caller {number}"));
        let (desk, network) = (Rc::clone(&desk), &network);
        let (payload, key) = (fixture.payload(), fixture.operation_key().clone());
        let call = {
            let caller = caller.clone();
            async move {
                caller.record(lab::called(&payload, Some(&key)));
                let process = desk.host().clone();
                let work = async move { desk.create_ticket(&payload, Some(&key)).await };
                let answer = network.call(&caller, &process, work).await;
                let answer = answer.unwrap_or(Err(ToolError::TimedOut));
                caller.record(lab::returned(&answer));
                answer
            }
        };
        (caller, call)
    });
    let callers: Vec<_> = callers.collect();
    let answers = world.run_together(callers, &mut Script::default())?;
    let waited = lab.happened(
        "a call waited for its turn on the connection",
        CALLERS - 1,
        |what| *what == What::AwaitsTurn,
    );
    let mut ids: Vec<i64> = Vec::new();
    for (number, answer) in (1..).zip(answers) {
        let answer: Answer = answer.ok_or(RunError::NoEnd)?;
        let claim = format!("caller {number} has the one ticket");
        lab.answer(&waited, claim, Expected::Ticket(1), &answer);
        ids.extend(answer.iter().map(|ticket| ticket.id));
    }
    ids.sort_unstable();
    ids.dedup();
    let left = lab.rows(&waited, "one ticket, one replay record", 1, 1)?;
    let ids: Vec<Value> = ids.into_iter().map(Value::from).collect();
    lab.outcome([
        ("attempts", CALLERS.into()),
        ("returned_ticket_ids", ids.into()),
        ("tickets", left.tickets.into()),
    ])
}

/// A refund service is started on the desk's database while a call of the desk writes there. It needs
/// its tables, and waits for the lock as a call does.
pub(super) fn opening_while_another_writes(
    world: &World,
    fixture: &Fixture,
) -> Result<Outcome, RunError> {
    let mut lab = Lab::open(world)?;
    let agent = lab.agent("agent")?;
    let (payload, key) = (fixture.payload(), fixture.operation_key());
    let (mut answer, mut opened) = (None, None);
    let service = world.start(SERVICE);
    let call = async { answer = Some(lab::call::<World>(&agent, &payload, Some(key)).await) };
    let open = async {
        // Until the call has the lock.
        for point in [BEFORE_BEGIN, AFTER_BEGIN] {
            let _ = service.reach(point).await;
        }
        opened = Some(open_refunds(&service).await);
    };
    let work: [(Process, Running<'_>); 2] = [
        (agent.host().clone(), Box::pin(call)),
        (service.clone(), Box::pin(open)),
    ];
    world.run_together(work, &mut Script::default())?;
    let answer = answer.ok_or(RunError::NoEnd)?;
    let waited = lab.happened("SQLite was busy and somebody waited", 1, |what| {
        *what == What::Waits
    });
    let claim = "the call opens its ticket";
    lab.answer(&waited, claim, Expected::Ticket(1), &answer);
    let opened = match opened.ok_or(RunError::NoEnd)? {
        Ok(_) => "open".to_owned(),
        Err(error) => error.to_string(),
    };
    let claim = "the service is open";
    lab.checks
        .check(waited.clone(), claim, "open", opened.as_str());
    lab.rows(&waited, "one ticket, one replay record", 1, 1)?;
    lab.outcome([("service", opened.into())])
}

type Running<'a> = std::pin::Pin<Box<dyn Future<Output = ()> + 'a>>;

/// The desk's key at the refund service, on the same database.
pub(super) fn key_of_another_operation(
    world: &World,
    fixture: &Fixture,
) -> Result<Outcome, RunError> {
    let mut lab = Lab::open(world)?;
    let agent = lab.agent("agent")?;
    let (payload, key) = (fixture.payload(), fixture.operation_key());
    let ticket = lab.call(&agent, &payload, Some(key))?;
    let refunds = Refunds::open(world)?;
    let refund = refunds.call(None, &order(), key)?;
    let refund_again = refunds.call(None, &order(), key)?;
    let ticket_again = lab.call(&agent, &payload, Some(key))?;
    let both = refunds.both_tools(key);
    lab.answer(
        &both,
        "the key opens a ticket",
        Expected::Ticket(1),
        &ticket,
    );
    let claim = "at the refund service it makes a refund";
    lab.checks
        .check(both.clone(), claim, answer_of("R1"), refund);
    let claim = "which is what its retry there gets";
    lab.checks
        .check(both.clone(), claim, answer_of("R1"), refund_again);
    let claim = "and its retry at the desk gets the ticket";
    lab.answer(&both, claim, Expected::Ticket(1), &ticket_again);
    let left = lab.rows(&both, "one ticket, one replay record of the desk", 1, 1)?;
    let made = refunds.made()?;
    lab.checks.check(both, "one refund", 1, made);
    let outcome = lab.outcome([("refunds", made.into()), ("tickets", left.tickets.into())])?;
    refunds.with_tables(outcome)
}

/// One key in the hands of two tenants.
pub(super) fn key_of_another_tenant(world: &World, fixture: &Fixture) -> Result<Outcome, RunError> {
    let mut lab = Lab::open(world)?;
    let key = fixture.operation_key();
    let refunds = Refunds::open(world)?;
    let half = RefundRequest {
        amount: Finite::try_from(24.5).expect("24.5 is finite"),
        ..order()
    };
    let half_answer = json::object([
        ("amount", Value::from(half.amount)),
        ("refund_id", Value::from("R2")),
    ]);
    let [first, second] = ["first", "second"].map(Tenant::new);
    let (first, second) = (first?, second?);
    let calls = [
        ("the first tenant has a refund", &first, order()),
        ("the second one another", &second, half.clone()),
        ("the first one's retry gets its own", &first, order()),
        ("the second one's too", &second, half),
    ];
    let mut answers = Vec::new();
    for (claim, tenant, request) in calls {
        answers.push((claim, tenant, refunds.call(Some(tenant), &request, key)?));
    }
    let sent = lab.called(key, 4);
    for (claim, tenant, answer) in answers {
        let expected = match *tenant == first {
            true => answer_of("R1"),
            false => half_answer.clone(),
        };
        lab.checks.check(sent.clone(), claim, expected, answer);
    }
    let made = refunds.made()?;
    lab.checks.check(sent, "two refunds", 2, made);
    let outcome = lab.outcome([("attempts", 4.into()), ("refunds", made.into())])?;
    refunds.with_tables(outcome)
}

/// A ticket is deleted, and SQLite gives its row id to the next one: the replay names a stranger.
pub(super) fn reused_ticket_id(world: &World, fixture: &Fixture) -> Result<Outcome, RunError> {
    let mut lab = Lab::open(world)?;
    let agent = lab.agent("agent")?;
    let (payload, key) = (fixture.payload(), fixture.operation_key());
    let first = lab.call(&agent, &payload, Some(key))?;
    let deleted = agent
        .connection()
        .execute("DELETE FROM tickets WHERE id = 1", [])?;
    let stranger = fixture.changed_payload();
    let second = lab.call(&agent, &stranger, Some(&fixture.new_intent_key()))?;
    let replay = lab.call(&agent, &payload, Some(key))?;
    let gone = lab.happened("the first ticket was deleted", 1, |what| {
        deleted == 1 && matches!(what, What::Sql(sql) if sql.starts_with("DELETE FROM tickets"))
    });
    lab.answer(&gone, "the key opens ticket 1", Expected::Ticket(1), &first);
    let claim = "once that is deleted, another key's ticket is 1 too";
    lab.answer(&gone, claim, Expected::Ticket(1), &second);
    let claim = "and the first key's replay names it";
    lab.answer(&gone, claim, Expected::Ticket(1), &replay);
    let left = lab.rows(&gone, "one ticket, two replay records", 1, 2)?;
    let id = |answer: &Answer| {
        let ticket = answer.as_ref().ok();
        ticket.map_or(Value::Null, |ticket| ticket.id.into())
    };
    lab.outcome([
        ("replay_ticket_id", id(&replay)),
        ("second_ticket_id", id(&second)),
        ("tickets", left.tickets.into()),
    ])
}

const SERVICE: &str = "refund service";

async fn open_refunds(process: &Process) -> rusqlite::Result<RefundService<Process>> {
    let connection = process.connect(super::stage::DATABASE)?;
    RefundService::open(connection, process.clone(), Recording::WithEffect).await
}

/// A refund service on the desk's database, which its caller calls directly.
struct Refunds<'a> {
    world: &'a World,
    service: RefundService<Process>,
}

impl<'a> Refunds<'a> {
    fn open(world: &'a World) -> Result<Self, RunError> {
        let open = async |connection, host| {
            RefundService::open(connection, host, Recording::WithEffect).await
        };
        let service = Stage::enter(world, SERVICE, open)?;
        Ok(Self { world, service })
    }

    fn call(
        &self,
        tenant: Option<&Tenant>,
        request: &RefundRequest,
        key: &OperationKey,
    ) -> Result<Value, RunError> {
        let process = self.service.host();
        process.record(What::Called {
            tool: TOOL,
            key: Some(key.as_str().to_owned()),
            payload: request.to_json().compact(),
        });
        let answer = self.world.run(process, async {
            match tenant {
                None => self.service.refund(request, Some(key)).await,
                Some(tenant) => self.service.refund_for(tenant, request, key).await,
            }
        })?;
        let answer = answer.ok_or(RunError::NoEnd)??;
        process.record(What::Answered {
            answer: answer.compact(),
        });
        Ok(answer)
    }

    /// That both tools were sent `key` twice.
    fn both_tools(&self, key: &OperationKey) -> Premise {
        let what = format!("key {key} was sent to one of two tools, twice to each");
        let trace = self.world.trace();
        let to = |name: &str, event: &Event| {
            matches!(
                &event.what,
                What::Called { tool, key: Some(sent), .. } if *tool == name && sent == key.as_str()
            )
        };
        let twice = |name| trace.events.iter().filter(|event| to(name, event)).count() == 2;
        let both = twice(TOOL) && twice("create_ticket");
        Premise::happened(&trace, what, 4, |event| {
            both && (to(TOOL, event) || to("create_ticket", event))
        })
    }

    fn observe(&self) -> rusqlite::Result<rusqlite::Connection> {
        self.world.start("observer").connect(super::stage::DATABASE)
    }

    /// How many refunds there are.
    fn made(&self) -> Result<i64, RunError> {
        let sql = "SELECT count(*) FROM refunds";
        Ok(self.observe()?.query_row(sql, [], |row| row.get(0))?)
    }

    fn with_tables(&self, mut outcome: Outcome) -> Result<Outcome, RunError> {
        let observer = self.observe()?;
        for name in ["refunds", "refund_requests"] {
            outcome.tables.push(Table::read(&observer, name)?);
        }
        Ok(outcome)
    }
}
