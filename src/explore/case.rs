use std::fmt;
use std::str::FromStr;

use super::design::Design;
use crate::sim::{Journal, Schedule};

/// What may go wrong in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing: callers of one intention call at once.
    None,
    /// A request never arrives.
    RequestLost,
    /// A response never arrives; the caller may call again before the tool is done.
    ResponseLost,
    /// A request arrives twice, with any time between.
    DeliveredTwice,
    /// A request arrives after the retry was sent.
    DeliveredLate,
    /// A process is killed at a named point or before a disk operation.
    Killed,
    /// The power fails there, and what was not synced is lost, or torn.
    PowerLost,
    /// The disk answers one access with an error, or all from then on.
    DiskError,
    /// Replay records are pruned, or forgotten, while a retry is still to come.
    RecordPruned,
    /// Two intentions have equal payloads.
    TwoIntentions,
    /// The next call of a caller has another payload, whether or not it has the first one's answer.
    ChangedPayload,
}

/// A fault with its name, and the bounds that it is searched in unless others are asked for.
#[derive(Debug)]
pub struct FaultClass {
    /// The fault.
    pub fault: Fault,
    /// The name on the command line, in tokens and in `results.json`; never changes.
    pub id: &'static str,
    /// What happens, in a few words.
    pub title: &'static str,
    /// The usual bounds.
    pub bounds: Bounds,
}

/// What a search keeps to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// How many call at once, 1 to 4.
    pub callers: u8,
    /// How often each calls before the last fault is over, 1 to 3.
    pub attempts: u8,
    /// How many faults strike at most, 0 to 2.
    pub faults: u8,
}

impl Bounds {
    /// The most of each that any class takes.
    pub const MOST: Self = Self {
        callers: 4,
        attempts: 3,
        faults: 2,
    };
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (number, one, more)) in [
            (self.callers, "caller", "callers"),
            (self.attempts, "attempt", "attempts"),
            (self.faults, "fault", "faults"),
        ]
        .into_iter()
        .enumerate()
        {
            f.write_str(if index == 0 { "" } else { ", " })?;
            write!(f, "{number} {}", if number == 1 { one } else { more })?;
        }
        Ok(())
    }
}

const fn class(
    fault: Fault,
    id: &'static str,
    title: &'static str,
    [callers, attempts, faults]: [u8; 3],
) -> FaultClass {
    let bounds = Bounds {
        callers,
        attempts,
        faults,
    };
    FaultClass {
        fault,
        id,
        title,
        bounds,
    }
}

/// Every fault class.
pub const FAULTS: &[FaultClass] = &[
    class(Fault::None, "none", "two callers at once", [2, 2, 0]),
    class(
        Fault::RequestLost,
        "request_lost",
        "request lost",
        [1, 2, 1],
    ),
    class(
        Fault::ResponseLost,
        "response_lost",
        "response lost",
        [1, 2, 1],
    ),
    class(
        Fault::DeliveredTwice,
        "delivered_twice",
        "delivered twice",
        [1, 2, 1],
    ),
    class(
        Fault::DeliveredLate,
        "delivered_late",
        "delivered late",
        [1, 2, 1],
    ),
    class(Fault::Killed, "killed", "process killed", [1, 2, 2]),
    class(Fault::PowerLost, "power_lost", "power lost", [1, 2, 2]),
    class(Fault::DiskError, "disk_error", "disk error", [1, 2, 1]),
    class(
        Fault::RecordPruned,
        "record_pruned",
        "record pruned",
        [1, 2, 1],
    ),
    class(
        Fault::TwoIntentions,
        "two_intentions",
        "two intentions, equal payloads",
        [2, 2, 0],
    ),
    class(
        Fault::ChangedPayload,
        "changed_payload",
        "changed payload",
        [1, 2, 1],
    ),
];

/// One search: a design, what may go wrong, and the bounds.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// The design.
    pub design: &'static Design,
    /// What may go wrong.
    pub class: &'static FaultClass,
    /// The bounds.
    pub bounds: Bounds,
    /// How the database gets its commits to the disk.
    pub journal: Journal,
}

/// Names or numbers that make no case, or a token that replays nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CaseError {
    /// No design has this name.
    Design(String),
    /// No fault class has this name.
    Fault(String),
    /// A number is outside its bounds.
    Bounds {
        /// Which number.
        name: &'static str,
        /// The least.
        least: u8,
        /// The most.
        most: u8,
    },
    /// No journal has this name.
    Journal(String),
    /// The token has not the form `DESIGN.FAULT.BOUNDS.CHOICES`, or `DESIGN.FAULT.BOUNDS.JOURNAL.CHOICES`.
    Form,
    /// The choices of the token are not those of a run of its case.
    Foreign,
}

impl fmt::Display for CaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |f: &mut fmt::Formatter<'_>, ids: &mut dyn Iterator<Item = &'static str>| {
            ids.enumerate().try_for_each(|(index, id)| {
                f.write_str(if index == 0 { "; there is " } else { ", " })?;
                f.write_str(id)
            })
        };
        match self {
            Self::Design(name) => {
                write!(f, "no design {name:?}")?;
                names(f, &mut super::DESIGNS.iter().map(|design| design.id))
            }
            Self::Fault(name) => {
                write!(f, "no fault {name:?}")?;
                names(f, &mut FAULTS.iter().map(|class| class.id))
            }
            Self::Journal(name) => {
                write!(f, "no journal {name:?}")?;
                names(f, &mut Journal::ALL.into_iter().map(Journal::id))
            }
            Self::Bounds { name, least, most } => {
                write!(f, "{name}: expected a number from {least} to {most}")
            }
            Self::Form => f.write_str("a token has the form DESIGN.FAULT.BOUNDS.CHOICES"),
            Self::Foreign => f.write_str("the choices of the token belong to another run"),
        }
    }
}

impl std::error::Error for CaseError {}

impl Case {
    /// The case of these names, in the usual bounds.
    ///
    /// # Errors
    ///
    /// [`CaseError`] for a name that nothing has.
    pub fn find(design: &str, fault: &str) -> Result<Self, CaseError> {
        let class = FAULTS.iter().find(|class| class.id == fault);
        let class = class.ok_or_else(|| CaseError::Fault(fault.to_owned()))?;
        let design = Design::find(design).ok_or_else(|| CaseError::Design(design.to_owned()))?;
        Ok(Self {
            design,
            class,
            bounds: class.bounds,
            journal: Journal::default(),
        })
    }

    /// The same with another journal.
    pub fn with_journal(self, journal: Journal) -> Self {
        Self { journal, ..self }
    }

    /// The same within other bounds. A class without faults has none of them, and two intentions
    /// have two callers.
    ///
    /// # Errors
    ///
    /// [`CaseError::Bounds`].
    pub fn within(self, bounds: Bounds) -> Result<Self, CaseError> {
        let usual = self.class.bounds;
        let most = Bounds::MOST;
        let most_faults = if usual.faults == 0 { 0 } else { most.faults };
        let callers = match self.class.fault {
            Fault::TwoIntentions => (2, most.callers),
            Fault::ChangedPayload => (1, 1),
            _ => (1, most.callers),
        };
        let attempts = match self.class.fault {
            Fault::ChangedPayload => (2, most.attempts),
            _ => (1, most.attempts),
        };
        for (name, number, (least, most)) in [
            ("callers", bounds.callers, callers),
            ("attempts", bounds.attempts, attempts),
            ("faults", bounds.faults, (0, most_faults)),
        ] {
            if !(least..=most).contains(&number) {
                return Err(CaseError::Bounds { name, least, most });
            }
        }
        Ok(Self { bounds, ..self })
    }

    /// The token of a run of this case.
    pub(super) fn token(&self, choices: &Schedule) -> String {
        format!("{self}.{choices}")
    }
}

/// `DESIGN.FAULT.BOUNDS`, and `.JOURNAL` where it is not the usual one: the beginning of every token of the case.
impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Bounds {
            callers,
            attempts,
            faults,
        } = self.bounds;
        let (design, class) = (self.design.id, self.class.id);
        write!(f, "{design}.{class}.{callers}{attempts}{faults}")?;
        match self.journal {
            Journal::Rollback => Ok(()),
            other => write!(f, ".{}", other.id()),
        }
    }
}

impl FromStr for Case {
    type Err = CaseError;

    fn from_str(text: &str) -> Result<Self, CaseError> {
        let mut parts = text.splitn(4, '.');
        let mut part = || parts.next().ok_or(CaseError::Form);
        let (design, fault, bounds) = (part()?, part()?, part()?);
        let [callers, attempts, faults] = bounds.as_bytes() else {
            return Err(CaseError::Form);
        };
        let bounds = Bounds {
            callers: callers.wrapping_sub(b'0'),
            attempts: attempts.wrapping_sub(b'0'),
            faults: faults.wrapping_sub(b'0'),
        };
        let journal = match parts.next() {
            None => Journal::default(),
            Some(id) => Journal::find(id).ok_or_else(|| CaseError::Journal(id.to_owned()))?,
        };
        Ok(Self::find(design, fault)?
            .within(bounds)?
            .with_journal(journal))
    }
}

/// A case and the choices of one of its runs.
#[derive(Debug)]
pub(super) struct Token {
    pub(super) case: Case,
    pub(super) choices: Schedule,
}

impl FromStr for Token {
    type Err = CaseError;

    fn from_str(token: &str) -> Result<Self, CaseError> {
        let (case, choices) = token.rsplit_once('.').ok_or(CaseError::Form)?;
        Ok(Self {
            case: case.parse()?,
            choices: choices.parse().map_err(|_| CaseError::Form)?,
        })
    }
}
