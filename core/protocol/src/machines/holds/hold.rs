//! A hold: one record of this client on the server, and a lease for each level.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::watchdog::{Record, Watchdog};
use crate::calls::Unresolved;
use crate::ending::LostReason;
use crate::error::{Error, Holder, Operation};
use crate::ids::{CallId, Context, HoldId, LeaseId, LockId, Ticket};
use crate::instant::Instant;
use crate::io::Io;
use crate::kinds::Keys;
use crate::lease::LeasePlan;
use crate::name::LockName;
use crate::owner::OwnerId;
use crate::periods::PROVISIONAL;
use crate::step::{Ended, NewHold, Owed, Step};
use crate::token::Token;
use crate::types::{Event, Grant};

/// One record of this client on the server, and a lease for each level.
#[derive(Debug)]
pub(crate) struct Hold {
    lock: LockId,
    keys: Arc<Keys>,
    owner: OwnerId,
    context: Option<Context>,
    token: Option<Token>,
    /// The leases that are not released yet, outermost first.
    levels: Levels,
    /// When this client learned of the grant.
    since: Instant,
    /// Whether its request waited while others held the lock.
    waited: bool,
    watchdog: Watchdog,
    /// The unresolved attempts of its acquisition, if there are any.
    unresolved: Option<Box<Unresolved>>,
}

/// The leases of a hold. Nearly all holds have one, which is stored without an allocation.
type Levels = SmallVec<[LeaseId; 1]>;

impl Hold {
    pub(super) fn new(new: NewHold, now: Instant) -> Self {
        Self {
            watchdog: Watchdog::new(&new, now),
            lock: new.lock,
            keys: new.keys,
            owner: new.owner,
            context: new.context,
            token: new.token,
            levels: Levels::new(),
            since: now,
            waited: new.waited,
            unresolved: Some(new.unresolved).filter(Unresolved::is_any).map(Box::new),
        }
    }

    pub(crate) const fn keys(&self) -> &Arc<Keys> {
        &self.keys
    }

    pub(crate) const fn owner(&self) -> &OwnerId {
        &self.owner
    }

    /// Returns the leases that are not released yet, outermost first.
    pub(crate) fn levels(&self) -> &[LeaseId] {
        &self.levels
    }

    /// Returns the length of the lease, and whether it is auto-renewed.
    pub(crate) const fn plan(&self) -> LeasePlan {
        self.watchdog.plan()
    }

    /// Whether its request waited while others held the lock.
    pub(crate) const fn waited(&self) -> bool {
        self.waited
    }

    /// Whether no server has a record of the hold, so that it excludes only other callers of this client.
    pub(crate) const fn is_local(&self) -> bool {
        self.watchdog.is_local()
    }

    /// Returns when this client learned of the grant.
    pub(super) const fn since(&self) -> Instant {
        self.since
    }

    /// Returns why the hold was lost, if it was.
    pub(crate) const fn lost(&self) -> Option<LostReason> {
        self.watchdog.lost()
    }

    /// Returns until when the holder may rely on the lease.
    pub(crate) const fn deadline(&self) -> Instant {
        self.watchdog.deadline()
    }

    /// Whether the holder may rely on the lease `now`.
    pub(crate) fn is_valid(&self, now: Instant) -> bool {
        self.watchdog.is_valid(now)
    }

    /// Whether the record lasts until `until`.
    pub(crate) fn lasts(&self, until: Instant) -> bool {
        self.watchdog.reaches(until)
    }

    /// Returns the earliest time at which the server can drop the record.
    pub(crate) const fn record_until(&self) -> Instant {
        self.watchdog.record_until()
    }

    /// Returns `until`, or the end of `max_hold` if that comes first.
    pub(crate) fn capped(&self, until: Instant) -> Instant {
        self.watchdog.capped(until)
    }

    /// Returns the hold as the errors of other callers report it.
    pub(crate) fn as_holder(&self, now: Instant) -> Holder {
        Holder {
            owner: self.owner.to_string(),
            remaining: Some(if self.is_local() && self.plan().renewed {
                self.plan().length
            } else {
                self.watchdog.record_until().saturating_since(now)
            }),
            client: None,
        }
    }

    /// Returns the error for an operation on a hold that is lost or past its deadline.
    pub(crate) fn lost_error(&self, operation: Operation) -> Error {
        lost_error(self.lost(), self.plan().renewed, &self.keys.name, operation)
    }

    pub(super) const fn lock(&self) -> LockId {
        self.lock
    }

    pub(crate) const fn context(&self) -> Option<Context> {
        self.context
    }

    pub(super) const fn watchdog(&self) -> &Watchdog {
        &self.watchdog
    }

    pub(super) const fn watchdog_mut(&mut self) -> &mut Watchdog {
        &mut self.watchdog
    }

    /// Returns the watchdog of the hold, and the record that the watchdog renews.
    pub(super) fn watched(&mut self, id: HoldId) -> (&mut Watchdog, Record<'_>) {
        let record = Record {
            id,
            keys: &self.keys,
            owner: &self.owner,
        };
        (&mut self.watchdog, record)
    }

    pub(super) fn schedule(&mut self, io: &mut Io, id: HoldId, sent: Instant, now: Instant) {
        let (watchdog, record) = self.watched(id);
        watchdog.schedule(io, &record, sent, now);
    }

    pub(super) fn renew(&mut self, io: &mut Io, id: HoldId, now: Instant) {
        let (watchdog, record) = self.watched(id);
        watchdog.renew(io, &record, None, now);
    }

    /// Extends a degraded lease, of which no server has a record: until `until`, or until its release if it is
    /// auto-renewed. Reports the deadline to each lease of the hold, and returns it.
    pub(super) fn last_here(&mut self, io: &mut Io, id: HoldId, until: Instant, now: Instant) -> Instant {
        self.watchdog.last_here(until, now);
        self.schedule(io, id, now, now);
        let deadline = self.deadline();
        for lease in &self.levels {
            let lease = *lease;
            io.step(Step::Tell(Event::Renewed { lease, deadline }));
        }
        deadline
    }

    pub(super) fn add_level(&mut self, lease: LeaseId) {
        self.levels.push(lease);
    }

    pub(super) fn remove_level(&mut self, lease: LeaseId) {
        self.levels.retain(|level| *level != lease);
    }

    /// Returns the grant for a new lease of the hold.
    pub(super) fn grant(&self, lease: LeaseId) -> Grant {
        Grant {
            lease,
            token: self.token,
            deadline: self.deadline(),
            levels: u32::try_from(self.levels.len()).unwrap_or(u32::MAX),
            degraded: self.is_local(),
        }
    }

    pub(super) fn unresolved(&self) -> Unresolved {
        self.unresolved.as_deref().cloned().unwrap_or_default()
    }

    /// Notes that an attempt of the hold's owner was answered, or was cut off.
    pub(super) fn resolved(&mut self, attempt: CallId, was_cut: bool) {
        let unresolved = self.unresolved.as_mut();
        let Some(unresolved) = unresolved.filter(|unresolved| unresolved.in_flight().contains(&attempt)) else {
            return;
        };
        unresolved.answered(attempt, was_cut);
        if !unresolved.is_any() {
            self.unresolved = None;
        }
    }

    /// Returns the release that is owed for the hold. If `is_late`, the release is sent only after the known TTL has
    /// passed, because the program may still be in its critical section.
    pub(super) fn owed(self, ticket: Option<Ticket>, is_late: bool, timeout: Duration, now: Instant) -> Owed {
        // The server may have made a provisional grant for longer than the lease.
        let granted_for = match self.keys.kind.queues_on_server() {
            true => PROVISIONAL,
            false => Duration::ZERO,
        };
        let known = self.capped(self.watchdog.record_until());
        let until = self.watchdog.longest().max(now) + self.plan().length.max(granted_for);
        Owed {
            ticket,
            hold: Some(Ended {
                deadline: self.deadline(),
                // An extension that the server has not confirmed may have succeeded.
                until: until + timeout,
                not_before: Some(known).filter(|known| is_late && *known > now),
            }),
            lock: self.lock,
            keys: self.keys,
            owner: self.owner,
            unresolved: self.unresolved.map(|unresolved| *unresolved).unwrap_or_default(),
        }
    }
}

/// Returns the error for an operation on a lost hold. `lost` is `None` if the deadline has passed and the loss is not
/// reported yet.
pub(super) fn lost_error(lost: Option<LostReason>, is_renewed: bool, name: &LockName, operation: Operation) -> Error {
    let reason = lost.unwrap_or(LostReason::Expired);
    let error = match is_renewed {
        true => Error::lost(operation, Some(reason)),
        false => Error::lost_and_forgotten(operation, Some(reason)),
    };
    error.with_lock(name.as_str())
}
