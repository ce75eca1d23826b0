use crate::sim::{Rng, Schedule};

/// The most choices of one run; a run that wants more is a mistake of the engine.
const MAX_CHOICES: usize = 10_000;

/// One run as the list of its choices: who moves, and whether a fault strikes. The first of the
/// options is the usual one: the longest waiting moves, nothing strikes.
///
/// A run replays the choices that stand and adds the usual ones, or random ones, behind them.
#[derive(Debug, Default)]
pub(super) struct Path {
    choices: Vec<Choice>,
    /// How many of them this run has passed.
    passed: usize,
    /// Chooses behind the end, where a search is random.
    rng: Option<Rng>,
    /// A choice stands that this run does not have: the path belongs to another run.
    foreign: bool,
}

#[derive(Debug, Clone, Copy)]
struct Choice {
    taken: u16,
    /// 0 where it is not known yet.
    options: u16,
}

impl Path {
    /// The path of a printed schedule.
    pub(super) fn of(schedule: &Schedule) -> Self {
        let choices = schedule.choices().map(|taken| Choice {
            taken: taken as u16,
            options: 0,
        });
        Self {
            choices: choices.collect(),
            ..Self::default()
        }
    }

    pub(super) fn schedule(&self) -> Schedule {
        let choices = self.choices[..self.passed].iter();
        choices.map(|choice| usize::from(choice.taken)).collect()
    }

    /// Begins a run.
    pub(super) fn rewind(&mut self) {
        self.passed = 0;
        self.foreign = false;
    }

    /// Begins a run that is all random.
    pub(super) fn randomise(&mut self, seed: u64) {
        self.choices.clear();
        self.rng = Some(Rng::new(seed));
    }

    /// Whether the next choice is behind the end.
    pub(super) fn is_at_end(&self) -> bool {
        self.passed == self.choices.len()
    }

    /// The next choice among `options`; a random one takes another than the usual once in `rarity`.
    pub(super) fn choose(&mut self, options: usize, rarity: u64) -> usize {
        if self.is_at_end() {
            assert!(self.passed < MAX_CHOICES, "a run has too many choices");
            let taken = self.rng.as_mut().map_or(0, |rng| {
                if rng.below(rarity) == 0 {
                    rng.below(options as u64) as u16
                } else {
                    0
                }
            });
            self.choices.push(Choice { taken, options: 0 });
        }
        let choice = &mut self.choices[self.passed];
        choice.options = options as u16;
        self.passed += 1;
        if choice.taken >= choice.options {
            self.foreign = true;
            return 0;
        }
        usize::from(choice.taken)
    }

    pub(super) fn is_foreign(&self) -> bool {
        self.foreign || self.passed < self.choices.len()
    }

    /// How many choices the run had.
    pub(super) fn len(&self) -> usize {
        self.choices.len()
    }

    /// How many choices departed from the usual.
    pub(super) fn departures(&self) -> usize {
        let departs = |choice: &&Choice| choice.taken != 0;
        self.choices.iter().filter(departs).count()
    }

    /// Goes to the next path, depth first, with at most `departures` from the usual. What was at
    /// or behind the place that this returns is over; `None` when all paths were taken.
    pub(super) fn advance(&mut self, departures: usize) -> Option<usize> {
        let mut departed = self.departures();
        for index in (0..self.choices.len()).rev() {
            let choice = &mut self.choices[index];
            departed -= usize::from(choice.taken != 0);
            if choice.taken + 1 < choice.options && departed < departures {
                choice.taken += 1;
                self.choices.truncate(index + 1);
                return Some(index);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every leaf of a lopsided tree, once each: after a first 2 the run is over.
    fn leaves(departures: usize) -> Vec<String> {
        let mut path = Path::default();
        let mut found = Vec::new();
        loop {
            path.rewind();
            if path.choose(3, 1) != 2 {
                path.choose(2, 1);
                path.choose(2, 1);
            }
            found.push(path.schedule().to_string());
            if path.advance(departures).is_none() {
                return found;
            }
        }
    }

    #[test]
    fn takes_every_path_once() {
        assert_eq!(
            leaves(usize::MAX),
            ["-", "001", "01", "011", "1", "101", "11", "111", "2"]
        );
    }

    #[test]
    fn departs_as_often_as_it_may() {
        assert_eq!(leaves(0), ["-"]);
        assert_eq!(leaves(1), ["-", "001", "01", "1", "2"]);
    }

    #[test]
    fn a_path_of_another_run_is_foreign() {
        for (token, foreign) in [("-", false), ("1", false), ("2", true), ("01", true)] {
            let mut path = Path::of(&token.parse().unwrap());
            path.rewind();
            path.choose(2, 1);
            assert_eq!(path.is_foreign(), foreign, "{token}");
        }
    }
}
