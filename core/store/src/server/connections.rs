//! All connections together: how many there are, what they hold, and who makes room.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::limits::server::{HELD_BYTES, SENT_AWAY_AT_ONCE};

/// The connections of a server.
#[derive(Default)]
pub(super) struct Connections {
    /// Those that have not completed a command, oldest first, and what ends them.
    strangers: Mutex<BTreeMap<u64, Arc<Notify>>>,
    /// Those that do not read what is written to them.
    not_reading: Mutex<BTreeMap<u64, Arc<Notify>>>,
    held: Arc<AtomicUsize>,
    /// What messages take of it.
    messages: Arc<AtomicUsize>,
}

impl Connections {
    /// A new connection; what it gets tells it to go.
    pub(super) fn add(&self, id: u64) -> Arc<Notify> {
        let go = Arc::new(Notify::new());
        lock(&self.strangers).insert(id, Arc::clone(&go));
        go
    }

    /// A connection has completed a command.
    pub(super) fn mark_known(&self, id: u64) {
        lock(&self.strangers).remove(&id);
    }

    /// Whether a connection reads what is written to it.
    pub(super) fn mark_reading(&self, id: u64, go: &Arc<Notify>, reads: bool) {
        if reads {
            lock(&self.not_reading).remove(&id);
        } else {
            lock(&self.not_reading).insert(id, Arc::clone(go));
        }
    }

    /// A connection has gone.
    pub(super) fn remove(&self, id: u64) {
        lock(&self.strangers).remove(&id);
        lock(&self.not_reading).remove(&id);
    }

    /// Sends so many of the oldest strangers away, and says how many there were.
    pub(super) fn send_strangers_away(&self, count: usize) -> usize {
        send_away(&self.strangers, count)
    }

    /// Bytes that connections hold: requests, replies, messages.
    pub(super) const fn held(&self) -> &Arc<AtomicUsize> {
        &self.held
    }

    /// Bytes of messages, beside those.
    pub(super) const fn messages(&self) -> &Arc<AtomicUsize> {
        &self.messages
    }

    /// Whether somebody who needs memory may have it. Who is sent away gives theirs back soon.
    pub(super) fn has_room(&self) -> bool {
        let held = self.held.load(Ordering::Relaxed);
        if held <= HELD_BYTES {
            return true;
        }
        let gone = send_away(&self.not_reading, SENT_AWAY_AT_ONCE) + send_away(&self.strangers, SENT_AWAY_AT_ONCE);
        gone > 0 && held <= HELD_BYTES + HELD_BYTES / 4
    }
}

fn send_away(them: &Mutex<BTreeMap<u64, Arc<Notify>>>, count: usize) -> usize {
    let mut them = lock(them);
    for gone in 0..count {
        let Some((_, go)) = them.pop_first() else {
            return gone;
        };
        go.notify_one();
    }
    count
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What one connection holds, counted among all.
pub(super) struct Held {
    all: Arc<AtomicUsize>,
    bytes: usize,
}

impl Held {
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

impl Drop for Held {
    fn drop(&mut self) {
        self.set(0);
    }
}
