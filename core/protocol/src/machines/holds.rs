//! The holds of a client, from the grant to the release or the loss.
//!
//! ```text
//!                 last level released
//!   Held ──────────────────────────────────► gone; a release is owed
//!    │ deadline without a confirmed renewal,
//!    │ the record removed or stolen,
//!    │ max_hold over, client closed
//!    ▼   last level released, or client closed
//!   Lost ──────────────────────────────────► gone; the caller is answered at once,
//!      │                                     and a release is owed all the same
//!      │ the lease is fixed, and the client does not close
//!      └───────────────────────────────────► forgotten; a release is owed (`forget_lost`)
//! ```
//!
//! `Lost` is final: nothing renews a lost hold. A thread or task (a context) that lost an auto-renewed hold of a
//! reentrant lock cannot acquire the lock again until it has released all levels of that hold, because a holder that
//! was promised renewal must learn of the loss. For a degraded hold, which the client granted alone, no release is
//! owed, because no server has a record of it.
//!
//! The client forgets a lost fixed hold as soon as it has reported the loss, because the holder of a fixed lease need
//! not release it. The context can then acquire the lock again, and a later release or extension fails with `NotOwner`.
//!
//! This file has the inputs of the machine, the tables of all holds, re-entry, and the ends of a hold. `hold` is one
//! hold with its watchdog, which sends the renewals. `renewing` handles the replies to renewals, and the extensions.

#[cfg(any(test, feature = "transitions"))]
mod drawing;
mod hold;
mod renewing;
#[cfg(test)]
mod tests;

use std::time::Duration;

use steadlock_collections::{SortedMap, Table};

pub(crate) use self::hold::Hold;
use self::hold::{Send, lost_error};
use crate::calls::{Answered, Resolved, Successor};
use crate::ending::{LostReason, ReleaseOutcome};
use crate::error::{Cause, Error, ErrorKind, Operation};
use crate::ids::{CallId, Context, HoldId, LeaseId, LockId, NodeId, Ticket};
use crate::instant::Instant;
use crate::io::Io;
use crate::lease::{LeaseDuration, LeasePlan};
use crate::observed::{Detail, Observed, Place};
use crate::run::Ending;
use crate::step::{GrantKind, NewHold, Reentry, Step, WaiterInput};
use crate::timers::Timer;
use crate::transitions;
use crate::types::{Event, Lane, Outcome};

impl Holds {
    pub(crate) fn input(&mut self, io: &mut Io, input: Input, now: Instant) {
        let before = transitions::before(self, io, &input);
        match input {
            Input::Granted(ticket, new) => self.start(io, ticket, new, now),
            Input::Enter(reentry) => self.reenter(io, reentry, now),
            Input::Confirm(ticket, confirm) => self.confirm(io, ticket, confirm, now),
            Input::RunEnded(lease, end) => self.run_ended(lease, end),
            Input::Release(ticket, lease) => self.release(io, ticket, lease, now),
            Input::Extend { ticket, lease, by } => self.extend(io, ticket, lease, by, now),
            Input::ExtensionOver(ticket) => self.extension_over(io, ticket, now),
            Input::Cancelled(ticket) => self.cancel_extension(io, ticket),
            Input::Watch(lease, plan) => self.watch(io, lease, plan, now),
            Input::Plan(id, plan) => {
                if let Some(hold) = self.hold_mut(id) {
                    hold.watchdog_mut().set_plan(io, id, plan, now);
                }
            }
            Input::StopRenewing(id) => {
                if let Some(hold) = self.get(id) {
                    hold.watchdog().stop_renewing(io, id);
                }
            }
            Input::RenewalDue(id) => self.renewal_due(io, id, now),
            Input::RenewalAnswered { hold, ttl, answered } => self.renewal_answered(io, hold, ttl, &answered, now),
            Input::RenewalOverdue(id, call) => {
                let hold = self.hold_mut(id);
                if let Some(hold) = hold.filter(|hold| hold.watchdog().is_in_flight(call)) {
                    observe_renewal_failed(io, hold, None, now);
                    hold.watchdog_mut().failed(io, id, None, now);
                }
            }
            Input::DeadlinePassed(id) => self.deadline_passed(io, id, now),
            Input::ContextReturned(id) => {
                let is_over = |hold: &Hold| !hold.plan().renewed && now >= hold.deadline();
                if self.get(id).is_some_and(is_over) {
                    self.deadline_passed(io, id, now);
                }
            }
            Input::Lost(id, reason) => self.lose(io, id, reason, now),
            Input::ClientCloses { hold, ticket } => self.release_at_close(io, hold, ticket, now),
            Input::Resolved(id, resolved) => {
                if let Some(hold) = self.hold_mut(id) {
                    hold.resolved(resolved);
                }
            }
            Input::Connected(node, lane) => {
                for (id, hold) in self.of_node(node) {
                    let (watchdog, record) = hold.watchdog_and_record(id);
                    watchdog.connected(io, &record, lane, now);
                }
            }
            Input::LaneClosed(node) => {
                for (id, hold) in self.of_node(node) {
                    hold.watchdog_mut().lane_closed(io, id, now);
                }
            }
        }
        transitions::after(self, io, &before);
    }

    fn run_ended(&mut self, lease: LeaseId, end: Ending) {
        if let Some(hold) = self.of_lease(lease).and_then(|id| self.hold_mut(id)) {
            hold.end_as(end);
        }
    }

    /// Records a new hold, and sets its timers in the same step.
    fn start(&mut self, io: &mut Io, ticket: Ticket, new: NewHold, now: Instant) {
        let id = self.next_id();
        io.add_successor(new.unresolved.in_flight(), Successor::Hold(id));
        let granted = new.granted;
        if new.keys.kind.is_exclusive() {
            io.step(Step::Waiter(WaiterInput::Held(new.lock, id)));
        }
        self.insert(id, new, now);
        self.enter(io, ticket, id);
        let Some(hold) = self.hold_mut(id) else { return };
        match granted.kind {
            GrantKind::Provisional => hold.watchdog().schedule_first(io, id, granted),
            GrantKind::Full | GrantKind::Degraded => hold.schedule(io, id, granted.sent, now),
        }
    }

    /// Adds a level to a hold, and completes the ticket with the lease of the new level.
    fn enter(&mut self, io: &mut Io, ticket: Ticket, id: HoldId) {
        let lease = io.next_lease();
        if let Some(hold) = self.add_level(id, lease) {
            io.complete(ticket, Outcome::Granted(hold.grant(lease)));
        }
    }

    /// Handles a re-entry. Calls the server only if the hold must last longer than it does.
    fn reenter(&mut self, io: &mut Io, reentry: Reentry, now: Instant) {
        let (ticket, id, plan) = (reentry.ticket, reentry.hold, reentry.plan);
        let Some(hold) = self.hold_mut(id) else { return };
        if !hold.is_valid(now) {
            let error = hold.lost_error(Operation::Acquire);
            io.complete(ticket, Outcome::Failed(error));
            return;
        }
        let until = hold.capped(now + plan.length);
        let extension = Extension {
            hold: id,
            since: now,
            until,
            aim: Aim::Enter(plan),
        };
        if hold.plan().renews_for(plan) || until <= hold.watchdog().record_until() {
            let is_new = hold.watchdog_mut().adopt(plan);
            if is_new && hold.is_local() {
                self.extend_locally(io, ticket, &extension, now);
                return;
            }
            io.step(Step::Entered(reentry));
            self.enter(io, ticket, id);
            if let Some(hold) = self.hold_mut(id).filter(|_| is_new) {
                hold.schedule(io, id, now, now);
            }
        } else {
            self.extend_hold(io, ticket, extension, now);
        }
    }

    fn confirm(&mut self, io: &mut Io, ticket: Ticket, confirm: Confirm, now: Instant) {
        let Some(hold) = self.get(confirm.hold) else { return };
        if hold.is_valid(now) {
            let extension = Extension {
                hold: confirm.hold,
                since: now,
                until: hold.capped(confirm.until),
                aim: Aim::Confirm,
            };
            self.extend_hold(io, ticket, extension, now);
            if let Some(answer_by) = confirm.answer_by.filter(|by| *by < io.timeout(now)) {
                io.set(Timer::Extension(ticket), answer_by);
            }
        } else {
            let error = hold.lost_error(Operation::Acquire);
            io.complete(ticket, Outcome::Failed(error));
        }
    }

    fn watch(&mut self, io: &mut Io, lease: LeaseId, plan: LeasePlan, now: Instant) {
        let Some(id) = self.of_lease(lease) else { return };
        let Some(hold) = self.hold_mut(id).filter(|hold| hold.lost().is_none()) else {
            return;
        };
        if !hold.watchdog_mut().adopt(plan) {
            return;
        }
        let until = hold.capped(now + plan.length);
        if hold.is_local() {
            hold.extend_locally(io, id, until, now);
            return;
        }
        if hold.watchdog().reaches(until) {
            hold.schedule(io, id, now, now);
        } else {
            // The hold is renewed at once, because less than a third of the new length may be left.
            hold.watchdog_mut().want(until);
            hold.renew(io, id, now);
        }
    }
}

/// The events that concern holds.
#[derive(Debug)]
pub(crate) enum Input {
    /// A request was granted.
    Granted(Ticket, NewHold),
    /// The context of a hold, or a caller that names its lease, re-enters the hold.
    Enter(Reentry),
    /// A member of a multi-lock is held, and the server must confirm how long.
    Confirm(Ticket, Confirm),
    /// A run ended like this. Its release follows.
    RunEnded(LeaseId, Ending),
    /// A caller releases one lease.
    Release(Ticket, LeaseId),
    /// A caller extends a lease.
    Extend {
        ticket: Ticket,
        lease: LeaseId,
        /// The new length, from now; `None` stands for the length that the lease has.
        by: Option<LeaseDuration>,
    },
    /// The wait for an extension is over.
    ExtensionOver(Ticket),
    /// The caller of an extension no longer waits.
    Cancelled(Ticket),
    /// The multi-lock of this member is re-entered with this plan, which has a length and says whether the lease is
    /// renewed. If so, the member is renewed from now on.
    Watch(LeaseId, LeasePlan),
    /// The hold has this plan from now on.
    Plan(HoldId, LeasePlan),
    /// A fixed hold whose record lasts long enough needs no renewal any more.
    StopRenewing(HoldId),
    /// A renewal is due.
    RenewalDue(HoldId),
    /// A renewal was answered.
    RenewalAnswered {
        hold: HoldId,
        /// The TTL that the renewal asked for.
        ttl: Duration,
        answered: Answered,
    },
    /// The reply to a renewal is overdue.
    RenewalOverdue(HoldId, CallId),
    /// The timer of the deadline has fired.
    DeadlinePassed(HoldId),
    /// The context of the hold makes another call, perhaps before the timer of the deadline has fired.
    ContextReturned(HoldId),
    /// The hold is lost, for this reason.
    Lost(HoldId, LostReason),
    /// The client closes, so no caller will release the hold. The ticket, if any, gets the outcome of the release.
    ClientCloses { hold: HoldId, ticket: Option<Ticket> },
    /// An attempt of the hold's owner was answered, or its connection closed.
    Resolved(HoldId, Resolved),
    /// A lane of a node has opened.
    Connected(NodeId, Lane),
    /// A lane of a node has closed.
    LaneClosed(NodeId),
}

/// A hold whose record the server must confirm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Confirm {
    pub(crate) hold: HoldId,
    /// Until when the record must last.
    pub(crate) until: Instant,
    /// The ticket is completed by this time, or by the end of the command timeout if that is earlier. `None` stands for
    /// the end of the command timeout.
    pub(crate) answer_by: Option<Instant>,
}

/// The holds of a client and their leases.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    last: HoldId,
    by_id: Table<HoldId, Hold>,
    by_lease: Table<LeaseId, HoldId>,
    extensions: Extensions,
    reentry: ReentryMap,
}

impl Holds {
    pub(crate) fn get(&self, id: HoldId) -> Option<&Hold> {
        self.by_id.get(&id)
    }

    /// Returns the hold that a lease belongs to.
    pub(crate) fn of_lease(&self, lease: LeaseId) -> Option<HoldId> {
        self.by_lease.get(&lease).copied()
    }

    /// Returns all holds, oldest first.
    pub(crate) fn ids(&self) -> Vec<HoldId> {
        self.by_id.keys()
    }

    /// Returns the newest hold of a context on a lock, if there is one.
    pub(crate) fn of_context(&self, lock: LockId, context: Context) -> Option<HoldId> {
        self.reentry.get(lock, context)
    }

    /// Returns all holds of a context on a lock, newest last.
    pub(crate) fn all_of_context(&self, lock: LockId, context: Context) -> impl Iterator<Item = &Hold> {
        let holds = self.reentry.all(lock, context).iter();
        holds.filter_map(|hold| self.by_id.get(hold))
    }

    /// Whether any context has a hold of the lock, even a lost one.
    pub(crate) fn is_held_by_any(&self, lock: LockId) -> bool {
        self.reentry.any(lock)
    }

    /// Returns the number of holds, extensions, and entries for re-entry.
    pub(crate) fn len(&self) -> usize {
        let entries = self.by_id.len().saturating_add(self.extensions.len());
        entries.saturating_add(self.reentry.len())
    }

    /// Returns the holds of a node, oldest first.
    fn of_node(&mut self, node: NodeId) -> impl Iterator<Item = (HoldId, &mut Hold)> {
        self.by_id.iter_mut().filter(move |(_, hold)| hold.keys().node == node)
    }

    fn hold_mut(&mut self, id: HoldId) -> Option<&mut Hold> {
        self.by_id.get_mut(&id)
    }

    const fn next_id(&mut self) -> HoldId {
        self.last = self.last.next();
        self.last
    }

    fn insert(&mut self, id: HoldId, new: NewHold, now: Instant) {
        if let Some(context) = new.context {
            self.reentry.insert(new.lock, context, id);
        }
        self.by_id.insert(id, Hold::new(new, now));
    }

    /// Adds a lease to a hold.
    fn add_level(&mut self, id: HoldId, lease: LeaseId) -> Option<&Hold> {
        let hold = self.by_id.get_mut(&id)?;
        hold.add_level(lease);
        self.by_lease.insert(lease, id);
        Some(hold)
    }

    /// Removes a lease from its hold, and returns the hold.
    fn remove_level(&mut self, lease: LeaseId) -> Option<(HoldId, &Hold)> {
        let id = self.by_lease.remove(&lease)?;
        let hold = self.by_id.get_mut(&id)?;
        hold.remove_level(lease);
        Some((id, hold))
    }

    /// Removes a hold from all tables.
    fn take(&mut self, id: HoldId) -> Option<Hold> {
        let hold = self.by_id.remove(&id)?;
        for lease in hold.levels() {
            self.by_lease.remove(lease);
        }
        if let Some(context) = hold.context() {
            self.reentry.remove(hold.lock(), context, id);
        }
        Some(hold)
    }

    const fn extensions_mut(&mut self) -> &mut Extensions {
        &mut self.extensions
    }

    /// Returns a hold, together with the extensions of all holds.
    fn hold_and_extensions(&mut self, id: HoldId) -> Option<(&Hold, &mut Extensions)> {
        Some((self.by_id.get(&id)?, &mut self.extensions))
    }
}

impl Holds {
    /// Marks a hold as lost for good, and reports the loss. For an auto-renewed hold, no release is sent before its
    /// holder releases it or the client closes, because the program may still be in its critical section. A fixed hold
    /// is forgotten, unless the client closes; `forget_lost` says when its release is sent.
    fn lose(&mut self, io: &mut Io, id: HoldId, reason: LostReason, now: Instant) {
        let Some(hold) = self.hold_mut(id) else { return };
        if !hold.watchdog_mut().lose(io, id, reason) {
            return;
        }
        observe_lost(io, hold, reason, now);
        let lock = hold.lock();
        // A client that closes still releases all its holds, so it does not forget them here.
        let plan = hold.plan();
        let is_forgotten = !plan.renewed && reason != LostReason::Closed;
        for lease in hold.levels() {
            io.step(Step::Emit(Event::Lost { lease: *lease, reason }));
        }
        let name = hold.keys().name.clone();
        self.extensions_mut()
            .fail(io, id, |operation| lost_error(Some(reason), plan, &name, operation));
        if is_forgotten {
            self.forget_lost(io, id, now);
        }
        io.step(Step::Waiter(WaiterInput::Freed(lock, id)));
    }

    /// Forgets a lost fixed hold, because its holder need not release it. A release is owed all the same: a late call,
    /// or a server's clock that was set back, may keep the record for longer than the lease.
    ///
    /// The release is sent when the known TTL has passed. The client sends it at once if the record was removed or
    /// stolen, or if the hold was lost before its deadline. The last is a member of a lost composite
    /// lock; its TTL may be long, and other owners would wait for its end.
    fn forget_lost(&mut self, io: &mut Io, id: HoldId, now: Instant) {
        let Some(hold) = self.end(io, id) else { return };
        let is_gone = matches!(hold.lost(), Some(LostReason::Removed | LostReason::Stolen));
        let send = if !is_gone && now >= hold.deadline() {
            Send::AfterTtl
        } else {
            Send::AtOnce
        };
        owe(io, hold, None, send, now);
    }

    /// Releases one lease. With the last lease of a hold, the release of its record is owed.
    fn release(&mut self, io: &mut Io, ticket: Ticket, lease: LeaseId, now: Instant) {
        let Some((id, hold)) = self.remove_level(lease) else {
            io.complete(ticket, Outcome::Released(ReleaseOutcome::Released));
            return;
        };
        let lost = hold.lost().map(LostReason::outcome);
        if !hold.levels().is_empty() {
            io.complete(ticket, Outcome::Released(lost.unwrap_or(ReleaseOutcome::Released)));
            return;
        }
        let lock = hold.lock();
        let Some(hold) = self.end(io, id) else { return };
        match lost {
            Some(outcome) => {
                io.complete(ticket, Outcome::Released(outcome));
                owe(io, hold, None, Send::AtOnce, now);
            }
            None => owe(io, hold, Some(ticket), Send::AtOnce, now),
        }
        // The next local waiter sends its attempt right after the release, without waiting for the reply. The waiters
        // of a fair lock send nothing: the script of the release grants the lock to the next one.
        io.step(Step::Waiter(WaiterInput::Freed(lock, id)));
    }

    /// Ends a hold that no caller will release, because the client closes. Owes its release.
    fn release_at_close(&mut self, io: &mut Io, id: HoldId, ticket: Option<Ticket>, now: Instant) {
        if let Some(hold) = self.end(io, id) {
            owe(io, hold, ticket, Send::AtOnce, now);
        }
    }

    /// Removes a hold from all tables, stops its renewals, and fails its extensions.
    fn end(&mut self, io: &mut Io, id: HoldId) -> Option<Hold> {
        let hold = self.take(id)?;
        hold::stop(io, id);
        self.extensions_mut().fail(io, id, |operation| {
            let message = "the lock was released meanwhile; acquire it again";
            Error::new(ErrorKind::NotOwner, operation, message).with_lock(hold.keys().name.as_str())
        });
        Some(hold)
    }
}

/// Owes the release of a hold to the server. The release of a degraded hold completes at once, because no server has a
/// record of it.
fn owe(io: &mut Io, hold: Hold, ticket: Option<Ticket>, send: Send, now: Instant) {
    if hold.is_local() {
        if let Some(ticket) = ticket {
            io.complete(ticket, Outcome::Released(ReleaseOutcome::Released));
        }
        io.step(Step::ForgetIfUnused(hold.lock()));
        return;
    }
    let owed = hold.owed(ticket, send, io.config().command_timeout, now);
    io.step(Step::Owes(owed));
}

/// A map from a lock and a context to the holds of that context, newest last. A context can have several holds of a
/// semaphore. A context that lost a hold of a mutex can also have a newer one.
///
/// A lost auto-renewed hold stays in the map until all its levels are released, so that its context cannot re-enter as
/// if nothing had happened. A lost fixed hold leaves the map when the loss is reported, because its holder need not
/// release it.
#[derive(Debug, Default)]
struct ReentryMap {
    holds: SortedMap<(LockId, Context), Vec<HoldId>>,
}

impl ReentryMap {
    fn insert(&mut self, lock: LockId, context: Context, hold: HoldId) {
        self.holds.get_or_default((lock, context)).push(hold);
    }

    /// Returns the newest hold of `context`, if there is one.
    fn get(&self, lock: LockId, context: Context) -> Option<HoldId> {
        self.holds.get(&(lock, context))?.last().copied()
    }

    /// Returns all holds of `context`, newest last.
    fn all(&self, lock: LockId, context: Context) -> &[HoldId] {
        self.holds.get(&(lock, context)).map_or(&[], Vec::as_slice)
    }

    fn remove(&mut self, lock: LockId, context: Context, hold: HoldId) {
        if let Some(holds) = self.holds.get_mut(&(lock, context)) {
            holds.retain(|known| *known != hold);
            if holds.is_empty() {
                self.holds.remove(&(lock, context));
            }
        }
    }

    /// Returns the number of entries: pairs of a lock and a context.
    fn len(&self) -> usize {
        self.holds.len()
    }

    /// Whether any context has a hold of the lock, even a lost one.
    fn any(&self, lock: LockId) -> bool {
        let first = self.holds.first_from(&(lock, Context::from_u64(0)));
        first.is_some_and(|(other, _)| *other == lock)
    }
}

/// The reason for an extension.
#[derive(Clone, Copy, Debug)]
enum Aim {
    /// A caller extends its lease.
    Extend,
    /// A caller re-enters the lock with this plan.
    Enter(LeasePlan),
    /// A multi-lock is granted only after the server has confirmed this member.
    Confirm,
}

impl Aim {
    const fn operation(self) -> Operation {
        match self {
            Self::Extend => Operation::Extend,
            Self::Enter(_) | Self::Confirm => Operation::Acquire,
        }
    }
}

/// An extension that a caller waits for.
#[derive(Clone, Copy, Debug)]
struct Extension {
    hold: HoldId,
    since: Instant,
    /// Until when the record must last.
    until: Instant,
    aim: Aim,
}

impl Extension {
    /// Returns the error for an extension that the server did not confirm in time.
    fn not_confirmed(&self, cause: Cause) -> Error {
        let error = |what| Error::new(ErrorKind::Unavailable, self.aim.operation(), what).with_cause(cause);
        match self.aim {
            Aim::Confirm => error("not granted"),
            Aim::Extend | Aim::Enter(_) => error("not extended").with_advice("the lease goes on as it was"),
        }
    }
}

/// The extensions of a client.
#[derive(Debug, Default)]
struct Extensions {
    by_ticket: Table<Ticket, Extension>,
    /// The extensions of each hold, oldest first. Few holds have any.
    by_hold: Table<HoldId, Vec<Ticket>>,
}

impl Extensions {
    fn insert(&mut self, ticket: Ticket, extension: Extension) {
        self.by_hold.get_or_default(extension.hold).push(ticket);
        self.by_ticket.insert(ticket, extension);
    }

    fn remove(&mut self, ticket: Ticket) -> Option<Extension> {
        let extension = self.by_ticket.remove(&ticket)?;
        if let Some(waiting) = self.by_hold.get_mut(&extension.hold) {
            waiting.retain(|other| *other != ticket);
            if waiting.is_empty() {
                self.by_hold.remove(&extension.hold);
            }
        }
        Some(extension)
    }

    /// Removes and returns the extensions of a hold that are done, oldest first.
    fn take(&mut self, hold: HoldId, is_done: impl Fn(&Extension) -> bool) -> Vec<(Ticket, Extension)> {
        let waiting = self.by_hold.get(&hold).map_or(&[][..], Vec::as_slice);
        let is_done = |ticket: &&Ticket| self.by_ticket.get(ticket).is_some_and(&is_done);
        let done: Vec<Ticket> = waiting.iter().filter(is_done).copied().collect();
        let taken = done.into_iter();
        taken
            .filter_map(|ticket| Some((ticket, self.remove(ticket)?)))
            .collect()
    }

    /// Fails all extensions of a hold.
    fn fail(&mut self, io: &mut Io, hold: HoldId, error: impl Fn(Operation) -> Error) {
        for (ticket, extension) in self.take(hold, |_| true) {
            io.stop(Timer::Extension(ticket));
            io.complete(ticket, Outcome::Failed(error(extension.aim.operation())));
        }
    }

    fn len(&self) -> usize {
        self.by_ticket.len().saturating_add(self.by_hold.len())
    }
}

/// Reports that the server confirmed a renewal that was sent at `sent`. After failed renewals, the report says that
/// the trouble is over.
fn observe_renewed(io: &mut Io, hold: &Hold, sent: Instant, now: Instant) {
    let failures = hold.watchdog().failures();
    let detail = if failures > 0 {
        Detail::Trouble
    } else {
        Detail::Renewals
    };
    io.observe(detail, |_| Observed::Renewed {
        place: Place::of(hold.keys()),
        took: now.saturating_since(sent),
        failures,
    });
}

/// Reports a failed renewal. Must be called before the watchdog counts the failure.
fn observe_renewal_failed(io: &mut Io, hold: &Hold, why: Option<&Cause>, now: Instant) {
    io.observe(Detail::Trouble, |io| Observed::RenewalFailed {
        place: Place::of(hold.keys()),
        why: why.map_or_else(|| io.silence_of(hold.keys().node).to_string(), Cause::to_string),
        left: hold.deadline().saturating_since(now),
        failures: hold.watchdog().failures().saturating_add(1),
    });
}

/// Reports a due renewal as failed if it could not be sent, because no lane is open.
fn observe_renewal_has_to_wait(io: &mut Io, hold: &Hold, now: Instant) {
    if !hold.watchdog().is_renewing() && hold.is_valid(now) {
        observe_renewal_failed(io, hold, None, now);
    }
}

/// Reports that a hold is lost.
fn observe_lost(io: &mut Io, hold: &Hold, reason: LostReason, now: Instant) {
    io.observe(Detail::Trouble, |io| {
        let node = hold.keys().node;
        let is_unrenewed = reason == LostReason::Expired && hold.plan().renewed;
        // While there is no connection, its loss is the cause, and not an older failure of a renewal.
        let why = || {
            hold.watchdog()
                .failure()
                .filter(|_| io.is_connected(node))
                .map_or_else(|| io.silence_of(node).to_string(), Cause::to_string)
        };
        Observed::Lost {
            place: Place::of(hold.keys()),
            leases: hold.levels().to_vec(),
            reason,
            why: is_unrenewed.then(why),
            held: now.saturating_since(hold.since()),
            lease: hold.plan().length,
        }
    });
}
