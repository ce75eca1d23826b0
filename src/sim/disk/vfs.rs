//! SQLite's way to a [`Disk`](super::Disk): one VFS for the whole process, registered once.
//!
//! A VFS callback gets a path and nothing else, so the path says all: `DISK/PROCESS/FILE`. Two
//! processes reach one file under two paths, and every handle knows whose it is. Disks are kept
//! per thread, so that tests may run in parallel.

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::sync::OnceLock;
use std::time::Duration;

use rsqlite_vfs::{
    AccessMode, DeviceCharacteristics, LockLevel, OpenAccess, OpenOptions, OpenRequest, OpenedFile,
    OsCallback, SQLiteIoMethods, SQLiteVfs, SectorSize, SyncOptions, VfsError, VfsErrorCode,
    VfsFile, VfsResult, VfsStore, register_vfs,
};
use rusqlite::{Connection, OpenFlags};

use super::{
    Access, Dead, DiskError, Done, Failing, HandleId, Inode, Operation, ProcessId, Refused,
    SECTOR_BYTES, State,
};
use crate::sim::trace::What;

const NAME: &str = "simulated-disk";

/// What a connection starts with, where the crates that bring SQLite compile in other defaults on the
/// one target than on the other. None of it reads the disk.
const DEFAULTS: &str =
    "PRAGMA page_size = 4096; PRAGMA temp_store = MEMORY; PRAGMA foreign_keys = ON";

thread_local! {
    static MOUNTED: RefCell<Vec<(u32, Weak<RefCell<State>>)>> =
        const { RefCell::new(Vec::new()) };
}

/// Makes the disk reachable under its number, and forgets disks that are gone.
pub(super) fn mount(id: u32, state: &Rc<RefCell<State>>) {
    MOUNTED.with_borrow_mut(|mounted| {
        mounted.retain(|(_, disk)| disk.strong_count() > 0);
        mounted.push((id, Rc::downgrade(state)));
    });
}

fn mounted(id: u32) -> Option<Rc<RefCell<State>>> {
    MOUNTED.with_borrow(|mounted| {
        let (_, disk) = mounted.iter().find(|(other, _)| *other == id)?;
        disk.upgrade()
    })
}

/// Runs `work` on a mounted disk; nothing, when it is gone.
pub(super) fn with_disk(id: u32, work: impl FnOnce(&State)) {
    if let Some(disk) = mounted(id) {
        work(&disk.borrow());
    }
}

pub(super) fn open(id: u32, process: ProcessId, file: &str) -> rusqlite::Result<Connection> {
    static REGISTERED: OnceLock<Result<(), String>> = OnceLock::new();
    let registered = REGISTERED.get_or_init(|| {
        // SAFETY: `Io` and `Vfs` use the crate's own callbacks, structure and file layout, and
        // agree on `()` as app data. The OnceLock serialises this one registration under a name of
        // our own. State is per thread and every connection stays on its thread, since `World` is
        // neither Send nor Sync.
        unsafe { register_vfs::<Io, Vfs>(NAME, (), false) }
            .map(|registration| {
                registration.into_raw();
            })
            .map_err(|error| error.to_string())
    });
    if let Err(message) = registered {
        return Err(rusqlite::Error::SqliteFailure(
            rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_ERROR),
            Some(message.clone()),
        ));
    }
    let connection = Connection::open_with_flags_and_vfs(
        format!("{id}/{}/{file}", process.0),
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
        NAME,
    )?;
    connection.execute_batch(DEFAULTS)?;
    Ok(connection)
}

/// What a path names.
struct Place {
    disk: Rc<RefCell<State>>,
    process: ProcessId,
    file: Rc<str>,
}

impl Place {
    fn of(path: &str) -> VfsResult<Self> {
        let unknown = || {
            VfsError::new(
                VfsErrorCode::CantOpen,
                "no such disk, process or file".into(),
            )
        };
        let mut parts = path.splitn(3, '/');
        let mut number = || parts.next().and_then(|part| part.parse::<u32>().ok());
        let (id, process) = (number().ok_or_else(unknown)?, number().ok_or_else(unknown)?);
        let file = parts.next().ok_or_else(unknown)?;
        let disk = mounted(id).ok_or_else(unknown)?;
        Ok(Self {
            disk,
            process: ProcessId(process as usize),
            file: Rc::from(file),
        })
    }
}

impl Place {
    fn access(&self, access: Access) -> VfsResult<Option<Failing>> {
        let mut disk = self.disk.borrow_mut();
        Ok(disk.access(self.process, &self.file, access)?)
    }

    fn access_or_fail(&self, access: Access) -> VfsResult<()> {
        match self.access(access)? {
            None => Ok(()),
            Some(failing) => Err(failing.code(access)),
        }
    }
}

/// Ends an access that was done, if only in part, with the error that it was given.
fn ends(failing: Option<Failing>, access: Access) -> VfsResult<()> {
    match failing {
        None => Ok(()),
        Some(failing) => Err(failing.code(access)),
    }
}

impl From<Dead> for VfsError {
    fn from(_: Dead) -> Self {
        VfsError::new(VfsErrorCode::Io, "the process is dead".into())
    }
}

/// One open file of one process.
struct Handle {
    id: HandleId,
    place: Place,
    inode: Rc<RefCell<Inode>>,
}

impl Handle {
    fn operate(&self, operation: Operation) -> VfsResult<()> {
        let mut state = self.place.disk.borrow_mut();
        Ok(state.operate(self.place.process, &self.place.file, operation)?)
    }

    /// How this access fails, if it does.
    fn access(&self, access: Access) -> VfsResult<Option<Failing>> {
        self.place.access(access)
    }

    /// An access that does nothing where it fails.
    fn access_or_fail(&self, access: Access) -> VfsResult<()> {
        self.place.access_or_fail(access)
    }

    fn record_lock(&self, from: LockLevel, to: LockLevel, held: LockLevel) {
        let mut state = self.place.disk.borrow_mut();
        state.record(
            self.place.process,
            What::Lock {
                file: Rc::clone(&self.place.file),
                from,
                to,
                held,
            },
        );
        state.remember();
    }
}

/// A place in a file. The simulated disk holds what fits into memory.
fn index(offset: u64) -> VfsResult<usize> {
    usize::try_from(offset)
        .map_err(|_| VfsError::new(VfsErrorCode::Full, "beyond the simulated disk".into()))
}

impl VfsFile for Handle {
    fn sector_size(&self) -> SectorSize {
        const { SectorSize::new(SECTOR_BYTES as u32).expect("a sector is not empty") }
    }

    fn device_characteristics(&self) -> DeviceCharacteristics {
        DeviceCharacteristics::POWERSAFE_OVERWRITE
    }

    fn read(&mut self, buffer: &mut [u8], offset: u64) -> VfsResult<usize> {
        match self.access(Access::Read)? {
            None => Ok(self.inode.borrow().bytes.read(buffer, index(offset)?)),
            Some(Failing {
                error: DiskError::ShortRead,
                ..
            }) => Ok(0),
            Some(failing) => Err(failing.code(Access::Read)),
        }
    }

    fn write(&mut self, bytes: &[u8], offset: u64) -> VfsResult<()> {
        let at = index(offset)?;
        let failing = self.access(Access::Write)?;
        let written = match failing.map(|failing| failing.done) {
            Some(Done::Nothing) => &[],
            Some(Done::Half) => &bytes[..bytes.len() / 2 / SECTOR_BYTES * SECTOR_BYTES],
            Some(Done::All) | None => bytes,
        };
        if !written.is_empty() {
            self.operate(Operation::Write {
                offset,
                length: written.len() as u64,
            })?;
            self.inode.borrow_mut().bytes.write(written, at);
            self.place.disk.borrow_mut().remember();
        }
        ends(failing, Access::Write)
    }

    fn truncate(&mut self, length: u64) -> VfsResult<()> {
        let at = index(length)?;
        let failing = self.access(Access::Truncate)?;
        if failing.is_none_or(|failing| failing.done == Done::All) {
            self.operate(Operation::Truncate { length })?;
            self.inode.borrow_mut().bytes.truncate(at);
            self.place.disk.borrow_mut().remember();
        }
        ends(failing, Access::Truncate)
    }

    fn sync(&mut self, _options: SyncOptions) -> VfsResult<()> {
        let failing = self.access(Access::Sync)?;
        if failing.is_none_or(|failing| failing.done == Done::All) {
            let mut state = self.place.disk.borrow_mut();
            state.sync(self.place.process, &self.place.file, &self.inode)?;
        }
        ends(failing, Access::Sync)
    }

    fn size(&self) -> VfsResult<u64> {
        self.access_or_fail(Access::Size)?;
        Ok(self.inode.borrow().bytes.visible().len() as u64)
    }

    fn lock(&mut self, level: LockLevel) -> VfsResult<()> {
        self.access_or_fail(Access::Lock)?;
        let (from, granted, held) = {
            let locks = &mut self.inode.borrow_mut().locks;
            let from = locks.level(self.id);
            let granted = locks.lock(self.id, level);
            (from, granted, locks.level(self.id))
        };
        if from < level {
            self.record_lock(from, level, held);
        }
        if granted.is_err() {
            self.place.disk.borrow_mut().processes[self.place.process.0].refused = Some(Refused {
                inode: Rc::clone(&self.inode),
                handle: self.id,
                level,
            });
            return Err(VfsError::new(
                VfsErrorCode::Busy,
                "another handle holds the lock".into(),
            ));
        }
        Ok(())
    }

    fn unlock(&mut self, level: LockLevel) -> VfsResult<()> {
        let failing = self.access(Access::Unlock)?;
        let from = {
            let locks = &mut self.inode.borrow_mut().locks;
            let from = locks.level(self.id);
            locks.unlock(self.id, level);
            from
        };
        if level < from {
            self.record_lock(from, level, level);
        }
        ends(failing, Access::Unlock)
    }

    fn check_reserved_lock(&self) -> VfsResult<bool> {
        self.access_or_fail(Access::CheckReserved)?;
        Ok(self.inode.borrow().locks.reserved())
    }
}

struct Store;

impl VfsStore for Store {
    type File = Handle;
    type AppData = ();

    fn open_file(_: &(), request: OpenRequest<'_>) -> VfsResult<OpenedFile<Handle>> {
        let Some(filename) = request.filename else {
            return Err(VfsError::new(
                VfsErrorCode::CantOpen,
                "the simulated disk has no anonymous files: temporary tables and journals are kept in memory".into(),
            ));
        };
        let place = Place::of(filename.path())?;
        place.access_or_fail(Access::Open)?;
        let (id, inode) = {
            let mut state = place.disk.borrow_mut();
            let inode = match state.visible.get(&place.file) {
                Some(_) if request.options.exclusive() => {
                    return Err(VfsError::new(
                        VfsErrorCode::CantOpen,
                        "the file exists".into(),
                    ));
                }
                Some(inode) => Rc::clone(inode),
                None if request.options.create() => state.create(place.process, &place.file)?,
                None => {
                    return Err(VfsError::new(
                        VfsErrorCode::CantOpen,
                        "there is no such file".into(),
                    ));
                }
            };
            state.next_handle += 1;
            (HandleId(state.next_handle), inode)
        };
        inode.borrow_mut().handles.push((id, place.process));
        Ok(OpenedFile {
            file: Handle { id, place, inode },
            access: OpenAccess::ReadWrite,
        })
    }

    fn close_file(
        _: &(),
        _name: Option<&str>,
        handle: Handle,
        _options: OpenOptions,
    ) -> VfsResult<()> {
        let mut inode = handle.inode.borrow_mut();
        inode.locks.unlock(handle.id, LockLevel::None);
        inode.handles.retain(|&(open, _)| open != handle.id);
        drop(inode);
        handle.place.disk.borrow_mut().remember();
        Ok(())
    }

    fn access(_: &(), path: &str, _mode: AccessMode) -> VfsResult<bool> {
        let place = Place::of(path)?;
        place.access_or_fail(Access::Find)?;
        let state = place.disk.borrow();
        Ok(state.visible.get(&place.file).is_some())
    }

    fn full_pathname(_: &(), path: &str) -> VfsResult<String> {
        Ok(path.to_owned())
    }

    fn delete_file(_: &(), path: &str, sync_directory: bool) -> VfsResult<()> {
        let place = Place::of(path)?;
        let failing = place.access(Access::Delete)?;
        if failing.is_some_and(|failing| failing.done == Done::Nothing) {
            return ends(failing, Access::Delete);
        }
        let mut state = place.disk.borrow_mut();
        if state.visible.get(&place.file).is_none() {
            return Err(VfsError::new(
                VfsErrorCode::IoDeleteNoEntry,
                "there is no such file".into(),
            ));
        }
        // What fails once the name is gone is the sync of the directory.
        let synced = sync_directory && failing.is_none();
        state.delete(place.process, &place.file, synced)?;
        ends(failing, Access::Delete)
    }
}

/// What SQLite may ask of the machine: nothing that would make two runs differ.
struct Os;

impl OsCallback for Os {
    /// Never called for: tools on this disk turn SQLite's busy handler off, since it would block
    /// the single thread on which every caller runs.
    fn sleep(&self, _: Duration) {}

    fn random(&self, _: &mut [u8]) -> usize {
        0
    }

    fn epoch_timestamp_in_ms(&self) -> VfsResult<i64> {
        Err(VfsError::new(
            VfsErrorCode::Error,
            "there is no wall clock here".into(),
        ))
    }
}

struct Io;

impl SQLiteIoMethods for Io {
    type Store = Store;
}

struct Vfs;

impl SQLiteVfs<Io> for Vfs {
    type Os = Os;

    fn os(_: &()) -> &Os {
        &Os
    }
}
