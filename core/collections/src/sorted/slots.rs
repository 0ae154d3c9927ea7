//! Sorted keys, with the slots of their values.

use std::borrow::Borrow;

/// Sorted keys, each with the number of a slot that no other key has.
///
/// The keys are in short runs. An insertion or a removal moves only keys of one run and of the runs beside it.
#[derive(Clone, Debug)]
pub(super) struct SlotIndex<K> {
    /// The runs, in order. A run is empty only if it is the only one. Two neighbouring runs together have more than
    /// [`JOIN_LIMIT`] keys.
    runs: Vec<Run<K>>,
    len: usize,
    /// The numbers of slots that were used before and are free now.
    free: Vec<usize>,
}

pub(super) type Run<K> = Vec<(K, usize)>;

/// The maximum number of keys in a run.
pub(super) const MAX_RUN: usize = 64;
/// Two neighbouring runs that together have no more keys than this are joined.
pub(super) const JOIN_LIMIT: usize = MAX_RUN / 2;

impl<K> SlotIndex<K> {
    pub(super) const fn new() -> Self {
        Self {
            runs: Vec::new(),
            len: 0,
            free: Vec::new(),
        }
    }

    #[cfg(test)]
    pub(super) const fn runs(&self) -> &[Run<K>] {
        self.runs.as_slice()
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn iter(&self) -> Iter<'_, K> {
        Iter {
            runs: self.runs.iter(),
            run: [].iter(),
        }
    }

    pub(super) fn into_iter(self) -> IntoSlots<K> {
        IntoSlots {
            runs: self.runs.into_iter(),
            run: Vec::new().into_iter(),
        }
    }
}

impl<K: Ord> SlotIndex<K> {
    pub(super) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<usize>
    where
        K: Borrow<Q>,
    {
        if self.is_empty() {
            return None;
        }
        let (run, at) = self.find(key).ok()?;
        Some(self.runs.get(run)?.get(at)?.1)
    }

    pub(super) fn first_from<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&K>
    where
        K: Borrow<Q>,
    {
        let (Ok((run, at)) | Err((run, at))) = self.find(key);
        self.runs.get(run)?.get(at).map(|(key, _)| key)
    }

    /// Returns the slot of a key. A new key gets a free slot.
    pub(super) fn add(&mut self, key: K) -> usize {
        let (run, at) = match self.find(&key) {
            Ok((run, at)) => {
                return self
                    .runs
                    .get(run)
                    .and_then(|run| run.get(at))
                    .map_or(0, |entry| entry.1);
            }
            Err(found) => found,
        };
        let slot = self.free.pop().unwrap_or(self.len);
        self.len = self.len.saturating_add(1);
        self.put(run, at, (key, slot));
        slot
    }

    /// Removes a key, and returns its slot.
    pub(super) fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<usize>
    where
        K: Borrow<Q>,
    {
        let (run, at) = self.find(key).ok()?;
        let (_, slot) = self.runs.get_mut(run)?.remove(at);
        self.len = self.len.saturating_sub(1);
        // In an empty map, `add` begins again with slot 0. A map that often becomes empty thus needs no list of free
        // slots.
        if self.is_empty() {
            self.free.clear();
        } else {
            self.free.push(slot);
        }
        if self.runs.len() > 1 {
            self.join(run);
            self.join(run.wrapping_sub(1));
        }
        Some(slot)
    }

    /// Returns the run of a key and the index in the run: `Ok` if the key is there, otherwise `Err` with the place to
    /// insert it.
    fn find<Q: Ord + ?Sized>(&self, key: &Q) -> Result<(usize, usize), (usize, usize)>
    where
        K: Borrow<Q>,
    {
        let ends_before = |run: &Run<K>| run.last().is_some_and(|(last, _)| last.borrow() < key);
        let run = match self.runs.len() {
            0 | 1 => 0,
            // A key that is greater than all others belongs to the last run.
            runs => self.runs.partition_point(ends_before).min(runs.saturating_sub(1)),
        };
        let entries = self.runs.get(run).map_or(&[][..], Vec::as_slice);
        match entries.binary_search_by(|(other, _)| other.borrow().cmp(key)) {
            Ok(at) => Ok((run, at)),
            Err(at) => Err((run, at)),
        }
    }
}

impl<K> SlotIndex<K> {
    fn put(&mut self, run: usize, at: usize, entry: (K, usize)) {
        let Some(entries) = self.runs.get_mut(run) else {
            return self.runs.push(vec![entry]);
        };
        if entries.len() < MAX_RUN {
            return entries.insert(at, entry);
        }
        // Most keys arrive in order. If a key belongs at the end of a full run, the run therefore stays full, and a new
        // run begins.
        let middle = if at == MAX_RUN { MAX_RUN } else { JOIN_LIMIT };
        let mut rest = entries.split_off(middle);
        match at.checked_sub(middle) {
            Some(at) => rest.insert(at, entry),
            None => entries.insert(at, entry),
        }
        self.runs.insert(run.saturating_add(1), rest);
    }

    /// Joins a run with the next one, if both together have few keys or one of them is empty.
    fn join(&mut self, run: usize) {
        let next = run.wrapping_add(1);
        let len = |run| self.runs.get(run).map(Vec::len);
        if let (Some(one), Some(other)) = (len(run), len(next))
            && (one.min(other) == 0 || one.saturating_add(other) <= JOIN_LIMIT)
        {
            let mut others = self.runs.remove(next);
            if let Some(entries) = self.runs.get_mut(run) {
                entries.append(&mut others);
            }
        }
    }
}

pub(super) struct Iter<'a, K> {
    runs: std::slice::Iter<'a, Run<K>>,
    run: std::slice::Iter<'a, (K, usize)>,
}

impl<K> Clone for Iter<'_, K> {
    fn clone(&self) -> Self {
        Self {
            runs: self.runs.clone(),
            run: self.run.clone(),
        }
    }
}

impl<'a, K> Iterator for Iter<'a, K> {
    type Item = &'a (K, usize);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.run.next() {
                None => self.run = self.runs.next()?.iter(),
                entry => return entry,
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct IntoSlots<K> {
    runs: std::vec::IntoIter<Run<K>>,
    run: std::vec::IntoIter<(K, usize)>,
}

impl<K> Iterator for IntoSlots<K> {
    type Item = (K, usize);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.run.next() {
                None => self.run = self.runs.next()?.into_iter(),
                entry => return entry,
            }
        }
    }
}
