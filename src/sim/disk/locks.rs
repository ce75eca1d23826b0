use super::{HandleId, LockLevel};

/// Who holds which lock on one file, by the rules of *File Locking And Concurrency In SQLite
/// Version 3* (sqlite.org/lockingv3.html), as SQLite's unix VFS applies them.
#[derive(Debug, Default)]
pub(super) struct LockTable {
    // invariant: one entry a handle, none of them LockLevel::None; at most one is above SHARED.
    held: Vec<(HandleId, LockLevel)>,
}

/// The lock is not to be had now: SQLITE_BUSY.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Busy;

impl LockTable {
    /// The level that `handle` holds.
    pub(super) fn level(&self, handle: HandleId) -> LockLevel {
        self.highest(|holder| holder == handle)
    }

    /// Raises `handle` to `level`; a handle already there or above stays as it is.
    ///
    /// # Errors
    ///
    /// [`Busy`] when another handle's lock forbids it. A RESERVED handle that is refused EXCLUSIVE
    /// by readers alone keeps PENDING, so that no new reader comes in.
    pub(super) fn lock(&mut self, handle: HandleId, level: LockLevel) -> Result<(), Busy> {
        let held = self.level(handle);
        if held >= level {
            return Ok(());
        }
        if self.would_grant(handle, level) {
            self.set(handle, level);
            return Ok(());
        }
        if held == LockLevel::Reserved && level == LockLevel::Exclusive {
            self.set(handle, LockLevel::Pending);
        }
        Err(Busy)
    }

    /// Gives `handle` a level that it held before, in a table in which it was granted.
    pub(super) fn put(&mut self, handle: HandleId, level: LockLevel) {
        self.set(handle, level);
    }

    /// Lowers `handle` to `level`; a handle already there or below stays as it is.
    pub(super) fn unlock(&mut self, handle: HandleId, level: LockLevel) {
        if level < self.level(handle) {
            self.set(handle, level);
        }
    }

    /// Whether `handle` would get `level` now.
    pub(super) fn would_grant(&self, handle: HandleId, level: LockLevel) -> bool {
        let others = self.highest(|holder| holder != handle);
        match level {
            LockLevel::None => true,
            LockLevel::Shared => others < LockLevel::Pending,
            LockLevel::Reserved | LockLevel::Pending => others < LockLevel::Reserved,
            LockLevel::Exclusive => others == LockLevel::None,
        }
    }

    /// Whether any handle holds RESERVED or more.
    pub(super) fn reserved(&self) -> bool {
        self.highest(|_| true) >= LockLevel::Reserved
    }

    /// Whether anybody holds a lock.
    pub(super) fn any(&self) -> bool {
        !self.held.is_empty()
    }

    fn highest(&self, of: impl Fn(HandleId) -> bool) -> LockLevel {
        self.held
            .iter()
            .filter(|(holder, _)| of(*holder))
            .map(|&(_, level)| level)
            .max()
            .unwrap_or(LockLevel::None)
    }

    fn set(&mut self, handle: HandleId, level: LockLevel) {
        self.held.retain(|&(holder, _)| holder != handle);
        if level != LockLevel::None {
            self.held.push((handle, level));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use LockLevel::{Exclusive, None, Pending, Reserved, Shared};

    const A: HandleId = HandleId(1);
    const B: HandleId = HandleId(2);

    /// A table in which A has come to `level` by the steps that SQLite takes, with B at SHARED
    /// first where that can be.
    fn held(level: LockLevel, b: LockLevel) -> LockTable {
        let mut table = LockTable::default();
        if b == Shared {
            table.lock(B, Shared).unwrap();
        }
        if level >= Shared {
            table.lock(A, Shared).unwrap();
        }
        if level >= Reserved {
            table.lock(A, Reserved).unwrap();
        }
        if level == Pending && b != Shared {
            // PENDING is only ever the rest of a refused EXCLUSIVE.
            table.lock(B, Shared).unwrap();
            assert_eq!(table.lock(A, Exclusive), Err(Busy));
            table.unlock(B, None);
        } else if level == Pending {
            assert_eq!(table.lock(A, Exclusive), Err(Busy));
        } else if level == Exclusive {
            table.lock(A, Exclusive).unwrap();
        }
        assert_eq!(table.level(A), level);
        table
    }

    /// Each pair as `unixLock` of SQLite 3.54.1 decides it: readers beside readers, one RESERVED beside
    /// readers, no new reader under PENDING, nobody beside EXCLUSIVE.
    #[test]
    fn every_pair_of_levels() {
        // (A holds, B holds, B asks, granted, B holds after)
        let table = [
            (None, None, Shared, true, Shared),
            (None, Shared, Reserved, true, Reserved),
            (None, Shared, Exclusive, true, Exclusive),
            (Shared, None, Shared, true, Shared),
            (Shared, Shared, Reserved, true, Reserved),
            (Shared, Shared, Exclusive, false, Shared),
            (Reserved, None, Shared, true, Shared),
            (Reserved, Shared, Reserved, false, Shared),
            (Reserved, Shared, Exclusive, false, Shared),
            (Pending, None, Shared, false, None),
            (Pending, Shared, Reserved, false, Shared),
            (Pending, Shared, Exclusive, false, Shared),
            (Exclusive, None, Shared, false, None),
        ];
        for (a, b, asked, granted, after) in table {
            let mut locks = held(a, b);
            assert_eq!(
                locks.would_grant(B, asked),
                granted,
                "A {a:?}, B {b:?} asks {asked:?}: would"
            );
            assert_eq!(
                locks.lock(B, asked).is_ok(),
                granted,
                "A {a:?}, B {b:?} asks {asked:?}"
            );
            assert_eq!(locks.level(B), after, "A {a:?}, B {b:?} asks {asked:?}");
            assert_eq!(locks.level(A), a, "A is not moved by B's asking");
        }
    }

    /// A RESERVED writer that meets a reader keeps PENDING and has EXCLUSIVE once the reader goes.
    #[test]
    fn pending_drains_readers() {
        let mut locks = held(Reserved, Shared);
        assert_eq!(locks.lock(A, Exclusive), Err(Busy));
        assert_eq!(locks.level(A), Pending);
        assert!(locks.reserved());
        locks.unlock(B, None);
        assert_eq!(locks.lock(B, Shared), Err(Busy));
        assert_eq!(locks.lock(A, Exclusive), Ok(()));
    }

    /// Unlocking from each level to SHARED and to none lets B have what the table says.
    #[test]
    fn unlocking_lowers_and_never_raises() {
        for level in [None, Shared, Reserved, Pending, Exclusive] {
            for to in [None, Shared] {
                let mut locks = held(level, None);
                locks.unlock(A, to);
                assert_eq!(locks.level(A), level.min(to));
                assert!(!locks.reserved());
                assert_eq!(locks.lock(B, Shared), Ok(()));
            }
        }
    }
}
