use std::fmt;

use rsqlite_vfs::{VfsError, VfsErrorCode};
use rusqlite::ffi;

/// What SQLite asks of the disk, as far as it can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Opens a file, and creates it where it is missing.
    Open,
    /// Looks whether a file is there.
    Find,
    /// Reads bytes.
    Read,
    /// Asks for a file's length.
    Size,
    /// Writes bytes.
    Write,
    /// Cuts or extends a file.
    Truncate,
    /// Makes a file durable.
    Sync,
    /// Removes a file, and makes the removal durable if asked to.
    Delete,
    /// Raises a lock.
    Lock,
    /// Lowers a lock.
    Unlock,
    /// Asks whether anybody holds RESERVED.
    CheckReserved,
    /// Maps the memory that connections share in WAL mode.
    Map,
    /// Locks a part of that memory.
    LockMap,
}

/// The error of a disk that fails: the codes that SQLite's own tests of I/O errors raise
/// (<https://www.sqlite.org/testing.html#anomaly_testing>), each at the accesses that can end in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiskError {
    /// Bytes cannot be read.
    Read,
    /// Fewer bytes come than the file holds.
    ShortRead,
    /// Bytes cannot be written.
    Write,
    /// A file cannot be made durable.
    Sync,
    /// A file's length cannot be changed.
    Truncate,
    /// A file cannot be removed, or its removal cannot be made durable.
    Delete,
    /// A lock cannot be taken, given back or asked for.
    Lock,
    /// A file cannot be opened, found or measured.
    Open,
    /// The disk is full.
    Full,
    /// The machine has no memory left for what was asked.
    NoMemory,
}

/// How much of an access came about before its error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Done {
    /// Nothing.
    Nothing,
    /// The first half of the bytes to be written, in whole sectors.
    Half,
    /// All of it: only the report is false.
    All,
}

/// One way in which an access can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Failing {
    /// What SQLite is told.
    pub error: DiskError,
    /// What came about all the same.
    pub done: Done,
}

impl DiskError {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Read,
        Self::ShortRead,
        Self::Write,
        Self::Sync,
        Self::Truncate,
        Self::Delete,
        Self::Lock,
        Self::Open,
        Self::Full,
        Self::NoMemory,
    ];

    /// Whether SQLite learns of it. A short read it takes for the end of the file
    /// (<https://www.sqlite.org/c3ref/io_methods.html>): one in the middle of a journal ends a
    /// rollback half-way, and no tool can know.
    pub fn is_reported(self) -> bool {
        self != Self::ShortRead
    }

    /// The name in traces.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::ShortRead => "short read",
            Self::Write => "write",
            Self::Sync => "sync",
            Self::Truncate => "truncate",
            Self::Delete => "delete",
            Self::Lock => "lock",
            Self::Open => "open",
            Self::Full => "full",
            Self::NoMemory => "no memory",
        }
    }
}

impl Done {
    /// What comes about of `access` before `error`; empty where the two do not go together.
    fn all(access: Access, error: DiskError) -> &'static [Self] {
        const NOTHING: &[Done] = &[Done::Nothing];
        const EITHER: &[Done] = &[Done::Nothing, Done::All];
        const ANY: &[Done] = &[Done::Nothing, Done::Half, Done::All];
        match (access, error) {
            (Access::Read, DiskError::Read | DiskError::ShortRead) => NOTHING,
            (Access::Write, DiskError::Write) => ANY,
            // What fits is written.
            (Access::Write, DiskError::Full) => &[Done::Nothing, Done::Half],
            (Access::Open, DiskError::Full) => NOTHING,
            (Access::Sync, DiskError::Sync) => EITHER,
            (Access::Truncate, DiskError::Truncate) => EITHER,
            (Access::Delete, DiskError::Delete) => EITHER,
            (Access::Lock | Access::CheckReserved, DiskError::Lock) => NOTHING,
            // A lock that cannot be given back is held until its process ends, whatever a tool does.
            (Access::Unlock, DiskError::Lock) => &[Done::All],
            (Access::LockMap, DiskError::Lock) => NOTHING,
            (Access::Open | Access::Find | Access::Size | Access::Map, DiskError::Open) => NOTHING,
            // SQLite's own structures want memory there.
            (Access::Open | Access::Read | Access::Write | Access::Map, DiskError::NoMemory) => {
                NOTHING
            }
            _ => &[],
        }
    }

    /// The name in traces.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Half => "half",
            Self::All => "all",
        }
    }
}

impl Access {
    /// Every way in which it can fail, in a fixed order.
    pub fn failings(self) -> impl Iterator<Item = Failing> {
        DiskError::ALL.into_iter().flat_map(move |error| {
            let done = Done::all(self, error).iter();
            done.map(move |&done| Failing { error, done })
        })
    }

    /// The name in traces.
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Find => "find",
            Self::Read => "read",
            Self::Size => "size",
            Self::Write => "write",
            Self::Truncate => "truncate",
            Self::Sync => "sync",
            Self::Delete => "delete",
            Self::Lock => "lock",
            Self::Unlock => "unlock",
            Self::CheckReserved => "check reserved",
            Self::Map => "map",
            Self::LockMap => "lock map",
        }
    }
}

const fn code(raw: i32) -> VfsErrorCode {
    VfsErrorCode::from_raw(raw).expect("an error code of SQLite")
}

const NO_MEMORY: VfsErrorCode = code(ffi::SQLITE_IOERR_NOMEM);
const SHM_MAP: VfsErrorCode = code(ffi::SQLITE_IOERR_SHMMAP);
const SHM_LOCK: VfsErrorCode = code(ffi::SQLITE_IOERR_SHMLOCK);

impl Failing {
    /// Whether `access` can fail so.
    pub fn fits(self, access: Access) -> bool {
        Done::all(access, self.error).contains(&self.done)
    }

    /// What SQLite is told where `access` fails so.
    pub(super) fn code(self, access: Access) -> VfsError {
        let code = match (self.error, access) {
            // What a short read is told by is the number of its bytes.
            (DiskError::Read | DiskError::ShortRead, _) => VfsErrorCode::IoRead,
            (DiskError::Write, _) => VfsErrorCode::IoWrite,
            (DiskError::Sync, _) => VfsErrorCode::IoSync,
            (DiskError::Truncate, _) => VfsErrorCode::IoTruncate,
            // The name is gone, and the directory could not be synced.
            (DiskError::Delete, _) if self.done == Done::All => VfsErrorCode::IoDirectorySync,
            (DiskError::Delete, _) => VfsErrorCode::IoDelete,
            (DiskError::Lock, Access::Unlock) => VfsErrorCode::IoUnlock,
            (DiskError::Lock, Access::CheckReserved) => VfsErrorCode::IoCheckReservedLock,
            (DiskError::Lock, Access::LockMap) => SHM_LOCK,
            (DiskError::Open, Access::Map) => SHM_MAP,
            (DiskError::Lock, _) => VfsErrorCode::IoLock,
            (DiskError::Open, Access::Find) => VfsErrorCode::IoAccess,
            (DiskError::Open, Access::Size) => VfsErrorCode::IoStat,
            (DiskError::Open, _) => VfsErrorCode::CantOpen,
            (DiskError::Full, _) => VfsErrorCode::Full,
            // Not SQLITE_NOMEM: SQLite goes on with its cache after a rollback that failed so, and takes
            // for written what was not. Its own file systems give this code.
            (DiskError::NoMemory, _) => NO_MEMORY,
        };
        VfsError::new(code, "the disk fails".into())
    }
}

impl fmt::Display for Failing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.error.name())?;
        f.write_str(match self.done {
            Done::Nothing => "",
            Done::Half => ", though half of it was done",
            Done::All => ", though it was done",
        })
    }
}
