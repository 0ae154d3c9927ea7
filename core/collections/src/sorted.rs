//! A map and a set that are sorted by key and compile to little code.
//!
//! The standard library's trees compile to about 5 kB for each pair of key and value types. Together they were a
//! quarter of what a browser loads. Here the code that depends on the order is compiled once for each key type, and all
//! id types share one copy, because they are all numbers. A value keeps its slot while other keys are inserted or
//! removed.

mod slots;
#[cfg(test)]
mod tests;

use std::borrow::Borrow;

use self::slots::{IntoSlots, SlotIndex};

/// A map whose iterators return the entries in the order of their keys.
#[derive(Clone, Debug)]
pub struct SortedMap<K, V> {
    slots: SlotIndex<K>,
    /// The values, by the numbers of their slots.
    values: Vec<Option<V>>,
}

impl<K, V> SortedMap<K, V> {
    /// Makes an empty map.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            slots: SlotIndex::new(),
            values: Vec::new(),
        }
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Returns all entries, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> + Clone {
        let value = |slot: &usize| self.values.get(*slot)?.as_ref();
        self.slots
            .iter()
            .filter_map(move |(key, slot)| Some((key, value(slot)?)))
    }

    /// Returns all entries, in the order of their keys.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        let mut values: Vec<Option<&mut V>> = self.values.iter_mut().map(Option::as_mut).collect();
        let mut value = move |slot: &usize| values.get_mut(*slot)?.take();
        self.slots
            .iter()
            .filter_map(move |(key, slot)| Some((key, value(slot)?)))
    }

    /// Returns all keys, in order.
    pub fn keys(&self) -> impl Iterator<Item = &K> + Clone {
        self.slots.iter().map(|(key, _)| key)
    }

    /// Returns all keys, in order.
    pub fn into_keys(self) -> impl Iterator<Item = K> {
        self.slots.into_iter().map(|(key, _)| key)
    }

    /// Returns all values, in the order of their keys.
    pub fn values(&self) -> impl Iterator<Item = &V> + Clone {
        self.iter().map(|(_, value)| value)
    }

    /// Returns all values, in the order of their keys.
    pub fn into_values(self) -> impl Iterator<Item = V> {
        self.into_iter().map(|(_, value)| value)
    }

    /// Returns all values, in the order of their keys.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.iter_mut().map(|(_, value)| value)
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        *self = Self::new();
    }

    #[expect(clippy::indexing_slicing, reason = "the index returns only slots that exist")]
    fn value(&mut self, slot: usize) -> &mut Option<V> {
        &mut self.values[slot]
    }
}

impl<K: Ord, V> SortedMap<K, V> {
    /// Returns the value of a key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.values.get(self.slots.get(key)?)?.as_ref()
    }

    /// Returns the value of a key.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.values.get_mut(self.slots.get(key)?)?.as_mut()
    }

    /// Whether a key has a value.
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.slots.get(key).is_some()
    }

    /// Returns the first key that is equal to this one or greater.
    pub fn first_from<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&K>
    where
        K: Borrow<Q>,
    {
        self.slots.first_from(key)
    }

    /// Sets the value of a key, and returns the old one.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.slot(key).replace(value)
    }

    /// Returns the value of a key, after inserting the result of `make` if there is none.
    pub fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        self.slot(key).get_or_insert_with(make)
    }

    /// Returns the value of a key, after inserting the default if there is none.
    pub fn get_or_default(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        self.get_or_insert_with(key, V::default)
    }

    /// Removes the value of a key, and returns it.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let slot = self.slots.remove(key)?;
        self.value(slot).take()
    }

    /// Removes all entries for which `keep` is false.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        *self = std::mem::take(self)
            .into_iter()
            .filter_map(|(key, mut value)| keep(&key, &mut value).then_some((key, value)))
            .collect();
    }

    fn slot(&mut self, key: K) -> &mut Option<V> {
        let slot = self.slots.add(key);
        if slot == self.values.len() {
            self.values.push(None);
        }
        self.value(slot)
    }
}

impl<K, V> Default for SortedMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, V> IntoIterator for SortedMap<K, V> {
    type Item = (K, V);
    type IntoIter = IntoEntries<K, V>;

    fn into_iter(self) -> Self::IntoIter {
        IntoEntries {
            slots: self.slots.into_iter(),
            values: self.values,
        }
    }
}

impl<K: Ord, V> Extend<(K, V)> for SortedMap<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for SortedMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::new();
        map.extend(entries);
        map
    }
}

/// The entries of a [`SortedMap`], in the order of their keys.
#[derive(Debug)]
pub struct IntoEntries<K, V> {
    slots: IntoSlots<K>,
    values: Vec<Option<V>>,
}

impl<K, V> Iterator for IntoEntries<K, V> {
    type Item = (K, V);

    fn next(&mut self) -> Option<Self::Item> {
        let (key, slot) = self.slots.next()?;
        Some((key, self.values.get_mut(slot)?.take()?))
    }
}

/// A set whose iterators return the keys in order.
#[derive(Clone, Debug)]
pub struct SortedSet<K>(SlotIndex<K>);

impl<K> SortedSet<K> {
    /// Makes an empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self(SlotIndex::new())
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns all keys, in order.
    pub fn iter(&self) -> impl Iterator<Item = &K> + Clone {
        self.0.iter().map(|(key, _)| key)
    }
}

impl<K: Ord> SortedSet<K> {
    /// Whether the set has a key.
    pub fn contains<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.0.get(key).is_some()
    }

    /// Adds a key. Returns whether it is new.
    pub fn insert(&mut self, key: K) -> bool {
        let before = self.len();
        self.0.add(key);
        self.len() > before
    }

    /// Removes a key. Returns whether the set had it.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.0.remove(key).is_some()
    }
}

impl<K> Default for SortedSet<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K> IntoIterator for SortedSet<K> {
    type Item = K;
    type IntoIter = IntoKeys<K>;

    fn into_iter(self) -> Self::IntoIter {
        IntoKeys(self.0.into_iter())
    }
}

impl<K: Ord> Extend<K> for SortedSet<K> {
    fn extend<I: IntoIterator<Item = K>>(&mut self, keys: I) {
        for key in keys {
            self.insert(key);
        }
    }
}

impl<K: Ord> FromIterator<K> for SortedSet<K> {
    fn from_iter<I: IntoIterator<Item = K>>(keys: I) -> Self {
        let mut set = Self::new();
        set.extend(keys);
        set
    }
}

/// The keys of a [`SortedSet`], in order.
#[derive(Debug)]
pub struct IntoKeys<K>(IntoSlots<K>);

impl<K> Iterator for IntoKeys<K> {
    type Item = K;

    fn next(&mut self) -> Option<K> {
        self.0.next().map(|(key, _)| key)
    }
}
