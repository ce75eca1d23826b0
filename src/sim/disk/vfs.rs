//! SQLite's way to a [`Disk`](super::Disk).
//!
//! A callback of a VFS learns nothing of the connection for which it is called. So a process that has
//! files open has a VFS to itself, its *mount*, and every name that SQLite hands over is a file's name
//! on that process's disk, the database's own and those of `ATTACH` and `VACUUM INTO` alike. SQLite
//! keeps the list of VFSs for the whole program; mounts are kept per thread, so that tests may run in
//! parallel.

use std::cell::{RefCell, RefMut};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::rc::{Rc, Weak};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rsqlite_vfs::ffi::{sqlite3_file, sqlite3_io_methods};
use rsqlite_vfs::{
    AccessMode, DeviceCharacteristics, LockLevel, OpenAccess, OpenOptions, OpenRequest, OpenedFile,
    OsCallback, SQLiteIoMethods, SQLiteVfs, SQLiteVfsFile, SectorSize, SyncOptions, VfsError,
    VfsErrorCode, VfsFile, VfsResult, VfsStore, register_vfs,
};
use rusqlite::functions::FunctionFlags;
use rusqlite::trace::{TraceEvent, TraceEventCodes};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, ffi};

use super::{
    Access, Dead, DiskError, Done, Failing, HandleId, Inode, Operation, ProcessId, Refused,
    SECTOR_BYTES, Shm, Slots, State, Wanted,
};
use crate::sim::trace::What;

/// What a connection starts with, where the crates that bring SQLite compile in other defaults on the
/// one target than on the other. None of it reads the disk.
const DEFAULTS: &str =
    "PRAGMA page_size = 4096; PRAGMA temp_store = MEMORY; PRAGMA foreign_keys = ON";

/// In a trace, a file that has no name, such as the journal of a large statement.
const TEMPORARY: &str = "temporary file";

/// The number of a registered VFS. A `Slot` that no mount holds is used again: SQLite cannot be told
/// safely to forget a VFS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Slot(u32);

/// The slots: how many are registered, and those of them that are free.
static SLOTS: Mutex<(u32, Vec<Slot>)> = Mutex::new((0, Vec::new()));

impl Slot {
    fn name(self) -> String {
        format!("simulated-disk-{}", self.0)
    }

    fn take() -> Result<Self, String> {
        let mut slots = SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(free) = slots.1.pop() {
            return Ok(free);
        }
        let slot = Self(slots.0);
        // SAFETY: `Io` and `Vfs` use the crate's own callbacks, structure and file layout, and agree
        // on `Slot` as app data, which any thread may read. The lock serialises registrations, each
        // under a name of its own. What the callbacks reach is kept per thread, and every connection
        // stays on its thread, since `World` is neither Send nor Sync.
        let registration = unsafe { register_vfs::<Io, Vfs>(&slot.name(), slot, false) };
        registration.map_err(|error| error.to_string())?.into_raw();
        slots.0 += 1;
        Ok(slot)
    }

    fn mount(self) -> Option<Rc<Mount>> {
        MOUNTED.with_borrow(|mounted| {
            let mut mounted = mounted.iter().filter_map(Weak::upgrade);
            mounted.find(|mount| mount.slot == self)
        })
    }

    /// The mount of a connection that is open.
    fn mounted(self) -> VfsResult<Rc<Mount>> {
        self.mount()
            .ok_or_else(|| VfsError::new(VfsErrorCode::CantOpen, "the disk is not mounted".into()))
    }

    fn place(self, name: &str) -> VfsResult<Place> {
        Ok(Place {
            mount: self.mounted()?,
            file: Rc::from(name),
        })
    }
}

/// A process's way to its disk, for as long as it has a file open there.
struct Mount {
    slot: Slot,
    disk: Rc<RefCell<State>>,
    process: ProcessId,
}

thread_local! {
    static MOUNTED: RefCell<Vec<Weak<Mount>>> = const { RefCell::new(Vec::new()) };
}

impl Mount {
    /// The mount that the process has, or a new one.
    fn of(disk: &Rc<RefCell<State>>, process: ProcessId) -> Result<Rc<Self>, String> {
        MOUNTED.with_borrow_mut(|mounted| {
            mounted.retain(|mount| mount.strong_count() > 0);
            let mut live = mounted.iter().filter_map(Weak::upgrade);
            let held = live.find(|mount| mount.process == process && Rc::ptr_eq(&mount.disk, disk));
            if let Some(mount) = held {
                return Ok(mount);
            }
            let mount = Rc::new(Self {
                slot: Slot::take()?,
                disk: Rc::clone(disk),
                process,
            });
            mounted.push(Rc::downgrade(&mount));
            Ok(mount)
        })
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let mut slots = SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
        slots.1.push(self.slot);
    }
}

/// Opens a connection of `process` to `file`, which has a name, creating the file if need be. What SQL can ask of chance
/// is answered by the world; every statement is recorded, if anybody watches.
pub(super) fn open(
    disk: &Rc<RefCell<State>>,
    process: ProcessId,
    file: &str,
) -> rusqlite::Result<Connection> {
    let refused = |code, message| {
        let error = ffi::Error::new(code);
        rusqlite::Error::SqliteFailure(error, Some(message))
    };
    // Its open file is what ties a connection to the world.
    if matches!(file, "" | ":memory:") {
        let message = format!("a process connects to a file, not to {file:?}");
        return Err(refused(ffi::SQLITE_CANTOPEN, message));
    }
    let mount = Mount::of(disk, process).map_err(|message| refused(ffi::SQLITE_ERROR, message))?;
    let slot = mount.slot;
    let mut connection = Connection::open_with_flags_and_vfs(
        file,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
        slot.name().as_str(),
    )?;
    connection.execute_batch(DEFAULTS)?;
    draw_from_the_world(&connection, slot)?;
    if disk.borrow().recorder.watched {
        let record = move |event: TraceEvent<'_>| {
            if let (TraceEvent::Stmt(statement, text), Some(mount)) = (event, slot.mount()) {
                let sql = statement.expanded_sql().unwrap_or_else(|| text.to_owned());
                let what = What::Sql(sql.trim().to_owned());
                mount.disk.borrow().record(mount.process, what);
            }
        };
        connection.trace_v2(TraceEventCodes::SQLITE_TRACE_STMT, Some(record))?;
    }
    Ok(connection)
}

/// Puts `random()` and `randomblob()` over those of SQLite, whose generator is one for the whole program.
fn draw_from_the_world(connection: &Connection, slot: Slot) -> rusqlite::Result<()> {
    let fill = move |bytes: &mut [u8]| match slot.mount() {
        Some(mount) => mount.disk.borrow().recorder.fill_random(bytes),
        None => bytes.fill(0),
    };
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_INNOCUOUS;
    connection.create_scalar_function("random", 0, flags, move |_| {
        let mut bytes = [0; 8];
        fill(&mut bytes);
        // As SQLite's own: never the integer whose absolute value is none.
        let number = i64::from_le_bytes(bytes);
        Ok(if number < 0 {
            -(number & i64::MAX)
        } else {
            number
        })
    })?;
    connection.create_scalar_function("randomblob", 1, flags, move |context| {
        let length = integer(context.get_raw(0)).max(1);
        // SQLite's own limit of a blob, below which memory is what bounds it.
        let length = usize::try_from(length)
            .ok()
            .filter(|&length| length <= LONGEST_BLOB_BYTES)
            .ok_or_else(|| {
                let error = ffi::Error::new(ffi::SQLITE_TOOBIG);
                rusqlite::Error::SqliteFailure(error, Some("string or blob too big".to_owned()))
            })?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length).map_err(|_| {
            rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_NOMEM), None)
        })?;
        bytes.resize(length, 0);
        fill(&mut bytes);
        Ok(bytes)
    })
}

/// The number that SQLite takes a value for (<https://www.sqlite.org/lang_expr.html#castexpr>).
fn integer(value: ValueRef<'_>) -> i64 {
    match value {
        ValueRef::Integer(number) => number,
        ValueRef::Real(number) => number as i64,
        ValueRef::Text(text) | ValueRef::Blob(text) => {
            let text = String::from_utf8_lossy(text);
            let text = text.trim_start();
            let is_part =
                |(at, c): (usize, char)| c.is_ascii_digit() || at == 0 && "+-".contains(c);
            let end = text.char_indices().find(|&at| !is_part(at));
            text[..end.map_or(text.len(), |(end, _)| end)]
                .parse()
                .unwrap_or(0)
        }
        ValueRef::Null => 0,
    }
}

/// The default of SQLITE_MAX_LENGTH (<https://www.sqlite.org/limits.html#max_length>).
const LONGEST_BLOB_BYTES: usize = 1_000_000_000;

/// A file's name on a process's disk.
struct Place {
    mount: Rc<Mount>,
    file: Rc<str>,
}

impl Place {
    fn state(&self) -> RefMut<'_, State> {
        self.mount.disk.borrow_mut()
    }

    fn access(&self, access: Access) -> VfsResult<Option<Failing>> {
        Ok(self
            .state()
            .access(self.mount.process, &self.file, access)?)
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
    opened_for: OpenAccess,
    /// Held for as long as SQLite may look into it.
    shm: Option<Rc<Shm>>,
}

impl Handle {
    fn check_writable(&self) -> VfsResult<()> {
        match self.opened_for {
            OpenAccess::ReadWrite => Ok(()),
            OpenAccess::ReadOnly => Err(VfsError::new(
                VfsErrorCode::ReadOnly,
                "the file was opened for reading".into(),
            )),
        }
    }

    fn operate(&self, operation: Operation) -> VfsResult<()> {
        let mut state = self.place.state();
        Ok(state.operate(self.place.mount.process, &self.place.file, operation)?)
    }

    /// How this access fails, if it does.
    fn access(&self, access: Access) -> VfsResult<Option<Failing>> {
        self.place.access(access)
    }

    /// An access that does nothing where it fails.
    fn access_or_fail(&self, access: Access) -> VfsResult<()> {
        self.place.access_or_fail(access)
    }

    /// Sets the limit of a wait for a lock, if there is a value, and answers it, in milliseconds.
    fn busy_timeout(&self, value: Option<&str>) -> u64 {
        let mut state = self.place.state();
        let limit = &mut state.processes[self.place.mount.process.0].busy_timeout;
        if let Some(value) = value {
            // As SQLite takes it: what is no number is 0, and so is what is below.
            let milliseconds = value.trim().parse::<i32>().unwrap_or(0).max(0);
            *limit = Some(Duration::from_millis(milliseconds as u64));
        }
        limit.map_or(0, |limit| limit.as_millis() as u64)
    }

    /// Notes what it did not get.
    fn refused(&self, wanted: Wanted) -> VfsError {
        self.place.state().processes[self.place.mount.process.0].refused = Some(Refused {
            inode: Rc::clone(&self.inode),
            handle: self.id,
            wanted,
        });
        VfsError::new(VfsErrorCode::Busy, "another handle holds the lock".into())
    }

    /// Where a region of the shared memory begins; null where there is none.
    fn map(&mut self, index: usize, bytes: usize, extend: bool) -> VfsResult<*mut c_void> {
        self.access_or_fail(Access::Map)?;
        if self.shm.is_none() {
            let mut inode = self.inode.borrow_mut();
            inode.mapped.push(self.id);
            self.shm = Some(Rc::clone(inode.shm.get_or_insert_default()));
        }
        let shm = self.shm.as_ref();
        Ok(shm.map_or(null_mut(), |shm| shm.region(index, bytes, extend)))
    }

    fn unmap(&mut self) {
        self.shm = None;
        self.inode.borrow_mut().unmap(self.id);
    }

    fn lock_slots(&self, slots: Slots) -> VfsResult<()> {
        self.access_or_fail(Access::LockMap)?;
        if self.inode.borrow_mut().slot_locks.lock(self.id, slots) {
            return Ok(());
        }
        Err(self.refused(Wanted::Slots(slots)))
    }

    /// The locks of the dead have fallen already.
    fn unlock_slots(&self, slots: Slots) {
        self.inode.borrow_mut().slot_locks.unlock(self.id, slots);
    }

    fn record_lock(&self, from: LockLevel, to: LockLevel, held: LockLevel) {
        let mut state = self.place.state();
        state.record(
            self.place.mount.process,
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
        self.check_writable()?;
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
            self.place.state().remember();
        }
        ends(failing, Access::Write)
    }

    fn truncate(&mut self, length: u64) -> VfsResult<()> {
        let at = index(length)?;
        self.check_writable()?;
        let failing = self.access(Access::Truncate)?;
        if failing.is_none_or(|failing| failing.done == Done::All) {
            self.operate(Operation::Truncate { length })?;
            self.inode.borrow_mut().bytes.truncate(at);
            self.place.state().remember();
        }
        ends(failing, Access::Truncate)
    }

    fn sync(&mut self, _options: SyncOptions) -> VfsResult<()> {
        let failing = self.access(Access::Sync)?;
        if failing.is_none_or(|failing| failing.done == Done::All) {
            let mut state = self.place.state();
            state.sync(self.place.mount.process, &self.place.file, &self.inode)?;
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
            return Err(self.refused(Wanted::Level(level)));
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
    type AppData = Slot;

    fn open_file(slot: &Slot, request: OpenRequest<'_>) -> VfsResult<OpenedFile<Handle>> {
        let name = request.filename.map(|name| name.path());
        let place = slot.place(name.unwrap_or(TEMPORARY))?;
        place.access_or_fail(Access::Open)?;
        let (id, inode) = {
            let mut state = place.state();
            let process = place.mount.process;
            let inode = match (name, state.visible.get(&place.file)) {
                // As on Unix, where its name is taken away as soon as it is open.
                (None, _) => {
                    state.operate(process, &place.file, Operation::Create)?;
                    Rc::default()
                }
                (_, Some(_)) if request.options.exclusive() => {
                    return Err(VfsError::new(
                        VfsErrorCode::CantOpen,
                        "the file exists".into(),
                    ));
                }
                (_, Some(inode)) => Rc::clone(inode),
                (_, None) if request.options.create() => state.create(process, &place.file)?,
                (_, None) => {
                    return Err(VfsError::new(
                        VfsErrorCode::CantOpen,
                        "there is no such file".into(),
                    ));
                }
            };
            state.next_handle += 1;
            (HandleId(state.next_handle), inode)
        };
        let process = place.mount.process;
        inode.borrow_mut().handles.push((id, process));
        let access = request.options.access();
        let file = Handle {
            id,
            place,
            inode,
            opened_for: access,
            shm: None,
        };
        Ok(OpenedFile { file, access })
    }

    fn close_file(
        _: &Slot,
        name: Option<&str>,
        handle: Handle,
        options: OpenOptions,
    ) -> VfsResult<()> {
        handle.inode.borrow_mut().release(handle.id);
        let mut state = handle.place.state();
        if options.delete_on_close() && name.is_some() {
            state.delete(handle.place.mount.process, &handle.place.file, false)?;
        }
        state.remember();
        Ok(())
    }

    fn access(slot: &Slot, name: &str, _mode: AccessMode) -> VfsResult<bool> {
        let place = slot.place(name)?;
        place.access_or_fail(Access::Find)?;
        Ok(place.state().visible.get(&place.file).is_some())
    }

    fn full_pathname(_: &Slot, name: &str) -> VfsResult<String> {
        Ok(name.to_owned())
    }

    fn delete_file(slot: &Slot, name: &str, sync_directory: bool) -> VfsResult<()> {
        let place = slot.place(name)?;
        let failing = place.access(Access::Delete)?;
        if failing.is_some_and(|failing| failing.done == Done::Nothing) {
            return ends(failing, Access::Delete);
        }
        let mut state = place.state();
        if state.visible.get(&place.file).is_none() {
            return Err(VfsError::new(
                VfsErrorCode::IoDeleteNoEntry,
                "there is no such file".into(),
            ));
        }
        // What fails once the name is gone is the sync of the directory.
        let synced = sync_directory && failing.is_none();
        state.delete(place.mount.process, &place.file, synced)?;
        ends(failing, Access::Delete)
    }
}

/// What SQLite may ask of the machine: nothing that would make two runs differ.
impl OsCallback for Slot {
    /// What SQLite waits between two looks at the index of a WAL passes on the virtual clock. For locks it
    /// does not come here: no connection has its own busy handler, which would block the single thread on
    /// which every caller runs.
    fn sleep(&self, time: Duration) {
        if let Some(mount) = self.mount() {
            mount.disk.borrow().recorder.clock.advance(time);
        }
    }

    /// Seeds the generator that SQLite has for the whole program, from which come the nonces of
    /// journals; with nothing, it is the same in every run.
    fn random(&self, _: &mut [u8]) -> usize {
        0
    }

    fn epoch_timestamp_in_ms(&self) -> VfsResult<i64> {
        let since_epoch = self.mounted()?.disk.borrow().recorder.clock.since_epoch();
        i64::try_from(since_epoch.as_millis())
            .map_err(|_| VfsError::new(VfsErrorCode::Error, "beyond all dates".into()))
    }
}

struct Io;

impl SQLiteIoMethods for Io {
    type Store = Store;

    /// The one with shared memory.
    const VERSION: c_int = 2;

    const METHODS: sqlite3_io_methods = sqlite3_io_methods {
        iVersion: Self::VERSION,
        xClose: Some(Self::xClose),
        xRead: Some(Self::xRead),
        xWrite: Some(Self::xWrite),
        xTruncate: Some(Self::xTruncate),
        xSync: Some(Self::xSync),
        xFileSize: Some(Self::xFileSize),
        xLock: Some(Self::xLock),
        xUnlock: Some(Self::xUnlock),
        xCheckReservedLock: Some(Self::xCheckReservedLock),
        xFileControl: Some(Self::xFileControl),
        xSectorSize: Some(Self::xSectorSize),
        xDeviceCharacteristics: Some(Self::xDeviceCharacteristics),
        xShmMap: Some(shm_map),
        xShmLock: Some(shm_lock),
        xShmBarrier: Some(shm_barrier),
        xShmUnmap: Some(shm_unmap),
        xFetch: None,
        xUnfetch: None,
    };

    /// Takes `PRAGMA busy_timeout` for itself: SQLite would put a handler that blocks in the place of the
    /// one that a [`LockWait`](crate::sim::LockWait) has put on the connection.
    unsafe extern "C" fn xFileControl(
        file: *mut sqlite3_file,
        operation: c_int,
        argument: *mut c_void,
    ) -> c_int {
        if operation != ffi::SQLITE_FCNTL_PRAGMA {
            return ffi::SQLITE_NOTFOUND;
        }
        // SAFETY: SQLite calls with a file that xOpen has opened, and for this operation with three
        // pointers, of which the last two are its texts, NUL-terminated, or the last is null
        // (https://www.sqlite.org/c3ref/c_fcntl_begin_atomic_write.html#sqlitefcntlpragma).
        unsafe {
            let answer = argument.cast::<*mut c_char>();
            let text = |index: usize| {
                let text = *answer.add(index);
                (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy())
            };
            if !text(1).is_some_and(|name| name.eq_ignore_ascii_case("busy_timeout")) {
                return ffi::SQLITE_NOTFOUND;
            }
            let milliseconds = handle(file).busy_timeout(text(2).as_deref());
            // SQLite frees it.
            let text = CString::new(milliseconds.to_string()).unwrap_or_default();
            *answer = copied(&text);
            ffi::SQLITE_OK
        }
    }
}

/// The handle of a file that SQLite calls with.
///
/// # Safety
///
/// xOpen has opened the file, and nobody else uses its handle meanwhile.
unsafe fn handle<'a>(file: *mut sqlite3_file) -> &'a mut Handle {
    // SAFETY: the layout is that of the crate's own xOpen.
    unsafe { (*SQLiteVfsFile::from_file(file)).handle_mut::<Handle>() }
}

fn result_code(result: VfsResult<()>) -> c_int {
    result.map_or_else(|error| error.raw_code(), |()| ffi::SQLITE_OK)
}

unsafe extern "C" fn shm_map(
    file: *mut sqlite3_file,
    index: c_int,
    bytes: c_int,
    extend: c_int,
    region: *mut *mut c_void,
) -> c_int {
    // SAFETY: SQLite calls with a file that is open and a place for the answer.
    let (handle, region) = unsafe { (handle(file), &mut *region) };
    *region = null_mut();
    let mapped = handle.map(index as usize, bytes as usize, extend != 0);
    result_code(mapped.map(|begins| *region = begins))
}

unsafe extern "C" fn shm_lock(
    file: *mut sqlite3_file,
    first: c_int,
    count: c_int,
    flags: c_int,
) -> c_int {
    // SAFETY: SQLite calls with a file that is open.
    let handle = unsafe { handle(file) };
    let slots = Slots {
        first: first as usize,
        count: count as usize,
        exclusive: flags & ffi::SQLITE_SHM_EXCLUSIVE != 0,
    };
    if flags & ffi::SQLITE_SHM_UNLOCK != 0 {
        handle.unlock_slots(slots);
        return ffi::SQLITE_OK;
    }
    result_code(handle.lock_slots(slots))
}

/// One thread sees what it wrote.
unsafe extern "C" fn shm_barrier(_: *mut sqlite3_file) {}

unsafe extern "C" fn shm_unmap(file: *mut sqlite3_file, _delete: c_int) -> c_int {
    // SAFETY: SQLite calls with a file that is open.
    unsafe { handle(file) }.unmap();
    ffi::SQLITE_OK
}

/// A text in memory of SQLite's; null where there is none left.
fn copied(text: &CStr) -> *mut c_char {
    let bytes = text.to_bytes_with_nul();
    // SAFETY: the memory is as long as what is copied into it.
    unsafe {
        let memory = ffi::sqlite3_malloc64(bytes.len() as u64).cast::<c_char>();
        if !memory.is_null() {
            bytes
                .as_ptr()
                .cast::<c_char>()
                .copy_to_nonoverlapping(memory, bytes.len());
        }
        memory
    }
}

struct Vfs;

impl SQLiteVfs<Io> for Vfs {
    type Os = Slot;

    fn os(slot: &Slot) -> &Slot {
        slot
    }
}

#[cfg(test)]
mod tests {
    use rsqlite_vfs::VfsAppData;
    use rsqlite_vfs::test_suite::test_vfs_store;

    use super::*;
    use crate::sim::disk::Disk;
    use crate::sim::trace::Recorder;

    /// The crate's own checks of a file system: reading past the end, overwriting, truncating, exclusive creation,
    /// deletion, files without a name.
    #[test]
    fn the_disk_is_a_file_system() {
        let disk = Disk::new(Rc::new(Recorder::new(false)));
        let process = disk.start_process(Rc::from("one"), false);
        let mount = Mount::of(&disk.0, process).unwrap();
        test_vfs_store::<Store>(VfsAppData::new(mount.slot)).unwrap();
    }

    /// A mount that nobody holds gives its slot back, else a search would register a VFS for every run.
    #[test]
    fn slots_are_used_again() {
        let registered = || SLOTS.lock().unwrap().0;
        let visit = || {
            let disk = Disk::new(Rc::new(Recorder::new(false)));
            let process = disk.start_process(Rc::from("one"), false);
            let db = disk.connect(process, "test.db").unwrap();
            db.execute_batch("CREATE TABLE t(a)").unwrap();
        };
        visit();
        let before = registered();
        for _ in 0..200 {
            visit();
        }
        // Other tests of this program may hold slots meanwhile.
        assert!(registered() < before + 100, "{before}, {}", registered());
    }
}
