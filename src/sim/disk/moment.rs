use std::cell::RefCell;
use std::rc::Rc;

use super::file::FileBytes;
use super::{Disk, HandleId, Inode, LockLevel, ProcessId, ProcessState};
use crate::sim::trace::Recorder;

/// A disk at one moment: every file as processes see it and as a power cut would leave it, and who holds which lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    visible: Vec<(Rc<str>, Vec<u8>)>,
    durable: Vec<(Rc<str>, Vec<u8>)>,
    locks: Vec<HeldLock>,
}

/// A lock at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldLock {
    /// The file's name.
    pub file: Rc<str>,
    /// Who holds it.
    pub process: Rc<str>,
    /// How much of it.
    pub level: LockLevel,
}

impl Moment {
    /// Every lock that is held, in the order of the files.
    pub fn locks(&self) -> &[HeldLock] {
        &self.locks
    }

    /// The names of the files that processes see.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.visible.iter().map(|(name, _)| &**name)
    }

    /// A new disk in this state, with the locks still held.
    pub(in crate::sim) fn seen(&self, recorder: Rc<Recorder>) -> Disk {
        let disk = Disk::holding(recorder, &self.visible);
        let mut state = disk.0.borrow_mut();
        for lock in &self.locks {
            let process = ProcessId(state.processes.len());
            state.processes.push(ProcessState {
                name: Rc::clone(&lock.process),
                alive: true,
                elsewhere: false,
                refused: None,
                busy_timeout: None,
            });
            state.next_handle += 1;
            let handle = HandleId(state.next_handle);
            if let Some(inode) = state.visible.get(&lock.file) {
                let mut inode = inode.borrow_mut();
                inode.handles.push((handle, process));
                inode.locks.put(handle, lock.level);
            }
        }
        drop(state);
        disk
    }

    /// A new disk as it would be found after a power cut that loses all that was not synced.
    pub(in crate::sim) fn after_power_cut(&self, recorder: Rc<Recorder>) -> Disk {
        Disk::holding(recorder, &self.durable)
    }
}

impl Disk {
    fn holding(recorder: Rc<Recorder>, files: &[(Rc<str>, Vec<u8>)]) -> Self {
        let disk = Self::new(recorder);
        let mut state = disk.0.borrow_mut();
        for (name, bytes) in files {
            let inode = Inode {
                bytes: FileBytes::durable_from(bytes),
                ..Inode::default()
            };
            state
                .visible
                .insert(Rc::clone(name), Rc::new(RefCell::new(inode)));
        }
        state.sync_directory();
        drop(state);
        disk
    }
}

impl super::State {
    fn moment(&self) -> Moment {
        let mut locks = Vec::new();
        for (name, inode) in &self.visible.entries {
            let inode = inode.borrow();
            for &(handle, process) in &inode.handles {
                let level = inode.locks.level(handle);
                if level > LockLevel::None {
                    locks.push(HeldLock {
                        file: Rc::clone(name),
                        process: Rc::clone(&self.processes[process.0].name),
                        level,
                    });
                }
            }
        }
        let copy = |directory: &super::Directory, bytes: fn(&FileBytes) -> &[u8]| {
            let files = directory.entries.iter();
            files
                .map(|(name, inode)| (Rc::clone(name), bytes(&inode.borrow().bytes).to_vec()))
                .collect()
        };
        Moment {
            visible: copy(&self.visible, FileBytes::visible),
            durable: copy(&self.durable, FileBytes::durable),
            locks,
        }
    }

    /// Keeps the disk as it is after what happened last, when a history is kept.
    pub(super) fn remember(&mut self) {
        if self.history.is_some() {
            let moment = (self.recorder.count(), self.moment());
            if let Some(history) = &mut self.history {
                history.push(moment);
            }
        }
    }
}
