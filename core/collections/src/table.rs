//! A hash table for ids that the program assigns.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// A hash table with ids as keys.
///
/// An insertion moves other entries only when the table has to make room, and a removal moves none. In a tree, both
/// move all later entries of a leaf. The iterators sort the entries by id, so that the same seed of a simulation always
/// gives the same trace.
#[derive(Clone, Debug)]
pub struct Table<K, V>(HashMap<K, V, IdHashBuilder>);

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self(HashMap::default())
    }
}

impl<K: Copy + Ord + Hash, V> Table<K, V> {
    /// Returns the value of an id.
    pub fn get(&self, id: &K) -> Option<&V> {
        self.0.get(id)
    }

    /// Returns the value of an id.
    pub fn get_mut(&mut self, id: &K) -> Option<&mut V> {
        self.0.get_mut(id)
    }

    /// Whether an id has a value.
    pub fn contains_key(&self, id: &K) -> bool {
        self.0.contains_key(id)
    }

    /// Sets the value of an id, and returns the old one.
    pub fn insert(&mut self, id: K, value: V) -> Option<V> {
        self.0.insert(id, value)
    }

    /// Returns the value of an id, after inserting the default if there is none.
    pub fn get_or_default(&mut self, id: K) -> &mut V
    where
        V: Default,
    {
        self.0.entry(id).or_default()
    }

    /// Removes the value of an id, and returns it.
    pub fn remove(&mut self, id: &K) -> Option<V> {
        self.0.remove(id)
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the table is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns all ids, in order.
    #[must_use]
    pub fn keys(&self) -> Vec<K> {
        // `keys` and `iter` both sort pairs, so that the sort is compiled only once.
        self.iter().map(|(id, _)| id).collect()
    }

    /// Returns all entries, in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        sorted(self.0.iter().map(|(id, value)| Entry(*id, value)).collect())
    }

    /// Returns all entries, in the order of their ids.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (K, &mut V)> {
        sorted(self.0.iter_mut().map(|(id, value)| Entry(*id, value)).collect())
    }

    /// Returns all values, in the order of their ids.
    pub fn into_values(mut self) -> impl Iterator<Item = V> {
        let ids = self.keys().into_iter();
        ids.filter_map(move |id| self.remove(&id))
    }

    /// Removes all values for which `keep` is false. The order of the calls of `keep` is not defined.
    pub fn retain(&mut self, mut keep: impl FnMut(&V) -> bool) {
        self.0.retain(|_, value| keep(value));
    }

    /// Whether `predicate` is true for any value. The predicate must have no side effects, because the order of the
    /// calls is not defined.
    pub fn any(&self, predicate: impl FnMut(&V) -> bool) -> bool {
        self.0.values().any(predicate)
    }
}

/// An id and its value, compared by the id alone.
struct Entry<K, V>(K, V);

impl<K: Ord, V> Ord for Entry<K, V> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}

impl<K: Ord, V> PartialOrd for Entry<K, V> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<K: Ord, V> PartialEq for Entry<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<K: Ord, V> Eq for Entry<K, V> {}

/// Sorts entries with a heap. The standard library's sort has ten times as much code, which browsers would have to
/// load.
fn sorted<K: Ord, V>(all: BinaryHeap<Entry<K, V>>) -> impl Iterator<Item = (K, V)> {
    all.into_sorted_vec().into_iter().map(|Entry(id, value)| (id, value))
}

/// A hasher without the standard library's random seed, because a session draws no randomness of its own.
type IdHashBuilder = BuildHasherDefault<IdHasher>;

/// A hasher for ids. Only the program assigns the ids, so nobody can choose ids that collide. One multiplication is
/// therefore enough, and much cheaper than the standard library's hash.
#[derive(Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        // Knuth's constant is 2^64 divided by the golden ratio.
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number.unsigned_abs() as u64);
    }

    fn finish(&self) -> u64 {
        // The table uses the low bits first, but the high bits of a product are mixed best.
        self.0.rotate_left(32)
    }
}
