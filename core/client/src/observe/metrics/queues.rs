//! The numbers of waiters in the server's queues of the chosen fair locks.

use std::sync::{Arc, Mutex, PoisonError};

use steadlock_collections::SortedMap;

/// The limit of chosen locks.
pub(crate) const MAX_QUEUES: usize = 100;

/// The last answers, by lock name. A lock without an answer is not in the table.
#[derive(Debug, Default)]
pub(crate) struct QueueLengths(Mutex<SortedMap<Arc<str>, u32>>);

impl QueueLengths {
    /// Sets the server's last answer; `None` if there is none.
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
