use std::cell::{RefCell, RefMut};
use std::rc::Rc;

use super::path::Path;

/// One in so many random choices of a mover departs from the usual.
const RARE_MOVE: u64 = 3;

/// One in so many random choices of a fault.
const RARE_FAULT: u64 = 24;

/// What is open in a run: a model that comes to a fork asks here which way it goes. A clone is the same.
#[derive(Debug, Clone, Default)]
pub struct Forks(Rc<RefCell<Path>>);

impl Forks {
    /// One of so many, the first of which is the usual one.
    pub fn pick(&self, options: usize) -> usize {
        self.path().choose(options, RARE_MOVE)
    }

    /// Which of so many faults strikes, counted from 1; 0, the usual, for none.
    pub fn strikes(&self, faults: usize) -> usize {
        self.path().choose(faults + 1, RARE_FAULT)
    }

    pub(super) fn path(&self) -> RefMut<'_, Path> {
        self.0.borrow_mut()
    }
}
