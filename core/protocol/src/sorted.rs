//! A map and a set in the order of their keys, of little code.
//!
//! The standard library's trees compile to some 5 kB for each type of key and value: together they were a quarter of
//! what a browser loads. Here all that depends on the order is compiled once for each type of key, and numbers that
//! name things are all alike to a computer. What is there for a key stays where it is while others come and go.

mod places;
#[cfg(test)]
mod tests;

use std::borrow::Borrow;

use self::places::{IntoPlaces, Places};

/// What is there once for each key, in the order of the keys.
#[derive(Clone, Debug)]
pub struct SortedMap<K, V> {
    places: Places<K>,
    /// By the numbers of their places.
    values: Vec<Option<V>>,
}

impl<K, V> SortedMap<K, V> {
    /// Nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            places: Places::new(),
            values: Vec::new(),
        }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// All, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> + Clone {
        let value = |place: &usize| self.values.get(*place)?.as_ref();
        self.places
            .iter()
            .filter_map(move |(key, place)| Some((key, value(place)?)))
    }

    /// All, in the order of their keys.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        let mut values: Vec<Option<&mut V>> = self.values.iter_mut().map(Option::as_mut).collect();
        let mut value = move |place: &usize| values.get_mut(*place)?.take();
        self.places
            .iter()
            .filter_map(move |(key, place)| Some((key, value(place)?)))
    }

    /// All keys, in order.
    pub fn keys(&self) -> impl Iterator<Item = &K> + Clone {
        self.places.iter().map(|(key, _)| key)
    }

    /// All keys, in order.
    pub fn into_keys(self) -> impl Iterator<Item = K> {
        self.places.into_iter().map(|(key, _)| key)
    }

    /// All values, in the order of their keys.
    pub fn values(&self) -> impl Iterator<Item = &V> + Clone {
        self.iter().map(|(_, value)| value)
    }

    /// All values, in the order of their keys.
    pub fn into_values(self) -> impl Iterator<Item = V> {
        self.into_iter().map(|(_, value)| value)
    }

    /// All values, in the order of their keys.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.iter_mut().map(|(_, value)| value)
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        *self = Self::new();
    }

    #[expect(clippy::indexing_slicing, reason = "what was found or added there is there")]
    fn value(&mut self, place: usize) -> &mut Option<V> {
        &mut self.values[place]
    }
}

impl<K: Ord, V> SortedMap<K, V> {
    /// What is there for this key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.values.get(self.places.get(key)?)?.as_ref()
    }

    /// What is there for this key.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.values.get_mut(self.places.get(key)?)?.as_mut()
    }

    /// Whether there is something for this key.
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.places.get(key).is_some()
    }

    /// The first key that is this one or comes behind it.
    pub fn first_from<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&K>
    where
        K: Borrow<Q>,
    {
        self.places.first_from(key)
    }

    /// Gives what was there before.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.place(key).replace(value)
    }

    /// What is there, or what is put there now.
    pub fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        self.place(key).get_or_insert_with(make)
    }

    /// What is there, or what is put there now.
    pub fn get_or_default(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        self.get_or_insert_with(key, V::default)
    }

    /// Gives what was there.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let place = self.places.remove(key)?;
        self.value(place).take()
    }

    /// Forgets those for which it is not so.
    pub fn retain(&mut self, mut is_so: impl FnMut(&K, &mut V) -> bool) {
        *self = std::mem::take(self)
            .into_iter()
            .filter_map(|(key, mut value)| is_so(&key, &mut value).then_some((key, value)))
            .collect();
    }

    fn place(&mut self, key: K) -> &mut Option<V> {
        let place = self.places.add(key);
        if place == self.values.len() {
            self.values.push(None);
        }
        self.value(place)
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
            places: self.places.into_iter(),
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

/// What was in a [`SortedMap`], in the order of the keys.
#[derive(Debug)]
pub struct IntoEntries<K, V> {
    places: IntoPlaces<K>,
    values: Vec<Option<V>>,
}

impl<K, V> Iterator for IntoEntries<K, V> {
    type Item = (K, V);

    fn next(&mut self) -> Option<Self::Item> {
        let (key, place) = self.places.next()?;
        Some((key, self.values.get_mut(place)?.take()?))
    }
}

/// Keys, in order.
#[derive(Clone, Debug)]
pub struct SortedSet<K>(Places<K>);

impl<K> SortedSet<K> {
    /// Nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self(Places::new())
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

    /// All, in order.
    pub fn iter(&self) -> impl Iterator<Item = &K> + Clone {
        self.0.iter().map(|(key, _)| key)
    }
}

impl<K: Ord> SortedSet<K> {
    /// Whether it is there.
    pub fn contains<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.0.get(key).is_some()
    }

    /// Whether it was not there before.
    pub fn insert(&mut self, key: K) -> bool {
        let before = self.len();
        self.0.add(key);
        self.len() > before
    }

    /// Whether it was there.
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

/// What was in a [`SortedSet`], in order.
#[derive(Debug)]
pub struct IntoKeys<K>(IntoPlaces<K>);

impl<K> Iterator for IntoKeys<K> {
    type Item = K;

    fn next(&mut self) -> Option<K> {
        self.0.next().map(|(key, _)| key)
    }
}
