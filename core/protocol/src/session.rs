//! The session: it routes each input to the room that has the rule.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::calls::{Calls, InFlight, Purpose};
use crate::composite::Composites;
#[cfg(feature = "defects")]
use crate::defects::Defect;
use crate::ending::LostReason;
use crate::error::{Error, ErrorKind, Operation};
use crate::ghosts::Ghosts;
use crate::hold::{Extension, Hold, HoldId, Holds, LeasePlan, lost_error};
use crate::inspection::{Inspection, Question};
use crate::instant::Instant;
use crate::kinds::{Inside, Invocation, Keys, Kind, Permits};
use crate::links::Links;
use crate::name::LockName;
use crate::owner::{Entropy, OwnerId};
use crate::queue::Queues;
use crate::quorum::SIMPLE_LOCKS_ONLY;
use crate::reentrancy::Reentrancy;
use crate::release::{Releases, unknown_lease};
use crate::reply::{CallError, Reply};
use crate::request::Request;
use crate::subscriptions::Channels;
use crate::timers::{Timer, Timers};
pub(crate) use crate::types::*;

/// The local state of every lock of one client. See the crate's documentation
/// for the law that its driver keeps.
pub struct Session {
    pub(crate) config: Config,
    pub(crate) limits: Limits,
    pub(crate) entropy: Box<dyn Entropy>,
    /// What the next renewal's place among others is drawn from.
    pub(crate) spread: u64,
    pub(crate) links: Links,
    closed: bool,
    last_ticket: u64,
    pub(crate) queues: Queues,
    pub(crate) requests: BTreeMap<Ticket, Request>,
    pub(crate) holds: Holds,
    pub(crate) extensions: BTreeMap<Ticket, Extension>,
    pub(crate) reentrancy: Reentrancy,
    pub(crate) composites: Composites,
    pub(crate) releases: Releases,
    pub(crate) ghosts: Ghosts,
    pub(crate) channels: Channels,
    pub(crate) inspections: BTreeMap<Ticket, Inspection>,
    pub(crate) calls: Calls,
    pub(crate) timers: Timers,
    pub(crate) transmits: VecDeque<Transmit>,
    pub(crate) events: VecDeque<Event>,
    #[cfg(feature = "defects")]
    pub(crate) defect: Option<Defect>,
}

impl Session {
    /// A session that holds nothing and is not connected.
    #[must_use]
    pub fn new(config: Config, mut entropy: Box<dyn Entropy>) -> Self {
        Self {
            spread: entropy.next_u64(),
            channels: Channels::default(),
            config,
            limits: Limits::default(),
            entropy,
            links: Links::default(),
            closed: false,
            last_ticket: 0,
            queues: Queues::default(),
            requests: BTreeMap::new(),
            holds: Holds::default(),
            extensions: BTreeMap::new(),
            reentrancy: Reentrancy::default(),
            composites: Composites::default(),
            releases: Releases::default(),
            ghosts: Ghosts::default(),
            inspections: BTreeMap::new(),
            calls: Calls::default(),
            timers: Timers::default(),
            transmits: VecDeque::new(),
            events: VecDeque::new(),
            #[cfg(feature = "defects")]
            defect: None,
        }
    }

    /// Makes one call do less than it does for users, so that a simulator meets the limits.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Wants a lock. Completes with [`Outcome::Granted`], [`Outcome::NotGranted`]
    /// (the wait is over and the lock is held), or [`Outcome::Failed`].
    pub fn acquire(&mut self, mut request: AcquireRequest, now: Instant) -> Ticket {
        self.misread(&mut request);
        let ticket = self.ticket();
        if !self.fail_if_closed(ticket, Operation::Acquire) {
            let plan = LeasePlan::of(request.lease, &self.config);
            if self.votes() {
                self.stand(ticket, request, now);
            } else if let Some(error) = self.waits_in_vain(&request, now) {
                self.complete(ticket, Outcome::Failed(error));
            } else {
                self.acquire_at(ticket, request, NodeId::default(), plan, now);
            }
            self.settle_composites(now);
        }
        ticket
    }

    /// Takes a lock of one node for `ticket`, to last as planned.
    pub(crate) fn acquire_at(
        &mut self,
        ticket: Ticket,
        request: AcquireRequest,
        node: NodeId,
        plan: LeasePlan,
        now: Instant,
    ) {
        let keys = Arc::new(Keys::new(request.kind, &request.name, node));
        self.lapse_before(&request, &keys, now);
        match self.place(&request, &keys, now) {
            Ok(Place::Reenter(hold)) => self.reenter(ticket, hold, plan, now),
            Ok(Place::Inside(writer)) => self.enqueue(ticket, request, keys, Some(writer), plan, now),
            Ok(Place::Outside) => self.enqueue(ticket, request, keys, None, plan, now),
            Err(error) => self.complete(ticket, Outcome::Failed(error.with_lock(request.name.as_str()))),
        }
    }

    /// Where a caller stands that wants a lock.
    fn place(&self, request: &AcquireRequest, keys: &Keys, now: Instant) -> Result<Place, Error> {
        let refuse = |message| Err(Error::new(ErrorKind::InvalidArgument, Operation::Acquire, message));
        let same = |hold: &Hold| hold.keys.record == keys.record && hold.keys.node == keys.node;
        let around = match request.within {
            Some(lease) => match self.holds.of_lease(lease) {
                Some(id) if self.holds.get(&id).is_some_and(same) => Some(id),
                _ => return refuse("`within` is not a held lease of this lock; give one, or leave it out"),
            },
            None => request.context.and_then(|context| self.held_by(keys, context)),
        };
        let Some((id, hold)) = around.and_then(|id| Some((id, self.holds.get(&id)?))) else {
            return Ok(Place::Outside);
        };
        let held = hold.keys.kind.gate();
        match keys.kind.spec().inside(held) {
            _ if held == keys.kind.gate() && keys.kind.is_reentrant() => Ok(Place::Reenter(id)),
            Some(Inside::LetIn) if hold.is_valid(now) => Ok(Place::Inside(hold.owner.clone())),
            Some(Inside::LetIn) => Err(lost_error(hold, Operation::Acquire)),
            Some(Inside::Refused(why)) => refuse(why),
            _ if request.within.is_some() => refuse("this kind of lock is not reentrant; leave `within` out"),
            _ => Ok(Place::Outside),
        }
    }

    /// The hold around a new one of `context`: its own, or the other side's of a
    /// read-write lock.
    pub(crate) fn held_by(&self, keys: &Keys, context: Context) -> Option<HoldId> {
        let at = |gate| self.reentrancy.get(self.queues.find_at(keys, gate)?, context);
        keys.kind.spec().gates_around().find_map(at)
    }

    /// Gives one lease back. Completes with [`Outcome::Released`], or fails with
    /// `NotOwner` if the session does not have it: it was released before, or it was
    /// a fixed lease that was lost, and forgotten. Neither does any harm.
    pub fn release(&mut self, lease: LeaseId, now: Instant) -> Ticket {
        let ticket = self.ticket();
        self.release_any(ticket, lease, now);
        ticket
    }

    /// Gives back the innermost lease of `context` on several locks together.
    /// Completes as [`Session::release_innermost`].
    pub fn release_innermost_of_all(&mut self, locks: &[(Kind, LockName)], context: Context, now: Instant) -> Ticket {
        let ticket = self.ticket();
        if !self.fail_if_closed(ticket, Operation::Release) {
            match self.innermost_of_all(locks, context) {
                Some(lease) => self.release_any(ticket, lease, now),
                None => self.complete(ticket, Outcome::Failed(not_owner())),
            }
        }
        ticket
    }

    fn release_any(&mut self, ticket: Ticket, lease: LeaseId, now: Instant) {
        if !self.has_lease(lease) {
            self.complete(ticket, Outcome::Failed(unknown_lease()));
        } else if !self.release_whole(ticket, lease, now) && !self.release_vote(ticket, lease, now) {
            self.release_lease(ticket, lease, now);
        }
        self.settle_composites(now);
    }

    /// Gives back the innermost lease of `context`. Completes with
    /// [`Outcome::Released`], or fails with `NotOwner` if it has none.
    pub fn release_innermost(&mut self, kind: Kind, name: &LockName, context: Context, now: Instant) -> Ticket {
        let ticket = self.ticket();
        if self.fail_if_closed(ticket, Operation::Release) {
            return ticket;
        }
        match self.innermost(kind, name, context) {
            Some(lease) => self.release_any(ticket, lease, now),
            None => self.complete(ticket, Outcome::Failed(not_owner().with_lock(name.as_str()))),
        }
        ticket
    }

    /// Makes a lease last `by` from now, or as long as it was given at first; never
    /// shorter than it does. Completes with [`Outcome::Extended`], or fails with
    /// `LockLost`, `NotOwner` (it was released, or was lost and forgotten) or
    /// `Unavailable`.
    pub fn extend(&mut self, lease: LeaseId, by: Option<crate::LeaseDuration>, now: Instant) -> Ticket {
        let ticket = self.ticket();
        if !self.fail_if_closed(ticket, Operation::Extend) {
            if !self.extend_whole(ticket, lease, by, now) && !self.extend_vote(ticket, lease, by, now) {
                self.extend_lease(ticket, lease, by, now);
            }
            self.settle_composites(now);
        }
        ticket
    }

    /// Asks the server who holds a lock. Completes with [`Outcome::State`].
    pub fn inspect(&mut self, kind: Kind, name: &LockName, now: Instant) -> Ticket {
        let ticket = self.ticket();
        if !self.fail_if_closed(ticket, Operation::Inspect) {
            self.put_question(ticket, kind, name, Question::State, now);
        }
        ticket
    }

    /// Takes a lock from whoever holds it: for operators. Its holder hears of the
    /// loss at its next renewal. Completes with [`Outcome::Forced`].
    pub fn force_release(&mut self, kind: Kind, name: &LockName, now: Instant) -> Ticket {
        let ticket = self.ticket();
        if !self.fail_if_closed(ticket, Operation::Release) {
            self.put_question(ticket, kind, name, Question::Force, now);
        }
        ticket
    }

    /// Changes the limit on which those who hold permits of a semaphore agreed, to
    /// that of `permits`: for operators. Nobody loses a permit. Completes with
    /// [`Outcome::Forced`], false if none is held.
    pub fn set_limit(&mut self, permits: Permits, name: &LockName, now: Instant) -> Ticket {
        let ticket = self.ticket();
        if self.fail_if_closed(ticket, Operation::SetLimit) {
            return ticket;
        }
        if self.votes() {
            let error = Error::new(ErrorKind::InvalidArgument, Operation::SetLimit, SIMPLE_LOCKS_ONLY);
            self.complete(ticket, Outcome::Failed(error.with_lock(name.as_str())));
        } else {
            self.put_question(
                ticket,
                Kind::Semaphore(permits),
                name,
                Question::Limit(permits.limit()),
                now,
            );
        }
        ticket
    }

    fn put_question(&mut self, ticket: Ticket, kind: Kind, name: &LockName, question: Question, now: Instant) {
        if self.votes() {
            self.ask_every_primary(ticket, name, |session, part, node| {
                let keys = Arc::new(Keys::new(Kind::Mutex, name, node));
                session.start_inspection(part, keys, question, now);
            });
            self.settle_composites(now);
        } else {
            let keys = Arc::new(Keys::new(kind, name, NodeId::default()));
            self.start_inspection(ticket, keys, question, now);
        }
    }

    /// The caller went away: no event follows. An acquisition leaves nothing
    /// behind; a release or an extension goes on.
    pub fn cancel(&mut self, ticket: Ticket, now: Instant) {
        self.cancel_whole(ticket, now);
        self.cancel_vote(ticket, now);
        self.cancel_one(ticket, now);
        self.settle_composites(now);
    }

    /// Cancels what is no whole.
    pub(crate) fn cancel_one(&mut self, ticket: Ticket, now: Instant) {
        if self.requests.contains_key(&ticket) {
            self.remove_request(ticket, now);
        }
        if self.inspections.remove(&ticket).is_some() {
            self.timers.stop(Timer::Wait(ticket));
        }
        self.cancel_extension(ticket);
        self.releases.forget_ticket(ticket);
    }

    /// Ends the session: what waits fails with `Closed`, holds are lost with
    /// [`LostReason::Closed`] and then released. Twice is harmless.
    pub fn close(&mut self, now: Instant) {
        if self.closed {
            return;
        }
        self.closed = true;
        // Wholes first: then their parts are nobody's.
        let mut wholes = self.waiting_for_several();
        wholes.append(&mut self.candidates());
        // The last first, so that none of them asks in the place of one that has gone.
        for ticket in wholes.into_iter().rev() {
            self.fail_if_closed(ticket, Operation::Acquire);
            self.cancel(ticket, now);
        }
        let waiting: Vec<Ticket> = self.requests.keys().chain(self.inspections.keys()).copied().collect();
        for ticket in &waiting {
            self.fail_if_closed(*ticket, Operation::Acquire);
        }
        // The last ones first: whoever stood behind a waiter that goes would ask the server.
        for ticket in waiting.into_iter().rev() {
            self.cancel(ticket, now);
        }
        for id in self.holds.ids() {
            self.lose(id, LostReason::Closed, now);
            self.settle_composites(now);
            if let Some(hold) = self.end_hold(id) {
                self.owe_release(hold, None, now);
            }
        }
        self.dissolve();
        self.dissolve_votes();
        self.release_at_once(now);
        self.settle_composites(now);
    }

    /// Whether nothing is owed to the server.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.releases.is_empty()
    }

    /// How often `context` holds the lock.
    #[must_use]
    pub fn levels(&self, kind: Kind, name: &LockName, context: Context) -> u32 {
        if self.votes() {
            return u32::try_from(self.votes_of(name, context).count()).unwrap_or(u32::MAX);
        }
        u32::try_from(self.leases_of(kind, name, context).count()).unwrap_or(u32::MAX)
    }

    /// The innermost lease of `context` on the lock.
    #[must_use]
    pub fn innermost(&self, kind: Kind, name: &LockName, context: Context) -> Option<LeaseId> {
        if self.votes() {
            return self.votes_of(name, context).last();
        }
        self.leases_of(kind, name, context).last()
    }

    /// The leases of `context` on the lock, outermost first. What it has as a part
    /// of several locks is the whole's.
    fn leases_of(&self, kind: Kind, name: &LockName, context: Context) -> impl Iterator<Item = LeaseId> {
        let leases = self.holds_of(kind, name, context).flat_map(|hold| &hold.levels);
        leases.copied().filter(|lease| self.composites.whole(*lease).is_none())
    }

    fn holds_of(&self, kind: Kind, name: &LockName, context: Context) -> impl Iterator<Item = &Hold> {
        let queue = self.queues.find(&Keys::new(kind, name, NodeId::default()));
        let holds = queue.map_or(&[][..], |queue| self.reentrancy.all(queue, context));
        holds.iter().filter_map(|hold| self.holds.get(hold))
    }

    /// The call's bytes are about to go to the socket.
    pub fn on_sent(&mut self, call: CallId, now: Instant) {
        if let Some(InFlight {
            purpose: Purpose::Release(release),
            ..
        }) = self.calls.sent(call, now)
        {
            self.release_sent(release, now);
        }
    }

    /// The call's answer.
    pub fn on_reply(&mut self, id: CallId, result: Result<Reply, CallError>, now: Instant) {
        let Some((call, heirs)) = self.calls.finish(id) else {
            return;
        };
        self.timers.stop(Timer::CallTimeout(id));
        self.doubt_answered(id, call.was_cut(&result), &heirs);
        match call.purpose {
            Purpose::Acquire { ticket, ttl } => self.attempt_answered(id, call, ticket, ttl, result, now),
            Purpose::Renew { hold, ttl } => self.renewal_answered(id, call, hold, ttl, result, now),
            Purpose::Release(release) => self.release_answered(id, call, release, result, now),
            Purpose::Poll(queue) => self.poll_answered(id, call, queue, result, now),
            Purpose::Inspect(ticket) => self.inspection_answered(ticket, result),
        }
        self.settle_composites(now);
    }

    /// The server confirmed a subscription.
    pub fn on_subscribed(&mut self, node: NodeId, channel: &[u8], now: Instant) {
        self.subscribed(node, channel, now);
        self.settle_composites(now);
    }

    /// A message came.
    pub fn on_message(&mut self, node: NodeId, channel: &[u8], payload: &[u8], now: Instant) {
        self.message(node, channel, payload, now);
        self.settle_composites(now);
    }

    /// Time passed. Spurious calls are harmless.
    pub fn on_timeout(&mut self, now: Instant) {
        while let Some(timer) = self.timers.take_due(now) {
            match timer {
                Timer::CallTimeout(id) => self.call_overdue(id, now),
                Timer::Wake(ticket) => {
                    if !self.ask_again(ticket, now) {
                        self.wake(ticket, now);
                    }
                }
                Timer::Share(ticket) => self.share_over(ticket, now),
                Timer::Majority(lease) => self.majority_over(lease, now),
                Timer::Wait(ticket) => self.patience_over(ticket, now),
                Timer::Silence(ticket) => self.silence(ticket, now),
                Timer::Renew(hold) => self.renew(hold, now),
                Timer::Deadline(hold) => self.deadline_passed(hold, now),
                Timer::ReleaseAgain(release) => self.send_release(release, now),
                Timer::ReleaseWait(release) => self.release_wait_over(release),
                Timer::Poll(queue) => self.poll_line(queue, now),
                Timer::Heard(queue) => self.heard(queue, now),
                Timer::Linger(queue) => self.linger_over(queue),
            }
            self.settle_composites(now);
        }
    }

    fn call_overdue(&mut self, id: CallId, now: Instant) {
        let Some(call) = self.calls.get(id) else { return };
        match call.purpose {
            Purpose::Acquire { ticket, .. } => self.attempt_overdue(id, ticket, now),
            Purpose::Renew { hold, .. } => self.renewal_overdue(id, hold, now),
            Purpose::Release(release) => self.release_overdue(id, release, now),
            // Its caller's own patience ends at the same time; the next poll comes by itself.
            Purpose::Inspect(_) | Purpose::Poll(_) => {}
        }
    }

    fn patience_over(&mut self, ticket: Ticket, now: Instant) {
        if self.requests.contains_key(&ticket) {
            self.wait_over(ticket, now);
        } else if self.inspections.contains_key(&ticket) {
            self.inspection_overdue(ticket);
        } else if !self.candidacy_over(ticket, now) {
            self.extension_over(ticket, now);
        }
    }

    /// The next thing to send.
    #[must_use]
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.transmits.pop_front()
    }

    /// The next thing to tell.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When to call [`Session::on_timeout`] if nothing else happens before; `None`
    /// while nothing is waited for. May change with any input.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// Whether a script call was sent, or is to be, and its answer has not come.
    #[must_use]
    pub fn awaits_answers(&self) -> bool {
        self.calls.len() > 0
    }

    /// How many entries of any kind the session keeps. Zero when nothing is
    /// waited for, held, owed or listened to.
    #[must_use]
    pub fn len(&self) -> usize {
        [
            self.queues.len(),
            self.requests.len(),
            self.holds.len(),
            self.extensions.len(),
            self.composites.len(),
            self.reentrancy.len(),
            self.channels.len(),
            self.releases.len(),
            self.inspections.len(),
            self.calls.len(),
            self.timers.len(),
        ]
        .iter()
        .fold(0, |sum, part| sum.saturating_add(*part))
    }

    /// Whether the session keeps nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn complete(&mut self, ticket: Ticket, outcome: Outcome) {
        self.tell(Event::Completed { ticket, outcome });
    }

    pub(crate) fn transmit(&mut self, id: CallId, node: NodeId, lane: Lane, invocation: Invocation) {
        self.transmits.push_back(Transmit::Call(Call {
            id,
            node,
            lane,
            script: invocation.script,
            keys: invocation.keys,
            args: invocation.args,
        }));
    }

    /// A duration between two, drawn at random.
    pub(crate) fn between(&mut self, (low, high): (Duration, Duration)) -> Duration {
        let span = u64::try_from(high.saturating_sub(low).as_micros()).unwrap_or(u64::MAX);
        let drawn = self.entropy.next_u64().checked_rem(span.saturating_add(1)).unwrap_or(0);
        low.saturating_add(Duration::from_micros(drawn))
    }

    pub(crate) fn ticket(&mut self) -> Ticket {
        self.last_ticket = self.last_ticket.wrapping_add(1);
        Ticket::from_u64(self.last_ticket)
    }

    pub(crate) fn fail_if_closed(&mut self, ticket: Ticket, operation: Operation) -> bool {
        if self.closed {
            let error = Error::new(ErrorKind::Closed, operation, "the client is closed; connect a new one");
            self.complete(ticket, Outcome::Failed(error));
        }
        self.closed
    }
}

fn not_owner() -> Error {
    Error::new(
        ErrorKind::NotOwner,
        Operation::Release,
        "the calling thread or task does not hold it; release it where it was acquired, or release its lease",
    )
}

/// Where a caller stands that wants a lock.
enum Place {
    /// It holds the lock and is let in again.
    Reenter(HoldId),
    /// It writes, and wants to read inside the write hold of this owner.
    Inside(OwnerId),
    /// It holds nothing of it.
    Outside,
}
