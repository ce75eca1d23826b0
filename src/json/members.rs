use super::Value;

/// The members of an object, each name once, ordered by the UTF-8 bytes of their names, which is the order of code
/// points.
///
/// A sorted list rather than a `BTreeMap`, whose code is 3 KB of the gzipped wasm module. Objects that code builds or
/// changes are small; a parsed one is sorted once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Members(Vec<(String, Value)>);

impl Members {
    /// These members, whose names are already in order and differ.
    pub(super) fn from_sorted(members: Vec<(String, Value)>) -> Self {
        Self(members)
    }

    fn find(&self, name: &str) -> Result<usize, usize> {
        self.0
            .binary_search_by(|(other, _)| other.as_str().cmp(name))
    }

    /// The member of this name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.find(name).ok().map(|at| &self.0[at].1)
    }

    /// The member of this name, to be changed.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Value> {
        self.find(name).ok().map(|at| &mut self.0[at].1)
    }

    /// Adds a member, in place of one of the same name.
    pub fn insert(&mut self, name: String, value: Value) {
        match self.find(&name) {
            Ok(at) => self.0[at].1 = value,
            Err(at) => self.0.insert(at, (name, value)),
        }
    }

    /// Takes the member of this name out.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        self.find(name).ok().map(|at| self.0.remove(at).1)
    }

    /// The members in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl IntoIterator for Members {
    type Item = (String, Value);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
