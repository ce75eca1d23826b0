//! The world: schedules and their tokens, waiting, striking, dying.
#![cfg(not(target_family = "wasm"))]

mod common;

use std::future::{Future, pending};
use std::num::NonZeroU32;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

use rusqlite::ErrorCode;
use tool_retries::client::{Backoff, Clock, Elapsed, Jitter, Policy, retry, timeout};
use tool_retries::json::{self, Canonical, Value};
use tool_retries::key::OperationKey;
use tool_retries::sim::disk::Loss;
use tool_retries::sim::trace::What;
use tool_retries::sim::{
    Chooser, Network, Process, Rng, Script, Seeded, Strike, Verdict, World, WorldError,
};
use tool_retries::tool::tickets::{Ticket, TicketDesk};
use tool_retries::tool::{
    AFTER_BEGIN, AFTER_COMMIT, BEFORE_BEGIN, BEFORE_COMMIT, LOCK_WAIT_LIMIT, ToolError,
};

type Desk = TicketDesk<Process>;
type Call<'a> = Pin<Box<dyn Future<Output = Result<Ticket, ToolError>> + 'a>>;

fn payload() -> Value {
    json::object([("title", Value::from("world"))])
}

fn key() -> OperationKey {
    OperationKey::new("world").unwrap()
}

fn desk(world: &World, name: &str) -> Desk {
    common::open_desk(world, &world.start(name))
}

fn rows(desk: &Desk) -> (i64, i64) {
    let count = |sql| desk.connection().query_row(sql, [], |row| row.get(0));
    (
        count("SELECT count(*) FROM tickets").unwrap(),
        count("SELECT count(*) FROM requests").unwrap(),
    )
}

struct Together {
    answers: Result<Vec<Option<Ticket>>, WorldError>,
    rows: (i64, i64),
    world: World,
}

/// `callers` calls at once with one key.
fn together(callers: usize, chooser: &mut dyn Chooser) -> Together {
    let world = World::new();
    let observer = desk(&world, "observer");
    let desks: Vec<Desk> = (1..=callers)
        .map(|n| desk(&world, &format!("caller {n}")))
        .collect();
    let (payload, key) = (payload(), key());
    let calls = desks.iter().map(|desk| {
        let call: Call = Box::pin(desk.create_ticket(&payload, Some(&key)));
        (desk.host().clone(), call)
    });
    let answers = world.run_together(calls, chooser).map(|answers| {
        answers
            .into_iter()
            .map(|answer| answer.map(|answer| answer.unwrap()))
            .collect()
    });
    Together {
        answers,
        rows: rows(&observer),
        world,
    }
}

#[test]
fn any_schedule_gives_one_ticket_and_its_token_replays_it() {
    let mut tokens = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let run = together(4, &mut Seeded::new(seed));
        let all = [Some(Ticket { id: 1 }); 4];
        assert_eq!(run.answers.unwrap(), all, "seed {seed}");
        assert_eq!(run.rows, (1, 1), "seed {seed}");
        let token = run.world.schedule().to_string();
        let mut script = Script::new(token.parse().unwrap());
        let replayed = together(4, &mut script);
        assert_eq!(
            replayed.world.trace().canonical(),
            run.world.trace().canonical(),
            "seed {seed}, token {token}"
        );
        tokens.insert(token);
    }
    assert!(tokens.len() > 150, "only {} schedules", tokens.len());
}

#[test]
fn a_schedule_of_another_run_is_refused() {
    let run = together(2, &mut Script::new("z".parse().unwrap()));
    let error = run.answers.unwrap_err();
    assert_eq!(
        error,
        WorldError::NoSuchMover {
            chosen: 35,
            movers: 2
        }
    );
}

/// The lock's holder never moves again: the wait ends after ten virtual seconds, with SQLITE_BUSY.
#[test]
fn waiting_for_a_writer_ends() {
    let world = World::new();
    let holder = desk(&world, "holder");
    let caller = desk(&world, "caller");
    holder
        .connection()
        .execute_batch("BEGIN IMMEDIATE")
        .unwrap();
    let answer = world
        .run(caller.host(), caller.create_ticket(&payload(), None))
        .unwrap()
        .unwrap();
    let Err(ToolError::Database(error)) = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy));
    let waited = world
        .trace()
        .events
        .iter()
        .filter_map(|event| match event.what {
            What::Waited { waited } => Some(waited),
            _ => None,
        })
        .sum::<Duration>();
    assert!(waited >= LOCK_WAIT_LIMIT && waited < LOCK_WAIT_LIMIT + Duration::from_secs(1));
    holder.connection().execute_batch("ROLLBACK").unwrap();
    assert_eq!(rows(&caller), (0, 0));
}

/// A reader holds SHARED when the writer wants to commit: the writer waits at COMMIT.
#[test]
fn commit_waits_for_a_reader() {
    let world = World::new();
    let reader = desk(&world, "reader");
    let caller = desk(&world, "caller");
    let (payload, key) = (payload(), key());
    reader
        .connection()
        .execute_batch("BEGIN; SELECT * FROM tickets")
        .unwrap();
    let read: Call = Box::pin(async {
        use tool_retries::sim::Host;
        for _ in 0..10 {
            reader.host().reach(BEFORE_BEGIN).await?;
        }
        reader.connection().execute_batch("COMMIT")?;
        Ok(Ticket { id: 0 })
    });
    let call: Call = Box::pin(caller.create_ticket(&payload, Some(&key)));
    let answers = world
        .run_together(
            [(reader.host().clone(), read), (caller.host().clone(), call)],
            &mut Script::default(),
        )
        .unwrap();
    assert!(
        matches!(answers[1], Some(Ok(Ticket { id: 1 }))),
        "{answers:?}"
    );
    assert_eq!(world.trace().count(|what| matches!(what, What::Waits)), 1);
    assert_eq!(rows(&caller), (1, 1));
}

/// A caller that gives up (drops the future) at any point leaves no transaction open.
#[test]
fn giving_up_rolls_back() {
    for moves in 1..=4 {
        let world = World::new();
        let desk = desk(&world, "caller");
        let (payload, key) = (payload(), key());
        let mut call: Call = Box::pin(desk.create_ticket(&payload, Some(&key)));
        for _ in 0..moves {
            let polled = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(polled.is_pending());
        }
        drop(call);
        assert!(desk.connection().is_autocommit(), "after {moves} moves");
        let committed = moves == 4; // It stands at after_commit.
        assert_eq!(rows(&desk).0, i64::from(committed), "after {moves} moves");
        let retry = world
            .run(desk.host(), desk.create_ticket(&payload, Some(&key)))
            .unwrap();
        assert!(matches!(retry, Some(Ok(Ticket { id: 1 }))));
        assert_eq!(rows(&desk), (1, 1));
    }
}

#[test]
fn a_strike_falls_at_its_visit_only() {
    let world = World::new();
    let desk = desk(&world, "caller");
    world.strike("caller", AFTER_COMMIT, 2, Strike::Fail);
    world.strike("somebody else", AFTER_COMMIT, 1, Strike::Kill);
    let call = || {
        world
            .run(desk.host(), desk.create_ticket(&payload(), None))
            .unwrap()
            .unwrap()
    };
    assert!(call().is_ok());
    assert!(matches!(call(), Err(ToolError::TimedOut)));
    assert!(call().is_ok());
    assert_eq!(rows(&desk), (3, 0));
}

/// Killing the lock's holder frees the lock for the one who waits, and its work is undone.
#[test]
fn a_kill_frees_the_lock_and_leaves_nothing() {
    for point in [AFTER_BEGIN, BEFORE_COMMIT] {
        let world = World::new();
        let desks = [desk(&world, "caller 1"), desk(&world, "caller 2")];
        world.strike("caller 1", point, 1, Strike::Kill);
        let (payload, key) = (payload(), key());
        let calls = desks.iter().map(|desk| {
            let call: Call = Box::pin(desk.create_ticket(&payload, Some(&key)));
            (desk.host().clone(), call)
        });
        let answers = world.run_together(calls, &mut Script::default()).unwrap();
        assert!(answers[0].is_none(), "killed at {point}");
        assert!(
            matches!(answers[1], Some(Ok(Ticket { id: 1 }))),
            "{answers:?}"
        );
        let trace = world.trace();
        assert_eq!(trace.count(|what| matches!(what, What::Waits)), 1);
        assert_eq!(trace.count(|what| *what == What::Killed), 1);
        let killed = trace
            .events
            .iter()
            .position(|event| event.what == What::Killed);
        let after = &trace.events[killed.unwrap() + 1..];
        assert!(
            after.iter().all(|event| &*event.who != "caller 1"),
            "the dead leave no trace"
        );
        assert_eq!(rows(&desks[1]), (1, 1));
    }
}

#[test]
fn a_power_cut_ends_every_process() {
    let world = World::new();
    let desks = [desk(&world, "caller 1"), desk(&world, "caller 2")];
    let cut = Strike::PowerCut(Loss::Everything);
    world.strike("caller 1", BEFORE_COMMIT, 1, cut);
    let (payload, key) = (payload(), key());
    let calls = desks.iter().map(|desk| {
        let call: Call = Box::pin(desk.create_ticket(&payload, Some(&key)));
        (desk.host().clone(), call)
    });
    let answers = world.run_together(calls, &mut Script::default()).unwrap();
    assert!(answers.iter().all(Option::is_none), "{answers:?}");
    assert!(
        desks[1]
            .connection()
            .execute_batch("SELECT * FROM tickets")
            .is_err()
    );
    assert!(desks[1].host().connect("tickets.db").is_err());
    assert_eq!(rows(&desk(&world, "restarted")), (0, 0));
}

/// What holds no file open would outlive its world.
#[test]
fn a_process_connects_to_a_file_alone() {
    let world = World::new();
    let process = world.start("agent");
    for file in ["", ":memory:"] {
        let error = process.connect(file).unwrap_err();
        assert!(error.to_string().contains(&format!("{file:?}")), "{error}");
    }
    let connection = process.connect("tickets.db").unwrap();
    let sql = "ATTACH ':memory:' AS other; CREATE TABLE other.rows(text); INSERT INTO rows VALUES ('kept')";
    connection.execute_batch(sql).unwrap();
}

/// Two worlds on one thread share nothing.
#[test]
fn worlds_are_apart() {
    let (one, other) = (World::new(), World::new());
    let (desk_one, desk_other) = (desk(&one, "caller"), desk(&other, "caller"));
    let answer = one.run(desk_one.host(), desk_one.create_ticket(&payload(), None));
    assert!(answer.unwrap().unwrap().is_ok());
    assert_eq!((rows(&desk_one), rows(&desk_other)), ((1, 0), (0, 0)));
    drop(one);
    assert_eq!(rows(&desk_other), (0, 0));
}

/// An endless process is named, not waited for.
#[test]
fn a_run_without_end_is_an_error() {
    let world = World::new();
    let process = world.start("endless");
    let run = world.run(&process, async {
        use tool_retries::sim::Host;
        loop {
            let _ = process.reach(BEFORE_BEGIN).await;
        }
        #[allow(unreachable_code, reason = "gives the future its type")]
        ()
    });
    assert_eq!(run, Err(WorldError::TooManyMoves));
}

// The end of time: what would come after the longest duration comes at it.

const ONE_SECOND: Duration = Duration::from_secs(1);

/// Worlds at their end, a second before it, and where any longest wait would pass it.
fn late_worlds() -> [World; 3] {
    [Duration::MAX, Duration::MAX - ONE_SECOND, ONE_SECOND].map(|time| {
        let world = World::new();
        world.pass(time);
        world
    })
}

#[test]
fn a_tool_serves_and_stops_waiting_at_the_end_of_time() {
    for world in late_worlds() {
        let [desk, busy] = ["desk", "busy"].map(|name| desk(&world, name));
        let (payload, key) = (payload(), key());
        let call = desk.create_ticket(&payload, Some(&key));
        let ticket = world.run(desk.host(), call).unwrap().unwrap();
        assert_eq!(ticket.unwrap(), Ticket { id: 1 });
        busy.connection().execute_batch("BEGIN IMMEDIATE").unwrap();
        let call = desk.create_ticket(&payload, None);
        let refused = world.run(desk.host(), call).unwrap().unwrap();
        assert!(
            matches!(&refused, Err(ToolError::Database(error))
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)),
            "{refused:?}"
        );
        let last = world.trace().events.pop().expect("events");
        assert!(!last.to_string().is_empty() && !last.to_json().compact().is_empty());
    }
}

#[test]
fn a_clock_knows_its_date_and_sleeps_at_the_end_of_time() {
    for world in late_worlds() {
        let process = world.start("client");
        let date = process.since_epoch();
        assert!(date >= Clock::now(&process));
        world
            .run(&process, Clock::sleep(&process, Duration::MAX))
            .unwrap()
            .expect("it wakes");
        assert_eq!(Clock::now(&process), Duration::MAX);
        assert_eq!(process.since_epoch(), Duration::MAX);
        let silence = timeout(&process, Duration::MAX, pending::<()>());
        let limit = Duration::MAX;
        assert_eq!(
            world.run(&process, silence),
            Ok(Some(Err(Elapsed { limit })))
        );
    }
}

#[test]
fn a_message_can_be_under_way_until_the_end_of_time() {
    for verdict in [
        Verdict::Delay(Duration::MAX),
        Verdict::DelayRequest(Duration::MAX),
    ] {
        for world in late_worlds() {
            let (caller, service) = (world.start("caller"), world.start("service"));
            let network = Network::new(verdict);
            let call = network.call(&caller, &service, async { 7 });
            let answer = world.run(&caller, call).unwrap();
            assert_eq!(answer, Some(Ok(7)), "{verdict:?}");
            assert_eq!(world.now(), Duration::MAX);
        }
    }
}

#[test]
fn retries_end_at_the_end_of_time() {
    let policy = Policy {
        max_attempts: NonZeroU32::new(3).unwrap(),
        total_time: Duration::MAX,
        attempt_timeout: Some(Duration::MAX),
        max_retry_after: Duration::MAX,
    };
    for world in late_worlds() {
        let (caller, service) = (world.start("caller"), world.start("service"));
        let network = Network::new(Verdict::Refuse);
        let mut backoff = Backoff::new(ONE_SECOND, Duration::MAX, Jitter::None, Rng::new(1));
        let call = async |_| network.call(&caller, &service, async {}).await;
        let done = world.run(&caller, retry(&caller, &policy, &mut backoff, call, |_| {}));
        let gave_up = done.unwrap().expect("an end").unwrap_err();
        assert!(gave_up.attempts <= 3);
    }
}
