//! All waiters of a client: their requests, and the queues of their locks.

use std::sync::Arc;

use super::caller_wait::CallerWait;
use super::queue::{Place, Queue, Queues};
use super::refusal::LocalHolder;
use super::request::Request;
use crate::ids::{Context, LockId, Ticket};
use crate::instant::Instant;
use crate::kinds::{Gate, Keys};
use crate::machines::holds::{Hold, Holds};
use crate::sorted::SortedMap;
use crate::table::Table;

/// The waiters of a client, and their queues.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    queues: Queues,
    requests: Table<Ticket, Request>,
    /// The number of requests of each caller.
    by_caller: SortedMap<Context, usize>,
}

impl Waiters {
    /// Returns the lock with these keys, if it is known here.
    pub(crate) fn find(&self, keys: &Keys) -> Option<LockId> {
        self.queues.find(keys, keys.kind.gate())
    }

    /// Returns the lock with these keys at another gate of its record.
    pub(crate) fn find_at(&self, keys: &Keys, gate: Gate) -> Option<LockId> {
        self.queues.find(keys, gate)
    }

    /// Returns all known locks, oldest first.
    pub(crate) fn locks(&self) -> Vec<LockId> {
        self.queues.ids()
    }

    /// Whether no caller of this client asks, waits or holds the lock; `None` if the lock is not known.
    pub(crate) fn is_unused(&self, lock: LockId) -> Option<bool> {
        self.queues.get(lock).map(Queue::is_unused)
    }

    /// Whether clients elsewhere wait for the lock.
    pub(crate) fn is_shared(&self, lock: LockId) -> bool {
        self.queues.get(lock).is_some_and(Queue::is_shared)
    }

    /// Returns the tickets of all waiters, oldest first.
    pub(crate) fn tickets(&self) -> Vec<Ticket> {
        self.requests.keys()
    }

    /// Whether this caller waits for any lock.
    pub(crate) fn has_waits_of(&self, context: Context) -> bool {
        self.by_caller.contains_key(&context)
    }

    /// Returns all waits of this caller, oldest first. Searches the waits of all callers.
    pub(crate) fn of_caller(&self, context: Context) -> Vec<CallerWait> {
        let tickets = self.requests.keys().into_iter();
        let wait = |ticket| {
            let request = self.requests.get(&ticket)?;
            (request.context() == Some(context)).then(|| CallerWait::of(ticket, request))
        };
        tickets.filter_map(wait).collect()
    }

    /// Returns the number of entries in all tables.
    pub(crate) fn len(&self) -> usize {
        let requests = self.requests.len().saturating_add(self.by_caller.len());
        self.queues.len().saturating_add(requests)
    }

    /// Returns the lock with these keys, and adds it if it is not known.
    pub(super) fn open(&mut self, keys: &Arc<Keys>) -> LockId {
        self.queues.open(keys)
    }

    /// Removes a lock that is no longer in use.
    pub(super) fn close(&mut self, lock: LockId) {
        self.queues.remove(lock);
    }

    pub(super) fn request(&self, ticket: Ticket) -> Option<&Request> {
        self.requests.get(&ticket)
    }

    pub(super) fn request_mut(&mut self, ticket: Ticket) -> Option<&mut Request> {
        self.requests.get_mut(&ticket)
    }

    /// Returns all requests, oldest first.
    pub(super) fn requests_mut(&mut self) -> impl Iterator<Item = (Ticket, &mut Request)> {
        self.requests.iter_mut()
    }

    pub(super) fn queue(&self, lock: LockId) -> Option<&Queue> {
        self.queues.get(lock)
    }

    pub(super) fn queue_mut(&mut self, lock: LockId) -> Option<&mut Queue> {
        self.queues.get_mut(lock)
    }

    pub(super) fn queues_mut(&mut self) -> impl Iterator<Item = &mut Queue> {
        self.queues.iter_mut()
    }

    /// Returns a queue and its first request, unless the lock is held here.
    pub(super) fn queue_and_first(&mut self, lock: LockId) -> Option<(&mut Queue, Option<(Ticket, &mut Request)>)> {
        let queue = self.queues.get_mut(lock).filter(|queue| queue.holding().is_none())?;
        let first = queue.first();
        let first = first.and_then(|ticket| Some((ticket, self.requests.get_mut(&ticket)?)));
        Some((queue, first))
    }

    pub(super) fn admit(&mut self, ticket: Ticket, request: Request) {
        if let Some(context) = request.context() {
            let count = self.by_caller.get_or_insert_with(context, || 0);
            *count = count.saturating_add(1);
        }
        self.requests.insert(ticket, request);
    }

    pub(super) fn take(&mut self, ticket: Ticket) -> Option<Request> {
        let request = self.requests.remove(&ticket)?;
        if let Some(context) = request.context()
            && let Some(count) = self.by_caller.get_mut(&context)
        {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.by_caller.remove(&context);
            }
        }
        Some(request)
    }

    pub(super) fn with(&mut self, ticket: Ticket, change: impl FnOnce(&mut Request)) {
        if let Some(request) = self.requests.get_mut(&ticket) {
            change(request);
        }
    }

    pub(super) fn with_all(&mut self, tickets: &[Ticket], change: impl Fn(&mut Request)) {
        for ticket in tickets {
            self.with(*ticket, &change);
        }
    }

    pub(super) fn with_queue(&mut self, lock: LockId, change: impl FnOnce(&mut Queue)) {
        if let Some(queue) = self.queues.get_mut(lock) {
            change(queue);
        }
    }

    /// Whether a single attempt is refused because other callers of this client come first.
    pub(super) fn comes_after_others(&self, lock: LockId, place: Place) -> bool {
        let Some(queue) = self.queues.get(lock) else {
            return false;
        };
        match place {
            Place::Queue | Place::Server => !queue.is_idle(),
            // Small requests for permits must not overtake a large one that waits. Readers are all alike.
            Place::Alone => {
                let first = queue.first().and_then(|first| self.requests.get(&first));
                queue.counts_permits() && first.is_some_and(Request::was_told_held)
            }
        }
    }

    /// Returns the holder in this client, for the error of a caller with this context.
    pub(super) fn local_holder(
        &self,
        holds: &Holds,
        (lock, context): (LockId, Option<Context>),
        now: Instant,
    ) -> Option<LocalHolder> {
        let hold = self.holder(holds, lock)?;
        Some(LocalHolder {
            holder: hold.as_holder(now),
            is_the_caller: context.is_some() && hold.context() == context,
        })
    }

    /// Returns the hold of this client that blocks the waiters.
    pub(super) fn holder<'a>(&self, holds: &'a Holds, lock: LockId) -> Option<&'a Hold> {
        holds.get(self.queues.get(lock)?.holding()?)
    }
}
