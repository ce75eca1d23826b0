use super::{Loss, SECTOR_BYTES};
use crate::sim::Rng;

/// The bytes of one file: what every process sees, and what a power cut would leave for certain.
#[derive(Debug, Default)]
pub(super) struct FileBytes {
    visible: Vec<u8>,
    durable: Vec<u8>,
    // invariant: applying these to `durable`, in order, gives `visible`.
    unsynced: Vec<Change>,
}

#[derive(Debug, Clone)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Truncate { length: usize },
}

impl FileBytes {
    /// A file that holds these bytes for good.
    pub(super) fn durable_from(bytes: &[u8]) -> Self {
        Self {
            visible: bytes.to_vec(),
            durable: bytes.to_vec(),
            unsynced: Vec::new(),
        }
    }

    /// What a power cut that loses everything unsynced would leave.
    pub(super) fn durable(&self) -> &[u8] {
        &self.durable
    }

    pub(super) fn visible(&self) -> &[u8] {
        &self.visible
    }

    /// Fills `buffer` from `offset` and returns how many bytes there were.
    pub(super) fn read(&self, buffer: &mut [u8], offset: usize) -> usize {
        let Some(rest) = self.visible.get(offset..) else {
            return 0;
        };
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        count
    }

    pub(super) fn write(&mut self, bytes: &[u8], offset: usize) {
        write_at(&mut self.visible, bytes, offset);
        self.unsynced.push(Change::Write {
            offset,
            bytes: bytes.to_vec(),
        });
    }

    pub(super) fn truncate(&mut self, length: usize) {
        self.visible.resize(length, 0);
        self.unsynced.push(Change::Truncate { length });
    }

    pub(super) fn sync(&mut self) {
        for change in self.unsynced.drain(..) {
            match change {
                Change::Write { offset, bytes } => write_at(&mut self.durable, &bytes, offset),
                Change::Truncate { length } => self.durable.resize(length, 0),
            }
        }
    }

    /// Holds `bytes`, all of them durable, and in a database's header this change counter
    /// (<https://www.sqlite.org/fileformat.html#file_change_counter>), which stands there twice.
    pub(super) fn restore(&mut self, bytes: &[u8], change_counter: u32) {
        self.visible.clear();
        self.visible.extend_from_slice(bytes);
        if bytes.starts_with(b"SQLite format 3\0") {
            for at in [24, 92] {
                self.visible[at..at + 4].copy_from_slice(&change_counter.to_be_bytes());
            }
        }
        self.durable.clone_from(&self.visible);
        self.unsynced.clear();
    }

    /// What a power cut leaves. After it everything is durable: the machine has been restarted.
    pub(super) fn lose(&mut self, loss: Loss, rng: &mut Rng) {
        match loss {
            Loss::Everything => {
                self.visible.clone_from(&self.durable);
                self.unsynced.clear();
            }
            Loss::Nothing => self.sync(),
            Loss::Torn { .. } => {
                for change in std::mem::take(&mut self.unsynced) {
                    match change {
                        Change::Write { offset, bytes } => self.tear(offset, &bytes, rng),
                        Change::Truncate { length } if rng.coin() => self.durable.resize(length, 0),
                        Change::Truncate { .. } => {}
                    }
                }
                self.visible.clone_from(&self.durable);
            }
        }
    }

    /// Each sector of the write survives or not, on its own. Where a later sector of a grown file
    /// survives and an earlier one does not, the gap holds garbage, as SQLite assumes of a disk
    /// without SQLITE_IOCAP_SAFE_APPEND.
    fn tear(&mut self, offset: usize, bytes: &[u8], rng: &mut Rng) {
        let end = offset + bytes.len();
        let mut start = offset;
        while start < end {
            let sector_end = (start / SECTOR_BYTES + 1) * SECTOR_BYTES;
            let stop = sector_end.min(end);
            if rng.coin() {
                while self.durable.len() < start {
                    self.durable.push(rng.next_u64() as u8);
                }
                write_at(
                    &mut self.durable,
                    &bytes[start - offset..stop - offset],
                    start,
                );
            }
            start = stop;
        }
    }
}

/// Writes as a file does: a gap beyond the end fills with zeros.
fn write_at(file: &mut Vec<u8>, bytes: &[u8], offset: usize) {
    let end = offset + bytes.len();
    if file.len() < end {
        file.resize(end, 0);
    }
    file[offset..end].copy_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_writes() -> FileBytes {
        let mut file = FileBytes::default();
        file.write(&[1; SECTOR_BYTES], 0);
        file.sync();
        file.write(&[2; 2 * SECTOR_BYTES], 0);
        file
    }

    #[test]
    fn what_was_synced_survives_and_the_rest_is_lost() {
        let mut file = two_writes();
        assert_eq!(file.visible(), [2; 2 * SECTOR_BYTES]);
        file.lose(Loss::Everything, &mut Rng::new(0));
        assert_eq!(file.visible(), [1; SECTOR_BYTES]);
    }

    #[test]
    fn a_kinder_power_cut_loses_nothing() {
        let mut file = two_writes();
        file.lose(Loss::Nothing, &mut Rng::new(0));
        assert_eq!(file.visible(), [2; 2 * SECTOR_BYTES]);
        file.lose(Loss::Everything, &mut Rng::new(0));
        assert_eq!(file.visible(), [2; 2 * SECTOR_BYTES]);
    }

    /// Torn writes come out whole, absent and mixed, never finer than a sector.
    #[test]
    fn sectors_tear_independently() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..64 {
            let mut file = two_writes();
            file.lose(Loss::Torn { seed }, &mut Rng::new(seed));
            let (first, rest) = file.visible().split_at(SECTOR_BYTES);
            assert!(
                first.iter().all(|&byte| byte == first[0]),
                "torn in a sector"
            );
            assert!(rest.iter().all(|&byte| byte == 2), "torn in a sector");
            seen.insert((first[0], rest.len()));
        }
        let expected = [(1, 0), (1, SECTOR_BYTES), (2, 0), (2, SECTOR_BYTES)];
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), expected);
    }
}
