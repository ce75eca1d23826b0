//! What SQLite's parser calls for statements that this build of SQLite leaves out (`.cargo/config.toml`):
//! ALTER TABLE, ANALYZE, REINDEX, VACUUM, views and virtual tables.
//!
//! The parser comes ready-made in SQLite's one source file and still refers to them. No statement
//! of this project gets here. One that did would end the process (natively with a message), which
//! is better than a statement that silently does nothing.

use std::ffi::{c_int, c_void};

macro_rules! omitted {
    ($($name:ident($($argument:ty),+) $(-> $result:ty)?;)+) => {$(
        // SAFETY: SQLite's own function of this name is static where it exists, so the name is free.
        #[unsafe(no_mangle)]
        extern "C" fn $name($(_: $argument),+) $(-> $result)? {
            panic!(concat!("SQLite is built without ", stringify!($name)));
        }
    )+};
}

/// Any of the parser's own structures.
type Pointer = *const c_void;

// Arguments as in the prototypes of SQLite 3.54.1; a wasm function is called by its signature.
omitted! {
    sqlite3AlterAddConstraint(Pointer, Pointer, Pointer, Pointer, Pointer, c_int, Pointer);
    sqlite3AlterBeginAddColumn(Pointer, Pointer);
    sqlite3AlterDropColumn(Pointer, Pointer, Pointer);
    sqlite3AlterDropConstraint(Pointer, Pointer, Pointer, Pointer);
    sqlite3AlterFinishAddColumn(Pointer, Pointer);
    sqlite3AlterRenameColumn(Pointer, Pointer, Pointer, Pointer);
    sqlite3AlterRenameTable(Pointer, Pointer, Pointer);
    sqlite3AlterSetNotNull(Pointer, Pointer, Pointer, Pointer);
    sqlite3Analyze(Pointer, Pointer, Pointer);
    sqlite3CreateView(Pointer, Pointer, Pointer, Pointer, Pointer, Pointer, c_int, c_int);
    sqlite3PagerClearCache(Pointer);
    sqlite3Reindex(Pointer, Pointer, Pointer);
    sqlite3Vacuum(Pointer, Pointer, Pointer);
    sqlite3VtabArgExtend(Pointer, Pointer);
    sqlite3VtabArgInit(Pointer);
    sqlite3VtabBeginParse(Pointer, Pointer, Pointer, Pointer, c_int);
    sqlite3VtabFinishParse(Pointer, Pointer);
}

// What `CURRENT_TIMESTAMP` would call if the disk had a clock (`vfs::Os`). A native build has them from libc.
#[cfg(target_family = "wasm")]
omitted! {
    gmtime(Pointer) -> Pointer;
    strftime(Pointer, usize, Pointer, Pointer) -> usize;
}
