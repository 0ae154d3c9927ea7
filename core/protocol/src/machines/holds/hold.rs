//! One hold: one record of ours on the server, and the leases that were given of it.

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

/// One record of ours on the server.
#[derive(Debug)]
pub(crate) struct Hold {
    lock: LockId,
    keys: Arc<Keys>,
    owner: OwnerId,
    context: Option<Context>,
    token: Option<Token>,
    /// The leases that were given and not released, outermost first.
    levels: Levels,
    /// When it was granted, as far as this client knows.
    since: Instant,
    /// Others had it before, while its request waited.
    waited: bool,
    watchdog: Watchdog,
    /// What of its acquisition is still unknown, if anything is.
    unresolved: Option<Box<Unresolved>>,
}

/// Nearly all holds have one: it needs no room of its own.
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

    /// The leases that were given and not released, outermost first.
    pub(crate) fn levels(&self) -> &[LeaseId] {
        &self.levels
    }

    /// How long it is to last.
    pub(crate) const fn plan(&self) -> LeasePlan {
        self.watchdog.plan()
    }

    /// Whether others had it before, while its request waited.
    pub(crate) const fn waited(&self) -> bool {
        self.waited
    }

    /// Whether the server knows nothing of it: it keeps out others of this client alone.
    pub(crate) const fn is_local(&self) -> bool {
        self.watchdog.is_local()
    }

    /// Since when it is held.
    pub(super) const fn since(&self) -> Instant {
        self.since
    }

    /// Why it was lost, if it was.
    pub(crate) const fn lost(&self) -> Option<LostReason> {
        self.watchdog.lost()
    }

    /// Until when it may be relied on.
    pub(crate) const fn deadline(&self) -> Instant {
        self.watchdog.deadline()
    }

    /// Whether it may be relied on.
    pub(crate) fn is_valid(&self, now: Instant) -> bool {
        self.watchdog.is_valid(now)
    }

    /// Whether the record lasts until then.
    pub(crate) fn lasts(&self, until: Instant) -> bool {
        self.watchdog.reaches(until)
    }

    /// When the server drops the record at the earliest.
    pub(crate) const fn record_until(&self) -> Instant {
        self.watchdog.record_until()
    }

    /// `until`, or the end of `max_hold` if that comes first.
    pub(crate) fn capped(&self, until: Instant) -> Instant {
        self.watchdog.capped(until)
    }

    /// The hold as others would see it.
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

    /// Why it does not let its context in, and so on: it is lost, or past its deadline.
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

    /// Its watchdog, and the record that this renews.
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

    /// A hold in this client alone lasts until then, or until its release if it is to be
    /// auto-renewed. Tells each of its leases the deadline, and returns it.
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

    /// What its newest lease gives.
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

    /// An attempt of its owner was answered, or cut off.
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

    /// The release that it leaves behind. A late one is sent when the TTL that is known has
    /// passed: until then the record is the program's, which may still be inside.
    pub(super) fn owed(self, ticket: Option<Ticket>, is_late: bool, timeout: Duration, now: Instant) -> Owed {
        // The server may have granted it of its own accord, for longer than the lease.
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
                // An extension that was not confirmed may have been made all the same.
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

/// Why a lost hold is of no use; `None` if its deadline passed and nobody was told yet.
pub(super) fn lost_error(lost: Option<LostReason>, is_renewed: bool, name: &LockName, operation: Operation) -> Error {
    let reason = lost.unwrap_or(LostReason::Expired);
    let error = match is_renewed {
        true => Error::lost(operation, Some(reason)),
        false => Error::lost_and_forgotten(operation, Some(reason)),
    };
    error.with_lock(name.as_str())
}
