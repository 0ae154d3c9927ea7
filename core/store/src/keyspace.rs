//! Keys, their values, and their expiry.

use indexmap::IndexMap;

use crate::capacity::shrunk_capacity;
use crate::glob::Pattern;
use crate::reply::StoreError;
use crate::value::{Kind, Value};

/// All keys. An expired key does not exist for any reader. It is removed when it is accessed or swept.
#[derive(Debug, Default)]
pub(crate) struct Keyspace {
    /// A map whose order depends only on the calls, so that `KEYS` and sweeps are reproducible.
    entries: IndexMap<Vec<u8>, Entry>,
    now_ms: i64,
    next_sweep_ms: i64,
    sweep_from: usize,
    /// The memory of keys and values.
    bytes: usize,
}

/// The bytes of a key in addition to its name and its value: its entry in the table, including the free space that
/// tables keep.
const KEY_BYTES: usize = 256;

/// Returns the memory of a key and its value.
fn bytes_of(key: &[u8], value: &Value) -> usize {
    KEY_BYTES + key.len() + value.bytes()
}

#[derive(Debug)]
struct Entry {
    value: Value,
    expires_at_ms: Option<i64>,
}

impl Entry {
    /// Returns whether the key has expired. As in Redis, a key still exists in the millisecond of its expiry.
    fn is_expired(&self, now_ms: i64) -> bool {
        self.expires_at_ms.is_some_and(|at| now_ms > at)
    }
}

/// The interval between two sweeps for expired keys.
const SWEEP_EVERY_MS: i64 = 1_000;
/// The interval after a sweep that found many expired keys, because there are probably more.
const SWEEP_AGAIN_MS: i64 = 50;
/// The most keys that one sweep visits, so that no call takes long.
const SWEEP_KEYS: usize = 2_000;

impl Keyspace {
    /// Sets the time for the following commands. Sweeps if the last sweep was long enough ago.
    pub(crate) fn set_now(&mut self, now_ms: i64) {
        self.now_ms = now_ms;
        if now_ms >= self.next_sweep_ms {
            let has_more = self.sweep();
            self.next_sweep_ms = now_ms + if has_more { SWEEP_AGAIN_MS } else { SWEEP_EVERY_MS };
        }
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.now_ms
    }

    /// Returns the value of a key; `None` without the key, an error for another type.
    pub(crate) fn read<K: Kind>(&mut self, key: &[u8]) -> Result<Option<&K>, StoreError> {
        match self.live(key) {
            None => Ok(None),
            Some(entry) => K::of(&entry.value).map(Some).ok_or_else(StoreError::wrong_type),
        }
    }

    /// Changes the value of an existing key. An emptied collection is removed.
    pub(crate) fn change<K: Kind, T>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut K) -> T,
    ) -> Result<Option<T>, StoreError> {
        let Some(entry) = self.live(key) else {
            return Ok(None);
        };
        let before = entry.value.bytes();
        let value = K::of_mut(&mut entry.value).ok_or_else(StoreError::wrong_type)?;
        let result = change(value);
        let (after, is_empty) = (entry.value.bytes(), entry.value.is_empty());
        self.bytes = self.bytes + after - before;
        if is_empty {
            self.take(key);
        }
        Ok(Some(result))
    }

    /// Changes the value of a key. A missing key first gets an empty value.
    pub(crate) fn change_or_create<K: Kind, T>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut K) -> T,
    ) -> Result<T, StoreError> {
        if self.live(key).is_none() {
            let entry = Entry {
                value: K::empty(),
                expires_at_ms: None,
            };
            self.bytes += bytes_of(key, &entry.value);
            self.entries.insert(key.to_vec(), entry);
        }
        self.change(key, change)?
            .ok_or_else(|| StoreError::err("the key is gone"))
    }

    /// Sets a key to a value and replaces its previous value of any type.
    pub(crate) fn set(&mut self, key: &[u8], value: Value, expires_at_ms: Option<i64>) {
        self.bytes += bytes_of(key, &value);
        let entry = Entry { value, expires_at_ms };
        match self.entries.get_mut(key) {
            Some(before) => {
                self.bytes -= bytes_of(key, &before.value);
                *before = entry;
            }
            None => {
                self.entries.insert(key.to_vec(), entry);
            }
        }
    }

    pub(crate) fn contains(&mut self, key: &[u8]) -> bool {
        self.live(key).is_some()
    }

    pub(crate) fn type_name(&mut self, key: &[u8]) -> Option<&'static str> {
        self.live(key).map(|entry| entry.value.type_name())
    }

    /// Returns when the key expires. The outer `None` means that there is no key, the inner one that it has no TTL.
    pub(crate) fn expires_at(&mut self, key: &[u8]) -> Option<Option<i64>> {
        self.live(key).map(|entry| entry.expires_at_ms)
    }

    /// Sets when an existing key expires; `None` means never. A time that is not in the future removes the key.
    pub(crate) fn set_expiry(&mut self, key: &[u8], expires_at_ms: Option<i64>) {
        if expires_at_ms.is_some_and(|at| at <= self.now_ms) {
            self.take(key);
        } else if let Some(entry) = self.live(key) {
            entry.expires_at_ms = expires_at_ms;
        }
    }

    /// Removes a key. Returns whether it existed.
    pub(crate) fn remove(&mut self, key: &[u8]) -> bool {
        let now_ms = self.now_ms;
        self.take(key).is_some_and(|entry| !entry.is_expired(now_ms))
    }

    /// Returns the memory of all keys and values, in bytes.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    fn take(&mut self, key: &[u8]) -> Option<Entry> {
        let index = self.entries.get_index_of(key)?;
        self.take_at(index)
    }

    fn take_at(&mut self, index: usize) -> Option<Entry> {
        let (key, entry) = self.entries.swap_remove_index(index)?;
        self.bytes -= bytes_of(&key, &entry.value);
        if let Some(capacity) = shrunk_capacity(self.entries.len(), self.entries.capacity()) {
            self.entries.shrink_to(capacity);
        }
        Some(entry)
    }

    pub(crate) fn clear(&mut self) {
        self.entries = IndexMap::new();
        self.bytes = 0;
        self.sweep_from = 0;
    }

    /// Returns the number of keys, and the number of keys with a TTL.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let live = self.entries.values().filter(|entry| !entry.is_expired(self.now_ms));
        live.fold((0, 0), |(keys, expiring), entry| {
            (keys + 1, expiring + usize::from(entry.expires_at_ms.is_some()))
        })
    }

    /// Returns the keys that match a pattern, with their types.
    pub(crate) fn matching<'a>(&'a self, pattern: &'a Pattern<'a>) -> impl Iterator<Item = (&'a [u8], &'static str)> {
        self.entries
            .iter()
            .filter(move |(key, entry)| !entry.is_expired(self.now_ms) && pattern.matches(key))
            .map(|(key, entry)| (key.as_slice(), entry.value.type_name()))
    }

    fn live(&mut self, key: &[u8]) -> Option<&mut Entry> {
        let (index, _, entry) = self.entries.get_full(key)?;
        if entry.is_expired(self.now_ms) {
            self.take_at(index);
            return None;
        }
        self.entries.get_index_mut(index).map(|(_, entry)| entry)
    }

    /// Visits the next keys and removes those that have expired, so that keys which no client accesses do not
    /// accumulate. Returns whether more than a quarter of the visited keys had expired.
    fn sweep(&mut self) -> bool {
        let visited = SWEEP_KEYS.min(self.entries.len());
        let mut removed: usize = 0;
        for _ in 0..visited {
            if self.sweep_from >= self.entries.len() {
                self.sweep_from = 0;
            }
            match self.entries.get_index(self.sweep_from) {
                Some((_, entry)) if entry.is_expired(self.now_ms) => {
                    self.take_at(self.sweep_from);
                    removed += 1;
                }
                _ => self.sweep_from += 1,
            }
        }
        removed > visited / 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expired_keys_that_no_client_accesses_are_removed_within_seconds() {
        let mut keys = Keyspace::default();
        keys.set_now(0);
        for number in 0..50_000 {
            let expires = (number % 50 != 0).then_some(300);
            keys.set(format!("name-{number}").as_bytes(), Value::String(Vec::new()), expires);
        }
        for now_ms in (0..3_300).step_by(10) {
            keys.set_now(now_ms);
        }
        assert_eq!(keys.entries.len(), 1_000);
    }
}
