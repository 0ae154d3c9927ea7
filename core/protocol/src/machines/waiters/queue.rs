//! The local wait queue of one lock.
//!
//! The waiters of one client queue here in order of arrival, and only the first one asks the server. A hundred waiters
//! in a process therefore cause no more traffic than one, and none of them starves. The waiters of a fair lock are only
//! listed here: they queue on the server, and each sends its own first attempt. After a release the next local waiter
//! asks at once. To let other clients have their turn, a client whose last release reached other subscribers pauses
//! after 16 local grants in a row, or 20 ms after the first of them (`Turn`).
//!
//! `Wakes` limits how often messages make a client ask the server. A message says that a lock may be free, and the
//! client asks the server whether it is. Every user that may publish can send any number of such messages. A queue
//! therefore counts the calls that messages have caused and that found the same holder as before. After the first few,
//! each such call doubles the gap before the next one. Any change of the lock resets the gap.
//!
//! ```text
//!           asked, and the holder is the same: the gap doubles
//!              ┌──┐
//!  every 2 ms ─┴──┴─► up to the poll interval, or to 16 ms for a semaphore
//!      ▲               │
//!      └───────────────┘ another holder, a renewal, a grant or a release here
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use steadlock_collections::{SortedMap, SortedSet, Table};

use crate::error::{Cause, Holder};
use crate::ids::{HoldId, LockId, NodeId, Ticket};
use crate::instant::Instant;
use crate::kinds::{Gate, Holders, Keys};
use crate::periods::MIN_GAP;

/// The longest gap between two calls that messages about a semaphore cause.
const SHARED_GAP: Duration = Duration::from_millis(16);
/// The tolerance when two ends of a hold are compared: a TTL on the wire has whole milliseconds, and clocks run at
/// different rates.
const ROUNDING: Duration = Duration::from_millis(2);

/// The place where a caller waits until it is granted the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The local queue, of which only the first waiter asks the server.
    Queue,
    /// The server's queue.
    Server,
    /// No queue: the request waits for no other caller of this client, and turns do not apply to it.
    Alone,
}

/// A gate of a record on a server; a read lock and a write lock are two gates of one record. All waiters at one gate
/// contend for the same lock.
type RecordGate = (NodeId, Gate, Arc<[u8]>);

/// The waiters and the holder of one lock in this client.
///
/// A client may hold many locks that have no waiters, so the data that only waiters need is allocated separately.
#[derive(Debug)]
pub(super) struct Queue {
    /// The keys of the first caller. All callers contend for the same record.
    keys: Arc<Keys>,
    /// The hold of this client that blocks the waiters; `None` if there is none, and always for a lock that can have
    /// several holders.
    holding: Option<HoldId>,
    /// Earlier holds that are not known to be lost yet. A server that has lost a record may grant the lock to this
    /// client once more.
    older: Vec<HoldId>,
    /// The present turn of this client, which says when other clients come first.
    turn: Turn,
    /// When the server last answered an attempt or a poll, or when a hold here last stopped blocking the waiters. While
    /// a hold blocks them, no waiter has to ask.
    last_contact: Option<Instant>,
    /// The waiters; `None` if there are none, and nothing is kept for later ones.
    waiters: Option<Box<Waiting>>,
}

/// The waiters for a lock in this client.
#[derive(Debug, Default)]
struct Waiting {
    /// The waiters of the local queue, in order of arrival. The first one asks the server.
    local: VecDeque<Ticket>,
    /// The waiters of a fair lock that queue on the server, whether or not it has confirmed their place.
    on_server: SortedSet<Ticket>,
    /// The requests in no queue: reads inside a write, and single attempts for a lock that can have several holders.
    alone: SortedSet<Ticket>,
    /// The waiters that get their outcome with the next answer that names the holder, or when the lock is held here.
    due: Vec<Ticket>,
    /// The last answer of the server about this lock, and when it arrived.
    last_answer: Option<(Instant, LastAnswer)>,
    /// The limit on how often messages make the client ask.
    wakes: Wakes,
}

impl Waiting {
    /// Whether there is nothing to keep.
    fn is_empty(&self) -> bool {
        let has_no_waiters = self.local.is_empty() && self.on_server.is_empty() && self.alone.is_empty();
        has_no_waiters && self.last_answer.is_none() && self.wakes.is_fresh()
    }
}

impl Queue {
    fn new(keys: Arc<Keys>) -> Self {
        Self {
            keys,
            holding: None,
            older: Vec::new(),
            turn: Turn::default(),
            last_contact: None,
            waiters: None,
        }
    }

    /// Returns the keys of the first caller.
    pub(super) const fn keys(&self) -> &Arc<Keys> {
        &self.keys
    }

    /// Returns the server that stores the lock.
    pub(super) fn node(&self) -> NodeId {
        self.keys.node
    }

    /// Adds a caller.
    pub(super) fn enter(&mut self, ticket: Ticket, place: Place) {
        let waiters = self.waiters.get_or_insert_default();
        match place {
            Place::Queue => waiters.local.push_back(ticket),
            Place::Server => {
                waiters.on_server.insert(ticket);
            }
            Place::Alone => {
                waiters.alone.insert(ticket);
            }
        }
    }

    /// Removes a caller. Returns whether its place was `Place::Server`.
    pub(super) fn leave(&mut self, ticket: Ticket) -> bool {
        let Some(waiters) = &mut self.waiters else {
            return false;
        };
        waiters.local.retain(|waiting| *waiting != ticket);
        waiters.alone.remove(&ticket);
        waiters.due.retain(|due| *due != ticket);
        let was_on_server = waiters.on_server.remove(&ticket);
        self.forget_waiters();
        was_on_server
    }

    /// Notes that a wait ends when an answer to any waiter here names the holder, or when the lock is held here.
    pub(super) fn end_with_first_answer(&mut self, ticket: Ticket) {
        self.waiters.get_or_insert_default().due.push(ticket);
    }

    /// Removes and returns the waiters whose wait ends now, because the holder is known or the lock is held here.
    pub(super) fn take_due(&mut self) -> Vec<Ticket> {
        let waiters = self.waiters.as_mut();
        waiters
            .map(|waiters| std::mem::take(&mut waiters.due))
            .unwrap_or_default()
    }

    /// Frees the memory for waiters if there is nothing to keep.
    fn forget_waiters(&mut self) {
        if self.waiters.as_ref().is_some_and(|waiters| waiters.is_empty()) {
            self.waiters = None;
        }
    }

    /// Returns the first waiter of the local queue.
    pub(super) fn first(&self) -> Option<Ticket> {
        self.waiters.as_ref()?.local.front().copied()
    }

    /// Returns all waiters of the local queue.
    pub(super) fn local(&self) -> Vec<Ticket> {
        let waiters = self.waiters.iter();
        waiters.flat_map(|waiters| waiters.local.iter().copied()).collect()
    }

    /// Returns the waiters that queue on the server.
    pub(super) fn on_server(&self) -> impl Iterator<Item = Ticket> {
        let waiters = self.waiters.iter();
        waiters.flat_map(|waiters| waiters.on_server.iter().copied())
    }

    /// Returns the hold that blocks the waiters.
    pub(super) const fn holding(&self) -> Option<HoldId> {
        self.holding
    }

    pub(super) fn held_by(&mut self, hold: HoldId) {
        if let Some(before) = self.holding.replace(hold) {
            self.older.push(before);
        }
    }

    /// Whether this client has an earlier hold of the lock that is not known to be lost yet.
    pub(super) const fn is_held_twice(&self) -> bool {
        !self.older.is_empty()
    }

    /// Notes that a hold no longer blocks the waiters.
    pub(super) fn freed_by(&mut self, hold: HoldId, now: Instant) {
        self.older.retain(|other| *other != hold);
        if self.holding == Some(hold) {
            self.holding = None;
            self.last_contact = Some(now);
            self.turn.released(now);
            self.changed();
        }
    }

    /// Notes that the lock was granted here.
    pub(super) fn granted(&mut self, now: Instant) {
        self.turn.granted(now);
        self.changed();
    }

    /// Resets the limit on messages, because the lock was granted or released here.
    fn changed(&mut self) {
        if let Some(waiters) = &mut self.waiters {
            waiters.wakes.changed();
            self.forget_waiters();
        }
    }

    /// Whether other clients come before the next local attempt. If so, their turn begins.
    pub(super) fn passes_on(&mut self, now: Instant) -> bool {
        let is_over = self.turn.is_over(now);
        if is_over {
            self.turn.passed_on();
        }
        is_over
    }

    /// Notes how many other connections have received the message about a release.
    pub(super) const fn note_listeners(&mut self, others: u32) {
        self.turn.note_listeners(others);
    }

    /// Notes that the server answered an attempt or a poll.
    pub(super) const fn answered(&mut self, now: Instant) {
        self.last_contact = Some(now);
    }

    /// Notes that the answer to a call that was sent at `sent` names the holder.
    pub(super) fn note_held(&mut self, holder: Holder, sent: Instant, now: Instant) {
        let waiters = self.waiters.get_or_insert_default();
        let last = waiters.last_answer.as_ref();
        let is_the_same = matches!(last, Some((at, LastAnswer::Held(last))) if is_same(last, *at, &holder, sent));
        if is_the_same {
            waiters.wakes.found_no_change();
        } else {
            waiters.wakes.changed();
        }
        waiters.last_answer = Some((now, LastAnswer::Held(holder)));
        self.turn.passed_on();
    }

    /// Notes that the server did not name the holder, and why.
    pub(super) fn note_failure(&mut self, why: Cause, now: Instant) {
        self.waiters.get_or_insert_default().last_answer = Some((now, LastAnswer::Failed(why)));
    }

    /// Returns the last answer of the server about this lock, and when it arrived.
    fn last_answer(&self) -> Option<(Instant, &LastAnswer)> {
        let (at, answer) = self.waiters.as_ref()?.last_answer.as_ref()?;
        Some((*at, answer))
    }

    /// Returns the holder that the last answer names, if it names one, and when that answer arrived.
    pub(super) fn last_holder(&self) -> Option<(Instant, &Holder)> {
        match self.last_answer()? {
            (at, LastAnswer::Held(holder)) => Some((at, holder)),
            (_, LastAnswer::Failed(_)) => None,
        }
    }

    /// Returns why the last answer did not name the holder, if that answer arrived at `since` or later.
    pub(super) fn failure_since(&self, since: Instant) -> Option<&Cause> {
        match self.last_answer()? {
            (at, LastAnswer::Failed(why)) if at >= since => Some(why),
            _ => None,
        }
    }

    /// Returns why the last answer did not name the holder. Returns `None` if it did, or if the lock was held here or a
    /// call was answered since then.
    pub(super) fn last_failure(&self) -> Option<&Cause> {
        match self.last_answer()? {
            (at, LastAnswer::Failed(why)) if !self.had_contact_after(at) => Some(why),
            _ => None,
        }
    }

    /// Returns when the server last answered an attempt or a poll, or when the lock was last held here.
    pub(super) const fn last_contact(&self) -> Option<Instant> {
        self.last_contact
    }

    /// Whether the server answered an attempt or a poll, or the lock was held here, after `at`.
    pub(super) fn had_contact_after(&self, at: Instant) -> bool {
        self.last_contact.is_some_and(|last_contact| last_contact > at)
    }

    /// Handles a message that the lock may be free. If it is too early to ask, returns the earliest time as an error.
    pub(super) fn message(&mut self, poll: Duration, now: Instant) -> Result<(), Instant> {
        let longest = self.longest_gap(poll);
        let wakes = &mut self.waiters.get_or_insert_default().wakes;
        match wakes.earliest(longest) {
            Some(earliest) if now < earliest => Err(earliest),
            _ => {
                wakes.note_call(now);
                Ok(())
            }
        }
    }

    /// Returns the longest gap between two calls that messages cause.
    fn longest_gap(&self, poll: Duration) -> Duration {
        if self.counts_permits() {
            // The answer names only one of several holders, so the client may miss a change.
            poll.min(SHARED_GAP)
        } else {
            poll
        }
    }

    /// Whether the lock is a semaphore, whose waiters ask for permits.
    pub(super) fn counts_permits(&self) -> bool {
        self.keys.kind.spec().holders == Holders::Permits
    }

    /// Whether no hold blocks the waiters, and no caller of this client waits in the local queue or in the server's
    /// queue.
    pub(super) fn is_idle(&self) -> bool {
        let has_queued = |waiters: &Waiting| !waiters.local.is_empty() || !waiters.on_server.is_empty();
        self.holding.is_none() && !self.waiters.as_deref().is_some_and(has_queued)
    }

    /// Whether a waiter here would ask the server if a message arrived now.
    pub(super) fn has_waiter_to_ask(&self) -> bool {
        let is_held = self.holding.is_some();
        let would_ask = |waiters: &Waiting| (!waiters.local.is_empty() && !is_held) || !waiters.on_server.is_empty();
        self.waiters.as_deref().is_some_and(would_ask)
    }

    /// Whether no caller of this client requests the lock, and no hold blocks the waiters. A lock that is held twice is
    /// in use until both holds have ended.
    pub(super) fn is_unused(&self) -> bool {
        self.is_idle() && !self.is_held_twice() && self.waiters.as_ref().is_none_or(|waiters| waiters.alone.is_empty())
    }

    /// Whether other clients listened to the last message about a release.
    pub(super) fn is_shared(&self) -> bool {
        self.turn.is_shared()
    }
}

/// The last answer of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LastAnswer {
    /// The lock is held.
    Held(Holder),
    /// The server refused to answer, its connection closed first, or it granted the lock too late. The cause has the
    /// reason, and may have advice.
    Failed(Cause),
}

/// Whether an answer to a call that was sent at `sent` says the same as the last one, which arrived at `at`: the owner
/// is the same, and the hold was not extended. An extended hold counts as a change, because other libraries acquire
/// again under the same owner id.
///
/// The TTL in the last answer counts from the arrival of that answer, and the TTL in the new answer from when its call
/// was sent, so that a hold never looks extended although it was not.
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
    by_record: SortedMap<RecordGate, LockId>,
}

impl Queues {
    /// Returns the lock with these keys, and adds a queue for it if there is none.
    pub(super) fn open(&mut self, keys: &Arc<Keys>) -> LockId {
        let at = gate_of(keys, keys.kind.gate());
        if let Some(id) = self.by_record.get(&at) {
            return *id;
        }
        self.last = self.last.next();
        let id = self.last;
        self.by_record.insert(at, id);
        self.by_id.insert(id, Queue::new(Arc::clone(keys)));
        id
    }

    /// Returns the queue at a gate of a record, if there is one.
    pub(super) fn find(&self, keys: &Keys, gate: Gate) -> Option<LockId> {
        self.by_record.get(&gate_of(keys, gate)).copied()
    }

    pub(super) fn get(&self, id: LockId) -> Option<&Queue> {
        self.by_id.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: LockId) -> Option<&mut Queue> {
        self.by_id.get_mut(&id)
    }

    /// Returns all queues, oldest first.
    pub(super) fn ids(&self) -> Vec<LockId> {
        self.by_id.keys()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Queue> {
        self.by_id.iter_mut().map(|(_, queue)| queue)
    }

    pub(super) fn remove(&mut self, id: LockId) {
        if let Some(queue) = self.by_id.remove(&id) {
            self.by_record.remove(&gate_of(&queue.keys, queue.keys.kind.gate()));
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }
}

fn gate_of(keys: &Keys, gate: Gate) -> RecordGate {
    (keys.node, gate, Arc::clone(&keys.record))
}

/// The present turn of this client: how often in a row, and since when, the client was granted the lock.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// The number of grants here since another client could last acquire the lock.
    grants: u32,
    /// When the first of these grants was made.
    since: Option<Instant>,
    /// When the lock was last released here, if it was not granted here since.
    free_since: Option<Instant>,
    /// How many other connections received the message about the last release.
    others: u32,
}

impl Turn {
    const MAX_GRANTS: u32 = 16;
    const MAX_TIME: Duration = Duration::from_millis(20);
    /// A lock that was free for this long could be acquired by every client, so a new turn begins.
    const FREE_TIME: Duration = Duration::from_millis(5);

    /// Notes that the lock was granted here.
    pub(super) fn granted(&mut self, now: Instant) {
        self.grants = self.grants.saturating_add(1);
        self.since.get_or_insert(now);
        self.free_since = None;
    }

    /// Notes that the lock was released here.
    pub(super) fn released(&mut self, now: Instant) {
        self.free_since = Some(now);
    }

    /// Ends the turn, because another client had the lock or could acquire it.
    pub(super) fn passed_on(&mut self) {
        self.grants = 0;
        self.since = None;
        self.free_since = None;
    }

    /// Notes how many other connections received the message about a release.
    pub(super) const fn note_listeners(&mut self, others: u32) {
        self.others = others;
    }

    /// Whether other clients listened to the last message about a release.
    pub(super) fn is_shared(&self) -> bool {
        self.others > 0
    }

    /// Whether other clients should come before the next local attempt.
    pub(super) fn is_over(&mut self, now: Instant) -> bool {
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

/// The number of calls without success that do not lengthen the gap. A few are normal, because another client may be
/// faster after a release.
const TOLERATED: u32 = 4;
/// The maximum number of doublings. The gap reaches its longest value earlier.
const MOST_DOUBLINGS: u32 = 16;

/// The calls for one queue that messages have caused.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Wakes {
    /// The number of calls since the last change; each of them found the same holder.
    fruitless: u32,
    /// When a message last caused a call.
    last: Option<Instant>,
    /// The number of calls for which no answer was counted yet.
    open: u32,
}

impl Wakes {
    /// Returns when a message may cause the next call; `None` for at once. No gap is longer than `longest`.
    pub(super) fn earliest(&self, longest: Duration) -> Option<Instant> {
        let doublings = self.fruitless.saturating_sub(TOLERATED).min(MOST_DOUBLINGS);
        let gap = MIN_GAP.saturating_mul(1_u32.checked_shl(doublings).unwrap_or(u32::MAX));
        self.last.map(|last| last + gap.min(longest))
    }

    /// Notes that a message causes a call.
    pub(super) fn note_call(&mut self, now: Instant) {
        self.last = Some(now);
        self.open = self.open.saturating_add(1);
    }

    /// Notes that an answer repeats the last one. Counts that only if a call that a message caused is not answered yet.
    pub(super) const fn found_no_change(&mut self) {
        if self.open > 0 {
            self.open = self.open.saturating_sub(1);
            self.fruitless = self.fruitless.saturating_add(1);
        }
    }

    /// Whether messages have caused no call since the last change.
    pub(super) fn is_fresh(&self) -> bool {
        *self == Self::default()
    }

    /// Resets the gap, because the lock has changed.
    pub(super) fn changed(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_millis(500);

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
        turn.note_listeners(1);
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
        turn.note_listeners(1);
        turn.granted(at(0));
        assert!(!turn.is_over(at(19)));
        assert!(turn.is_over(at(20)));
    }

    #[test]
    fn a_lock_that_was_free_for_a_while_starts_a_new_turn() {
        let mut turn = Turn::default();
        turn.note_listeners(1);
        turn.granted(at(0));
        turn.released(at(100));
        assert!(turn.is_over(at(104)));
        assert!(!turn.is_over(at(105)));
    }

    /// Returns the gap after each of `count` calls without success, in milliseconds.
    fn gaps(wakes: &mut Wakes, count: usize) -> Vec<u128> {
        let gap = |_| {
            wakes.note_call(at(0));
            wakes.found_no_change();
            let next = wakes.earliest(LONGEST).unwrap();
            next.saturating_since(at(0)).as_millis()
        };
        (0..count).map(gap).collect()
    }

    #[test]
    fn calls_without_success_lengthen_the_gap() {
        let mut wakes = Wakes::default();
        assert_eq!(wakes.earliest(LONGEST), None);
        let expected = [2, 2, 2, 2, 4, 8, 16, 32, 64, 128, 256, 500, 500];
        assert_eq!(gaps(&mut wakes, 13), expected);
        assert_eq!(gaps(&mut wakes, 100_000).last(), Some(&500));
    }

    #[test]
    fn a_change_resets_the_gap() {
        let mut wakes = Wakes::default();
        gaps(&mut wakes, 100);
        wakes.changed();
        assert_eq!(gaps(&mut wakes, 5), [2, 2, 2, 2, 4]);
    }

    #[test]
    fn calls_that_no_message_caused_do_not_count() {
        let mut wakes = Wakes::default();
        (0..100).for_each(|_| wakes.found_no_change());
        assert_eq!(gaps(&mut wakes, 5), [2, 2, 2, 2, 4]);
    }
}
