//! The local queue of one lock, and its turns.
//!
//! Waiters of one client for one lock queue here first come, first served, and
//! only the first asks the server: a hundred waiters in a process make no more
//! traffic than one, and none of them starves. What one holder releases, the
//! next local waiter takes right behind it. So that other processes get their
//! turn, a client that knows of listeners elsewhere pauses after 16 local grants
//! or 20 ms in a row.

use crate::error::Holder;
use crate::ids::{CallId, HoldId, LockId, NodeId, Ticket};
use crate::instant::Instant;
use crate::kinds::{Gate, Holders, Keys, Kind};
use crate::wakes::Wakes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// The longest gap between questions about what several hold at a time.
const SHARED_GAP: Duration = Duration::from_millis(16);

/// Where a caller stands until it is granted the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In this client's queue, of which only the first asks the server.
    Queue,
    /// In the server's queue.
    Line,
    /// In none: it waits for nobody here, and has no turn that could be over.
    Alone,
}

impl Place {
    /// A read inside a write is the writer's own. And where several hold at a time there may be room for who tries
    /// once, though others of this client are asking: only the server knows.
    pub(crate) const fn of(kind: Kind, once: bool, inside: bool) -> Self {
        if kind.queues_on_server() {
            Self::Line
        } else if inside || (once && !kind.is_exclusive()) {
            Self::Alone
        } else {
            Self::Queue
        }
    }
}

/// One lock's waiters and holder in this client.
#[derive(Debug)]
pub(crate) struct Queue {
    /// The server that the lock lives on.
    pub(crate) node: NodeId,
    /// What the waiters contend for.
    at: (NodeId, Gate, Arc<[u8]>),
    /// How many of them may hold it at a time.
    holders: Holders,
    /// Where its releases are published.
    pub(crate) channel: Arc<[u8]>,
    /// In order of arrival; the first one contends on the server.
    pub(crate) waiting: VecDeque<Ticket>,
    /// The waiters that stand in the server's queue.
    pub(crate) line: Line,
    /// Those who ask whoever else does: reads inside a write, and who tries once for what several hold.
    pub(crate) alone: BTreeSet<Ticket>,
    /// The hold that keeps the others waiting, while it is valid; none if the lock
    /// is held by several at a time.
    pub(crate) holding: Option<HoldId>,
    /// Whose turn it is, this client's or another's.
    pub(crate) turn: Turn,
    /// The last thing the server said of this lock, and when.
    pub(crate) last_answer: Option<(Instant, LastAnswer)>,
    /// When the server last answered an attempt, or the lock was last held here, so
    /// that nobody had to ask.
    pub(crate) heard: Option<Instant>,
    /// How often messages make us ask.
    pub(crate) wakes: Wakes,
}

impl Queue {
    /// A caller comes.
    pub(crate) fn enter(&mut self, ticket: Ticket, place: Place) {
        match place {
            Place::Queue => self.waiting.push_back(ticket),
            Place::Line => {
                self.line.waiting.insert(ticket);
            }
            Place::Alone => {
                self.alone.insert(ticket);
            }
        }
    }

    /// A caller goes. `Session::leave_line` takes it out of the server's queue.
    pub(crate) fn leave(&mut self, ticket: Ticket) {
        self.waiting.retain(|waiting| *waiting != ticket);
        self.alone.remove(&ticket);
    }

    /// Whether nobody waits or holds here.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.line.waiting.is_empty() && self.holding.is_none()
    }

    /// Whether somebody here waits who would ask now.
    pub(crate) fn is_waited_at(&self) -> bool {
        (!self.waiting.is_empty() && self.holding.is_none()) || !self.line.waiting.is_empty()
    }

    /// Whether the server answered an attempt, or the lock was held here, after that.
    pub(crate) fn was_heard_after(&self, at: Instant) -> bool {
        self.heard.is_some_and(|heard| heard > at)
    }

    /// Whether its waiters ask for permits.
    pub(crate) fn counts_permits(&self) -> bool {
        self.holders == Holders::Permits
    }

    /// Why the server did not say who holds the lock when it was last asked.
    pub(crate) fn last_failure(&self) -> Option<&str> {
        match &self.last_answer {
            Some((at, LastAnswer::Failed(why))) if !self.was_heard_after(*at) => Some(why),
            _ => None,
        }
    }

    /// The longest time for which questions in vain keep messages from causing another.
    pub(crate) fn longest_gap(&self, poll: Duration) -> Duration {
        if self.counts_permits() {
            // Of several holders the answer names one, so a change may go unseen.
            poll.min(SHARED_GAP)
        } else {
            poll
        }
    }

    /// Whether nobody here asks, waits or holds.
    pub(crate) fn is_unused(&self) -> bool {
        self.is_idle() && self.alone.is_empty()
    }
}

/// The waiters of the fair lock, which all contend on the server.
#[derive(Debug, Default)]
pub(crate) struct Line {
    /// In order of arrival.
    pub(crate) waiting: BTreeSet<Ticket>,
    /// The keys that they share.
    pub(crate) keys: Option<Arc<Keys>>,
    /// When the server was last told that they live.
    pub(crate) last_poll: Option<Instant>,
    /// The polls in flight, and the waiters that each speaks for.
    pub(crate) polls: BTreeMap<CallId, Vec<Ticket>>,
    /// When a message last told of a grant to an owner that is nobody's here.
    pub(crate) last_ghost: Option<Instant>,
}

/// What the server said last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LastAnswer {
    /// The lock is held.
    Held(Holder),
    /// It refused to say, or its connection closed before it could; why and what to do, in words.
    Failed(String),
}

/// How long this client has kept a lock to itself.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    /// Grants since another client could have had the lock.
    grants: u32,
    /// When the first of them was.
    since: Option<Instant>,
    /// When the lock was last released and not taken at once.
    free_since: Option<Instant>,
    /// How many other connections heard the last release.
    others: u32,
}

impl Turn {
    const MAX_GRANTS: u32 = 16;
    const MAX_TIME: Duration = Duration::from_millis(20);
    /// A lock that was free for so long was there for anyone to take.
    const FREE_TIME: Duration = Duration::from_millis(5);

    /// The lock was granted here.
    pub(crate) fn granted(&mut self, now: Instant) {
        self.grants = self.grants.saturating_add(1);
        self.since.get_or_insert(now);
        self.free_since = None;
    }

    /// The lock was released here.
    pub(crate) fn released(&mut self, now: Instant) {
        self.free_since = Some(now);
    }

    /// Another client had it, or was given the chance.
    pub(crate) fn passed_on(&mut self) {
        self.grants = 0;
        self.since = None;
        self.free_since = None;
    }

    /// So many other connections heard a release.
    pub(crate) fn heard_by(&mut self, others: u32) {
        self.others = others;
    }

    /// Whether others wait for it elsewhere.
    pub(crate) fn is_shared(&self) -> bool {
        self.others > 0
    }

    /// Whether the next local attempt should let others go first.
    pub(crate) fn is_over(&mut self, now: Instant) -> bool {
        if self.others == 0 {
            return false;
        }
        if self
            .free_since
            .is_some_and(|since| now.saturating_since(since) >= Self::FREE_TIME)
        {
            self.passed_on();
        }
        self.grants >= Self::MAX_GRANTS
            || self
                .since
                .is_some_and(|since| now.saturating_since(since) >= Self::MAX_TIME)
    }
}

/// The queues of a client.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    last: LockId,
    by_id: BTreeMap<LockId, Queue>,
    by_record: BTreeMap<(NodeId, Gate, Arc<[u8]>), LockId>,
}

impl Queues {
    /// The queue of a lock, made if there is none.
    pub(crate) fn open(&mut self, keys: &Keys) -> LockId {
        let at = place(keys);
        if let Some(id) = self.by_record.get(&at) {
            return *id;
        }
        self.last = self.last.next();
        let id = self.last;
        self.by_record.insert(at.clone(), id);
        self.by_id.insert(
            id,
            Queue {
                node: keys.node,
                at,
                holders: keys.kind.spec().holders,
                channel: Arc::clone(&keys.channel),
                waiting: VecDeque::new(),
                line: Line::default(),
                alone: BTreeSet::new(),
                holding: None,
                turn: Turn::default(),
                last_answer: None,
                heard: None,
                wakes: Wakes::default(),
            },
        );
        id
    }

    /// The queue of a lock, if there is one.
    pub(crate) fn find(&self, keys: &Keys) -> Option<LockId> {
        self.find_at(keys, keys.kind.gate())
    }

    /// The queue at another gate of the same record, if there is one.
    pub(crate) fn find_at(&self, keys: &Keys, gate: Gate) -> Option<LockId> {
        self.by_record
            .get(&(keys.node, gate, Arc::clone(&keys.record)))
            .copied()
    }

    pub(crate) fn get(&self, id: LockId) -> Option<&Queue> {
        self.by_id.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: LockId) -> Option<&mut Queue> {
        self.by_id.get_mut(&id)
    }

    /// All queues, oldest first.
    pub(crate) fn ids(&self) -> Vec<LockId> {
        self.by_id.keys().copied().collect()
    }

    /// Forgets a queue.
    pub(crate) fn remove(&mut self, id: LockId) {
        if let Some(queue) = self.by_id.remove(&id) {
            self.by_record.remove(&queue.at);
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }
}

/// What the waiters of a lock contend for.
fn place(keys: &Keys) -> (NodeId, Gate, Arc<[u8]>) {
    (keys.node, keys.kind.gate(), Arc::clone(&keys.record))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn a_client_alone_never_pauses() {
        let mut turn = Turn::default();
        for grant in 0..1_000 {
            turn.granted(at(grant));
            assert!(!turn.is_over(at(grant)));
        }
    }

    #[test]
    fn a_turn_ends_after_sixteen_grants_when_others_listen() {
        let mut turn = Turn::default();
        turn.heard_by(1);
        for _ in 0..15 {
            turn.granted(at(0));
            assert!(!turn.is_over(at(0)));
        }
        turn.granted(at(0));
        assert!(turn.is_over(at(0)));
        turn.passed_on();
        assert!(!turn.is_over(at(0)));
    }

    #[test]
    fn a_turn_ends_after_twenty_milliseconds() {
        let mut turn = Turn::default();
        turn.heard_by(1);
        turn.granted(at(0));
        assert!(!turn.is_over(at(19)));
        assert!(turn.is_over(at(20)));
    }

    #[test]
    fn a_lock_that_lay_free_starts_a_new_turn() {
        let mut turn = Turn::default();
        turn.heard_by(1);
        turn.granted(at(0));
        turn.released(at(100));
        assert!(turn.is_over(at(104)));
        assert!(!turn.is_over(at(105)));
    }
}
