//! A table of what is named by numbers that we count up ourselves.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// What enters or leaves moves nothing else, however large it is: in a tree, all that stand
/// behind it in its leaf move. Where all are looked at, they come in the order of their names,
/// which costs a sort: so one seed gives one trace.
#[derive(Clone, Debug)]
pub(crate) struct Table<K, V>(HashMap<K, V, Hashing>);

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self(HashMap::default())
    }
}

impl<K: Copy + Ord + Hash, V> Table<K, V> {
    pub(crate) fn get(&self, name: &K) -> Option<&V> {
        self.0.get(name)
    }

    pub(crate) fn get_mut(&mut self, name: &K) -> Option<&mut V> {
        self.0.get_mut(name)
    }

    pub(crate) fn contains_key(&self, name: &K) -> bool {
        self.0.contains_key(name)
    }

    /// Gives what was there before.
    pub(crate) fn insert(&mut self, name: K, value: V) -> Option<V> {
        self.0.insert(name, value)
    }

    /// What is there, or what is put there now.
    pub(crate) fn get_or_default(&mut self, name: K) -> &mut V
    where
        V: Default,
    {
        self.0.entry(name).or_default()
    }

    pub(crate) fn remove(&mut self, name: &K) -> Option<V> {
        self.0.remove(name)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All names, in order.
    pub(crate) fn keys(&self) -> Vec<K> {
        let mut names: Vec<K> = self.0.keys().copied().collect();
        names.sort_unstable();
        names
    }

    /// All, in the order of their names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        let mut all: Vec<(K, &V)> = self.0.iter().map(|(name, value)| (*name, value)).collect();
        all.sort_unstable_by_key(|(name, _)| *name);
        all.into_iter()
    }

    /// All, in the order of their names.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (K, &mut V)> {
        let mut all: Vec<(K, &mut V)> = self.0.iter_mut().map(|(name, value)| (*name, value)).collect();
        all.sort_unstable_by_key(|(name, _)| *name);
        all.into_iter()
    }

    /// Whether it is so of any: in no order, so for questions alone.
    pub(crate) fn any(&self, is_so: impl FnMut(&V) -> bool) -> bool {
        self.0.values().any(is_so)
    }
}

/// Without the random seed of the standard library: this crate draws no randomness of its own.
type Hashing = BuildHasherDefault<OfNumbers>;

/// Nobody else counts the numbers, so nobody can choose any that collide: multiplying is
/// enough, and much cheaper than what the standard library does.
#[derive(Default)]
struct OfNumbers(u64);

impl Hasher for OfNumbers {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        // Knuth's constant: 2^64 by the golden ratio.
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number.unsigned_abs() as u64);
    }

    fn finish(&self) -> u64 {
        // A table looks at the low bits first, and products are best in the high ones.
        self.0.rotate_left(32)
    }
}
