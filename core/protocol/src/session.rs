//! The session: it routes each input to the room that has the rule.

use crate::calls::{Heir, InFlight, Purpose};
use crate::composite::Composites;
use crate::defects::Defect;
use crate::ending::LostReason;
use crate::error::{Error, ErrorKind, Operation};
use crate::ids::{CallId, Context, HoldId, LeaseId, LockId, NodeId, Ticket};
use crate::instant::Instant;
use crate::io::Io;
use crate::kinds::{Inside, Keys, Kind, Permits};
use crate::lease::LeasePlan;
use crate::machines::channels::{self, Channels};
use crate::machines::holds::{self, Hold, Holds};
use crate::machines::inspections::{self, Inspections, Question};
use crate::machines::releases::{self, Releases};
use crate::name::LockName;
use crate::owner::{Entropy, OwnerId};
use crate::queue::Queues;
use crate::quorum::SIMPLE_LOCKS_ONLY;
use crate::reply::{CallError, Reply};
use crate::request::Request;
use crate::step::{Owed, Step};
use crate::timers::Timer;
use crate::types::{AcquireRequest, Config, Event, Limits, Outcome, Transmit};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// How long a subscription outlives the last waiter, so that a lock in steady
/// use is not subscribed and unsubscribed for each of them.
const LINGER: Duration = Duration::from_secs(1);

/// The local state of every lock of one client. See the crate's documentation
/// for the law that its driver keeps.
pub struct Session {
    pub(crate) io: Io,
    closed: bool,
    pub(crate) queues: Queues,
    pub(crate) requests: BTreeMap<Ticket, Request>,
    pub(crate) holds: Holds,
    pub(crate) composites: Composites,
    pub(crate) releases: Releases,
    pub(crate) channels: Channels,
    pub(crate) inspections: Inspections,
    pub(crate) events: VecDeque<Event>,
}

impl Session {
    /// A session that holds nothing and is not connected.
    #[must_use]
    pub fn new(config: Config, entropy: Box<dyn Entropy>) -> Self {
        Self {
            io: Io::new(config, entropy),
            channels: Channels::default(),
            closed: false,
            queues: Queues::default(),
            requests: BTreeMap::new(),
            holds: Holds::default(),
            composites: Composites::default(),
            releases: Releases::default(),
            inspections: Inspections::default(),
            events: VecDeque::new(),
        }
    }

    /// Makes one call do less than it does for users, so that a simulator meets the limits.
    pub fn set_limits(&mut self, limits: Limits) {
        self.io.set_limits(limits);
    }

    /// Wants a lock. Completes with [`Outcome::Granted`], [`Outcome::NotGranted`]
    /// (the wait is over and the lock is held), or [`Outcome::Failed`].
    pub fn acquire(&mut self, mut request: AcquireRequest, now: Instant) -> Ticket {
        self.misread(&mut request);
        let ticket = self.ticket();
        if !self.fail_if_closed(ticket, Operation::Acquire) {
            let plan = LeasePlan::of(request.lease, self.io.config().lease);
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
            Ok(Place::Reenter(hold)) => self.hold_by(holds::Input::Enter(ticket, hold, plan), now),
            Ok(Place::Inside(writer)) => self.enqueue(ticket, request, keys, Some(writer), plan, now),
            Ok(Place::Outside) => self.enqueue(ticket, request, keys, None, plan, now),
            Err(error) => self.complete(ticket, Outcome::Failed(error.with_lock(request.name.as_str()))),
        }
    }

    /// Where a caller stands that wants a lock.
    fn place(&self, request: &AcquireRequest, keys: &Keys, now: Instant) -> Result<Place, Error> {
        let refuse = |message| Err(Error::new(ErrorKind::InvalidArgument, Operation::Acquire, message));
        let same = |hold: &Hold| hold.keys().record == keys.record && hold.keys().node == keys.node;
        let around = match request.within {
            Some(lease) => match self.holds.of_lease(lease) {
                Some(id) if self.holds.get(id).is_some_and(same) => Some(id),
                _ => return refuse("`within` is not a held lease of this lock; give one, or leave it out"),
            },
            None => request.context.and_then(|context| self.held_by(keys, context)),
        };
        let Some((id, hold)) = around.and_then(|id| Some((id, self.holds.get(id)?))) else {
            return Ok(Place::Outside);
        };
        let held = hold.keys().kind.gate();
        match keys.kind.spec().inside(held) {
            _ if held == keys.kind.gate() && keys.kind.is_reentrant() => Ok(Place::Reenter(id)),
            Some(Inside::LetIn) if hold.is_valid(now) => Ok(Place::Inside(hold.owner().clone())),
            Some(Inside::LetIn) => Err(hold.lost_error(Operation::Acquire)),
            Some(Inside::Refused(why)) => refuse(why),
            _ if request.within.is_some() => refuse("this kind of lock is not reentrant; leave `within` out"),
            _ => Ok(Place::Outside),
        }
    }

    /// The hold around a new one of `context`: its own, or the other side's of a
    /// read-write lock.
    pub(crate) fn held_by(&self, keys: &Keys, context: Context) -> Option<HoldId> {
        let at = |gate| self.holds.of_context(self.queues.find_at(keys, gate)?, context);
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
                session.ask(part, keys, question, now);
            });
            self.settle_composites(now);
        } else {
            let keys = Arc::new(Keys::new(kind, name, NodeId::default()));
            self.ask(ticket, keys, question, now);
        }
    }

    fn ask(&mut self, ticket: Ticket, keys: Arc<Keys>, question: Question, now: Instant) {
        self.inspect_by(inspections::Input::Asked(ticket, keys, question), now);
    }

    fn inspect_by(&mut self, input: inspections::Input, now: Instant) {
        self.inspections.input(&mut self.io, input, now);
        self.route(now);
    }

    /// Hands on what follows from an input, and from that.
    pub(crate) fn route(&mut self, now: Instant) {
        let mut steps = VecDeque::from(self.io.take_steps());
        while let Some(step) = steps.pop_front() {
            self.perform(step, now);
            // What follows from a step comes before what comes after it.
            for step in self.io.take_steps().into_iter().rev() {
                steps.push_front(step);
            }
        }
    }

    fn perform(&mut self, step: Step, now: Instant) {
        match step {
            Step::Tell(event) => self.tell(event),
            Step::Owes(owed) => self.releases.input(&mut self.io, releases::Input::Owed(owed), now),
            Step::Held(lock, hold) => {
                if let Some(queue) = self.queues.get_mut(lock) {
                    queue.holding = Some(hold);
                }
            }
            Step::Freed(lock, hold) => self.freed(lock, hold, now),
            Step::Entered(ticket, hold, plan) => self.stays_renewed(ticket, hold, plan),
            Step::Published(lock, listeners) => {
                let others = self.channels.others(lock, listeners);
                if let Some(queue) = self.queues.get_mut(lock) {
                    queue.turn.heard_by(others);
                }
            }
            Step::GrantReplied(keys, payload) => {
                if let Some(lock) = self.queues.find(&keys) {
                    self.granted_unasked(lock, &payload, now);
                }
            }
            Step::GrantTold(lock, payload) => self.granted_unasked(lock, &payload, now),
            Step::Heard(lock) => self.heard(lock, now),
            Step::MayBeFree(lock) => self.maybe_free(lock, now),
            Step::MissedNews(_) => {}
            Step::GhostReleased(lock) => {
                if let Some(queue) = self.queues.get_mut(lock) {
                    queue.line.last_ghost = Some(now);
                }
            }
            Step::Tidy(lock) => self.tidy(lock, now),
        }
    }

    fn hear(&mut self, input: channels::Input<'_>, now: Instant) {
        self.channels.input(&mut self.io, input);
        self.route(now);
    }

    /// Listens on the lock's channel, if it does not already. Says whether the
    /// channel was listened to before, so that news may have passed this lock by.
    pub(crate) fn subscribe(&mut self, id: LockId) -> bool {
        let Some(queue) = self.queues.get(id) else {
            return false;
        };
        let input = channels::Input::Listen(id, queue.node, Arc::clone(&queue.channel));
        self.channels.input(&mut self.io, input);
        !self.io.take_steps().is_empty()
    }

    /// Listens for the grants of a lock, if the client does not already.
    pub(crate) fn listen_for_grants(&mut self, id: LockId, keys: &Keys) {
        let channel = keys.grants(self.io.config().client);
        let input = channels::Input::ListenForGrants(id, keys.node, channel);
        self.channels.input(&mut self.io, input);
    }

    /// A message says that a lock may be free, or something that is not to be believed: those
    /// who wait ask, unless messages before it have made them ask in vain.
    pub(crate) fn heard(&mut self, id: LockId, now: Instant) {
        if self.io.has(Defect::MessagesWakeNobody) {
            return;
        }
        let poll = self.io.config().retry_interval.0;
        let Some(queue) = self.queues.get_mut(id).filter(|queue| queue.is_waited_at()) else {
            return;
        };
        match queue.wakes.earliest(queue.longest_gap(poll)) {
            Some(earliest) if now < earliest => {
                // What it may have said is not forgotten.
                self.io.set(Timer::Heard(id), earliest);
            }
            _ => {
                queue.wakes.asks(now);
                self.line_asks_again(id);
                self.maybe_free(id, now);
            }
        }
    }

    /// A lock may be free: the first local waiter asks, and those in the server's
    /// queue.
    pub(crate) fn maybe_free(&mut self, id: LockId, now: Instant) {
        self.wake_first(id, now);
        self.poll_line_soon(id, now);
    }

    /// Forgets a lock that nobody needs: at once if nothing else knows of it,
    /// else after a while.
    pub(crate) fn tidy(&mut self, id: LockId, now: Instant) {
        let Some(queue) = self.queues.get(id) else { return };
        if !queue.is_unused() {
            return;
        }
        if self.channels.is_listening(id) || queue.turn.is_shared() {
            self.io.set(Timer::Linger(id), now + LINGER);
        } else if !self.holds.is_held_by_any(id) {
            self.forget(id);
        }
    }

    /// A lock has been idle for a while, unless it is in use again.
    fn linger_over(&mut self, id: LockId) {
        let Some(queue) = self.queues.get(id) else { return };
        if !queue.is_unused() {
            return;
        }
        self.channels.input(&mut self.io, channels::Input::Leave(id));
        if !self.holds.is_held_by_any(id) {
            self.forget(id);
        }
    }

    fn forget(&mut self, id: LockId) {
        self.io.stop(Timer::Linger(id));
        self.io.stop(Timer::Heard(id));
        self.queues.remove(id);
    }

    pub(crate) fn hold_by(&mut self, input: holds::Input, now: Instant) {
        self.holds.input(&mut self.io, input, now);
        self.route(now);
    }

    /// Releases one lease; the last one takes the record with it.
    pub(crate) fn release_lease(&mut self, ticket: Ticket, lease: LeaseId, now: Instant) {
        self.hold_by(holds::Input::Release(ticket, lease), now);
    }

    /// Makes the hold of `lease` last `by` from now, never shorter than it does.
    pub(crate) fn extend_lease(
        &mut self,
        ticket: Ticket,
        lease: LeaseId,
        by: Option<crate::LeaseDuration>,
        now: Instant,
    ) {
        self.hold_by(holds::Input::Extend(ticket, lease, by), now);
    }

    pub(crate) fn lose(&mut self, id: HoldId, reason: LostReason, now: Instant) {
        self.hold_by(holds::Input::Lost(id, reason), now);
    }

    /// Who sees that its fixed lease is over, and comes back before the timer has told
    /// so, holds nothing any more.
    fn lapse_before(&mut self, request: &AcquireRequest, keys: &Keys, now: Instant) {
        let context = request.context.filter(|_| request.within.is_none());
        if let Some(id) = context.and_then(|context| self.held_by(keys, context)) {
            self.hold_by(holds::Input::Return(id), now);
        }
    }

    /// Whether the session has a lease: it is held, or it was lost and is still to be
    /// released. A fixed lease that was lost is forgotten when its loss is told.
    #[must_use]
    pub fn has_lease(&self, lease: LeaseId) -> bool {
        self.holds.of_lease(lease).is_some() || self.composites.has_whole(lease)
    }

    /// When the next renewal is due, whatever else is due before. A hold whose renewal
    /// is under way has none. May change with any input.
    #[must_use]
    pub fn next_renewal(&self) -> Option<Instant> {
        self.io.next_renewal()
    }

    /// The hold keeps nobody waiting any longer.
    fn freed(&mut self, lock: LockId, id: HoldId, now: Instant) {
        if let Some(queue) = self.queues.get_mut(lock).filter(|queue| queue.holding == Some(id)) {
            queue.holding = None;
            queue.heard = Some(now);
            queue.turn.released(now);
            queue.wakes.changed();
        }
        self.advance(lock, now);
    }

    pub(crate) fn release_by(&mut self, input: releases::Input, now: Instant) {
        self.releases.input(&mut self.io, input, now);
        self.route(now);
    }

    /// Owes a release.
    pub(crate) fn owe(&mut self, owed: Owed, now: Instant) {
        self.release_by(releases::Input::Owed(owed), now);
    }

    /// A lock is held by this owner, as an answer says, or a message.
    pub(crate) fn owner_seen(&mut self, lock: LockId, owner: &[u8], is_told: bool, now: Instant) {
        if let Some(keys) = self.queues.get(lock).and_then(|queue| queue.line.keys.clone()) {
            self.release_by(releases::Input::Seen(lock, keys, owner.to_vec(), is_told), now);
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
        self.inspect_by(inspections::Input::Cancelled(ticket), now);
        self.hold_by(holds::Input::Cancelled(ticket), now);
        self.release_by(releases::Input::Cancelled(ticket), now);
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
        let mut waiting: Vec<Ticket> = self.requests.keys().copied().collect();
        waiting.append(&mut self.inspections.tickets());
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
            self.hold_by(holds::Input::Dropped(id), now);
        }
        self.dissolve();
        self.dissolve_votes();
        self.release_by(releases::Input::Closed, now);
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
        let leases = self.holds_of(kind, name, context).flat_map(Hold::levels);
        leases.copied().filter(|lease| self.composites.whole(*lease).is_none())
    }

    fn holds_of(&self, kind: Kind, name: &LockName, context: Context) -> impl Iterator<Item = &Hold> {
        let queue = self.queues.find(&Keys::new(kind, name, NodeId::default()));
        queue
            .into_iter()
            .flat_map(move |queue| self.holds.all_of_context(queue, context))
    }

    /// The call's bytes are about to go to the socket.
    pub fn on_sent(&mut self, call: CallId, now: Instant) {
        if let Some(InFlight {
            purpose: Purpose::Release(release),
            ..
        }) = self.io.sent(call, now)
        {
            self.release_by(releases::Input::Sent(release), now);
        }
    }

    /// The call's answer.
    pub fn on_reply(&mut self, id: CallId, result: Result<Reply, CallError>, now: Instant) {
        let Some((call, heirs)) = self.io.finish(id) else {
            return;
        };
        let was_cut = call.was_cut(&result);
        for heir in heirs {
            match heir {
                Heir::Hold(hold) => self.hold_by(holds::Input::Resolved(hold, id, was_cut), now),
                Heir::Release(release) => self.release_by(releases::Input::Resolved(release, id, was_cut), now),
            }
        }
        match call.purpose {
            Purpose::Acquire { ticket, ttl } => self.attempt_answered(id, call, ticket, ttl, result, now),
            Purpose::Renew { hold, ttl } => self.hold_by(holds::Input::Renewed(hold, (id, call), ttl, result), now),
            Purpose::Release(release) => self.release_by(releases::Input::Answered(release, id, call, result), now),
            Purpose::Poll(queue) => self.poll_answered(id, call, queue, result, now),
            Purpose::Inspect(ticket) => self.inspect_by(inspections::Input::Answered(ticket, result), now),
        }
        self.settle_composites(now);
    }

    /// The server confirmed a subscription.
    pub fn on_subscribed(&mut self, node: NodeId, channel: &[u8], now: Instant) {
        self.hear(channels::Input::Confirmed(node, channel), now);
        self.settle_composites(now);
    }

    /// A message came.
    pub fn on_message(&mut self, node: NodeId, channel: &[u8], payload: &[u8], now: Instant) {
        self.hear(channels::Input::Message(node, channel, payload), now);
        self.settle_composites(now);
    }

    /// Time passed. Spurious calls are harmless.
    pub fn on_timeout(&mut self, now: Instant) {
        while let Some(timer) = self.io.take_due(now) {
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
                Timer::Renew(hold) => self.hold_by(holds::Input::RenewalDue(hold), now),
                Timer::Deadline(hold) => self.hold_by(holds::Input::DeadlinePassed(hold), now),
                Timer::ReleaseAgain(release) => self.release_by(releases::Input::Due(release), now),
                Timer::ReleaseWait(release) => self.release_by(releases::Input::WaitOver(release), now),
                Timer::Poll(queue) => self.poll_line(queue, now),
                Timer::Heard(queue) => self.heard(queue, now),
                Timer::Linger(queue) => self.linger_over(queue),
            }
            self.settle_composites(now);
        }
    }

    fn call_overdue(&mut self, id: CallId, now: Instant) {
        let Some(call) = self.io.in_flight(id) else { return };
        match call.purpose {
            Purpose::Acquire { ticket, .. } => self.attempt_overdue(id, ticket, now),
            Purpose::Renew { hold, .. } => self.hold_by(holds::Input::RenewalOverdue(hold, id), now),
            Purpose::Release(release) => self.release_by(releases::Input::Overdue(release, id), now),
            // Its caller's own patience ends at the same time; the next poll comes by itself.
            Purpose::Inspect(_) | Purpose::Poll(_) => {}
        }
    }

    fn patience_over(&mut self, ticket: Ticket, now: Instant) {
        if self.requests.contains_key(&ticket) {
            self.wait_over(ticket, now);
        } else if self.inspections.has(ticket) {
            self.inspect_by(inspections::Input::Overdue(ticket), now);
        } else if !self.candidacy_over(ticket, now) {
            self.hold_by(holds::Input::ExtensionOver(ticket), now);
        }
    }

    /// The next thing to send.
    #[must_use]
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.io.next_transmit()
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
        self.io.next_due()
    }

    /// Whether a script call was sent, or is to be, and its answer has not come.
    #[must_use]
    pub fn awaits_answers(&self) -> bool {
        self.io.calls() > 0
    }

    /// How many entries of any kind the session keeps. Zero when nothing is
    /// waited for, held, owed or listened to.
    #[must_use]
    pub fn len(&self) -> usize {
        [
            self.queues.len(),
            self.requests.len(),
            self.holds.len(),
            self.composites.len(),
            self.channels.len(),
            self.releases.len(),
            self.inspections.len(),
            self.io.calls(),
            self.io.timers(),
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

    pub(crate) fn ticket(&mut self) -> Ticket {
        self.io.next_ticket()
    }

    pub(crate) fn fail_if_closed(&mut self, ticket: Ticket, operation: Operation) -> bool {
        if self.closed {
            let error = Error::new(ErrorKind::Closed, operation, "the client is closed; connect a new one");
            self.complete(ticket, Outcome::Failed(error));
        }
        self.closed
    }
}

/// Why a lease is not released that the session does not have.
fn unknown_lease() -> Error {
    Error::new(
        ErrorKind::NotOwner,
        Operation::Release,
        "this lease was released before, or was lost and forgotten; nothing is left to release",
    )
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
