//! Keys, their values, and when they expire.

use indexmap::IndexMap;

use crate::capacity::shrunk;
use crate::glob::Pattern;
use crate::reply::StoreError;
use crate::value::{Kind, Value};

/// Every key. Keys past their time are gone for every reader, and removed when
/// touched or swept.
#[derive(Debug, Default)]
pub(crate) struct Keyspace {
    /// In a map with a fixed order, so that `KEYS` and sweeps repeat exactly.
    entries: IndexMap<Vec<u8>, Entry>,
    now_ms: i64,
    next_sweep_ms: i64,
    sweep_from: usize,
    /// What keys and values take.
    bytes: usize,
}

/// Bytes of a key beside its name and its value: its place in the table, with the room that tables keep free.
const KEY_BYTES: usize = 256;

/// What a key takes.
fn bytes_of(key: &[u8], value: &Value) -> usize {
    KEY_BYTES + key.len() + value.bytes()
}

#[derive(Debug)]
struct Entry {
    value: Value,
    expires_at_ms: Option<i64>,
}

impl Entry {
    /// A key lives through the millisecond in which it expires, as in Redis.
    fn is_expired(&self, now_ms: i64) -> bool {
        self.expires_at_ms.is_some_and(|at| now_ms > at)
    }
}

/// How often expired keys that nobody touches are looked for.
const SWEEP_EVERY_MS: i64 = 1_000;
/// The same after a look of which a quarter had expired: there are more.
const SWEEP_AGAIN_MS: i64 = 50;
/// How many keys one look visits, so that no call takes long.
const SWEEP_KEYS: usize = 2_000;

impl Keyspace {
    /// Sets the time for the commands that follow.
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

    /// The value of a key, if there is one and it is of this kind.
    pub(crate) fn read<K: Kind>(&mut self, key: &[u8]) -> Result<Option<&K>, StoreError> {
        match self.live(key) {
            None => Ok(None),
            Some(entry) => K::of(&entry.value).map(Some).ok_or_else(StoreError::wrong_type),
        }
    }

    /// Changes the value of a key that exists; an emptied collection is removed.
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

    /// Changes the value of a key, which is an empty one at first if there was none.
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

    /// Puts a value in place of whatever the key held.
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

    /// When the key expires; the outer `None` if there is no key.
    pub(crate) fn expires_at(&mut self, key: &[u8]) -> Option<Option<i64>> {
        self.live(key).map(|entry| entry.expires_at_ms)
    }

    /// Sets when a key that exists expires; a time in the past removes it.
    pub(crate) fn set_expiry(&mut self, key: &[u8], expires_at_ms: Option<i64>) {
        if expires_at_ms.is_some_and(|at| at <= self.now_ms) {
            self.take(key);
        } else if let Some(entry) = self.live(key) {
            entry.expires_at_ms = expires_at_ms;
        }
    }

    /// Whether there was such a key.
    pub(crate) fn remove(&mut self, key: &[u8]) -> bool {
        let now_ms = self.now_ms;
        self.take(key).is_some_and(|entry| !entry.is_expired(now_ms))
    }

    /// What keys and values take, in bytes.
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
        if let Some(capacity) = shrunk(self.entries.len(), self.entries.capacity()) {
            self.entries.shrink_to(capacity);
        }
        Some(entry)
    }

    pub(crate) fn clear(&mut self) {
        self.entries = IndexMap::new();
        self.bytes = 0;
        self.sweep_from = 0;
    }

    /// How many keys there are, and how many of them have a TTL.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let live = self.entries.values().filter(|entry| !entry.is_expired(self.now_ms));
        live.fold((0, 0), |(keys, expiring), entry| {
            (keys + 1, expiring + usize::from(entry.expires_at_ms.is_some()))
        })
    }

    /// The keys that match a pattern, with their types.
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

    /// Removes expired keys among the next few, so that keys nobody touches do not pile up.
    /// Says whether a quarter of them had expired.
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
    fn many_keys_that_expire_and_that_nobody_touches_are_gone_within_seconds() {
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
