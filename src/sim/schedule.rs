use std::fmt;
use std::str::FromStr;

use super::Rng;

/// Decides who moves next. One implementation a strategy.
pub trait Chooser {
    /// Picks one of `movers`, the names of the processes that can move, longest waiting first.
    /// Called only where there are at least two. An index out of range ends the run with an error.
    fn choose(&mut self, movers: &[&str]) -> usize;
}

/// The choices of one run, in order: at each step with at least two movers, the index taken.
///
/// Printed as a token that replays the run: one base-36 digit a choice, `_` and two digits for a
/// choice of 36 or more, trailing zeros left off, `-` for none. So the fair schedule, which always lets the longest waiting move, is `-`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Schedule {
    choices: Vec<u16>,
}

const BASE: u16 = 36;

impl Schedule {
    /// The most movers that one choice can tell apart: two base-36 digits.
    pub const MAX_MOVERS: usize = 36 * 36;

    /// Adds a choice.
    ///
    /// # Panics
    ///
    /// If `choice` is not below [`Schedule::MAX_MOVERS`].
    pub(super) fn push(&mut self, choice: usize) {
        assert!(choice < Self::MAX_MOVERS, "a choice has two base-36 digits");
        self.choices.push(choice as u16);
    }
}

impl FromIterator<usize> for Schedule {
    /// # Panics
    ///
    /// If a choice is not below [`Schedule::MAX_MOVERS`].
    fn from_iter<I: IntoIterator<Item = usize>>(choices: I) -> Self {
        let mut schedule = Self::default();
        for choice in choices {
            schedule.push(choice);
        }
        schedule
    }
}

impl Schedule {
    /// The choices, in order.
    pub fn choices(&self) -> impl Iterator<Item = usize> {
        self.choices.iter().copied().map(usize::from)
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = self
            .choices
            .iter()
            .rposition(|&choice| choice != 0)
            .map_or(0, |last| last + 1);
        if told == 0 {
            return f.write_str("-");
        }
        for &choice in &self.choices[..told] {
            let digit = |value: u16| char::from_digit(value.into(), BASE.into()).ok_or(fmt::Error);
            if choice < BASE {
                write!(f, "{}", digit(choice)?)?;
            } else {
                write!(f, "_{}{}", digit(choice / BASE)?, digit(choice % BASE)?)?;
            }
        }
        Ok(())
    }
}

/// A token that is no schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenError {
    /// Which character, counted from 1, is not a base-36 digit.
    pub position: usize,
    /// The character.
    pub found: char,
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "character {} of the schedule token is {:?}; expected a digit or a lower-case letter",
            self.position, self.found
        )
    }
}

impl std::error::Error for TokenError {}

impl FromStr for Schedule {
    type Err = TokenError;

    fn from_str(token: &str) -> Result<Self, TokenError> {
        if token == "-" {
            return Ok(Self::default());
        }
        let mut characters = token.chars().enumerate();
        let mut choices = Vec::new();
        while let Some((index, found)) = characters.next() {
            let digit = |(index, found): (usize, char)| {
                let value = found.to_digit(36).filter(|_| !found.is_ascii_uppercase());
                value.map(|value| value as u16).ok_or(TokenError {
                    position: index + 1,
                    found,
                })
            };
            choices.push(if found == '_' {
                let cut_short = TokenError {
                    position: index + 1,
                    found,
                };
                let high = characters.next().ok_or(cut_short.clone())?;
                let low = characters.next().ok_or(cut_short)?;
                digit(high)? * BASE + digit(low)?
            } else {
                digit((index, found))?
            });
        }
        Ok(Self { choices })
    }
}

/// Replays a schedule, then goes on fairly: the longest waiting moves. Empty, it is the fair
/// schedule.
#[derive(Debug, Default)]
pub struct Script {
    choices: std::vec::IntoIter<u16>,
}

impl Script {
    /// Replays `schedule` from its start.
    pub fn new(schedule: Schedule) -> Self {
        Self {
            choices: schedule.choices.into_iter(),
        }
    }
}

impl Chooser for Script {
    fn choose(&mut self, _movers: &[&str]) -> usize {
        self.choices.next().map_or(0, usize::from)
    }
}

/// Lets anyone move with even chances, by a seeded generator.
#[derive(Debug)]
pub struct Seeded {
    rng: Rng,
}

impl Seeded {
    /// The random schedule of `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            rng: Rng::new(seed),
        }
    }
}

impl Chooser for Seeded {
    fn choose(&mut self, movers: &[&str]) -> usize {
        self.rng.below(movers.len() as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(choices: &[usize]) -> Schedule {
        choices.iter().copied().collect()
    }

    #[test]
    fn tokens_are_short_and_replay() {
        for (choices, token) in [
            (&[][..], "-"),
            (&[0, 0], "-"),
            (&[0, 3, 0, 35, 0, 0], "030z"),
            (&[36, 1, 1295, 99], "_101_zz_2r"),
        ] {
            assert_eq!(schedule(choices).to_string(), token);
            let mut script = Script::new(token.parse().unwrap());
            let replayed: Vec<usize> = choices.iter().map(|_| script.choose(&[])).collect();
            assert_eq!(replayed, choices);
        }
    }

    #[test]
    fn nonsense_is_named() {
        let error = "01!".parse::<Schedule>().unwrap_err();
        assert_eq!((error.position, error.found), (3, '!'));
        for (token, position) in [("A", 1), ("0_", 2), ("0_1", 2), ("_1!", 3)] {
            let error = token.parse::<Schedule>().unwrap_err();
            assert_eq!(error.position, position, "{token}");
        }
    }
}
