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
/// Printed as a token that replays the run: one base-36 digit a choice, trailing zeros left off,
/// `-` for none. So the fair schedule, which always lets the longest waiting move, is `-`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Schedule {
    choices: Vec<u8>,
}

impl Schedule {
    /// The most movers that one choice can tell apart: one base-36 digit.
    pub const MAX_MOVERS: usize = 36;

    /// Adds a choice.
    ///
    /// # Panics
    ///
    /// If `choice` is not below [`Schedule::MAX_MOVERS`].
    pub(super) fn push(&mut self, choice: usize) {
        assert!(choice < Self::MAX_MOVERS, "a choice is one base-36 digit");
        self.choices.push(choice as u8);
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
            let digit = char::from_digit(u32::from(choice), 36).ok_or(fmt::Error)?;
            write!(f, "{digit}")?;
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
        let choices = token
            .chars()
            .enumerate()
            .map(|(index, found)| {
                found
                    .to_digit(36)
                    .filter(|_| !found.is_ascii_uppercase())
                    .map(|digit| digit as u8)
                    .ok_or(TokenError {
                        position: index + 1,
                        found,
                    })
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { choices })
    }
}

/// Replays a schedule, then goes on fairly: the longest waiting moves. Empty, it is the fair
/// schedule.
#[derive(Debug, Default)]
pub struct Script {
    choices: std::vec::IntoIter<u8>,
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
        let mut schedule = Schedule::default();
        for &choice in choices {
            schedule.push(choice);
        }
        schedule
    }

    #[test]
    fn tokens_are_short_and_replay() {
        for (choices, token) in [
            (&[][..], "-"),
            (&[0, 0], "-"),
            (&[0, 3, 0, 35, 0, 0], "030z"),
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
        assert_eq!("A".parse::<Schedule>().unwrap_err().position, 1);
    }
}
