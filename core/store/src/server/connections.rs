//! All connections together: their memory, and which of them are closed to make room.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::limits::server::{BUFFER_BYTES, CLOSED_AT_ONCE};

/// The connections of a server.
#[derive(Default)]
pub(super) struct Connections {
    /// Connections that have not completed a command, oldest first, with the notification that closes them.
    new_connections: Mutex<BTreeMap<u64, Arc<Notify>>>,
    /// Connections whose clients do not read what is written to them.
    not_reading: Mutex<BTreeMap<u64, Arc<Notify>>>,
    memory: Arc<AtomicUsize>,
    /// The bytes of messages in mailboxes, which are not part of `memory`.
    message_memory: Arc<AtomicUsize>,
}

impl Connections {
    /// Adds a new connection. Returns the notification that tells the connection to close.
    pub(super) fn add(&self, id: u64) -> Arc<Notify> {
        let must_close = Arc::new(Notify::new());
        lock(&self.new_connections).insert(id, Arc::clone(&must_close));
        must_close
    }

    /// Notes that a connection has completed a command.
    pub(super) fn mark_established(&self, id: u64) {
        lock(&self.new_connections).remove(&id);
    }

    /// Notes whether the client of a connection reads what is written to it.
    pub(super) fn mark_reading(&self, id: u64, must_close: &Arc<Notify>, reads: bool) {
        if reads {
            lock(&self.not_reading).remove(&id);
        } else {
            lock(&self.not_reading).insert(id, Arc::clone(must_close));
        }
    }

    pub(super) fn remove(&self, id: u64) {
        lock(&self.new_connections).remove(&id);
        lock(&self.not_reading).remove(&id);
    }

    /// Closes this number of the oldest new connections. Returns how many were closed.
    pub(super) fn close_oldest_new(&self, count: usize) -> usize {
        close_oldest(&self.new_connections, count)
    }

    /// Returns the bytes that connections hold: requests and replies.
    pub(super) const fn memory(&self) -> &Arc<AtomicUsize> {
        &self.memory
    }

    /// Returns the bytes of messages in mailboxes.
    pub(super) const fn message_memory(&self) -> &Arc<AtomicUsize> {
        &self.message_memory
    }

    /// Returns whether a connection may take more memory. Above the limit, this function closes some connections. If it
    /// finds any to close, a quarter more is allowed, because their memory is freed soon.
    pub(super) fn can_grow(&self) -> bool {
        let memory = self.memory.load(Ordering::Relaxed);
        if memory <= BUFFER_BYTES {
            return true;
        }
        let closed =
            close_oldest(&self.not_reading, CLOSED_AT_ONCE) + close_oldest(&self.new_connections, CLOSED_AT_ONCE);
        closed > 0 && memory <= BUFFER_BYTES + BUFFER_BYTES / 4
    }
}

fn close_oldest(connections: &Mutex<BTreeMap<u64, Arc<Notify>>>, count: usize) -> usize {
    let mut connections = lock(connections);
    for closed in 0..count {
        let Some((_, must_close)) = connections.pop_first() else {
            return closed;
        };
        must_close.notify_one();
    }
    count
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The memory of one connection or mailbox, counted in the total.
pub(super) struct MemoryShare {
    all: Arc<AtomicUsize>,
    bytes: usize,
}

impl MemoryShare {
    pub(super) fn of(all: &Arc<AtomicUsize>) -> Self {
        Self {
            all: Arc::clone(all),
            bytes: 0,
        }
    }

    pub(super) fn set(&mut self, bytes: usize) {
        if bytes != self.bytes {
            self.all.fetch_add(bytes, Ordering::Relaxed);
            self.all.fetch_sub(self.bytes, Ordering::Relaxed);
            self.bytes = bytes;
        }
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.set(0);
    }
}
