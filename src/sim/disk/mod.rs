//! The simulated disk: files with visible and durable bytes, locks among handles, and numbered
//! operations before any of which a process can be killed or the power cut.
//!
//! SQLite reaches it through a VFS; everything else goes through `Disk`. The device is
//! as SQLite's unix VFS reports it: 512-byte sectors that are written whole or not at all
//! (SQLITE_IOCAP_POWERSAFE_OVERWRITE), and no other promise.
//!
//! The directory fails as a real one does: a new file's name is durable once that file is synced, as
//! SQLite's unix VFS syncs the directory of a new journal; a removed name comes back after a power
//! cut unless the directory was synced since.

mod file;
mod image;
mod locks;
mod vfs;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

pub use rsqlite_vfs::LockLevel;
use rusqlite::Connection;

pub use self::image::{HeldLock, Image};

use self::file::FileBytes;
use self::locks::LockTable;
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
    id: u32,
    recorder: Rc<Recorder>,
    processes: Vec<ProcessState>,
    visible: Directory,
    durable: Directory,
    unsynced: Vec<DirectoryChange>,
    operations: u64,
    strikes: Vec<(u64, DiskStrike)>,
    next_handle: u64,
    /// When one is kept: the disk after each change, with the number of events before it.
    history: Option<Vec<(usize, Image)>>,
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
    /// The lock that this process was last refused.
    refused: Option<Refused>,
}

#[derive(Debug)]
struct Refused {
    inode: Rc<RefCell<Inode>>,
    handle: HandleId,
    level: LockLevel,
}

#[derive(Debug, Default)]
struct Inode {
    bytes: FileBytes,
    locks: LockTable,
    handles: Vec<(HandleId, ProcessId)>,
}

/// The process is dead: whatever it still tries fails without effect.
#[derive(Debug)]
struct Dead;

thread_local! {
    static NEXT_DISK: Cell<u32> = const { Cell::new(0) };
}

impl Disk {
    pub(super) fn new(recorder: Rc<Recorder>) -> Self {
        let id = NEXT_DISK.replace(NEXT_DISK.get() + 1);
        let disk = Self(Rc::new(RefCell::new(State {
            id,
            recorder,
            processes: Vec::new(),
            visible: Directory::default(),
            durable: Directory::default(),
            unsynced: Vec::new(),
            operations: 0,
            strikes: Vec::new(),
            next_handle: 0,
            history: None,
        })));
        vfs::mount(id, &disk.0);
        disk
    }

    pub(super) fn start_process(&self, name: Rc<str>) -> ProcessId {
        let mut state = self.0.borrow_mut();
        state.processes.push(ProcessState {
            name,
            alive: true,
            refused: None,
        });
        ProcessId(state.processes.len() - 1)
    }

    /// Opens a connection of `process` to `file`, creating the file if need be. Every statement
    /// that the connection runs is recorded.
    pub(super) fn connect(&self, process: ProcessId, file: &str) -> rusqlite::Result<Connection> {
        let id = self.0.borrow().id;
        let mut connection = vfs::open(id, process, file)?;
        connection.trace_v2(
            rusqlite::trace::TraceEventCodes::SQLITE_TRACE_STMT,
            Some(move |event: rusqlite::trace::TraceEvent<'_>| {
                if let rusqlite::trace::TraceEvent::Stmt(statement, text) = event {
                    let sql = statement.expanded_sql().unwrap_or_else(|| text.to_owned());
                    let sql = sql.trim().to_owned();
                    vfs::with_disk(id, |state| state.record(process, What::Sql(sql)));
                }
            }),
        )?;
        Ok(connection)
    }

    pub(super) fn is_alive(&self, process: ProcessId) -> bool {
        self.0.borrow().processes[process.0].alive
    }

    /// Whether the lock that `process` was last refused could be had now.
    pub(super) fn lock_is_free(&self, process: ProcessId) -> bool {
        match &self.0.borrow().processes[process.0].refused {
            None => true,
            Some(refused) => {
                let inode = refused.inode.borrow();
                inode.locks.would_grant(refused.handle, refused.level)
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

    pub(super) fn kill(&self, process: ProcessId) {
        self.0.borrow_mut().kill(process);
    }

    pub(super) fn cut_power(&self, loss: Loss) {
        self.0.borrow_mut().cut_power(loss);
    }

    /// Keeps, from now on, an image of the disk after each change.
    pub(super) fn keep_history(&self) {
        self.0.borrow_mut().history = Some(Vec::new());
    }

    /// What was kept since the last call: the disk after each change, with how many events had happened by then.
    pub(super) fn take_history(&self) -> Vec<(usize, Image)> {
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

    /// Numbers an operation, unless a strike placed before it ends the process first.
    fn operate(
        &mut self,
        process: ProcessId,
        file: &Rc<str>,
        operation: Operation,
    ) -> Result<(), Dead> {
        self.check_alive(process)?;
        let number = self.operations + 1;
        if let Some(placed) = self.strikes.iter().position(|&(at, _)| at == number) {
            match self.strikes.swap_remove(placed).1 {
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
        inode: &RefCell<Inode>,
    ) -> Result<(), Dead> {
        self.operate(process, file, Operation::Sync)?;
        inode.borrow_mut().bytes.sync();
        if self.durable.get(file).is_none() {
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

    fn kill(&mut self, process: ProcessId) {
        self.record(process, What::Killed);
        self.bury(process);
        self.remember();
    }

    fn cut_power(&mut self, loss: Loss) {
        self.recorder
            .record(&Rc::from(super::world::EVERYONE), What::PowerLost(loss));
        for process in 0..self.processes.len() {
            self.bury(ProcessId(process));
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
            let Inode { locks, handles, .. } = &mut *inode;
            handles.retain(|&(handle, owner)| {
                if owner == process {
                    locks.unlock(handle, LockLevel::None);
                }
                owner != process
            });
        }
    }
}
