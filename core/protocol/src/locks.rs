//! The locks of a client: the machines, and the one router between them.
//!
//! A machine (see `machines/`) takes inputs and answers with steps. The router gives each step to the machine that must
//! act on it. All that follows from a step is done before the next step, so the calls are sent in the order in which
//! the rules ask for them.
//!
//! The router also has the rules that need several machines:
//!
//! - A caller that holds the lock re-enters it, reads inside it, waits, or is refused (`relation`).
//! - A caller can have several waits at once, because a signal handler can run during a wait of its thread. When one of
//!   them is granted the lock, the others are decided anew (`answer_other_waits`): otherwise the thread could wait for
//!   itself.
//! - The result of a call can tell the circuit breaker whether the primary serves (`note_answer`, `note_failure`).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::breakers::Health;
use crate::calls::{Answered, InFlight, Purpose, Successor};
use crate::error::{Cause, Error, ErrorKind, Operation};
use crate::ids::{CallId, Context, HAS_CALLERS, HoldId, LeaseId, LockId, NodeId, Primary, Ticket, Verb};
use crate::instant::Instant;
use crate::io::Io;
use crate::kinds::{Gate, Inside, Keys, Kind};
use crate::lease::LeasePlan;
use crate::machines::channels::Channels;
use crate::machines::elections::Elections;
use crate::machines::fair_queue::FairQueue;
use crate::machines::holds::{Hold, Holds};
use crate::machines::inspections::Inspections;
use crate::machines::releases::Releases;
use crate::machines::waiters::{CallerWait, Waiters};
use crate::machines::{channels, elections, fair_queue, holds, inspections, releases, waiters};
use crate::name::LockName;
use crate::owner::OwnerId;
use crate::reply::{CallError, Reply};
use crate::step::{OwnerSeen, Reentry, Step, Wanted};
use crate::timers::Timer;
use crate::types::{AcquireRequest, Event, Lane, Outcome};

/// How long a subscription outlives the last waiter. Without this time, a busy lock would be subscribed to and
/// unsubscribed from for each waiter.
const LINGER: Duration = Duration::from_secs(1);

/// The machines of a client's locks, and the router between them.
pub(crate) struct Locks {
    io: Io,
    waiters: Waiters,
    fair_queue: FairQueue,
    holds: Holds,
    releases: Releases,
    channels: Channels,
    inspections: Inspections,
    elections: Elections,
    /// The events that have not been passed on yet.
    outputs: VecDeque<Output>,
}

/// An event that leaves the machines.
pub(crate) enum Output {
    /// An event for a caller. For a member of a composite lock, the event goes to the composite lock.
    Event(Event),
    /// A caller re-entered a hold.
    Entered(Reentry),
}

/// The relation of a caller to the lock that it wants.
enum Relation {
    /// The caller holds the lock and re-enters it.
    Reenter(HoldId),
    /// The caller holds the write lock with this owner id and wants to read inside it.
    Inside(OwnerId),
    /// The caller requests the lock like any other caller.
    Outside,
}

impl Locks {
    pub(crate) fn new(io: Io) -> Self {
        Self {
            io,
            waiters: Waiters::default(),
            fair_queue: FairQueue::default(),
            holds: Holds::default(),
            releases: Releases::default(),
            channels: Channels::default(),
            inspections: Inspections::default(),
            elections: Elections::default(),
            outputs: VecDeque::new(),
        }
    }

    pub(crate) const fn io(&self) -> &Io {
        &self.io
    }

    pub(crate) const fn io_mut(&mut self) -> &mut Io {
        &mut self.io
    }

    pub(crate) const fn holds(&self) -> &Holds {
        &self.holds
    }

    /// Returns the next event that leaves the machines.
    pub(crate) fn next_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Acquires a lock of one node for `ticket`, with the lease of `plan`.
    pub(crate) fn acquire(
        &mut self,
        ticket: Ticket,
        mut request: AcquireRequest,
        node: NodeId,
        plan: LeasePlan,
        now: Instant,
    ) {
        if request.kind.never_waits() {
            request.wait = Some(Duration::ZERO);
        }
        request.fencing |= request.kind.always_has_token();
        let keys = Keys::new(request.kind, &request.name, node);
        let keys = Arc::new(keys.with_run(request.run.clone()));
        // A caller that returns after its fixed lease expired holds nothing, even if the expiry timer has not fired
        // yet.
        let context = request.context.filter(|_| HAS_CALLERS && request.within.is_none());
        if let Some(id) = context.and_then(|context| self.held_by(&keys, context)) {
            self.pass_to_holds(holds::Input::ContextReturned(id), now);
        }
        let inside = match self.relation(&keys, context, request.within, now) {
            Ok(Relation::Reenter(hold)) => {
                let reentry = Reentry { ticket, hold, plan };
                return self.pass_to_holds(holds::Input::Enter(reentry), now);
            }
            Ok(Relation::Inside(writer)) => Some(writer),
            Ok(Relation::Outside) => None,
            Err(error) => {
                let outcome = Outcome::Failed(error.with_lock(request.name.as_str()));
                self.outputs
                    .push_back(Output::Event(Event::Completed { ticket, outcome }));
                return;
            }
        };
        let wanted = Wanted {
            ticket,
            request,
            keys,
            inside,
            plan,
        };
        self.pass_to_waiters(waiters::Input::Wanted(wanted), now);
    }

    /// Returns the holds of a context on a lock, at one of the lock's gates; see [`Gate`].
    pub(crate) fn holds_at(&self, keys: &Keys, gate: Gate, context: Context) -> impl Iterator<Item = &Hold> {
        let lock = self.waiters.find_at(keys, gate).into_iter();
        lock.flat_map(move |lock| self.holds.all_of_context(lock, context))
    }

    /// Returns the holds of a context on a lock.
    pub(crate) fn holds_of(&self, kind: Kind, name: &LockName, context: Context) -> impl Iterator<Item = &Hold> {
        let keys = Keys::new(kind, name, NodeId::default());
        let lock = self.waiters.find(&keys).into_iter();
        lock.flat_map(move |lock| self.holds.all_of_context(lock, context))
    }

    /// Whether this client knows a lease: the lease is held, or it was lost and not released yet.
    pub(crate) fn has_lease(&self, lease: LeaseId) -> bool {
        self.holds.of_lease(lease).is_some()
    }

    // Each of the next functions gives one machine an input and routes the steps that follow. Code that runs inside
    // `perform` calls the machines directly instead, because the loop in `route` is already running.

    pub(crate) fn pass_to_holds(&mut self, input: holds::Input, now: Instant) {
        self.holds.input(&mut self.io, input, now);
        self.route(now);
    }

    pub(crate) fn pass_to_inspections(&mut self, input: inspections::Input, now: Instant) {
        self.inspections.input(&mut self.io, input, now);
        self.route(now);
    }

    pub(crate) fn pass_to_elections(&mut self, input: elections::Input, now: Instant) {
        self.elections.input(&mut self.io, input, now);
        self.route(now);
    }

    fn pass_to_waiters(&mut self, input: waiters::Input, now: Instant) {
        self.waiters.input(&mut self.io, &self.holds, input, now);
        self.route(now);
    }

    fn pass_to_releases(&mut self, input: releases::Input, now: Instant) {
        self.releases.input(&mut self.io, input, now);
        self.route(now);
    }

    fn pass_to_channels(&mut self, input: channels::Input<'_>, now: Instant) {
        self.channels.input(&mut self.io, input);
        self.route(now);
    }

    fn pass_to_fair_queue(&mut self, input: fair_queue::Input, now: Instant) {
        self.fair_queue.input(&mut self.io, input, now);
        self.route(now);
    }

    /// Cancels the request of a ticket.
    pub(crate) fn cancel(&mut self, ticket: Ticket, now: Instant) {
        match ticket.verb() {
            Verb::Acquire => {
                self.pass_to_waiters(waiters::Input::Cancelled(ticket), now);
                // A caller that re-enters may be waiting for the extension of its hold.
                self.pass_to_holds(holds::Input::Cancelled(ticket), now);
            }
            Verb::Extend => self.pass_to_holds(holds::Input::Cancelled(ticket), now),
            Verb::Release => self.pass_to_releases(releases::Input::Cancelled(ticket), now),
            Verb::Inspect => {
                self.pass_to_inspections(inspections::Input::Cancelled(ticket), now);
                self.pass_to_elections(elections::Input::Cancelled(ticket), now);
            }
        }
    }

    /// Returns the tickets of all requests that wait for a lock or for the answer to a question.
    pub(crate) fn waiting(&self) -> Vec<Ticket> {
        let mut waiting = self.waiters.tickets();
        waiting.append(&mut self.inspections.tickets());
        waiting.append(&mut self.elections.tickets());
        waiting
    }

    /// Sends the releases that wait for the TTL of an expired lease, because the client closes.
    pub(crate) fn release_at_once(&mut self, now: Instant) {
        self.pass_to_releases(releases::Input::Closed, now);
    }

    /// Whether no release is owed to the server.
    pub(crate) fn is_drained(&self) -> bool {
        self.releases.is_empty()
    }

    /// Returns how many entries all machines keep.
    pub(crate) fn len(&self) -> usize {
        [
            self.waiters.len(),
            self.fair_queue.len(),
            self.holds.len(),
            self.channels.len(),
            self.releases.len(),
            self.inspections.len(),
            self.elections.len(),
            self.io.calls(),
            self.io.timers(),
        ]
        .iter()
        .fold(0, |sum, part| sum.saturating_add(*part))
    }

    /// Notes that the bytes of a call are about to be written to the socket.
    pub(crate) fn sent(&mut self, call: CallId, now: Instant) {
        let purpose = self.io.sent(call, now).map(|call| call.purpose);
        if let Some(Purpose::Release(release)) = purpose {
            self.pass_to_releases(releases::Input::Sent(release), now);
        }
    }

    /// Handles the answer to a call, or the close of its connection.
    pub(crate) fn replied(&mut self, id: CallId, result: Result<Reply, CallError>, now: Instant) {
        let Some((call, successors)) = self.io.finish(id) else {
            return;
        };
        let answered = Answered { id, call, result };
        let (resolved, health) = (answered.resolved(), self.health_of(&answered));
        self.note_answer(&call, &health, now);
        for successor in successors {
            match successor {
                Successor::Hold(hold) => self.pass_to_holds(holds::Input::Resolved(hold, resolved), now),
                Successor::Release(owed) => self.pass_to_releases(releases::Input::Resolved(owed, resolved), now),
            }
        }
        match call.purpose {
            Purpose::Acquire { ticket, ttl } => {
                let input = waiters::Input::Answered {
                    ticket,
                    ttl,
                    attempt: answered,
                };
                self.pass_to_waiters(input, now)
            }
            Purpose::Renew { hold, ttl } => {
                self.pass_to_holds(holds::Input::RenewalAnswered { hold, ttl, answered }, now)
            }
            Purpose::Release(release) => self.pass_to_releases(releases::Input::Answered(release, answered), now),
            Purpose::Poll(lock) => self.pass_to_fair_queue(fair_queue::Input::Answered(lock, answered), now),
            Purpose::Inspect(ticket) => {
                self.pass_to_inspections(inspections::Input::Answered(ticket, answered.result), now)
            }
            Purpose::Observe(election) => {
                self.pass_to_elections(elections::Input::Answered(election, answered.result), now)
            }
            Purpose::Identify => {}
            Purpose::Identity => self.identified(id, &answered.result, now),
            Purpose::Probe(primary) => self.probed(primary, id, &health, now),
        }
        self.note_failure(call.primary, health, now);
    }

    /// Notes that the server confirmed a subscription.
    pub(crate) fn subscribed(&mut self, node: NodeId, channel: &[u8], now: Instant) {
        self.pass_to_channels(channels::Input::Confirmed { node, channel }, now);
    }

    /// Handles a message that arrived on a channel.
    pub(crate) fn message(&mut self, node: NodeId, channel: &[u8], payload: &[u8], now: Instant) {
        let input = channels::Input::Message { node, channel, payload };
        self.pass_to_channels(input, now);
    }

    /// Notes that the connection of a node's subscriptions is closed.
    pub(crate) fn subscriptions_lost(&mut self, node: NodeId) {
        self.channels.input(&mut self.io, channels::Input::Lost(node));
    }

    /// Notes that one of a node's subscriptions is lost.
    pub(crate) fn subscription_lost(&mut self, node: NodeId, channel: &[u8]) {
        self.channels
            .input(&mut self.io, channels::Input::LostOne { node, channel });
    }

    pub(crate) fn lane_closed(&mut self, node: NodeId, lane: Lane, cause: Cause, now: Instant) {
        self.io.lane_closed(node, lane, cause.clone());
        if lane == Lane::Command {
            self.pass_to_waiters(waiters::Input::Disconnected(node, cause.clone()), now);
        }
        self.pass_to_holds(holds::Input::LaneClosed(node), now);
        if lane == Lane::Command && !self.io.breakers().is_cluster(node) {
            self.primary_seen(Primary::only(node), Some(&cause), now);
        }
    }

    /// Notes that these lanes have just opened, and sends everything that waited for them.
    pub(crate) fn lanes_opened(&mut self, node: NodeId, opened: &[Lane], now: Instant) {
        for lane in opened {
            self.io.lane_opened(node, *lane);
        }
        // Owed releases go first, then renewals, then attempts.
        let input = releases::Input::Connected {
            node,
            opened: opened.to_vec(),
        };
        self.pass_to_releases(input, now);
        // The holds are informed even if the other lane stayed open: the new connection may lead to another server,
        // which then answers that it has no record.
        for lane in opened {
            self.pass_to_holds(holds::Input::Connected(node, *lane), now);
        }
        if opened.contains(&Lane::Command) {
            self.io.breakers_connected(node, now);
            self.identify_there(node, now);
            self.pass_to_inspections(inspections::Input::Connected, now);
            self.pass_to_elections(elections::Input::Connected(node), now);
            for lock in self.waiters.locks() {
                self.io.step(Step::Waiter(waiters::Input::MayBeFree(lock)));
                self.route(now);
            }
            self.pass_to_waiters(waiters::Input::Connected(node), now);
        }
    }

    /// Handles a timer that has fired.
    pub(crate) fn timer(&mut self, timer: Timer, now: Instant) {
        match timer {
            Timer::CallTimeout(id) => self.call_overdue(id, now),
            Timer::Wake(ticket) => self.pass_to_waiters(waiters::Input::Woken(ticket), now),
            Timer::Wait(ticket) => self.pass_to_waiters(waiters::Input::WaitOver(ticket), now),
            Timer::Answer(ticket) => self.pass_to_inspections(inspections::Input::Overdue(ticket), now),
            Timer::Extension(ticket) => self.pass_to_holds(holds::Input::ExtensionOver(ticket), now),
            Timer::Silence(ticket) => self.pass_to_waiters(waiters::Input::Silence(ticket), now),
            Timer::Renew(hold) => self.pass_to_holds(holds::Input::RenewalDue(hold), now),
            Timer::Deadline(hold) => self.pass_to_holds(holds::Input::DeadlinePassed(hold), now),
            Timer::ReleaseAgain(release) => self.pass_to_releases(releases::Input::Due(release), now),
            Timer::ReleaseWait(release) => self.pass_to_releases(releases::Input::WaitOver(release), now),
            Timer::Poll(lock) => self.pass_to_fair_queue(fair_queue::Input::PollDue(lock), now),
            Timer::DelayedMessage(lock) => self.pass_to_waiters(waiters::Input::ReleaseMessage(lock), now),
            Timer::Linger(lock) => self.linger_over(lock, now),
            Timer::Observe(election) => self.pass_to_elections(elections::Input::PollDue(election), now),
            Timer::Unwatch(election) => self.pass_to_elections(elections::Input::LingerOver(election), now),
            Timer::Probe(primary) => self.probe(primary, now),
            Timer::Identify => self.identify_again(now),
            // `Session::settle` completes the refusal, with the name of the holder if it is known by then.
            Timer::Name(_) => {}
            // These timers belong to composite locks.
            Timer::Round(_) | Timer::Pause(_) | Timer::QuorumWait(_) | Timer::Majority(_) => {}
        }
    }

    /// Performs the steps that follow from an input, and the steps that follow from those.
    fn route(&mut self, now: Instant) {
        while let Some(step) = self.io.next_step() {
            self.perform(step, now);
        }
    }

    fn perform(&mut self, step: Step, now: Instant) {
        match step {
            Step::Emit(event) => self.outputs.push_back(Output::Event(event)),
            Step::ForgetIfUnused(lock) => self.forget_if_unused(lock, now),
            Step::Owes(owed) => self.releases.input(&mut self.io, releases::Input::Owed(owed), now),
            Step::OwnerSeen(seen) => self.owner_seen(seen, now),
            Step::Granted(ticket, new) => {
                let (keys, context) = (Arc::clone(&new.keys), new.context);
                self.holds.input(&mut self.io, holds::Input::Granted(ticket, new), now);
                self.answer_other_waits(&keys, context, now);
            }
            Step::Entered(reentry) => self.outputs.push_back(Output::Entered(reentry)),
            Step::Listen(to) => self.channels.input(&mut self.io, channels::Input::Listen(to)),
            Step::Watch(election, node, channel) => {
                let input = channels::Input::Watch(election, node, channel);
                self.channels.input(&mut self.io, input)
            }
            Step::Unwatch(election, node) => self
                .channels
                .input(&mut self.io, channels::Input::Unwatch(election, node)),
            Step::Election(input) => self.elections.input(&mut self.io, input, now),
            Step::Waiter(input) => self.waiters.input(&mut self.io, &self.holds, input, now),
            Step::Published { lock, listeners } => {
                let others = self.channels.others(lock, listeners);
                let input = waiters::Input::Published { lock, others };
                self.waiters.input(&mut self.io, &self.holds, input, now);
            }
            Step::Fair(input) => self.fair_queue.input(&mut self.io, input, now),
            Step::GrantReplied { keys, payload } => {
                if let Some(lock) = self.waiters.find(&keys) {
                    let input = fair_queue::Input::GrantMessage { lock, payload };
                    self.fair_queue.input(&mut self.io, input, now);
                }
            }
        }
    }

    /// Handles the report that an owner id of this client holds a lock. If the client has abandoned that owner id, the
    /// lock is released.
    fn owner_seen(&mut self, seen: OwnerSeen, now: Instant) {
        if let Some(keys) = self.fair_queue.keys(seen.lock) {
            let input = releases::Input::OwnerSeen(seen, Arc::clone(keys));
            self.releases.input(&mut self.io, input, now);
        }
    }

    /// Forgets a lock that is no longer in use. The lock is kept for `LINGER` first if the client is subscribed to its
    /// channel, or if other clients wait for the lock. A lock that a context holds is kept.
    fn forget_if_unused(&mut self, lock: LockId, now: Instant) {
        if !self.is_unused(lock) {
            return;
        }
        if self.channels.is_listening(lock) || self.waiters.is_shared(lock) {
            self.io.set(Timer::Linger(lock), now + LINGER);
        } else if !self.holds.is_held_by_any(lock) {
            self.forget(lock, now);
        }
    }

    /// Ends the subscriptions of a lock that has been idle for `LINGER`, and forgets the lock unless a context holds
    /// it. Does nothing if the lock is in use again.
    fn linger_over(&mut self, lock: LockId, now: Instant) {
        if !self.is_unused(lock) {
            return;
        }
        self.channels.input(&mut self.io, channels::Input::Unused(lock));
        if !self.holds.is_held_by_any(lock) {
            self.forget(lock, now);
        }
    }

    /// Whether no caller waits for a lock. When several callers fail at once, the fair queue learns of each by a step of
    /// its own, and the lock must stay until the last one.
    fn is_unused(&self, lock: LockId) -> bool {
        self.waiters.is_unused(lock) && !self.fair_queue.has_waiters(lock)
    }

    fn forget(&mut self, lock: LockId, now: Instant) {
        self.io.stop(Timer::Linger(lock));
        self.io.stop(Timer::DelayedMessage(lock));
        self.waiters
            .input(&mut self.io, &self.holds, waiters::Input::Forget(lock), now);
        self.fair_queue
            .input(&mut self.io, fair_queue::Input::Forget(lock), now);
    }
}

impl Locks {
    /// Returns how a caller is related to the lock that it wants. The caller is known by its context, or names a lease.
    fn relation(
        &self,
        keys: &Keys,
        context: Option<Context>,
        within: Option<LeaseId>,
        now: Instant,
    ) -> Result<Relation, Error> {
        let refuse = |message| Err(Error::new(ErrorKind::InvalidArgument, Operation::Acquire, message));
        let same = |hold: &Hold| hold.keys().record == keys.record && hold.keys().node == keys.node;
        let around = match within {
            Some(lease) => match self.holds.of_lease(lease) {
                Some(id) if self.holds.get(id).is_some_and(same) => Some(id),
                _ => return refuse("`within` is not a held lease of this lock; give one, or leave it out"),
            },
            None => context.and_then(|context| self.held_by(keys, context)),
        };
        let Some((id, hold)) = around.and_then(|id| Some((id, self.holds.get(id)?))) else {
            return Ok(Relation::Outside);
        };
        let held = hold.keys().kind.gate();
        match keys.kind.spec().inside(held) {
            _ if held == keys.kind.gate() && keys.kind.is_reentrant() => Ok(Relation::Reenter(id)),
            Some(Inside::LetIn) if hold.is_valid(now) => Ok(Relation::Inside(hold.owner().clone())),
            Some(Inside::LetIn) => Err(hold.lost_error(Operation::Acquire)),
            Some(Inside::Refused(why)) => refuse(why),
            _ if within.is_some() => refuse(keys.kind.refusal_within()),
            _ => Ok(Relation::Outside),
        }
    }

    /// Returns the hold that encloses a new one of `context`: the context's hold of the lock, or its hold of the other
    /// side of a read-write lock.
    pub(crate) fn held_by(&self, keys: &Keys, context: Context) -> Option<HoldId> {
        let at = |gate| self.holds.of_context(self.waiters.find_at(keys, gate)?, context);
        keys.kind.spec().gates_around().find_map(at)
    }

    /// Decides anew the other waits of a caller for a lock that it was just granted.
    fn answer_other_waits(&mut self, granted: &Keys, context: Option<Context>, now: Instant) {
        let Some(context) = context.filter(|context| HAS_CALLERS && self.waiters.has_waits_of(*context)) else {
            return;
        };
        for wait in self.waiters.of_caller(context) {
            if wait.keys.record == granted.record && wait.keys.node == granted.node {
                self.answer_other_wait(context, wait, now);
            }
        }
    }

    fn answer_other_wait(&mut self, context: Context, wait: CallerWait, now: Instant) {
        let ticket = wait.ticket;
        match self.relation(&wait.keys, Some(context), None, now) {
            Ok(Relation::Reenter(hold)) => {
                self.cancel_wait(ticket, now);
                let reentry = Reentry {
                    ticket,
                    hold,
                    plan: wait.plan,
                };
                self.holds.input(&mut self.io, holds::Input::Enter(reentry), now);
            }
            Ok(Relation::Inside(writer)) if wait.is_endless => {
                self.cancel_wait(ticket, now);
                let input = waiters::Input::Wanted(wait.again(writer));
                self.waiters.input(&mut self.io, &self.holds, input, now);
            }
            Ok(Relation::Outside) if wait.is_endless => {
                let keys = &wait.keys;
                let holds_it = self.holds_at(keys, keys.kind.gate(), context).next().is_some();
                if let Some(why) = keys.kind.refusal_of_endless().filter(|_| holds_it) {
                    let error = Error::new(ErrorKind::InvalidArgument, Operation::Acquire, why);
                    self.refuse(ticket, keys, error, now);
                }
            }
            // A wait with a bound ends by itself.
            Ok(Relation::Inside(_) | Relation::Outside) => {}
            Err(error) => self.refuse(ticket, &wait.keys, error, now),
        }
    }

    fn refuse(&mut self, ticket: Ticket, keys: &Arc<Keys>, error: Error, now: Instant) {
        self.cancel_wait(ticket, now);
        let outcome = Outcome::Failed(error.with_lock(keys.name.as_str()));
        self.io.complete(ticket, outcome);
    }

    fn cancel_wait(&mut self, ticket: Ticket, now: Instant) {
        let input = waiters::Input::Cancelled(ticket);
        self.waiters.input(&mut self.io, &self.holds, input, now);
    }
}

impl Locks {
    /// Handles a call whose answer is overdue.
    fn call_overdue(&mut self, id: CallId, now: Instant) {
        let Some(call) = self.io.in_flight(id) else { return };
        match call.purpose {
            Purpose::Acquire { ticket, .. } => self.pass_to_waiters(waiters::Input::Overdue(ticket, id), now),
            Purpose::Renew { hold, .. } => self.pass_to_holds(holds::Input::RenewalOverdue(hold, id), now),
            Purpose::Release(release) => self.pass_to_releases(releases::Input::Overdue(release, id), now),
            // These calls have no `CallTimeout`. A question has a timer for its caller (`Timer::Answer`).
            Purpose::Inspect(_) | Purpose::Poll(_) | Purpose::Observe(_) | Purpose::Identify | Purpose::Identity => {}
            Purpose::Probe(primary) => self.io.probe_failed(primary, id, now),
        }
        // A renewal of a short lease is overdue before the command timeout, so that it can be repeated in time. Such a
        // delay does not count against the primary.
        let timeout = self.io.config().command_timeout;
        let is_early = call.sent.is_none_or(|sent| now.saturating_since(sent) < timeout);
        if !(is_early && matches!(call.purpose, Purpose::Renew { .. })) {
            let silence = self.io.unreached(call.primary.node, timeout);
            self.note_failure(call.primary, Health::Fails(silence), now);
        }
    }

    /// Notes which primary of a cluster has which slot.
    pub(crate) fn slots_seen(&mut self, node: NodeId, slots: Arc<[u16]>, now: Instant) {
        self.io.set_slots(node, slots, now);
        self.route(now);
    }

    /// Returns what the result of a call says about its primary. In a cluster, a call that the driver could not send in
    /// time has the same error as a call whose connection closed, but it counts as a failure.
    fn health_of(&self, answered: &Answered) -> Health {
        let call = &answered.call;
        match &answered.result {
            Err(CallError::Disconnected(cause))
                if call.sent.is_none() && self.io.breakers().is_cluster(call.primary.node) =>
            {
                Health::Fails(cause.clone())
            }
            result => Health::of(result),
        }
    }

    /// Sends the probe of a primary.
    fn probe(&mut self, primary: Primary, now: Instant) {
        self.io.probe(primary, now);
        self.route(now);
    }

    /// Notes that a primary answered. Must come before everything else that follows from the answer, because waiters
    /// may send attempts again if the answer closes the circuit breaker of the primary.
    fn note_answer(&mut self, call: &InFlight, health: &Health, now: Instant) {
        if *health == Health::Serves {
            self.io.note_round_trip(call, now);
        }
        if *health == Health::Serves && !self.io.breakers().is_quiet() {
            self.io.answered_by(call.primary, now);
            self.route(now);
        }
    }

    /// Notes that a primary gave no answer, or reported that it cannot serve. Must come after everything else that
    /// follows from the result.
    fn note_failure(&mut self, primary: Primary, health: Health, now: Instant) {
        if let Health::Fails(cause) = health {
            self.io.failed_at(primary, &cause, now);
            self.route(now);
        }
    }

    /// Notes that a connection to a primary opened, or with `failure` that it closed or could not be made.
    pub(crate) fn primary_seen(&mut self, primary: Primary, failure: Option<&Cause>, now: Instant) {
        match failure {
            Some(cause) => self.io.failed_at(primary, cause, now),
            None => self.io.connected_to(primary, now),
        }
        self.route(now);
    }

    /// Handles the result of a probe, even if the slot of its lock has moved to another primary.
    fn probed(&mut self, primary: Primary, call: CallId, health: &Health, now: Instant) {
        if *health == Health::Serves {
            self.io.answered_by(primary, now);
            self.route(now);
        } else {
            self.io.probe_failed(primary, call, now);
        }
    }
}

impl Locks {
    /// Repeats the identity of this client, if any lock is wanted or held here.
    fn identify_again(&mut self, now: Instant) {
        let is_in_use = self.waiters.len() > 0 || self.holds.len() > 0;
        self.io.identify_again(is_in_use, now);
    }

    /// Repeats the identity on a new connection, which may lead to another server. Does nothing if the node had not
    /// received it.
    fn identify_there(&mut self, node: NodeId, now: Instant) {
        if self.io.forget_identity(node) {
            self.io.identify(node, now);
        }
    }

    /// Handles the answer to a question about another client, or its failure.
    fn identified(&mut self, call: CallId, result: &Result<Reply, CallError>, now: Instant) {
        self.io.identified(call, result, now);
        self.pass_to_inspections(inspections::Input::Identified, now);
        self.pass_to_elections(elections::Input::Identified, now);
    }
}
