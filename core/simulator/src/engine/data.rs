//! The data of a server, separate from the `Machine` that serves it. A demoted server continues to answer from the data
//! of its new primary, like a replica without any lag.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use steadlock_protocol::Script;
use steadlock_store::{Reply, ServerTime, SubscriberId};

use super::cable::Cable;
use super::shards::slot;
use crate::defect::Defect;
use crate::records::texts;
use crate::snapshot::Snapshot;
use crate::stores::PooledStore;

/// The data that one or several machines serve.
pub(super) struct Data(Mutex<Contents>);

pub(super) struct Contents {
    pub(super) store: PooledStore,
    /// A script with a defect, and its text.
    patched: Option<(Script, String)>,
    pub(super) listeners: BTreeMap<u64, Listener>,
}

pub(super) struct Listener {
    pub(super) cable: Arc<Cable>,
    pub(super) machine: u64,
    pub(super) channels: BTreeSet<Vec<u8>>,
}

impl Data {
    pub(super) fn new(defect: Option<Defect>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Contents {
            store: PooledStore::new(),
            patched: defect.and_then(Defect::patch),
            listeners: BTreeMap::new(),
        })))
    }

    pub(super) fn execute<A: AsRef<[u8]>>(&self, words: &[A], now: ServerTime) -> Reply {
        self.lock().store.execute(words, now)
    }

    /// Returns the state that an up-to-date replica has now.
    pub(super) fn snapshot(&self, now: ServerTime) -> Snapshot {
        Snapshot::take(&mut self.lock().store, now)
    }

    /// Restores a snapshot: replaces all data, or adds the key of a snapshot of one key.
    pub(super) fn restore(&self, snapshot: Snapshot, now: ServerTime) {
        snapshot.restore(&mut self.lock().store, now);
    }

    /// Moves a key with its TTL to another server.
    pub(super) fn move_key(&self, key: &[u8], to: &Self, now: ServerTime) {
        let snapshot = {
            let store = &mut self.lock().store;
            if store.execute(&[b"EXISTS", key], now) != Reply::Int(1) {
                return;
            }
            let snapshot = Snapshot::of_key(store, key.to_vec(), now);
            store.execute(&[b"DEL", key], now);
            snapshot
        };
        to.restore(snapshot, now);
    }

    /// Returns the keys of a slot.
    pub(super) fn keys_in(&self, of: usize, now: ServerTime) -> Vec<Vec<u8>> {
        let mut keys = texts(self.execute(&["KEYS", "*"], now));
        keys.retain(|key| slot(key) == of);
        keys
    }

    /// Stops the delivery of messages to the listeners of this machine.
    pub(super) fn stop_delivery(&self, machine: u64) {
        let mut contents = self.lock();
        let Contents { store, listeners, .. } = &mut *contents;
        for (id, listener) in listeners.iter().filter(|(_, of)| of.machine == machine) {
            for channel in &listener.channels {
                store.unsubscribe(SubscriberId(*id), channel);
            }
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Contents> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Contents {
    /// Runs a script. `words` are the number of its keys, its keys and its arguments.
    pub(super) fn run(&mut self, script: Script, words: &[Vec<u8>], now: ServerTime) -> Reply {
        let text = match &self.patched {
            Some((of, text)) if *of == script => text,
            _ => {
                let (keys, args) = split(words);
                return self.store.run_script(script, keys, args, now);
            }
        };
        let Reply::Bytes(sha1) = self.store.execute(&["SCRIPT", "LOAD", text], now) else {
            unreachable!("a script is not loaded");
        };
        let call: Vec<&[u8]> = [b"EVALSHA".as_slice(), &sha1]
            .into_iter()
            .chain(words.iter().map(Vec::as_slice))
            .collect();
        self.store.execute(&call, now)
    }
}

/// Splits the words of a call, which begin with the number of keys, into keys and arguments.
pub(super) fn split(words: &[Vec<u8>]) -> (&[Vec<u8>], &[Vec<u8>]) {
    let count = std::str::from_utf8(&words[0]).ok().and_then(|count| count.parse().ok());
    words[1..].split_at(count.unwrap_or(0))
}
