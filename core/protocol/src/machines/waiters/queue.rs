//! The local queue of one lock.
//!
//! Waiters of one client for one lock queue here first come, first served, and
//! only the first asks the server: a hundred waiters in a process make no more
//! traffic than one, and none of them starves. What one holder releases, the
//! next local waiter takes right behind it, until others have their `turn`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::turn::Turn;
use super::wakes::Wakes;
use crate::cause::Cause;
use crate::error::Holder;
use crate::ids::{HoldId, LockId, NodeId, Ticket};
use crate::instant::Instant;
use crate::kinds::{Gate, Holders, Keys, Kind};
use crate::sorted::{SortedMap, SortedSet};
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

/// A gate of a record of a server.
type At = (NodeId, Gate, Arc<[u8]>);

/// One lock's waiters and holder in this client.
///
/// A client may hold many locks for which nobody waits: what only those need who wait is kept apart.
#[derive(Debug)]
pub(super) struct Queue {
    /// Those of the first who came: what all contend for.
    keys: Arc<Keys>,
    /// The hold that keeps the others waiting, while it is valid; none if the lock
    /// is held by several at a time.
    holding: Option<HoldId>,
    /// Those that it came after, which are not known to be lost yet: a server that lost a record may
    /// grant the lock once more to this client.
    older: Vec<HoldId>,
    /// Whose turn it is: this client's or another client's.
    turn: Turn,
    /// When the server last answered an attempt, or the lock was last held here, so
    /// that nobody had to ask.
    heard: Option<Instant>,
    /// `None` if nobody waits here and nothing is known for those who may come.
    waiters: Option<Box<Waiting>>,
}

/// The waiters for a lock in this client.
#[derive(Debug, Default)]
struct Waiting {
    /// In order of arrival; the first one contends on the server.
    in_line: VecDeque<Ticket>,
    /// Those that stand in the server's queue.
    on_server: SortedSet<Ticket>,
    /// Those that ask no matter who else does: reads inside a write, and single attempts for what several may hold.
    alone: SortedSet<Ticket>,
    /// Those in line whose time is over, but for the first answer that says who holds the lock.
    due: Vec<Ticket>,
    /// The last thing the server said of this lock, and when.
    last_answer: Option<(Instant, LastAnswer)>,
    /// How often messages make us ask.
    wakes: Wakes,
}

impl Waiting {
    /// Whether it says nothing.
    fn is_over(&self) -> bool {
        let is_nobody_here = self.in_line.is_empty() && self.on_server.is_empty() && self.alone.is_empty();
        is_nobody_here && self.last_answer.is_none() && self.wakes.is_fresh()
    }
}

impl Queue {
    fn new(keys: Arc<Keys>) -> Self {
        Self {
            keys,
            holding: None,
            older: Vec::new(),
            turn: Turn::default(),
            heard: None,
            waiters: None,
        }
    }

    /// The keys of those who came first.
    pub(super) const fn keys(&self) -> &Arc<Keys> {
        &self.keys
    }

    /// The server that the lock lives on.
    pub(super) fn node(&self) -> NodeId {
        self.keys.node
    }

    /// A caller comes.
    pub(super) fn enter(&mut self, ticket: Ticket, place: Place) {
        let waiters = self.waiters.get_or_insert_default();
        match place {
            Place::Queue => waiters.in_line.push_back(ticket),
            Place::Server => {
                waiters.on_server.insert(ticket);
            }
            Place::Alone => {
                waiters.alone.insert(ticket);
            }
        }
    }

    /// A caller goes. Says whether it stood in the server's queue.
    pub(super) fn leave(&mut self, ticket: Ticket) -> bool {
        let Some(waiters) = &mut self.waiters else {
            return false;
        };
        waiters.in_line.retain(|waiting| *waiting != ticket);
        waiters.alone.remove(&ticket);
        waiters.due.retain(|due| *due != ticket);
        let was_on_server = waiters.on_server.remove(&ticket);
        self.forget_waiters();
        was_on_server
    }

    /// One in line is told as soon as anybody here is answered, or has the lock.
    pub(super) fn tell_with_first_answer(&mut self, ticket: Ticket) {
        self.waiters.get_or_insert_default().due.push(ticket);
    }

    /// Those that are told so, now that somebody was answered or has the lock.
    pub(super) fn take_due(&mut self) -> Vec<Ticket> {
        let waiters = self.waiters.as_mut();
        waiters
            .map(|waiters| std::mem::take(&mut waiters.due))
            .unwrap_or_default()
    }

    /// Makes room if nobody waits here any more.
    fn forget_waiters(&mut self) {
        if self.waiters.as_ref().is_some_and(|waiters| waiters.is_over()) {
            self.waiters = None;
        }
    }

    /// The first waiter in this client's queue.
    pub(super) fn first(&self) -> Option<Ticket> {
        self.waiters.as_ref()?.in_line.front().copied()
    }

    /// All waiters in this client's queue.
    pub(super) fn in_line(&self) -> Vec<Ticket> {
        let waiters = self.waiters.iter();
        waiters.flat_map(|waiters| waiters.in_line.iter().copied()).collect()
    }

    /// The waiters in the server's queue.
    pub(super) fn on_server(&self) -> impl Iterator<Item = Ticket> {
        let waiters = self.waiters.iter();
        waiters.flat_map(|waiters| waiters.on_server.iter().copied())
    }

    /// The hold that keeps the others waiting.
    pub(super) const fn holding(&self) -> Option<HoldId> {
        self.holding
    }

    pub(super) fn held_by(&mut self, hold: HoldId) {
        if let Some(before) = self.holding.replace(hold) {
            self.older.push(before);
        }
    }

    /// Whether somebody here has it whom the server gave it before, and then to another.
    pub(super) const fn is_held_twice(&self) -> bool {
        !self.older.is_empty()
    }

    /// The hold keeps nobody waiting any longer, if it did.
    pub(super) fn freed_by(&mut self, hold: HoldId, now: Instant) {
        self.older.retain(|other| *other != hold);
        if self.holding == Some(hold) {
            self.holding = None;
            self.heard = Some(now);
            self.turn.released(now);
            self.changed();
        }
    }

    /// The lock was granted here.
    pub(super) fn granted(&mut self, now: Instant) {
        self.turn.granted(now);
        self.changed();
    }

    /// What messages have caused so far is over.
    fn changed(&mut self) {
        if let Some(waiters) = &mut self.waiters {
            waiters.wakes.changed();
            self.forget_waiters();
        }
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
        let waiters = self.waiters.get_or_insert_default();
        let last = waiters.last_answer.as_ref();
        let is_the_same = matches!(last, Some((at, LastAnswer::Held(last))) if is_same(last, *at, &holder, sent));
        waiters.wakes.answered(is_the_same);
        waiters.last_answer = Some((now, LastAnswer::Held(holder)));
        self.turn.passed_on();
    }

    /// The server did not say who holds the lock.
    pub(super) fn note_failure(&mut self, why: Cause, now: Instant) {
        self.waiters.get_or_insert_default().last_answer = Some((now, LastAnswer::Failed(why)));
    }

    /// The last thing the server said of this lock, and when.
    fn last_answer(&self) -> Option<(Instant, &LastAnswer)> {
        let (at, answer) = self.waiters.as_ref()?.last_answer.as_ref()?;
        Some((*at, answer))
    }

    /// Who holds the lock, as the server said last, and when.
    pub(super) fn last_holder(&self) -> Option<(Instant, &Holder)> {
        match self.last_answer()? {
            (at, LastAnswer::Held(holder)) => Some((at, holder)),
            (_, LastAnswer::Failed(_)) => None,
        }
    }

    /// Why the server did not say who holds the lock since then.
    pub(super) fn failure_since(&self, since: Instant) -> Option<&Cause> {
        match self.last_answer()? {
            (at, LastAnswer::Failed(why)) if at >= since => Some(why),
            _ => None,
        }
    }

    /// Why the server did not say who holds the lock when it was last asked.
    pub(super) fn last_failure(&self) -> Option<&Cause> {
        match self.last_answer()? {
            (at, LastAnswer::Failed(why)) if !self.was_heard_after(at) => Some(why),
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
        let longest = self.longest_gap(poll);
        let wakes = &mut self.waiters.get_or_insert_default().wakes;
        match wakes.earliest(longest) {
            Some(earliest) if now < earliest => Err(earliest),
            _ => {
                wakes.asks(now);
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
        self.keys.kind.spec().holders == Holders::Permits
    }

    /// Whether nobody waits or holds here.
    pub(super) fn is_idle(&self) -> bool {
        let is_waited_at = |waiters: &Waiting| !waiters.in_line.is_empty() || !waiters.on_server.is_empty();
        self.holding.is_none() && !self.waiters.as_deref().is_some_and(is_waited_at)
    }

    /// Whether somebody here waits who would ask now.
    pub(super) fn is_waited_at(&self) -> bool {
        let is_held = self.holding.is_some();
        let would_ask = |waiters: &Waiting| (!waiters.in_line.is_empty() && !is_held) || !waiters.on_server.is_empty();
        self.waiters.as_deref().is_some_and(would_ask)
    }

    /// Whether nobody here asks, waits or holds. What is held twice is held until both holds have ended.
    pub(super) fn is_unused(&self) -> bool {
        self.is_idle() && !self.is_held_twice() && self.waiters.as_ref().is_none_or(|waiters| waiters.alone.is_empty())
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

/// The queues of a client.
#[derive(Debug, Default)]
pub(super) struct Queues {
    last: LockId,
    by_id: Table<LockId, Queue>,
    by_record: SortedMap<At, LockId>,
}

impl Queues {
    /// The queue of a lock, made if there is none.
    pub(super) fn open(&mut self, keys: &Arc<Keys>) -> LockId {
        let at = place(keys, keys.kind.gate());
        if let Some(id) = self.by_record.get(&at) {
            return *id;
        }
        self.last = self.last.next();
        let id = self.last;
        self.by_record.insert(at, id);
        self.by_id.insert(id, Queue::new(Arc::clone(keys)));
        id
    }

    /// The queue at a gate of a record, if there is one.
    pub(super) fn find(&self, keys: &Keys, gate: Gate) -> Option<LockId> {
        self.by_record.get(&place(keys, gate)).copied()
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
            self.by_record.remove(&place(&queue.keys, queue.keys.kind.gate()));
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }
}

/// What the waiters at a gate of a lock contend for.
fn place(keys: &Keys, gate: Gate) -> At {
    (keys.node, gate, Arc::clone(&keys.record))
}
