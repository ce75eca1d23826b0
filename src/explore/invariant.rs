use crate::outcome::Witness;
use crate::search::Properties;

/// What must hold whatever strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Invariant {
    /// One intention has at most one effect.
    OneEffect,
    /// Every success names the same ticket, that of its own payload.
    SameTicket,
    /// Who was answered with a ticket has it in the end.
    Done,
    /// A conflict or failure writes nothing.
    RefusalWritesNothing,
    /// No record without effect and no effect without record.
    RecordWithEffect,
    /// Two intentions have two effects.
    TwoEffects,
    /// Nobody waits for ever.
    NobodyWaits,
    /// After the last fault a retry gets an answer.
    RetryAnswered,
}

impl Invariant {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::OneEffect,
        Self::SameTicket,
        Self::Done,
        Self::RefusalWritesNothing,
        Self::RecordWithEffect,
        Self::TwoEffects,
        Self::NobodyWaits,
        Self::RetryAnswered,
    ];

    /// Name, claim, what is wrong where it is broken, the same for a narrow column, and what must
    /// have happened for it to be worth anything where it holds.
    const fn words(self) -> [&'static str; 5] {
        match self {
            Self::OneEffect => [
                "one_effect",
                "one intention has at most one ticket",
                "two tickets for one intention",
                "two tickets",
                "the tool was asked twice for one intention",
            ],
            Self::SameTicket => [
                "same_ticket",
                "every success names the one ticket of its payload",
                "a success names another ticket than the one asked for",
                "wrong ticket",
                "two successes named one ticket",
            ],
            Self::Done => [
                "done",
                "whoever was answered with a ticket has it in the end",
                "an answered ticket is gone",
                "answer lost",
                "a call was answered with a ticket",
            ],
            Self::RefusalWritesNothing => [
                "refusal_writes_nothing",
                "a conflict or failure writes nothing",
                "a call failed and left a ticket",
                "failed, yet wrote",
                "a call was refused",
            ],
            Self::RecordWithEffect => [
                "record_with_effect",
                "no record without ticket, no ticket without record",
                "a ticket without record, or a record without ticket",
                "half written",
                "a record and its ticket were left",
            ],
            Self::TwoEffects => [
                "two_effects",
                "two intentions have two tickets",
                "one ticket for two intentions",
                "one ticket for two",
                "two intentions had a success each",
            ],
            Self::NobodyWaits => [
                "nobody_waits",
                "nobody waits for ever",
                "callers wait for each other until the limit is over",
                "deadlock",
                "somebody waited for a lock and got it",
            ],
            Self::RetryAnswered => [
                "retry_answered",
                "after the last fault a retry gets an answer",
                "no retry gets an answer",
                "no answer",
                "a retry after a fault or refusal got an answer",
            ],
        }
    }

    /// The name in `results.json`; never changes.
    pub fn id(self) -> &'static str {
        self.words()[0]
    }

    /// What is claimed.
    pub fn claim(self) -> &'static str {
        self.words()[1]
    }

    /// What is wrong where it is broken.
    pub fn breach(self) -> &'static str {
        self.words()[2]
    }

    /// The same for a narrow column.
    pub fn short_breach(self) -> &'static str {
        self.words()[3]
    }

    /// What must have happened for the claim to be worth anything.
    pub fn did_happen(self) -> &'static str {
        self.words()[4]
    }

    /// The invariant of this name.
    pub fn find(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.id() == id)
    }
}

/// What a search notes of a run.
impl Witness for Invariants {
    type Event = Invariant;

    fn count(&self, is_it: &dyn Fn(&Invariant) -> bool) -> usize {
        self.iter().filter(|one| is_it(one)).count()
    }
}

/// A set of invariants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Invariants(u8);

impl Invariants {
    /// Adds one.
    pub(super) fn insert(&mut self, invariant: Invariant) {
        self.0 |= 1 << invariant as u8;
    }

    pub(super) fn bits(self) -> u8 {
        self.0
    }

    /// Whether it has this one.
    pub fn has(self, invariant: Invariant) -> bool {
        self.0 & 1 << invariant as u8 != 0
    }

    /// Its members.
    pub fn iter(self) -> impl Iterator<Item = Invariant> {
        Invariant::ALL.into_iter().filter(move |&one| self.has(one))
    }
}

impl Properties for Invariants {
    fn join(&mut self, other: Self) {
        self.0 |= other.0;
    }

    fn is_empty(self) -> bool {
        self.0 == 0
    }
}
