//! A table of what is named by numbers that we count up ourselves.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// What enters or leaves moves nothing else, however large it is: in a tree, all that stand
/// behind it in its leaf move. Where all are looked at, they come in the order of their names,
/// which costs a sort: so one seed gives one trace.
#[derive(Clone, Debug)]
pub struct Table<K, V>(HashMap<K, V, Hashing>);

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self(HashMap::default())
    }
}

impl<K: Copy + Ord + Hash, V> Table<K, V> {
    /// What has this name.
    pub fn get(&self, name: &K) -> Option<&V> {
        self.0.get(name)
    }

    /// What has this name.
    pub fn get_mut(&mut self, name: &K) -> Option<&mut V> {
        self.0.get_mut(name)
    }

    /// Whether anything has this name.
    pub fn contains_key(&self, name: &K) -> bool {
        self.0.contains_key(name)
    }

    /// Gives what was there before.
    pub fn insert(&mut self, name: K, value: V) -> Option<V> {
        self.0.insert(name, value)
    }

    /// What is there, or what is put there now.
    pub fn get_or_default(&mut self, name: K) -> &mut V
    where
        V: Default,
    {
        self.0.entry(name).or_default()
    }

    /// Gives what was there.
    pub fn remove(&mut self, name: &K) -> Option<V> {
        self.0.remove(name)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All names, in order.
    #[must_use]
    pub fn keys(&self) -> Vec<K> {
        // By pairs, so that one sort is compiled for this and the next.
        self.iter().map(|(name, _)| name).collect()
    }

    /// All, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        in_order(self.0.iter().map(|(name, value)| Named(*name, value)).collect())
    }

    /// All, in the order of their names.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (K, &mut V)> {
        in_order(self.0.iter_mut().map(|(name, value)| Named(*name, value)).collect())
    }

    /// All, in the order of their names.
    pub fn into_values(mut self) -> impl Iterator<Item = V> {
        let names = self.keys().into_iter();
        names.filter_map(move |name| self.remove(&name))
    }

    /// Forgets those for which it is not so. They are asked about in no order.
    pub fn retain(&mut self, mut is_so: impl FnMut(&V) -> bool) {
        self.0.retain(|_, value| is_so(value));
    }

    /// Whether it is so of any: in no order, so for questions alone.
    pub fn any(&self, is_so: impl FnMut(&V) -> bool) -> bool {
        self.0.values().any(is_so)
    }
}

/// A name and what has it, compared by the name alone.
struct Named<K, V>(K, V);

impl<K: Ord, V> Ord for Named<K, V> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}

impl<K: Ord, V> PartialOrd for Named<K, V> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<K: Ord, V> PartialEq for Named<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<K: Ord, V> Eq for Named<K, V> {}

/// Sorted by a heap: the code of the standard library's sort is ten times as long, which pages load.
fn in_order<K: Ord, V>(all: BinaryHeap<Named<K, V>>) -> impl Iterator<Item = (K, V)> {
    all.into_sorted_vec()
        .into_iter()
        .map(|Named(name, value)| (name, value))
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
