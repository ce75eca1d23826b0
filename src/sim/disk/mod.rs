//! The simulated disk: files with visible and durable bytes, locks among handles, numbered operations
//! before any of which a process can be killed or the power cut, and numbered accesses any of which
//! can end in an error.
//!
//! SQLite reaches it through a VFS; everything else goes through `Disk`. The device is
//! as SQLite's unix VFS reports it: 512-byte sectors that are written whole or not at all
//! (SQLITE_IOCAP_POWERSAFE_OVERWRITE), and no other promise.
//!
//! The directory fails as a real one does: a new file's name is durable once that file is synced, as
//! SQLite's unix VFS syncs the directory of a new journal; a removed name comes back after a power
//! cut unless the directory was synced since.

mod error;
mod file;
mod locks;
mod moment;
#[cfg(target_family = "wasm")]
mod options;
mod shm;
mod vfs;

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

pub use rsqlite_vfs::LockLevel;
use rusqlite::Connection;

pub use self::error::{Access, DiskError, Done, Failing};
pub use self::moment::{HeldLock, Moment};

use self::file::FileBytes;
use self::locks::LockTable;
use self::shm::{Shm, SlotLocks, Slots};
use super::Rng;
use super::trace::{Operation, Recorder, What};

/// The unit in which a torn write survives or does not.
pub const SECTOR_BYTES: usize = 512;

/// What a power cut does to bytes and names that were not yet synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// They are gone.
    Everything,
    /// Each sector and each change of length survives or not, by a coin; of the changes to the
    /// directory a first part survives.
    Torn {
        /// Seed of the coin.
        seed: u64,
    },
    /// All of them had reached the disk in time.
    Nothing,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Loss::Everything => f.write_str("everything unsynced is lost"),
            Loss::Torn { seed } => write!(f, "unsynced sectors are torn (seed {seed})"),
            Loss::Nothing => f.write_str("nothing is lost"),
        }
    }
}

/// What befalls before a numbered operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskStrike {
    /// The process that asked for the operation is killed.
    Kill,
    /// The power fails.
    PowerCut(Loss),
}

/// Decides whether something befalls. It is asked while the disk is at work and must not use it.
pub trait DiskFaults {
    /// What befalls before operation `number`, counted from 1 over the disk's life.
    fn before(&self, number: u64) -> Option<DiskStrike>;

    /// How access `number`, counted from 1 over the disk's life, fails: one of
    /// [`Access::failings`]. Operations are accesses too.
    fn fails(&self, number: u64, access: Access) -> Option<Failing>;
}

/// How long a disk fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lasting {
    /// Once, at the very access.
    Once,
    /// At that access and at every later one that can fail so.
    FromThenOn,
}

/// A failing placed at an access.
#[derive(Debug)]
struct PlacedFailing {
    number: u64,
    failing: Failing,
    lasting: Lasting,
}

/// A disk as it was when nobody worked on it: what every file held, all of it durable. The files
/// must still exist when it is restored.
#[derive(Debug, Clone)]
pub struct Image(Vec<(Rc<str>, Rc<[u8]>)>);

/// A process on this disk's machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ProcessId(usize);

/// One open file of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HandleId(u64);

/// One simulated disk. A clone is the same disk.
#[derive(Debug, Clone)]
pub(super) struct Disk(Rc<RefCell<State>>);

#[derive(Debug)]
struct State {
    recorder: Rc<Recorder>,
    processes: Vec<ProcessState>,
    visible: Directory,
    durable: Directory,
    unsynced: Vec<DirectoryChange>,
    operations: u64,
    strikes: Vec<(u64, DiskStrike)>,
    accesses: u64,
    failures: u64,
    failings: Vec<PlacedFailing>,
    faults: Faults,
    /// When they are kept: the accesses so far.
    log: Option<Vec<Access>>,
    next_handle: u64,
    /// When one is kept: the disk after each change, with the number of events before it.
    history: Option<Vec<(usize, Moment)>>,
    /// The change counter that the last restoring gave to the databases.
    change_counter: u32,
}

#[derive(Default)]
struct Faults(Option<Rc<dyn DiskFaults>>);

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Faults" } else { "none" })
    }
}

/// Names and what they lead to. A list: a database and its journal are two files.
#[derive(Debug, Clone, Default)]
struct Directory {
    // invariant: no name stands twice.
    entries: Vec<(Rc<str>, Rc<RefCell<Inode>>)>,
}

impl Directory {
    fn get(&self, name: &str) -> Option<&Rc<RefCell<Inode>>> {
        let (_, inode) = self.entries.iter().find(|(other, _)| **other == *name)?;
        Some(inode)
    }

    fn insert(&mut self, name: Rc<str>, inode: Rc<RefCell<Inode>>) {
        self.remove(&name);
        self.entries.push((name, inode));
    }

    fn remove(&mut self, name: &str) {
        self.entries.retain(|(other, _)| **other != *name);
    }

    fn inodes(&self) -> impl Iterator<Item = &Rc<RefCell<Inode>>> {
        self.entries.iter().map(|(_, inode)| inode)
    }
}

#[derive(Debug)]
enum DirectoryChange {
    Create(Rc<str>, Rc<RefCell<Inode>>),
    Delete(Rc<str>),
}

#[derive(Debug)]
struct ProcessState {
    name: Rc<str>,
    alive: bool,
    /// On another machine: the power stays on there.
    elsewhere: bool,
    /// The lock that this process was last refused.
    refused: Option<Refused>,
    /// What SQL last set with `PRAGMA busy_timeout`.
    busy_timeout: Option<Duration>,
}

#[derive(Debug)]
struct Refused {
    inode: Rc<RefCell<Inode>>,
    handle: HandleId,
    wanted: Wanted,
}

#[derive(Debug, Clone, Copy)]
enum Wanted {
    Level(LockLevel),
    Slots(Slots),
}

#[derive(Debug, Default)]
struct Inode {
    bytes: FileBytes,
    locks: LockTable,
    handles: Vec<(HandleId, ProcessId)>,
    /// What connections share in WAL mode, while one that lives has it mapped.
    shm: Option<Rc<Shm>>,
    /// Those that have it mapped.
    mapped: Vec<HandleId>,
    slot_locks: SlotLocks,
}

impl Inode {
    /// Takes from a handle all that it has.
    fn release(&mut self, handle: HandleId) {
        self.locks.unlock(handle, LockLevel::None);
        self.handles.retain(|&(open, _)| open != handle);
        self.unmap(handle);
    }

    /// Ends a handle's part in the shared memory, which nobody finds again after the last.
    fn unmap(&mut self, handle: HandleId) {
        self.slot_locks.release(handle);
        self.mapped.retain(|&mapped| mapped != handle);
        if self.mapped.is_empty() {
            self.shm = None;
        }
    }
}

/// The process is dead: whatever it still tries fails without effect.
#[derive(Debug)]
struct Dead;

impl Disk {
    pub(super) fn new(recorder: Rc<Recorder>) -> Self {
        Self(Rc::new(RefCell::new(State {
            recorder,
            processes: Vec::new(),
            visible: Directory::default(),
            durable: Directory::default(),
            unsynced: Vec::new(),
            operations: 0,
            strikes: Vec::new(),
            accesses: 0,
            failures: 0,
            failings: Vec::new(),
            faults: Faults::default(),
            log: None,
            next_handle: 0,
            history: None,
            change_counter: 0,
        })))
    }

    pub(super) fn start_process(&self, name: Rc<str>, elsewhere: bool) -> ProcessId {
        let mut state = self.0.borrow_mut();
        state.processes.push(ProcessState {
            name,
            alive: true,
            elsewhere,
            refused: None,
            busy_timeout: None,
        });
        ProcessId(state.processes.len() - 1)
    }

    pub(super) fn restart(&self, process: ProcessId) {
        let process = &mut self.0.borrow_mut().processes[process.0];
        process.alive = true;
        process.refused = None;
        process.busy_timeout = None;
    }

    /// Opens a connection of `process` to `file`, creating the file if need be. Every statement
    /// that the connection runs is recorded, if anybody watches.
    pub(super) fn connect(&self, process: ProcessId, file: &str) -> rusqlite::Result<Connection> {
        vfs::open(&self.0, process, file)
    }

    pub(super) fn is_alive(&self, process: ProcessId) -> bool {
        self.0.borrow().processes[process.0].alive
    }

    /// What SQL of `process` last set with `PRAGMA busy_timeout`.
    pub(super) fn busy_timeout(&self, process: ProcessId) -> Option<Duration> {
        self.0.borrow().processes[process.0].busy_timeout
    }

    /// Whether the lock that `process` was last refused could be had now.
    pub(super) fn lock_is_free(&self, process: ProcessId) -> bool {
        match &self.0.borrow().processes[process.0].refused {
            None => true,
            Some(refused) => {
                let inode = refused.inode.borrow();
                match refused.wanted {
                    Wanted::Level(level) => inode.locks.would_grant(refused.handle, level),
                    Wanted::Slots(slots) => inode.slot_locks.would_grant(refused.handle, slots),
                }
            }
        }
    }

    /// How many numbered operations have reached the disk.
    pub(super) fn operations(&self) -> u64 {
        self.0.borrow().operations
    }

    /// Places a strike before operation `number`, counted from 1 over the disk's life.
    pub(super) fn strike(&self, number: u64, strike: DiskStrike) {
        self.0.borrow_mut().strikes.push((number, strike));
    }

    /// How many accesses the disk has seen.
    pub(super) fn accesses(&self) -> u64 {
        self.0.borrow().accesses
    }

    /// How many of them failed.
    pub(super) fn failures(&self) -> u64 {
        self.0.borrow().failures
    }

    /// Keeps, from now on, what each access was.
    pub(super) fn keep_log(&self) {
        self.0.borrow_mut().log = Some(Vec::new());
    }

    /// What each access was since the last call.
    pub(super) fn take_log(&self) -> Vec<Access> {
        let mut state = self.0.borrow_mut();
        state.log.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Lets access `number`, counted from 1 over the disk's life, fail.
    pub(super) fn fail(&self, number: u64, failing: Failing, lasting: Lasting) {
        self.0.borrow_mut().failings.push(PlacedFailing {
            number,
            failing,
            lasting,
        });
    }

    /// Takes every placed failing and strike away.
    pub(super) fn repair(&self) {
        let mut state = self.0.borrow_mut();
        state.failings.clear();
        state.strikes.clear();
    }

    pub(super) fn put_at_risk(&self, faults: Rc<dyn DiskFaults>) {
        self.0.borrow_mut().faults = Faults(Some(faults));
    }

    pub(super) fn image(&self) -> Image {
        let state = self.0.borrow();
        let files = state.visible.entries.iter();
        Image(
            files
                .map(|(name, inode)| (Rc::clone(name), inode.borrow().bytes.visible().into()))
                .collect(),
        )
    }

    pub(super) fn restore(&self, image: &Image) {
        self.0.borrow_mut().restore(image);
    }

    pub(super) fn kill(&self, process: ProcessId) {
        self.0.borrow_mut().kill(process);
    }

    pub(super) fn cut_power(&self, loss: Loss) {
        self.0.borrow_mut().cut_power(loss);
    }

    /// Keeps, from now on, the disk as it is after each change.
    pub(super) fn keep_history(&self) {
        self.0.borrow_mut().history = Some(Vec::new());
    }

    /// What was kept since the last call: the disk after each change, with how many events had happened by then.
    pub(super) fn take_history(&self) -> Vec<(usize, Moment)> {
        let mut state = self.0.borrow_mut();
        state
            .history
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// Every file's name and visible bytes.
    pub(super) fn files(&self) -> Vec<(String, Vec<u8>)> {
        self.0
            .borrow()
            .visible
            .entries
            .iter()
            .map(|(name, inode)| (name.to_string(), inode.borrow().bytes.visible().to_vec()))
            .collect()
    }
}

impl State {
    fn check_alive(&self, process: ProcessId) -> Result<(), Dead> {
        match self.processes.get(process.0) {
            Some(ProcessState { alive: true, .. }) => Ok(()),
            _ => Err(Dead),
        }
    }

    /// Records what a live process does; the dead leave no trace.
    fn record(&self, process: ProcessId, what: What) {
        if self.check_alive(process).is_ok() {
            self.recorder.record(&self.processes[process.0].name, what);
        }
    }

    /// Numbers an access; answers how it fails, if it does. Every access begins here.
    fn access(
        &mut self,
        process: ProcessId,
        file: &Rc<str>,
        access: Access,
    ) -> Result<Option<Failing>, Dead> {
        self.check_alive(process)?;
        self.accesses += 1;
        if let Some(log) = &mut self.log {
            log.push(access);
        }
        let number = self.accesses;
        let placed = self.failings.iter().find(|placed| {
            let is_due = match placed.lasting {
                Lasting::Once => placed.number == number,
                Lasting::FromThenOn => placed.number <= number,
            };
            is_due && placed.failing.fits(access)
        });
        let failing = match (placed, &self.faults.0) {
            (Some(placed), _) => Some(placed.failing),
            (None, Some(faults)) => faults.fails(number, access),
            (None, None) => None,
        };
        if let Some(failing) = failing {
            self.failures += 1;
            let file = Rc::clone(file);
            self.record(
                process,
                What::DiskFails {
                    file,
                    access,
                    failing,
                },
            );
        }
        Ok(failing)
    }

    /// Numbers an operation, unless a strike placed before it ends the process first.
    fn operate(
        &mut self,
        process: ProcessId,
        file: &Rc<str>,
        operation: Operation,
    ) -> Result<(), Dead> {
        self.check_alive(process)?;
        let number = self.operations + 1;
        let placed = self.strikes.iter().position(|&(at, _)| at == number);
        let strike = match (placed, &self.faults.0) {
            (Some(placed), _) => Some(self.strikes.swap_remove(placed).1),
            (None, Some(faults)) => faults.before(number),
            (None, None) => None,
        };
        if let Some(strike) = strike {
            match strike {
                DiskStrike::Kill => self.kill(process),
                DiskStrike::PowerCut(loss) => self.cut_power(loss),
            }
            return Err(Dead);
        }
        self.operations = number;
        self.record(
            process,
            What::Disk {
                number,
                file: Rc::clone(file),
                operation,
            },
        );
        Ok(())
    }

    fn create(&mut self, process: ProcessId, file: &Rc<str>) -> Result<Rc<RefCell<Inode>>, Dead> {
        self.operate(process, file, Operation::Create)?;
        let inode = Rc::new(RefCell::new(Inode::default()));
        self.visible.insert(Rc::clone(file), Rc::clone(&inode));
        self.unsynced
            .push(DirectoryChange::Create(Rc::clone(file), Rc::clone(&inode)));
        self.remember();
        Ok(inode)
    }

    fn sync(
        &mut self,
        process: ProcessId,
        file: &Rc<str>,
        inode: &Rc<RefCell<Inode>>,
    ) -> Result<(), Dead> {
        self.operate(process, file, Operation::Sync)?;
        inode.borrow_mut().bytes.sync();
        // As SQLite on Unix does with the first sync of a journal that it created. The name alone does not tell: a file
        // of that name whose deletion was not synced may still be there.
        let durable = self.durable.get(file);
        if !durable.is_some_and(|durable| Rc::ptr_eq(durable, inode)) {
            self.sync_directory();
        }
        self.remember();
        Ok(())
    }

    fn delete(
        &mut self,
        process: ProcessId,
        file: &Rc<str>,
        sync_directory: bool,
    ) -> Result<(), Dead> {
        self.operate(
            process,
            file,
            Operation::Delete {
                directory_synced: sync_directory,
            },
        )?;
        self.visible.remove(file);
        self.unsynced.push(DirectoryChange::Delete(Rc::clone(file)));
        if sync_directory {
            self.sync_directory();
        }
        self.remember();
        Ok(())
    }

    fn sync_directory(&mut self) {
        self.durable.clone_from(&self.visible);
        self.unsynced.clear();
    }

    fn restore(&mut self, image: &Image) {
        // Every commit raises the counter by one, and none comes without a numbered operation.
        self.change_counter += self.operations as u32 + 1;
        self.restore_with(image, self.change_counter);
    }

    /// A connection takes its cached pages for valid as long as the file's change counter is the
    /// one that it saw: `change_counter` must be one that no connection ever saw.
    fn restore_with(&mut self, image: &Image, change_counter: u32) {
        self.visible.entries.retain(|(name, inode)| {
            let held = image.0.iter().find(|(other, _)| other == name);
            if let Some((_, bytes)) = held {
                let mut inode = inode.borrow_mut();
                // In WAL mode a connection keeps its lock for good.
                debug_assert!(
                    inode.shm.is_some() || !inode.locks.any(),
                    "a transaction is open"
                );
                inode.bytes.restore(bytes, change_counter);
            }
            held.is_some()
        });
        debug_assert_eq!(self.visible.entries.len(), image.0.len());
        self.sync_directory();
        self.strikes.clear();
        self.failings.clear();
        self.operations = 0;
        self.accesses = 0;
        self.failures = 0;
        // What came before belongs to no run.
        if let Some(history) = &mut self.history {
            history.clear();
        }
        self.remember();
    }

    fn kill(&mut self, process: ProcessId) {
        self.record(process, What::Killed);
        self.bury(process);
        self.remember();
    }

    fn cut_power(&mut self, loss: Loss) {
        self.recorder
            .record(&Rc::from(super::world::EVERYONE), What::PowerLost(loss));
        for process in 0..self.processes.len() {
            if !self.processes[process].elsewhere {
                self.bury(ProcessId(process));
            }
        }
        let mut rng = match loss {
            Loss::Torn { seed } => Rng::new(seed),
            Loss::Everything | Loss::Nothing => Rng::new(0),
        };
        let kept = match loss {
            Loss::Everything => 0,
            Loss::Nothing => self.unsynced.len(),
            Loss::Torn { .. } => rng.below(self.unsynced.len() as u64 + 1) as usize,
        };
        let changes = std::mem::take(&mut self.unsynced);
        for change in changes.into_iter().take(kept) {
            match change {
                DirectoryChange::Create(name, inode) => self.durable.insert(name, inode),
                DirectoryChange::Delete(name) => self.durable.remove(&name),
            }
        }
        for inode in self.durable.inodes() {
            inode.borrow_mut().bytes.lose(loss, &mut rng);
        }
        self.visible.clone_from(&self.durable);
        self.remember();
    }

    /// Ends a process: its handles are dead from now on and its locks fall.
    fn bury(&mut self, process: ProcessId) {
        self.processes[process.0].alive = false;
        for inode in self.visible.inodes() {
            let mut inode = inode.borrow_mut();
            let of_it = inode.handles.iter().filter(|&&(_, owner)| owner == process);
            let of_it: Vec<HandleId> = of_it.map(|&(handle, _)| handle).collect();
            for handle in of_it {
                inode.release(handle);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATABASE: &str = "tickets.db";

    /// What a connection with a warm cache and a prepared statement reads, after the disk was
    /// restored with `restore` and another connection wrote another row.
    fn read_after(restore: impl Fn(&Disk, &Image)) -> String {
        let disk = Disk::new(Rc::new(Recorder::new(false)));
        let connect = |name: &str| {
            let process = disk.start_process(Rc::from(name), false);
            disk.connect(process, DATABASE).unwrap()
        };
        let (one, other) = (connect("one"), connect("other"));
        one.execute_batch("CREATE TABLE rows(text)").unwrap();
        let image = disk.image();
        let mut select = one.prepare("SELECT text FROM rows").unwrap();
        let mut read = || select.query_row([], |row| row.get::<_, String>(0));
        restore(&disk, &image);
        one.execute_batch("INSERT INTO rows VALUES ('of the first run')")
            .unwrap();
        assert_eq!(read().unwrap(), "of the first run");
        restore(&disk, &image);
        other
            .execute_batch("INSERT INTO rows VALUES ('of the second run')")
            .unwrap();
        read().unwrap()
    }

    /// Restored with a change counter that a connection has seen, its cache answers from another
    /// run's pages.
    #[test]
    fn a_restored_disk_is_never_taken_for_an_older_one() {
        let seen_before = |disk: &Disk, image: &Image| disk.0.borrow_mut().restore_with(image, 7);
        assert_eq!(read_after(seen_before), "of the first run");
        assert_eq!(read_after(Disk::restore), "of the second run");
    }

    /// Else a journal that was deleted but might come back would take the place of a newer one that was synced, and no
    /// power cut in the middle of that commit could be rolled back.
    #[test]
    fn a_synced_file_is_there_although_an_older_one_was_never_surely_gone() {
        let disk = Disk::new(Rc::new(Recorder::new(false)));
        let process = disk.start_process(Rc::from("one"), false);
        let name: Rc<str> = Rc::from("tickets.db-journal");
        let mut state = disk.0.borrow_mut();
        for byte in [1, 2] {
            let inode = state.create(process, &name).unwrap();
            inode.borrow_mut().bytes.write(&[byte], 0);
            state.sync(process, &name, &inode).unwrap();
            if byte == 1 {
                state.delete(process, &name, false).unwrap();
            }
        }
        state.cut_power(Loss::Everything);
        let left = state.visible.get(&name).unwrap().borrow();
        assert_eq!(left.bytes.visible(), [2]);
    }

    /// The schema's cookie is that of the image in every run, and a prepared statement stays good.
    #[test]
    fn a_statement_prepared_once_reads_every_restored_disk() {
        let disk = Disk::new(Rc::new(Recorder::new(false)));
        let process = disk.start_process(Rc::from("one"), false);
        let connection = disk.connect(process, DATABASE).unwrap();
        connection.execute_batch("CREATE TABLE rows(text)").unwrap();
        let image = disk.image();
        let mut insert = connection.prepare("INSERT INTO rows VALUES (?1)").unwrap();
        let mut count = connection.prepare("SELECT count(*) FROM rows").unwrap();
        for run in 0..300 {
            disk.restore(&image);
            for rows in 0..run % 3 {
                let counted: i64 = count.query_row([], |row| row.get(0)).unwrap();
                assert_eq!(counted, rows, "run {run}");
                insert.execute([run]).unwrap();
            }
        }
    }
}
