//! How many wait in the server's queues of the fair locks that somebody chose.

use std::sync::{Arc, Mutex, PoisonError};

use steadlock_protocol::SortedMap;

/// More than so many are not asked for.
pub(crate) const MOST_QUEUES: usize = 100;

/// The last answers, by the locks' names. What could not be asked is not known, and not there.
#[derive(Debug, Default)]
pub(crate) struct QueueLengths(Mutex<SortedMap<Arc<str>, u32>>);

impl QueueLengths {
    /// What the server said; `None` if nothing.
    pub(crate) fn set(&self, name: &Arc<str>, length: Option<u32>) {
        let mut lengths = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match length {
            Some(length) => lengths.insert(Arc::clone(name), length),
            None => lengths.remove(name),
        };
    }

    pub(super) fn all(&self) -> SortedMap<Arc<str>, u32> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
