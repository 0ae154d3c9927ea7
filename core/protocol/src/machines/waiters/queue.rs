//! The local queue of one lock, and its turns.
//!
//! Waiters of one client for one lock queue here first come, first served, and
//! only the first asks the server: a hundred waiters in a process make no more
//! traffic than one, and none of them starves. What one holder releases, the
//! next local waiter takes right behind it. So that other processes get their
//! turn, a client that knows of listeners elsewhere pauses after 16 local grants
//! or 20 ms in a row.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::wakes::Wakes;
use crate::cause::Cause;
use crate::error::Holder;
use crate::ids::{HoldId, LockId, NodeId, Ticket};
use crate::instant::Instant;
use crate::kinds::{Gate, Holders, Keys, Kind};
use crate::table::Table;

/// The longest gap between questions about what several hold at a time.
const SHARED_GAP: Duration = Duration::from_millis(16);
/// A TTL is whole milliseconds on the wire, and clocks run at different rates.
const ROUNDING: Duration = Duration::from_millis(2);

/// Where a caller stands until it is granted the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In this client's queue, of which only the first asks the server.
    Queue,
    /// In the server's queue.
    Server,
    /// In none: it waits for nobody here, and has no turn that could be over.
    Alone,
}

impl Place {
    /// A read inside a write is the writer's own. And where several hold at a time there may be room for who tries
    /// once, though others of this client are asking: only the server knows.
    pub(super) const fn of(kind: Kind, once: bool, inside: bool) -> Self {
        if kind.queues_on_server() {
            Self::Server
        } else if inside || (once && !kind.is_exclusive()) {
            Self::Alone
        } else {
            Self::Queue
        }
    }
}

/// One lock's waiters and holder in this client.
#[derive(Debug)]
pub(super) struct Queue {
    /// What the waiters contend for.
    at: (NodeId, Gate, Arc<[u8]>),
    /// How many of them may hold it at a time.
    holders: Holders,
    /// In order of arrival; the first one contends on the server.
    waiting: VecDeque<Ticket>,
    /// The waiters that stand in the server's queue.
    on_server: BTreeSet<Ticket>,
    /// Those who ask whoever else does: reads inside a write, and who tries once for what several hold.
    alone: BTreeSet<Ticket>,
    /// The hold that keeps the others waiting, while it is valid; none if the lock
    /// is held by several at a time.
    holding: Option<HoldId>,
    /// Whose turn it is, this client's or another's.
    turn: Turn,
    /// The last thing the server said of this lock, and when.
    last_answer: Option<Box<(Instant, LastAnswer)>>,
    /// When the server last answered an attempt, or the lock was last held here, so
    /// that nobody had to ask.
    heard: Option<Instant>,
    /// How often messages make us ask.
    wakes: Wakes,
}

impl Queue {
    fn new(keys: &Keys, at: (NodeId, Gate, Arc<[u8]>)) -> Self {
        Self {
            at,
            holders: keys.kind.spec().holders,
            waiting: VecDeque::new(),
            on_server: BTreeSet::new(),
            alone: BTreeSet::new(),
            holding: None,
            turn: Turn::default(),
            last_answer: None,
            heard: None,
            wakes: Wakes::default(),
        }
    }

    /// The server that the lock lives on.
    pub(super) const fn node(&self) -> NodeId {
        self.at.0
    }

    /// A caller comes.
    pub(super) fn enter(&mut self, ticket: Ticket, place: Place) {
        match place {
            Place::Queue => self.waiting.push_back(ticket),
            Place::Server => {
                self.on_server.insert(ticket);
            }
            Place::Alone => {
                self.alone.insert(ticket);
            }
        }
    }

    /// A caller goes. Says whether it stood in the server's queue.
    pub(super) fn leave(&mut self, ticket: Ticket) -> bool {
        self.waiting.retain(|waiting| *waiting != ticket);
        self.alone.remove(&ticket);
        self.on_server.remove(&ticket)
    }

    /// The first of those who wait here.
    pub(super) fn first(&self) -> Option<Ticket> {
        self.waiting.front().copied()
    }

    /// Those who stand in the server's queue.
    pub(super) fn on_server(&self) -> impl Iterator<Item = Ticket> {
        self.on_server.iter().copied()
    }

    /// The hold that keeps the others waiting.
    pub(super) const fn holding(&self) -> Option<HoldId> {
        self.holding
    }

    pub(super) const fn held_by(&mut self, hold: HoldId) {
        self.holding = Some(hold);
    }

    /// The hold keeps nobody waiting any longer, if it did.
    pub(super) fn freed_by(&mut self, hold: HoldId, now: Instant) {
        if self.holding == Some(hold) {
            self.holding = None;
            self.heard = Some(now);
            self.turn.released(now);
            self.wakes.changed();
        }
    }

    /// The lock was granted here.
    pub(super) fn granted(&mut self, now: Instant) {
        self.turn.granted(now);
        self.wakes.changed();
    }

    /// Whether the next local attempt lets others go first; then it is their turn.
    pub(super) fn passes_on(&mut self, now: Instant) -> bool {
        let is_over = self.turn.is_over(now);
        if is_over {
            self.turn.passed_on();
        }
        is_over
    }

    /// So many other connections heard a release.
    pub(super) const fn heard_by(&mut self, others: u32) {
        self.turn.heard_by(others);
    }

    /// The server answered an attempt.
    pub(super) const fn answered(&mut self, now: Instant) {
        self.heard = Some(now);
    }

    /// The server said who holds the lock, in the answer to a call of `sent`.
    pub(super) fn note_held(&mut self, holder: Holder, sent: Instant, now: Instant) {
        let is_the_same = matches!(self.last_answer.as_deref(), Some((at, LastAnswer::Held(last))) if is_same(last, *at, &holder, sent));
        self.wakes.answered(is_the_same);
        self.last_answer = Some(Box::new((now, LastAnswer::Held(holder))));
        self.turn.passed_on();
    }

    /// The server did not say who holds the lock.
    pub(super) fn note_failure(&mut self, why: Cause, now: Instant) {
        self.last_answer = Some(Box::new((now, LastAnswer::Failed(why))));
    }

    /// Who holds the lock, as the server said last, and when.
    pub(super) fn last_holder(&self) -> Option<(Instant, &Holder)> {
        match self.last_answer.as_deref() {
            Some((at, LastAnswer::Held(holder))) => Some((*at, holder)),
            _ => None,
        }
    }

    /// Why the server did not say who holds the lock since then.
    pub(super) fn failure_since(&self, since: Instant) -> Option<&Cause> {
        match self.last_answer.as_deref() {
            Some((at, LastAnswer::Failed(why))) if *at >= since => Some(why),
            _ => None,
        }
    }

    /// Why the server did not say who holds the lock when it was last asked.
    pub(super) fn last_failure(&self) -> Option<&Cause> {
        match self.last_answer.as_deref() {
            Some((at, LastAnswer::Failed(why))) if !self.was_heard_after(*at) => Some(why),
            _ => None,
        }
    }

    /// When the server last answered an attempt, or the lock was last held here.
    pub(super) const fn heard(&self) -> Option<Instant> {
        self.heard
    }

    /// Whether the server answered an attempt, or the lock was held here, after that.
    pub(super) fn was_heard_after(&self, at: Instant) -> bool {
        self.heard.is_some_and(|heard| heard > at)
    }

    /// A message says that the lock may be free: whether to ask now, or when.
    pub(super) fn message(&mut self, poll: Duration, now: Instant) -> Result<(), Instant> {
        match self.wakes.earliest(self.longest_gap(poll)) {
            Some(earliest) if now < earliest => Err(earliest),
            _ => {
                self.wakes.asks(now);
                Ok(())
            }
        }
    }

    /// The longest time for which questions in vain keep messages from causing another.
    fn longest_gap(&self, poll: Duration) -> Duration {
        if self.counts_permits() {
            // Of several holders the answer names one, so a change may go unseen.
            poll.min(SHARED_GAP)
        } else {
            poll
        }
    }

    /// Whether its waiters ask for permits.
    pub(super) fn counts_permits(&self) -> bool {
        self.holders == Holders::Permits
    }

    /// Whether nobody waits or holds here.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.on_server.is_empty() && self.holding.is_none()
    }

    /// Whether somebody here waits who would ask now.
    pub(super) fn is_waited_at(&self) -> bool {
        (!self.waiting.is_empty() && self.holding.is_none()) || !self.on_server.is_empty()
    }

    /// Whether nobody here asks, waits or holds.
    pub(super) fn is_unused(&self) -> bool {
        self.is_idle() && self.alone.is_empty()
    }

    /// Whether others wait for it elsewhere.
    pub(super) fn is_shared(&self) -> bool {
        self.turn.is_shared()
    }
}

/// What the server said last.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LastAnswer {
    /// The lock is held.
    Held(Holder),
    /// It refused to say, or its connection closed before it could; why, and what to do.
    Failed(Cause),
}

/// Whether the answer to a call of `sent` says what one that came at `at` did: the same owner,
/// whose hold has not become longer since, as of libraries that acquire again under one owner id.
/// A hold ends no later than the first answer says, and no earlier than the second.
fn is_same(last: &Holder, at: Instant, holder: &Holder, sent: Instant) -> bool {
    let until = |of: &Holder, at: Instant| of.remaining.map(|left| at + left);
    let is_longer = match (until(last, at), until(holder, sent)) {
        (Some(before), Some(until)) => until > before + ROUNDING,
        (before, until) => before.is_some() != until.is_some(),
    };
    last.owner == holder.owner && !is_longer
}

/// How long this client has kept a lock to itself.
#[derive(Debug, Default)]
struct Turn {
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
    pub(crate) const fn heard_by(&mut self, others: u32) {
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
pub(super) struct Queues {
    last: LockId,
    by_id: Table<LockId, Queue>,
    by_record: BTreeMap<(NodeId, Gate, Arc<[u8]>), LockId>,
}

impl Queues {
    /// The queue of a lock, made if there is none.
    pub(super) fn open(&mut self, keys: &Keys) -> LockId {
        let at = place(keys);
        if let Some(id) = self.by_record.get(&at) {
            return *id;
        }
        self.last = self.last.next();
        let id = self.last;
        self.by_record.insert(at.clone(), id);
        self.by_id.insert(id, Queue::new(keys, at));
        id
    }

    /// The queue at a gate of a record, if there is one.
    pub(super) fn find(&self, keys: &Keys, gate: Gate) -> Option<LockId> {
        let at = (keys.node, gate, Arc::clone(&keys.record));
        self.by_record.get(&at).copied()
    }

    pub(super) fn get(&self, id: LockId) -> Option<&Queue> {
        self.by_id.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: LockId) -> Option<&mut Queue> {
        self.by_id.get_mut(&id)
    }

    /// All queues, oldest first.
    pub(super) fn ids(&self) -> Vec<LockId> {
        self.by_id.keys()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Queue> {
        self.by_id.iter_mut().map(|(_, queue)| queue)
    }

    /// Forgets a queue.
    pub(super) fn remove(&mut self, id: LockId) {
        if let Some(queue) = self.by_id.remove(&id) {
            self.by_record.remove(&queue.at);
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
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
