use super::Forks;

/// What a search explores: something that runs from its beginning to its end, again and again, another way each time.
///
/// A run must depend on nothing but the movers that the search picks and the answers of its [`Forks`].
pub trait Model {
    /// A set of the properties that a run can break.
    type Properties: Properties;

    /// Why no run came about. A search ends with it: what a run breaks is no error.
    type Error;

    /// Puts everything back to the beginning. Whatever is open in a step later, other than who moves, is asked of `forks`.
    ///
    /// # Errors
    ///
    /// What keeps a run from beginning.
    fn begin(&mut self, forks: &Forks) -> Result<(), Self::Error>;

    /// What may happen next: how many can move. The first of them is the usual one. 0 when the run is over.
    ///
    /// # Errors
    ///
    /// What keeps the run from going on.
    fn movers(&mut self) -> Result<usize, Self::Error>;

    /// Lets one of them move, counted from 0.
    ///
    /// # Errors
    ///
    /// What keeps the run from going on.
    fn step(&mut self, mover: usize) -> Result<(), Self::Error>;

    /// The number of the state that the run has come to: the same for two states from which the same follows, whatever is
    /// picked, and well mixed, so that two others hardly ever share one.
    fn fingerprint(&self) -> u64;

    /// Looks at what is left, when nobody can move any more.
    ///
    /// # Errors
    ///
    /// What keeps it from being looked at.
    fn finish(&mut self) -> Result<(), Self::Error>;

    /// What was seen of this run so far.
    fn seen(&self) -> Seen<Self::Properties>;
}

/// What was seen of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Seen<P> {
    /// The properties that it broke.
    pub broken: P,
    /// Those for which that happened without which they would be worth nothing.
    pub did_happen: P,
    /// Whether a fault struck.
    pub struck: bool,
}

/// A set of properties.
pub trait Properties: Copy + Default + PartialEq {
    /// Adds those of another set.
    fn join(&mut self, other: Self);

    /// Whether it has none.
    fn is_empty(self) -> bool;
}

/// Of a model with one property: whether the set has it.
impl Properties for bool {
    fn join(&mut self, other: Self) {
        *self |= other;
    }

    fn is_empty(self) -> bool {
        !self
    }
}
