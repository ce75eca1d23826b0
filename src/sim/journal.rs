//! How a database gets its commits to the disk.

use rusqlite::{Connection, Error, ffi};

/// The journal mode of a database, and how much of it a connection synchronises
/// (<https://www.sqlite.org/pragma.html#pragma_synchronous>).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Journal {
    /// A rollback journal, whose deletion is the commit and is synchronised: `synchronous = EXTRA`.
    #[default]
    Rollback,
    /// A write-ahead log that is synchronised at every commit: `synchronous = FULL`.
    WalFull,
    /// A write-ahead log that is synchronised before a checkpoint alone: `synchronous = NORMAL`.
    WalNormal,
}

impl Journal {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Rollback, Self::WalFull, Self::WalNormal];

    /// The name on the command line, in tokens and in `results.json`; never changes.
    pub fn id(self) -> &'static str {
        match self {
            Self::Rollback => "rollback",
            Self::WalFull => "wal-full",
            Self::WalNormal => "wal-normal",
        }
    }

    /// What it is, in a few words.
    pub fn title(self) -> &'static str {
        match self {
            Self::Rollback => "rollback journal",
            Self::WalFull => "WAL, commits synced",
            Self::WalNormal => "WAL, commits not synced",
        }
    }

    /// The one of this name.
    pub fn find(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|journal| journal.id() == id)
    }

    /// Whether it is a write-ahead log.
    pub fn is_wal(self) -> bool {
        self != Self::Rollback
    }

    /// What a connection has to run before anything else.
    pub fn synchronous(self) -> &'static str {
        match self {
            Self::Rollback => "PRAGMA synchronous = EXTRA",
            Self::WalFull => "PRAGMA synchronous = FULL",
            Self::WalNormal => "PRAGMA synchronous = NORMAL",
        }
    }

    /// Puts the database of `connection` into this mode, in which it stays for every connection.
    ///
    /// # Errors
    ///
    /// What SQLite says, also where the mode cannot be had.
    pub fn set(self, connection: &Connection) -> rusqlite::Result<()> {
        let wanted = if self.is_wal() { "wal" } else { "delete" };
        // It tells the mode that the database is in then, which is another one where this cannot be had. To the end: the
        // commit that writes the mode down comes after that row.
        let mut statement = connection.prepare(&format!("PRAGMA journal_mode = {wanted}"))?;
        let mut rows = statement.query([])?;
        let mut mode = String::new();
        while let Some(row) = rows.next()? {
            mode = row.get(0)?;
        }
        if mode == wanted {
            return Ok(());
        }
        let error = ffi::Error::new(ffi::SQLITE_ERROR);
        Err(Error::SqliteFailure(error, Some(mode)))
    }
}
