//! The memory that the connections of one database share in WAL mode: the index of the WAL, and the locks on it
//! (<https://www.sqlite.org/walformat.html#the_wal_index_file_format>).
//!
//! It is there for as long as a living connection has it mapped, as SQLite's unix VFS has it: a process that is killed
//! leaves it to the others, with its locks fallen; after the last one, or a power cut, the next connection finds it
//! empty and recovers from the WAL.
//!
//! The connection of a dead process still sees the memory of the living, and no call into the disk tells when it writes
//! there: its rollback clears what a writer has put behind the last commit. So it must be closed before another
//! connection has written and not yet committed; a [`World`](crate::sim::World) drops the work of a dead process before
//! anybody else moves.

use std::cell::RefCell;
use std::ffi::c_void;

use super::HandleId;

/// One database's.
#[derive(Debug, Default)]
pub(super) struct Shm {
    /// Of 64-bit words, since SQLite keeps numbers in it. Each stands where it is until the last handle that maps it
    /// is gone, also one of a dead process, whose connection may still look at it.
    regions: RefCell<Vec<Region>>,
}

#[derive(Debug)]
struct Region(*mut [u64]);

impl Region {
    fn new(bytes: usize) -> Self {
        Self(Box::into_raw(vec![0; bytes.div_ceil(8)].into_boxed_slice()))
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: it came from a box and is given back once. No connection maps it any more: each holds the `Rc` of
        // this memory for as long as its file is open.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

impl Shm {
    /// Where a region begins; null where there is none yet and none is to be made.
    pub(super) fn region(&self, index: usize, bytes: usize, extend: bool) -> *mut c_void {
        let mut regions = self.regions.borrow_mut();
        while extend && regions.len() <= index {
            regions.push(Region::new(bytes));
        }
        regions
            .get(index)
            .map_or(std::ptr::null_mut(), |region| region.0.cast())
    }
}

/// What is locked of it: slots in a row, by one handle alone or by several together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slots {
    pub(super) first: usize,
    pub(super) count: usize,
    pub(super) exclusive: bool,
}

impl Slots {
    fn overlaps(self, other: Self) -> bool {
        self.first < other.first + other.count && other.first < self.first + self.count
    }
}

/// Who has which slots.
#[derive(Debug, Default)]
pub(super) struct SlotLocks {
    held: Vec<(HandleId, Slots)>,
}

impl SlotLocks {
    /// Whether `handle` would get `slots` now.
    pub(super) fn would_grant(&self, handle: HandleId, slots: Slots) -> bool {
        !self.held.iter().any(|&(holder, held)| {
            holder != handle && held.overlaps(slots) && (held.exclusive || slots.exclusive)
        })
    }

    /// Gives `slots` to `handle`, if nobody else's lock forbids it.
    pub(super) fn lock(&mut self, handle: HandleId, slots: Slots) -> bool {
        let granted = self.would_grant(handle, slots);
        if granted {
            self.unlock(handle, slots);
            self.held.push((handle, slots));
        }
        granted
    }

    /// Takes `slots` from `handle`. SQLite gives back what it took, no part of it.
    pub(super) fn unlock(&mut self, handle: HandleId, slots: Slots) {
        self.held
            .retain(|&(holder, held)| holder != handle || !held.overlaps(slots));
    }

    /// Takes everything from `handle`.
    pub(super) fn release(&mut self, handle: HandleId) {
        self.held.retain(|&(holder, _)| holder != handle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: HandleId = HandleId(1);
    const B: HandleId = HandleId(2);

    fn slots(first: usize, count: usize, exclusive: bool) -> Slots {
        Slots {
            first,
            count,
            exclusive,
        }
    }

    #[test]
    fn readers_share_a_slot_and_a_writer_does_not() {
        let mut locks = SlotLocks::default();
        assert!(locks.lock(A, slots(3, 1, false)));
        assert!(locks.lock(B, slots(3, 1, false)));
        assert!(!locks.lock(A, slots(3, 1, true)));
        locks.unlock(B, slots(3, 1, false));
        assert!(locks.lock(A, slots(3, 1, true)));
        assert!(!locks.lock(B, slots(3, 1, false)));
        assert!(locks.lock(B, slots(4, 4, true)));
        assert!(!locks.lock(A, slots(1, 5, true)));
        locks.release(B);
        assert!(locks.lock(A, slots(4, 1, true)));
    }
}
