use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use rusqlite::Connection;

use super::disk::{
    Access, Disk, DiskFaults, DiskStrike, Failing, Image, Lasting, Loss, Moment, ProcessId,
};
use super::schedule::{Chooser, Schedule, Script};
use super::trace::{Recorder, Trace, What};
use super::{Host, Point, Struck};

/// Who a power cut befalls, in a trace.
pub(super) const EVERYONE: &str = "world";

/// What one move of one process takes on the virtual clock.
pub const MOVE_TAKES: Duration = Duration::from_millis(1);

/// The most moves of one run; a run that wants more is stuck.
pub const MAX_MOVES: u64 = 1_000_000;

/// A simulated machine: processes, one disk, one clock. A clone is the same world.
#[derive(Debug, Clone)]
pub struct World(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    recorder: Rc<Recorder>,
    move_takes: Duration,
    disk: Disk,
    rules: RefCell<Vec<Rule>>,
    /// Whether nothing that is placed to fail does.
    spared: Cell<bool>,
    schedule: RefCell<Schedule>,
    /// What wakes the task that is being polled.
    moving: RefCell<Rc<Cell<Wakes>>>,
    /// Work that a move began and that goes on by itself, whatever becomes of that move's task.
    spawned: RefCell<Vec<Task<'static>>>,
}

/// A fault placed at a visit to a point.
#[derive(Debug)]
struct Rule {
    process: Rc<str>,
    point: Point,
    visit: u32,
    strike: Strike,
}

/// What befalls a process at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strike {
    /// An error rises in the process.
    Fail,
    /// The process is killed.
    Kill,
    /// The power fails, for every process.
    PowerCut(Loss),
}

/// Why a run came to no end.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorldError {
    /// The run took more than [`MAX_MOVES`] moves.
    TooManyMoves,
    /// More processes could move at once than a [`Schedule`] can tell apart.
    TooManyMovers {
        /// How many.
        movers: usize,
    },
    /// The chooser named a process that is not there: the schedule belongs to another run.
    NoSuchMover {
        /// The index chosen.
        chosen: usize,
        /// How many could move.
        movers: usize,
    },
}

impl fmt::Display for WorldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyMoves => write!(
                f,
                "the run took more than {MAX_MOVES} moves; a process probably never waits"
            ),
            Self::TooManyMovers { movers } => write!(
                f,
                "{movers} processes can move at once; a schedule tells {} apart",
                Schedule::MAX_MOVERS
            ),
            Self::NoSuchMover { chosen, movers } => write!(
                f,
                "the schedule lets process {chosen} of {movers} move; it belongs to another run"
            ),
        }
    }
}

impl std::error::Error for WorldError {}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

impl World {
    /// A world at time zero with an empty disk and no process.
    pub fn new() -> Self {
        Self::on(true, MOVE_TAKES, Disk::new)
    }

    /// A world at time zero with an empty disk and no process, that keeps no trace.
    pub fn unwatched() -> Self {
        Self::on(false, MOVE_TAKES, Disk::new)
    }

    /// A world whose clock stands still while anybody can move, so that the order of moves alone
    /// tells two of its states apart. It keeps a trace only if it is `watched`.
    pub fn timeless(watched: bool) -> Self {
        Self::on(watched, Duration::ZERO, Disk::new)
    }

    /// A world at time zero whose disk is as processes saw it at `moment`, with the locks still held.
    pub fn seen(moment: &Moment) -> Self {
        Self::on(true, MOVE_TAKES, |recorder| moment.seen(recorder))
    }

    /// A world at time zero whose disk is as it would be found had the power failed at `moment` and all that was
    /// not synced been lost.
    pub fn after_power_cut(moment: &Moment) -> Self {
        Self::on(true, MOVE_TAKES, |recorder| {
            moment.after_power_cut(recorder)
        })
    }

    fn on(watched: bool, move_takes: Duration, disk: impl FnOnce(Rc<Recorder>) -> Disk) -> Self {
        let recorder = Rc::new(Recorder::new(watched));
        Self(Rc::new(Inner {
            disk: disk(Rc::clone(&recorder)),
            recorder,
            move_takes,
            rules: RefCell::default(),
            spared: Cell::default(),
            schedule: RefCell::default(),
            moving: RefCell::default(),
            spawned: RefCell::default(),
        }))
    }

    /// Starts a process. Two processes may bear one name, as a restarted one does.
    pub fn start(&self, name: &str) -> Process {
        self.start_at(name, false)
    }

    /// Starts a process on another machine, where the power stays on.
    pub fn start_elsewhere(&self, name: &str) -> Process {
        self.start_at(name, true)
    }

    fn start_at(&self, name: &str, elsewhere: bool) -> Process {
        let name = Rc::from(name);
        Process(Rc::new(ProcessInner {
            world: self.clone(),
            id: self.0.disk.start_process(Rc::clone(&name), elsewhere),
            name,
            visits: RefCell::default(),
        }))
    }

    /// Places `strike` at the `visit`-th time, from 1, that one process of this name passes
    /// `point`. It strikes once. Of two at one place the first placed strikes.
    pub fn strike(&self, process: &str, point: Point, visit: u32, strike: Strike) {
        self.0.rules.borrow_mut().push(Rule {
            process: Rc::from(process),
            point,
            visit,
            strike,
        });
    }

    /// Places `strike` before the numbered disk operation `number`, counted from 1 over the
    /// world's life; see [`World::disk_operations`].
    pub fn strike_disk(&self, number: u64, strike: DiskStrike) {
        self.0.disk.strike(number, strike);
    }

    /// Lets the disk fail at access `number`, counted from 1 over the world's life; see
    /// [`World::disk_accesses`].
    pub fn fail_disk(&self, number: u64, failing: Failing, lasting: Lasting) {
        if !self.0.spared.get() {
            self.0.disk.fail(number, failing, lasting);
        }
    }

    /// Takes every failing and strike that is placed at the disk away.
    pub fn repair_disk(&self) {
        self.0.disk.repair();
    }

    /// How often the disk has failed.
    pub fn disk_failures(&self) -> u64 {
        self.0.disk.failures()
    }

    /// How often a process has asked anything of the disk, reads and locks included.
    pub fn disk_accesses(&self) -> u64 {
        self.0.disk.accesses()
    }

    /// Keeps, from now on, what each access of the disk was.
    pub fn keep_disk_log(&self) {
        self.0.disk.keep_log();
    }

    /// What each access of the disk was since the last call; empty unless
    /// [`World::keep_disk_log`] was called.
    pub fn take_disk_log(&self) -> Vec<Access> {
        self.0.disk.take_log()
    }

    /// Lets nothing fail from now on: no strike that is placed at a point befalls anybody, no
    /// failing of the disk that is placed after this, and every network delivers at once. What a
    /// scenario still shows then, it does not owe to its faults.
    pub fn spare(&self) {
        self.0.spared.set(true);
    }

    /// Asks `faults` before every numbered disk operation, and at every access, whether something
    /// befalls.
    pub fn put_disk_at_risk(&self, faults: Rc<dyn DiskFaults>) {
        self.0.disk.put_at_risk(faults);
    }

    /// The disk as it is, for [`World::restore`].
    pub fn image(&self) -> Image {
        self.0.disk.image()
    }

    /// Begins again at time zero with the disk of `image`: nothing has happened, no strike is
    /// placed. Processes and their connections stay; no transaction may be open.
    pub fn restore(&self, image: &Image) {
        self.0.recorder.restart();
        self.0.rules.borrow_mut().clear();
        *self.0.schedule.borrow_mut() = Schedule::default();
        self.0.spawned.borrow_mut().clear();
        self.0.disk.restore(image);
    }

    /// Whether it keeps a trace.
    pub fn is_watched(&self) -> bool {
        self.0.recorder.watched
    }

    /// Moves the clock on.
    pub fn pass(&self, time: Duration) {
        self.0.recorder.clock.advance(time);
    }

    /// Time since the world began.
    pub fn now(&self) -> Duration {
        self.0.recorder.clock.now()
    }

    /// Cuts the power now, unless nothing is to fail: every process dies.
    pub fn cut_power(&self, loss: Loss) {
        if !self.0.spared.get() {
            self.0.disk.cut_power(loss);
        }
    }

    /// How many writes, truncations, syncs, creations and deletions the disk has seen.
    pub fn disk_operations(&self) -> u64 {
        self.0.disk.operations()
    }

    /// The name of every file on the disk, with the bytes that a process would read.
    pub fn files(&self) -> Vec<(String, Vec<u8>)> {
        self.0.disk.files()
    }

    /// Keeps, from now on, the disk as it is after each change.
    pub fn keep_history(&self) {
        self.0.disk.keep_history();
    }

    /// The disk after each change since the last call, with how many events had happened by then; empty
    /// unless [`World::keep_history`] was called.
    pub fn take_history(&self) -> Vec<(usize, Moment)> {
        self.0.disk.take_history()
    }

    /// What has happened so far.
    pub fn trace(&self) -> Trace {
        self.0.recorder.trace()
    }

    /// The choices made so far, over all runs in this world.
    pub fn schedule(&self) -> Schedule {
        self.0.schedule.borrow().clone()
    }

    /// Runs one process alone until its work is done. `None` when the process died, or waits for
    /// what never comes.
    ///
    /// # Errors
    ///
    /// [`WorldError::TooManyMoves`].
    pub fn run<T>(
        &self,
        process: &Process,
        work: impl Future<Output = T>,
    ) -> Result<Option<T>, WorldError> {
        // Not run_together, whose lists would be compiled anew for every caller of this.
        let result = RefCell::new(None);
        let task = Task::new(process.clone(), work, &result);
        self.drive(vec![task], &mut Script::default())?;
        Ok(result.into_inner())
    }

    /// Runs processes together until each is done or dead, one moving at a time, as `chooser`
    /// decides. Results come in the order of `work`; `None` for a process that died, or waits for
    /// what never comes.
    ///
    /// # Errors
    ///
    /// Any [`WorldError`].
    pub fn run_together<T>(
        &self,
        work: impl IntoIterator<Item = (Process, impl Future<Output = T>)>,
        chooser: &mut dyn Chooser,
    ) -> Result<Vec<Option<T>>, WorldError> {
        let work: Vec<_> = work.into_iter().collect();
        let results: Vec<RefCell<Option<T>>> = work.iter().map(|_| RefCell::new(None)).collect();
        let tasks = work
            .into_iter()
            .zip(&results)
            .map(|((process, work), result)| Task::new(process, work, result))
            .collect();
        self.drive(tasks, chooser)?;
        Ok(results.into_iter().map(RefCell::into_inner).collect())
    }

    /// Runs what was spawned, and what that spawns, until each is done or dead or waits for what
    /// never comes.
    ///
    /// # Errors
    ///
    /// Any [`WorldError`].
    pub fn run_spawned(&self, chooser: &mut dyn Chooser) -> Result<(), WorldError> {
        self.drive(Vec::new(), chooser)
    }

    /// What was spawned, to be moved step by step.
    pub fn moves(&self) -> Moves {
        Moves {
            world: self.clone(),
            line: Line::default(),
        }
    }

    /// Lets one task after the other move until none can.
    fn drive(&self, tasks: Vec<Task<'_>>, chooser: &mut dyn Chooser) -> Result<(), WorldError> {
        let mut line = Line {
            tasks,
            ..Line::default()
        };
        loop {
            let mover = match line.movers(self)? {
                0 => return Ok(()),
                1 => 0,
                _ => chooser.choose(&line.names()),
            };
            line.step(self, mover)?;
        }
    }
}

/// The spawned work of a world, one step at a time. Dropped, it ends what is not done.
#[derive(Debug)]
pub struct Moves {
    world: World,
    line: Line<'static>,
}

impl Moves {
    /// How many can move now, what was spawned meanwhile included. Where nobody can, the clock first goes to the moment when
    /// a wait ends; 0 when none is left that ends.
    ///
    /// # Errors
    ///
    /// [`WorldError::TooManyMoves`] and [`WorldError::TooManyMovers`].
    pub fn movers(&mut self) -> Result<usize, WorldError> {
        self.line.movers(&self.world)
    }

    /// Lets one of those move that [`Moves::movers`] has counted, the longest waiting first.
    ///
    /// # Errors
    ///
    /// [`WorldError::NoSuchMover`].
    pub fn step(&mut self, mover: usize) -> Result<(), WorldError> {
        self.line.step(&self.world, mover)
    }
}

/// Tasks in the order in which they moved, the longest waiting first.
#[derive(Debug, Default)]
struct Line<'a> {
    tasks: Vec<Task<'a>>,
    /// Of the tasks, those that can move.
    movers: Vec<usize>,
    /// How often somebody moved, or the clock in everybody's place.
    moves: u64,
}

impl Line<'_> {
    fn movers(&mut self, world: &World) -> Result<usize, WorldError> {
        let inner = &world.0;
        loop {
            if self.moves == MAX_MOVES {
                return Err(WorldError::TooManyMoves);
            }
            self.tasks.extend(inner.spawned.take());
            self.tasks.retain(|task| task.process.is_alive());
            self.movers.clear();
            let can_move = (0..self.tasks.len()).filter(|&index| self.tasks[index].can_move());
            self.movers.extend(can_move);
            if !self.movers.is_empty() {
                break;
            }
            // Nobody can move now: go to the moment when the first wait ends.
            let wakes_at = self.tasks.iter().filter_map(|task| task.wakes.get().at);
            let Some(wakes_at) = wakes_at.min() else {
                break;
            };
            inner.recorder.clock.advance_to(wakes_at);
            self.moves += 1;
        }
        let movers = self.movers.len();
        if movers > Schedule::MAX_MOVERS {
            return Err(WorldError::TooManyMovers { movers });
        }
        Ok(movers)
    }

    fn names(&self) -> Vec<&str> {
        let movers = self.movers.iter();
        movers
            .map(|&index| &*self.tasks[index].process.0.name)
            .collect()
    }

    fn step(&mut self, world: &World, chosen: usize) -> Result<(), WorldError> {
        let movers = self.movers.len();
        let mover = self.movers.get(chosen);
        let mover = *mover.ok_or(WorldError::NoSuchMover { chosen, movers })?;
        if movers > 1 {
            world.0.schedule.borrow_mut().push(chosen);
        }
        self.moves += 1;
        // Taken out and put back last, so that the longest waiting stand first.
        let mut task = self.tasks.remove(mover);
        world.0.recorder.clock.advance(world.0.move_takes);
        task.wakes.set(Wakes::default());
        task.woken.0.store(false, Ordering::Relaxed);
        world.0.moving.replace(Rc::clone(&task.wakes));
        let waker = Waker::from(Arc::clone(&task.woken));
        let polled = task.work.as_mut().poll(&mut Context::from_waker(&waker));
        if polled.is_pending() {
            self.tasks.push(task);
        }
        Ok(())
    }
}

/// Work of a process.
struct Task<'a> {
    process: Process,
    wakes: Rc<Cell<Wakes>>,
    /// Set by whoever completes what the task waits for.
    woken: Arc<Woken>,
    work: Pin<Box<dyn Future<Output = ()> + 'a>>,
}

/// An atomic although a world has one thread, since a [`Waker`] must bear to be sent.
#[derive(Debug, Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl fmt::Debug for Task<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "work of {}", self.process.0.name)
    }
}

impl Task<'_> {
    fn can_move(&self) -> bool {
        self.woken.0.load(Ordering::Relaxed) || self.process.is_true(self.wakes.get())
    }
}

impl<'a> Task<'a> {
    fn new<T>(
        process: Process,
        work: impl Future<Output = T> + 'a,
        result: &'a RefCell<Option<T>>,
    ) -> Self {
        Self {
            process: process.clone(),
            wakes: Rc::new(Cell::new(Wakes::now())),
            woken: Arc::default(),
            work: Box::pin(async move {
                let done = work.await;
                // What a process did after its death never left it.
                if process.is_alive() {
                    result.replace(Some(done));
                }
            }),
        }
    }
}

/// A process of a [`World`], and the [`Host`] of the tool that runs in it. A clone is the same
/// process.
#[derive(Debug, Clone)]
pub struct Process(Rc<ProcessInner>);

#[derive(Debug)]
struct ProcessInner {
    world: World,
    id: ProcessId,
    name: Rc<str>,
    visits: RefCell<Vec<(Point, u32)>>,
}

/// What lets a process move again. Each pending future of its work adds its own; one that adds
/// nothing never moves by itself.
#[derive(Debug, Clone, Copy, Default)]
struct Wakes {
    now: bool,
    at: Option<Duration>,
    /// The lock that this process was last refused.
    when_lock_is_free: Option<ProcessId>,
}

impl Wakes {
    fn now() -> Self {
        Self {
            now: true,
            ..Self::default()
        }
    }

    fn and(self, other: Self) -> Self {
        Self {
            now: self.now || other.now,
            at: self.at.into_iter().chain(other.at).min(),
            when_lock_is_free: self.when_lock_is_free.or(other.when_lock_is_free),
        }
    }
}

impl Process {
    /// Opens `file` on the world's disk, creating it if need be. The connection dies with this
    /// process. It waits for no lock by itself, which would block the one thread on which all move;
    /// see [`LockWait`](super::LockWait). `PRAGMA busy_timeout` sets what
    /// [`Host::busy_timeout`] answers.
    ///
    /// # Errors
    ///
    /// What SQLite says, also when the process is dead, or the file has no name or is `:memory:`.
    pub fn connect(&self, file: &str) -> rusqlite::Result<Connection> {
        let connection = self.0.world.0.disk.connect(self.0.id, file)?;
        connection.busy_timeout(Duration::ZERO)?;
        Ok(connection)
    }

    /// What a wall clock shows this process: time since the Unix epoch.
    pub fn since_epoch(&self) -> Duration {
        self.0.world.0.recorder.clock.since_epoch()
    }

    /// Whether the process still lives.
    pub fn is_alive(&self) -> bool {
        self.0.world.0.disk.is_alive(self.0.id)
    }

    /// Starts the dead process again, without the connections that it had: they must be closed.
    pub fn restart(&self) {
        self.0.world.0.disk.restart(self.0.id);
    }

    /// Kills the process now.
    pub fn kill(&self) {
        self.0.world.0.disk.kill(self.0.id);
    }

    /// Adds what this process did to the trace. The dead leave no trace.
    pub fn record(&self, what: What) {
        if self.is_alive() {
            self.0.world.0.recorder.record(&self.0.name, what);
        }
    }

    fn is_true(&self, wakes: Wakes) -> bool {
        wakes.now
            || wakes.at.is_some_and(|then| self.now() >= then)
            || wakes
                .when_lock_is_free
                .is_some_and(|process| self.0.world.0.disk.lock_is_free(process))
    }

    /// Lets the others move until `until` has come, on the virtual clock.
    pub async fn sleep_until(&self, until: Duration) {
        self.record(What::Timer { until });
        self.pause(Wakes {
            at: Some(until),
            ..Wakes::default()
        })
        .await;
    }

    /// Lets this process do `work` as a task of its own.
    pub fn spawn(&self, work: impl Future<Output = ()> + 'static) {
        self.0.world.0.spawned.borrow_mut().push(Task {
            process: self.clone(),
            wakes: Rc::new(Cell::new(Wakes::now())),
            woken: Arc::default(),
            work: Box::pin(work),
        });
    }

    /// Lets the schedule choose who moves.
    pub async fn let_others_move(&self) {
        self.pause(Wakes::now()).await;
    }

    /// Waits for what never comes.
    pub async fn hang<T>(&self) -> T {
        std::future::pending().await
    }

    /// The process's name.
    pub fn name(&self) -> Rc<str> {
        Rc::clone(&self.0.name)
    }

    /// Whether its world lets nothing fail.
    pub(super) fn is_spared(&self) -> bool {
        self.0.world.0.spared.get()
    }

    /// Stops until one of `wakes` comes true.
    async fn pause(&self, wakes: Wakes) {
        let mut passed = false;
        std::future::poll_fn(|_| {
            // Another part of the same process may have woken it: look whether this one may go on.
            if passed && self.is_true(wakes) {
                return Poll::Ready(());
            }
            passed = true;
            self.wake_on(wakes);
            Poll::Pending
        })
        .await;
    }

    /// Adds to what lets the task that moves now move again.
    fn wake_on(&self, wakes: Wakes) {
        let moving = self.0.world.0.moving.borrow();
        moving.set(moving.get().and(wakes));
    }

    /// The strike placed for this visit to `point`, taken off its list.
    fn struck(&self, point: Point) -> Option<Strike> {
        let visit = {
            let mut visits = self.0.visits.borrow_mut();
            match visits.iter_mut().find(|(visited, _)| *visited == point) {
                Some((_, count)) => {
                    *count += 1;
                    *count
                }
                None => {
                    visits.push((point, 1));
                    1
                }
            }
        };
        if self.is_spared() {
            return None;
        }
        let mut rules = self.0.world.0.rules.borrow_mut();
        let hit = rules.iter().position(|rule| {
            rule.process == self.0.name && rule.point == point && rule.visit == visit
        })?;
        Some(rules.remove(hit).strike)
    }
}

impl Host for Process {
    async fn reach(&self, point: Point) -> Result<(), Struck> {
        self.record(What::Reached(point));
        self.let_others_move().await;
        match self.struck(point) {
            None => Ok(()),
            Some(Strike::Fail) => {
                self.record(What::Struck(point));
                Err(Struck { point })
            }
            Some(Strike::Kill) => {
                self.kill();
                self.hang().await
            }
            Some(Strike::PowerCut(loss)) => {
                self.0.world.cut_power(loss);
                self.hang().await
            }
        }
    }

    fn now(&self) -> Duration {
        self.0.world.0.recorder.clock.now()
    }

    fn busy_timeout(&self) -> Option<Duration> {
        self.0.world.0.disk.busy_timeout(self.0.id)
    }

    async fn lock_freed(&self, deadline: Duration) {
        let began = self.now();
        self.record(What::Waits);
        self.pause(Wakes {
            at: Some(deadline),
            when_lock_is_free: Some(self.0.id),
            ..Wakes::default()
        })
        .await;
        self.record(What::Waited {
            waited: self.now() - began,
        });
    }
    async fn turn<T>(&self, turn: impl Future<Output = T>, deadline: Duration) -> Option<T> {
        let began = self.now();
        self.record(What::AwaitsTurn);
        let mut turn = pin!(turn);
        let given = std::future::poll_fn(|context| match turn.as_mut().poll(context) {
            Poll::Ready(given) => Poll::Ready(Some(given)),
            Poll::Pending if self.now() >= deadline => Poll::Ready(None),
            Poll::Pending => {
                self.wake_on(Wakes {
                    at: Some(deadline),
                    ..Wakes::default()
                });
                Poll::Pending
            }
        })
        .await;
        self.record(What::Waited {
            waited: self.now() - began,
        });
        given
    }
}
