//! Checks I6 for messages: a waiter whose client is notified that its lock may be free asks at once, and not only when
//! its next poll is due. `World::must_ask` decides which waiters must ask, and says which ones are left out.

use std::collections::BTreeMap;

use steadlock_protocol::Ticket;

use super::{Checked, broken};
use crate::time::{MS, Micros};

/// The check of I6 for messages.
#[derive(Debug, Default)]
pub(crate) struct Wakes {
    /// The longest time until the waiter asks.
    pub(crate) notice_bound: Micros,
    /// By client and name: when the client was notified that the name may be free, and the waiter that must ask.
    notified: BTreeMap<(usize, usize), (Micros, Ticket)>,
}

impl Wakes {
    /// Notes that a client was notified that a name may be free, or was listening when the name was released. The caller
    /// has checked that the name is free. `waiter` is the client's first waiter for it.
    pub(crate) fn on_notification(&mut self, client: usize, name: usize, waiter: Ticket, now: Micros) {
        self.notified.entry((client, name)).or_insert((now, waiter));
    }

    /// Notes that a client asks for a name.
    pub(crate) fn on_attempt(&mut self, client: usize, name: usize) {
        self.notified.remove(&(client, name));
    }

    /// Notes that a client was granted an exclusive lock of this name: its other waiters know that without asking.
    pub(crate) fn granted(&mut self, client: usize, name: usize) {
        self.notified.remove(&(client, name));
    }

    /// Forgets what was observed before a fault.
    pub(crate) fn disturbed(&mut self) {
        self.notified.clear();
    }

    /// Checks the notifications, while no fault has effects. `waits` returns whether a caller still waits.
    pub(crate) fn observed(&mut self, now: Micros, waits: impl Fn(usize, Ticket) -> bool) -> Checked {
        self.notified.retain(|(client, _), (_, waiter)| waits(*client, *waiter));
        for ((client, name), (since, waiter)) in &self.notified {
            if now - since > self.notice_bound {
                let what = format!(
                    "client {client} got a message {} ms ago that name {name} may be free, and {waiter:?} waits for it",
                    (now - since) / MS
                );
                return broken("I6", what);
            }
        }
        Ok(())
    }
}
