//! The members of composite locks: which tickets and leases belong to members, and how their events reach the composite
//! lock.
//!
//! A member is acquired and held like any other lock, but its events go to the composite lock instead of a caller.
//! `Table::divert` keeps these events, and returns the events of all other locks, which go to callers. It also keeps
//! each re-entry of a hold by a caller (`Output::Entered`), because a multi-lock that is being acquired may have the
//! same hold.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use steadlock_collections::SortedMap;

use crate::client::Client;
use crate::ending::LostReason;
use crate::ids::{HoldId, LeaseId, NodeId, Ticket, Verb};
use crate::instant::Instant;
use crate::io::Io;
use crate::kinds::Keys;
use crate::lease::{LeaseDuration, LeasePlan};
use crate::locks::{Locks, Output};
use crate::machines::holds::{self, Hold};
use crate::machines::inspections::{self, Question};
use crate::step::Reentry;
use crate::timers::Timer;
use crate::types::{AcquireRequest, Event, Grant, Outcome};

/// The locks of a client and the table of members, as composite locks use them.
pub(crate) struct Members<'a> {
    client: &'a mut Client,
    table: &'a mut Table,
}

/// The tickets and the leases of all members.
#[derive(Default)]
pub(super) struct Table {
    /// The tickets of members, each with the ticket of the composite lock's caller; `None` if no caller waits for the
    /// member.
    tickets: SortedMap<Ticket, Option<Ticket>>,
    /// The leases of members, each with the lease of the composite lock; `None` if the composite lock is not granted
    /// yet, or has ended.
    leases: SortedMap<LeaseId, Option<LeaseId>>,
    /// The events of members.
    events: VecDeque<Output>,
}

impl Table {
    /// Returns the number of entries that are kept.
    pub(super) fn len(&self) -> usize {
        self.tickets.len().saturating_add(self.leases.len())
    }

    /// Returns the composite lock of a member; `None` if it is not granted yet, or has ended.
    pub(super) fn composite(&self, member: LeaseId) -> Option<LeaseId> {
        self.leases.get(&member).copied().flatten()
    }

    /// Keeps an event that is for a composite lock, and returns an event that is for a caller.
    pub(super) fn divert(&mut self, output: Output) -> Option<Event> {
        match output {
            Output::Event(event) if !self.is_members(&event) => return Some(event),
            event @ Output::Event(_) => self.events.push_back(event),
            // A re-entry goes to the front: it must reach a multi-lock that is being acquired before an earlier event
            // ends that acquisition.
            entered @ Output::Entered(_) => self.events.push_front(entered),
        }
        None
    }

    /// Whether an event is that of a member.
    fn is_members(&self, event: &Event) -> bool {
        match event {
            Event::Completed { ticket, .. } => self.tickets.contains_key(ticket),
            Event::Lost { lease, .. } | Event::Renewed { lease, .. } => self.leases.contains_key(lease),
        }
    }

    fn member_lease(&self, member: LeaseId) -> Option<MemberLease> {
        let composite = self.composite(member)?;
        Some(MemberLease { composite, member })
    }
}

/// An event of a member.
pub(crate) enum MemberEvent {
    /// An acquisition, a release, an extension or a question of a member is done.
    Completed(Completed),
    /// A member of a composite lock is lost.
    Lost(MemberLease, LostReason),
    /// A lease was lost before its composite lock was granted, or after the composite lock had ended.
    LostBefore(LeaseId, LostReason),
    /// The deadline of a member has changed.
    Renewed { of: MemberLease, deadline: Instant },
    /// A caller, and not a composite lock, re-entered a hold.
    Entered(Reentry),
}

/// An acquisition, a release, an extension or a question of a member that is done.
pub(crate) struct Completed {
    /// The caller of the composite lock.
    pub(crate) caller: Ticket,
    pub(crate) member: Ticket,
    pub(crate) outcome: Outcome,
}

/// The lease of a member, and that of its composite lock.
#[derive(Clone, Copy)]
pub(crate) struct MemberLease {
    pub(crate) composite: LeaseId,
    pub(crate) member: LeaseId,
}

/// A new lease of a composite lock.
pub(crate) struct CompositeLease<'a> {
    pub(crate) lease: LeaseId,
    /// The leases of the members, to find out whether one is degraded; empty for a RedLock, which never has such a
    /// member.
    pub(crate) members: &'a [LeaseId],
    pub(crate) deadline: Instant,
    /// How many levels the composite lock has, including this lease.
    pub(crate) levels: usize,
}

impl<'a> Members<'a> {
    pub(super) const fn new(client: &'a mut Client, table: &'a mut Table) -> Self {
        Self { client, table }
    }
}

impl Members<'_> {
    pub(crate) const fn locks(&self) -> &Locks {
        self.client.locks()
    }

    pub(crate) const fn io(&self) -> &Io {
        self.client.io()
    }

    pub(crate) const fn io_mut(&mut self) -> &mut Io {
        self.client.io_mut()
    }

    /// Returns the earliest deadline of these leases; an instant in the past if one of them is lost or not known.
    pub(crate) fn earliest_deadline(&self, leases: &[LeaseId]) -> Instant {
        let holds = self.locks().holds();
        let deadline = |lease: &LeaseId| {
            let hold = holds.get(holds.of_lease(*lease)?)?;
            hold.lost().is_none().then_some(hold.deadline())
        };
        let deadlines = leases.iter().map(|lease| deadline(lease).unwrap_or(Instant::ZERO));
        deadlines.min().unwrap_or(Instant::ZERO)
    }

    pub(crate) fn set(&mut self, timer: Timer, at: Instant) {
        self.io_mut().set(timer, at);
    }

    pub(crate) fn stop(&mut self, timer: Timer) {
        self.io_mut().stop(timer);
    }

    pub(crate) fn random_between(&mut self, range: RangeInclusive<Duration>) -> Duration {
        self.io_mut().random_between(range)
    }

    pub(crate) const fn next_lease(&mut self) -> LeaseId {
        self.io_mut().next_lease()
    }

    /// Changes the locks, and passes on the events that follow.
    fn with(&mut self, change: impl FnOnce(&mut Locks)) {
        self.client.change(change, |output| self.table.divert(output));
    }

    /// Passes an event of a composite lock to its caller.
    pub(crate) fn emit(&mut self, event: Event) {
        self.client.emit(event);
    }

    pub(crate) fn complete(&mut self, ticket: Ticket, outcome: Outcome) {
        self.emit(Event::Completed { ticket, outcome });
    }

    /// Grants the caller of a composite lock a lease of it, without a token.
    pub(crate) fn grant(&mut self, ticket: Ticket, granted: CompositeLease<'_>) {
        let holds = self.locks().holds();
        let is_degraded = |lease: &LeaseId| {
            holds
                .of_lease(*lease)
                .and_then(|id| holds.get(id))
                .is_some_and(Hold::is_local)
        };
        let degraded = granted.members.iter().any(is_degraded);
        let grant = Grant {
            lease: granted.lease,
            token: None,
            deadline: granted.deadline,
            levels: u32::try_from(granted.levels).unwrap_or(u32::MAX),
            degraded,
        };
        self.complete(ticket, Outcome::Granted(grant));
    }

    /// Returns the next event of a member. `Session::settle` handles all these events after each input that can cause
    /// one.
    pub(crate) fn next_member_event(&mut self, now: Instant) -> Option<MemberEvent> {
        loop {
            let event = match self.table.events.pop_front()? {
                Output::Event(Event::Completed { ticket, outcome }) => self.completed(ticket, outcome, now),
                Output::Event(Event::Lost { lease, reason }) => Some(match self.table.member_lease(lease) {
                    Some(member) => MemberEvent::Lost(member, reason),
                    None => MemberEvent::LostBefore(lease, reason),
                }),
                Output::Event(Event::Renewed { lease, deadline }) => {
                    let member = self.table.member_lease(lease);
                    member.map(|of| MemberEvent::Renewed { of, deadline })
                }
                Output::Entered(reentry) => {
                    let is_member = self.table.tickets.contains_key(&reentry.ticket);
                    (!is_member).then_some(MemberEvent::Entered(reentry))
                }
            };
            if event.is_some() {
                return event;
            }
        }
    }

    fn completed(&mut self, member: Ticket, outcome: Outcome, now: Instant) -> Option<MemberEvent> {
        let caller = self.table.tickets.remove(&member).flatten();
        if let Outcome::Granted(grant) = &outcome {
            self.include_silently(grant.lease);
        }
        if caller.is_none()
            && let Outcome::Granted(grant) = &outcome
        {
            // No caller waits for the member.
            self.discard(grant.lease, now);
        }
        caller.map(|caller| {
            MemberEvent::Completed(Completed {
                caller,
                member,
                outcome,
            })
        })
    }

    /// Returns a ticket for an operation on a member. `caller` is the ticket of the composite lock's caller; `None` if
    /// no caller waits for the operation.
    pub(crate) fn ticket_for(&mut self, caller: Option<Ticket>, verb: Verb) -> Ticket {
        let ticket = self.client.ticket(verb);
        self.table.tickets.insert(ticket, caller);
        ticket
    }

    /// Notes that no caller waits for an operation on a member any more. The operation goes on, but a grant is
    /// released.
    pub(crate) fn disown(&mut self, member: Ticket) {
        if let Some(caller) = self.table.tickets.get_mut(&member) {
            *caller = None;
        }
    }

    /// Cancels operations on members. Late grants are released, and releases and extensions go on.
    pub(crate) fn cancel_all<'a>(&mut self, members: impl IntoIterator<Item = &'a Ticket>, now: Instant) {
        for member in members {
            self.table.tickets.remove(member);
            self.with(|locks| locks.cancel(*member, now));
        }
    }

    /// Makes a lease a member of a composite lock.
    pub(crate) fn include(&mut self, member: LeaseId, composite: LeaseId) {
        self.table.leases.insert(member, Some(composite));
    }

    /// Makes a lease a member whose composite lock is not granted, or has ended: its loss is a `LostBefore`, and its
    /// renewals are not reported.
    pub(crate) fn include_silently(&mut self, member: LeaseId) {
        self.table.leases.insert(member, None);
    }

    /// Notes that a lease is not a member any more.
    pub(crate) fn exclude(&mut self, member: LeaseId) {
        self.table.leases.remove(&member);
    }

    /// Returns the composite lock of a member; `None` if it is not granted yet, or has ended.
    pub(crate) fn composite(&self, member: LeaseId) -> Option<LeaseId> {
        self.table.composite(member)
    }

    /// Forgets the members of a lost composite lock with a fixed lease. A member whose lease is still known is
    /// released: its hold has another level, or is auto-renewed.
    pub(crate) fn forget<'a>(&mut self, members: impl IntoIterator<Item = &'a LeaseId>, now: Instant) {
        for member in members {
            if self.locks().has_lease(*member) {
                self.discard(*member, now);
            } else {
                self.exclude(*member);
            }
        }
    }

    /// Releases leases, the last one first. No caller waits for the releases.
    pub(crate) fn discard_all(&mut self, leases: &[LeaseId], now: Instant) {
        for lease in leases.iter().rev() {
            self.discard(*lease, now);
        }
    }

    /// Releases a lease. No caller waits for the release.
    pub(crate) fn discard(&mut self, lease: LeaseId, now: Instant) {
        let ticket = self.ticket_for(None, Verb::Release);
        self.release(ticket, lease, now);
        self.exclude(lease);
    }

    pub(crate) fn acquire(
        &mut self,
        ticket: Ticket,
        request: AcquireRequest,
        node: NodeId,
        plan: LeasePlan,
        now: Instant,
    ) {
        self.with(|locks| locks.acquire(ticket, request, node, plan, now));
    }

    /// Releases one lease. With the last lease of a hold, the release of its record is owed.
    pub(crate) fn release(&mut self, ticket: Ticket, lease: LeaseId, now: Instant) {
        self.hold(holds::Input::Release(ticket, lease), now);
    }

    pub(crate) fn extend(&mut self, ticket: Ticket, lease: LeaseId, by: Option<LeaseDuration>, now: Instant) {
        self.hold(holds::Input::Extend { ticket, lease, by }, now);
    }

    pub(crate) fn inspect(&mut self, ticket: Ticket, keys: Arc<Keys>, question: Question, now: Instant) {
        let input = inspections::Input::Asked { ticket, keys, question };
        self.with(|locks| locks.pass_to_inspections(input, now));
    }

    pub(crate) fn lose(&mut self, hold: HoldId, reason: LostReason, now: Instant) {
        self.hold(holds::Input::Lost(hold, reason), now);
    }

    pub(crate) fn hold(&mut self, input: holds::Input, now: Instant) {
        self.with(|locks| locks.pass_to_holds(input, now));
    }
}
