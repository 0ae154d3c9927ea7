//! The session: it routes each input to the room that has the rule.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::calls::{Calls, InFlight, Purpose};
use crate::error::{Error, ErrorKind, Operation};
use crate::hold::{Extension, Holds};
use crate::instant::Instant;
use crate::kinds::{Invocation, Keys, Kind};
use crate::name::LockName;
use crate::owner::Entropy;
use crate::queue::Queues;
use crate::reentrancy::Reentrancy;
use crate::release::Releases;
use crate::reply::{CallError, Reply};
use crate::request::Request;
use crate::subscriptions::Channels;
use crate::timers::{Timer, Timers};
pub(crate) use crate::types::*;

/// The local state of every lock of one client. See the crate's documentation
/// for the law that its driver keeps.
pub struct Session {
    pub(crate) config: Config,
    pub(crate) entropy: Box<dyn Entropy>,
    /// The server that single-server locks live on.
    pub(crate) node: NodeId,
    connected: BTreeSet<NodeId>,
    /// Why the last connection closed.
    outage: Option<String>,
    closed: bool,
    last_ticket: u64,
    pub(crate) queues: Queues,
    pub(crate) requests: BTreeMap<Ticket, Request>,
    pub(crate) holds: Holds,
    pub(crate) extensions: BTreeMap<Ticket, Extension>,
    pub(crate) reentrancy: Reentrancy,
    pub(crate) releases: Releases,
    pub(crate) channels: Channels,
    pub(crate) inspections: BTreeMap<Ticket, Arc<Keys>>,
    pub(crate) calls: Calls,
    pub(crate) timers: Timers,
    pub(crate) transmits: VecDeque<Transmit>,
    pub(crate) events: VecDeque<Event>,
}

impl Session {
    /// A session that holds nothing and is not connected.
    #[must_use]
    pub fn new(config: Config, entropy: Box<dyn Entropy>) -> Self {
        Self {
            config,
            entropy,
            node: NodeId::default(),
            connected: BTreeSet::new(),
            outage: None,
            closed: false,
            last_ticket: 0,
            queues: Queues::default(),
            requests: BTreeMap::new(),
            holds: Holds::default(),
            extensions: BTreeMap::new(),
            reentrancy: Reentrancy::default(),
            releases: Releases::default(),
            channels: Channels::default(),
            inspections: BTreeMap::new(),
            calls: Calls::default(),
            timers: Timers::default(),
            transmits: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Wants a lock. Completes with [`Outcome::Granted`], [`Outcome::NotGranted`]
    /// (the wait is over and the lock is held), or [`Outcome::Failed`].
    pub fn acquire(&mut self, request: AcquireRequest, now: Instant) -> Ticket {
        let ticket = self.ticket();
        if self.fail_if_closed(ticket, Operation::Acquire) {
            return ticket;
        }
        let keys = Arc::new(Keys::new(request.kind, &request.name));
        let inside = match request.within {
            Some(lease) => match self.holds.of_lease(lease) {
                Some(hold)
                    if self
                        .holds
                        .get(&hold)
                        .is_some_and(|hold| hold.keys.record == keys.record) =>
                {
                    Some(hold)
                }
                _ => {
                    let error = Error::new(
                        ErrorKind::InvalidArgument,
                        Operation::Acquire,
                        "`within` is not a held lease of this lock; give one, or leave it out",
                    );
                    self.complete(ticket, Outcome::Failed(error.with_lock(request.name.as_str())));
                    return ticket;
                }
            },
            None => self
                .queues
                .find(&keys.record)
                .zip(request.context)
                .and_then(|(queue, context)| self.reentrancy.get(queue, context)),
        };
        match inside {
            Some(hold) => self.reenter(ticket, hold, &request, now),
            None => self.enqueue(ticket, request, keys, now),
        }
        ticket
    }

    /// Gives one lease back. Completes with [`Outcome::Released`]. A second
    /// release of a lease is harmless and completes at once.
    pub fn release(&mut self, lease: LeaseId, now: Instant) -> Ticket {
        let ticket = self.ticket();
        self.release_lease(ticket, lease, now);
        ticket
    }

    /// Gives back the innermost lease of `context`. Completes with
    /// [`Outcome::Released`], or fails with `NotOwner` if it has none.
    pub fn release_innermost(&mut self, kind: Kind, name: &LockName, context: Context, now: Instant) -> Ticket {
        let ticket = self.ticket();
        if self.fail_if_closed(ticket, Operation::Release) {
            return ticket;
        }
        match self.innermost(kind, name, context) {
            Some(lease) => self.release_lease(ticket, lease, now),
            None => {
                let error = Error::new(
                    ErrorKind::NotOwner,
                    Operation::Release,
                    "the calling thread or task does not hold it; release it where it was acquired, or release its lease",
                );
                self.complete(ticket, Outcome::Failed(error.with_lock(name.as_str())));
            }
        }
        ticket
    }

    /// Makes a lease last `by` from now, or as long as it was given at first; never
    /// shorter than it does. Completes with [`Outcome::Extended`], or fails with
    /// `LockLost`, `NotOwner` (it was released) or `Unavailable`.
    pub fn extend(&mut self, lease: LeaseId, by: Option<crate::LeaseDuration>, now: Instant) -> Ticket {
        let ticket = self.ticket();
        if !self.fail_if_closed(ticket, Operation::Extend) {
            self.extend_lease(ticket, lease, by, now);
        }
        ticket
    }

    /// Asks the server who holds a lock. Completes with [`Outcome::State`].
    pub fn inspect(&mut self, kind: Kind, name: &LockName, now: Instant) -> Ticket {
        let ticket = self.ticket();
        if !self.fail_if_closed(ticket, Operation::Inspect) {
            self.start_inspection(ticket, Arc::new(Keys::new(kind, name)), now);
        }
        ticket
    }

    /// The caller went away: no event follows. An acquisition leaves nothing
    /// behind; a release or an extension goes on.
    pub fn cancel(&mut self, ticket: Ticket, now: Instant) {
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
            if let Some(hold) = self.end_hold(id) {
                self.owe_release(hold, None, now);
            }
        }
    }

    /// Whether nothing is owed to the server.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.releases.is_empty()
    }

    /// How often `context` holds the lock.
    #[must_use]
    pub fn levels(&self, kind: Kind, name: &LockName, context: Context) -> u32 {
        let levels = self.hold_of(kind, name, context).map_or(0, |hold| hold.levels.len());
        u32::try_from(levels).unwrap_or(u32::MAX)
    }

    /// The innermost lease of `context` on the lock.
    #[must_use]
    pub fn innermost(&self, kind: Kind, name: &LockName, context: Context) -> Option<LeaseId> {
        self.hold_of(kind, name, context)?.levels.last().copied()
    }

    fn hold_of(&self, kind: Kind, name: &LockName, context: Context) -> Option<&crate::hold::Hold> {
        let queue = self.queues.find(&Keys::new(kind, name).record)?;
        self.holds.get(&self.reentrancy.get(queue, context)?)
    }

    /// The node has its connections.
    pub fn on_connected(&mut self, node: NodeId, now: Instant) {
        self.connected.insert(node);
        self.outage = None;
        // What must go goes first, then what must stay, then what is wanted.
        self.release_after_outage(now);
        self.renew_after_outage(now);
        self.inspect_after_outage(now);
        for queue in self.queues.ids() {
            self.wake_first(queue, now);
        }
    }

    /// The node has no connection any more, or none yet; the cause in words. The
    /// driver also answers every call that was on it.
    pub fn on_disconnected(&mut self, node: NodeId, cause: &str, _now: Instant) {
        self.connected.remove(&node);
        self.outage = Some(cause.into());
        self.subscriptions_lost();
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
        let Some(call) = self.calls.finish(id) else { return };
        self.timers.stop(Timer::CallTimeout(id));
        match call.purpose {
            Purpose::Acquire { ticket, ttl } => self.attempt_answered(id, call, ticket, ttl, result, now),
            Purpose::Renew { hold, ttl } => self.renewal_answered(id, call, hold, ttl, result, now),
            Purpose::Release(release) => self.release_answered(id, call, release, result, now),
            Purpose::Inspect(ticket) => self.inspection_answered(ticket, result),
        }
    }

    /// The server confirmed a subscription.
    pub fn on_subscribed(&mut self, _node: NodeId, channel: &[u8], now: Instant) {
        self.subscribed(channel, now);
    }

    /// A message came. Its payload says nothing that the channel does not.
    pub fn on_message(&mut self, _node: NodeId, channel: &[u8], _payload: &[u8], now: Instant) {
        self.message(channel, now);
    }

    /// Time passed. Spurious calls are harmless.
    pub fn on_timeout(&mut self, now: Instant) {
        while let Some(timer) = self.timers.take_due(now) {
            match timer {
                Timer::CallTimeout(id) => self.call_overdue(id, now),
                Timer::Wake(ticket) => self.wake(ticket, now),
                Timer::Wait(ticket) => self.patience_over(ticket, now),
                Timer::Silence(ticket) => self.silence(ticket, now),
                Timer::Renew(hold) => self.renew(hold, now),
                Timer::Deadline(hold) => self.deadline_passed(hold, now),
                Timer::ReleaseAgain(release) => self.send_release(release, now),
                Timer::ReleaseWait(release) => self.release_wait_over(release),
                Timer::Linger(queue) => self.linger_over(queue),
            }
        }
    }

    fn call_overdue(&mut self, id: CallId, now: Instant) {
        let Some(call) = self.calls.get(id) else { return };
        match call.purpose {
            Purpose::Acquire { ticket, .. } => self.attempt_overdue(id, ticket, now),
            Purpose::Renew { hold, .. } => self.renewal_overdue(id, hold, now),
            Purpose::Release(release) => self.release_overdue(id, release, now),
            // Its caller's own patience ends at the same time.
            Purpose::Inspect(_) => {}
        }
    }

    fn patience_over(&mut self, ticket: Ticket, now: Instant) {
        if self.requests.contains_key(&ticket) {
            self.wait_over(ticket, now);
        } else if self.inspections.contains_key(&ticket) {
            self.inspection_overdue(ticket);
        } else {
            self.extension_over(ticket);
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

    pub(crate) fn is_connected(&self) -> bool {
        self.connected.contains(&self.node)
    }

    /// Why there is no connection, in words.
    pub(crate) fn outage(&self) -> String {
        match &self.outage {
            Some(cause) => format!("not connected ({cause})"),
            None => "not connected".into(),
        }
    }

    pub(crate) fn complete(&mut self, ticket: Ticket, outcome: Outcome) {
        self.events.push_back(Event::Completed { ticket, outcome });
    }

    pub(crate) fn transmit(&mut self, id: CallId, lane: Lane, invocation: Invocation) {
        self.transmits.push_back(Transmit::Call(Call {
            id,
            node: self.node,
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

    fn ticket(&mut self) -> Ticket {
        self.last_ticket = self.last_ticket.wrapping_add(1);
        Ticket::from_u64(self.last_ticket)
    }

    fn fail_if_closed(&mut self, ticket: Ticket, operation: Operation) -> bool {
        if self.closed {
            let error = Error::new(ErrorKind::Closed, operation, "the client is closed; connect a new one");
            self.complete(ticket, Outcome::Failed(error));
        }
        self.closed
    }
}
