//! I6, of messages: a waiter whose client listens when its lock is released, or hears that it may be
//! free, asks at once, and not only when it would have asked anyway.

use std::collections::BTreeMap;

use steadlock_protocol::Ticket;

use super::{Checked, broken};
use crate::time::{MS, Micros};

/// The check of it.
#[derive(Debug, Default)]
pub(crate) struct Wakes {
    /// The longest that it may take.
    pub(crate) word: Micros,
    /// By client and name: when the client was told that the name may be free, which it was, and the waiter there.
    heard: BTreeMap<(usize, usize), (Micros, Ticket)>,
}

impl Wakes {
    /// A client listens when a name is released, or hears that it may be free, which it is, and this caller waits
    /// for it.
    pub(crate) fn hears(&mut self, client: usize, name: usize, waiter: Ticket, now: Micros) {
        self.heard.entry((client, name)).or_insert((now, waiter));
    }

    /// A client asks for a name.
    pub(crate) fn asks(&mut self, client: usize, name: usize) {
        self.heard.remove(&(client, name));
    }

    /// A client was granted a name, which only one may hold: who else waits there knows that without asking.
    pub(crate) fn granted(&mut self, client: usize, name: usize) {
        self.heard.remove(&(client, name));
    }

    /// A fault struck: what was heard before says nothing.
    pub(crate) fn disturbed(&mut self) {
        self.heard.clear();
    }

    /// Somebody looked while all was calm; `waits` says who still waits at a client.
    pub(crate) fn observed(&mut self, now: Micros, waits: impl Fn(usize, Ticket) -> bool) -> Checked {
        self.heard.retain(|(client, _), (_, waiter)| waits(*client, *waiter));
        for ((client, name), (since, waiter)) in &self.heard {
            if now - since > self.word {
                let what = format!(
                    "client {client} was told {} ms ago that name {name} may be free, and {waiter:?} waits for it",
                    (now - since) / MS
                );
                return broken("I6", what);
            }
        }
        Ok(())
    }
}
