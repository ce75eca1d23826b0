/// How many schedules go on from a state, and how many of them break an invariant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) schedules: u64,
    pub(super) bad: u64,
}

impl Count {
    pub(super) fn add(&mut self, other: Self) {
        self.schedules = self.schedules.saturating_add(other.schedules);
        self.bad = self.bad.saturating_add(other.bad);
    }
}

/// The states that a search has gone on from, and what came of each. Their numbers are well mixed,
/// so they are their own hashes, in a table with linear probing: a fraction of what the standard
/// library's maps add to the module.
///
/// Two states of one number would be taken for one. With 64 bits that befalls a search of
/// [`MAX_STATES`](super::MAX_STATES) once in ten million times.
#[derive(Debug, Default)]
pub(super) struct States {
    /// `None` where there is room. Its length is a power of two, or 0.
    // invariant: at most half full.
    slots: Vec<Option<(u64, Count)>>,
    len: usize,
}

impl States {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn get(&self, state: u64) -> Option<Count> {
        if self.slots.is_empty() {
            return None;
        }
        self.slots[self.slot(state)].map(|(_, count)| count)
    }

    /// Adds a state, or replaces what is known of it.
    pub(super) fn insert(&mut self, state: u64, count: Count) {
        if self.len * 2 >= self.slots.len() {
            let grown = vec![None; (self.slots.len() * 2).max(64)];
            for (state, count) in std::mem::replace(&mut self.slots, grown)
                .into_iter()
                .flatten()
            {
                let slot = self.slot(state);
                self.slots[slot] = Some((state, count));
            }
        }
        let slot = self.slot(state);
        self.len += usize::from(self.slots[slot].is_none());
        self.slots[slot] = Some((state, count));
    }

    /// Where the state stands, or else where it would.
    fn slot(&self, state: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = state as usize & mask;
        while self.slots[slot].is_some_and(|(other, _)| other != state) {
            slot = (slot + 1) & mask;
        }
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a map would hold, states of one slot included.
    #[test]
    fn holds_what_was_put_in() {
        let mut states = States::default();
        assert_eq!(states.get(0), None);
        for round in 1..=2 {
            for state in (0..3_000).map(|state| state << 7) {
                let count = Count {
                    schedules: state,
                    bad: round,
                };
                states.insert(state, count);
                assert_eq!(states.get(state), Some(count));
                assert_eq!(states.get(state + 1), None);
            }
            assert_eq!(states.len(), 3_000);
        }
        let sum: u64 = (0..3_000)
            .filter_map(|state| states.get(state << 7))
            .map(|one| one.bad)
            .sum();
        assert_eq!(sum, 6_000);
    }
}
