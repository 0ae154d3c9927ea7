//! Multi-locks that are held: their members, levels, deadlines and losses.

use std::sync::Arc;

use steadlock_collections::SortedMap;

use super::LockSet;
use super::gathering::Gathered;
use crate::ending::{LostReason, ReleaseOutcome};
use crate::error::{Error, Operation};
use crate::groups::members::{CompositeLease, Members};
use crate::ids::{Context, HoldId, LeaseId, Ticket};
use crate::instant::Instant;
use crate::lease::LeasePlan;
use crate::machines::holds;
use crate::types::{Event, Outcome};

/// The multi-locks that a client holds. The lease of the first level identifies each of them.
#[derive(Debug, Default)]
pub(super) struct HeldLocks {
    by_lease: SortedMap<LeaseId, MultiLock>,
    /// The leases of all levels, each with the lease of the first level.
    levels: SortedMap<LeaseId, LeaseId>,
    /// The multi-locks of a context (a thread or task) on a set of locks, oldest first.
    by_holder: SortedMap<(Context, LockSet), Vec<LeaseId>>,
}

/// A multi-lock: several leases as one.
#[derive(Debug)]
pub(super) struct MultiLock {
    members: Vec<LeaseId>,
    /// The leases that were granted and not released, outermost first.
    levels: Vec<LeaseId>,
    context: Option<Context>,
    locks: LockSet,
    /// Whether the watchdog renews the multi-lock, for at least one of its levels.
    is_renewed: bool,
    lost: Option<LostReason>,
    deadline: Instant,
}

/// The result of a release of one level.
pub(super) enum Released {
    /// Outer levels still hold the multi-lock.
    Level(Outcome),
    /// The last level was released.
    All {
        /// The members, which must be released.
        leases: Vec<LeaseId>,
        /// The outcome, unless the release of a member has a worse one.
        outcome: Outcome,
    },
}

impl MultiLock {
    pub(super) fn members(&self) -> &[LeaseId] {
        &self.members
    }

    pub(super) fn levels(&self) -> &[LeaseId] {
        &self.levels
    }

    /// Returns why the multi-lock is lost, if it is lost at `now`. The deadline may have passed before its timer fires.
    pub(super) fn lost_at(&self, now: Instant) -> Option<LostReason> {
        self.lost
            .or_else(|| (self.deadline <= now).then_some(LostReason::Expired))
    }

    /// Returns the error of an operation on the multi-lock after its loss.
    pub(super) fn lost_error(&self, operation: Operation, reason: Option<LostReason>) -> Error {
        match self.is_renewed {
            true => Error::lost(operation, reason),
            false => Error::lost_and_forgotten(operation, reason),
        }
    }

    /// Returns the outcome of a release, unless the release of a member has a worse one.
    fn released(&self) -> Outcome {
        let outcome = self.lost.map_or(ReleaseOutcome::Released, LostReason::outcome);
        Outcome::Released(outcome)
    }
}

impl HeldLocks {
    pub(super) fn len(&self) -> usize {
        let held = self.by_lease.len().saturating_add(self.by_holder.len());
        held.saturating_add(self.levels.len())
    }

    /// Whether a lease is a level of a multi-lock.
    pub(super) fn has(&self, lease: LeaseId) -> bool {
        self.levels.contains_key(&lease)
    }

    pub(super) fn get(&self, first: LeaseId) -> Option<&MultiLock> {
        self.by_lease.get(&first)
    }

    /// Returns the lease of the first level of the multi-lock that this lease belongs to.
    pub(super) fn first_level(&self, lease: LeaseId) -> Option<LeaseId> {
        self.levels.get(&lease).copied()
    }

    /// Returns the newest multi-lock of these locks that a context holds.
    pub(super) fn of_context(&self, locks: &LockSet, context: Context) -> Option<LeaseId> {
        let held = self.by_holder.get(&(context, Arc::clone(locks)))?;
        held.last().copied()
    }

    /// Adds a multi-lock whose locks are all granted, and grants its caller the lease.
    pub(super) fn add(&mut self, members: &mut Members<'_>, ticket: Ticket, gathered: Gathered) {
        let lease = members.next_lease();
        for member in &gathered.leases {
            members.include(*member, lease);
        }
        if let Some(context) = gathered.context {
            let holder = (context, Arc::clone(&gathered.locks));
            self.by_holder.get_or_default(holder).push(lease);
        }
        self.levels.insert(lease, lease);
        let deadline = gathered.deadline;
        let multi = MultiLock {
            members: gathered.leases,
            levels: vec![lease],
            context: gathered.context,
            locks: gathered.locks,
            is_renewed: gathered.plan.renewed,
            lost: None,
            deadline,
        };
        let granted = CompositeLease {
            lease,
            members: &multi.members,
            deadline,
            levels: 1,
        };
        members.grant(ticket, granted);
        self.by_lease.insert(lease, multi);
    }

    /// Re-enters a multi-lock: its holder gets one more lease.
    pub(super) fn enter(
        &mut self,
        members: &mut Members<'_>,
        ticket: Ticket,
        first: LeaseId,
        plan: LeasePlan,
        now: Instant,
    ) {
        let lease = members.next_lease();
        let Some(multi) = self.by_lease.get_mut(&first).filter(|multi| multi.lost.is_none()) else {
            members.complete(ticket, Outcome::Failed(Error::lost(Operation::Acquire, None)));
            return;
        };
        multi.levels.push(lease);
        multi.is_renewed |= plan.renewed;
        self.levels.insert(lease, first);
        for member in &multi.members {
            members.hold(holds::Input::Watch(*member, plan), now);
        }
        let granted = CompositeLease {
            lease,
            members: &multi.members,
            deadline: multi.deadline,
            levels: multi.levels.len(),
        };
        members.grant(ticket, granted);
    }

    /// Releases one level.
    pub(super) fn release(&mut self, lease: LeaseId) -> Option<Released> {
        let first = self.levels.remove(&lease)?;
        if let Some(multi) = self.by_lease.get_mut(&first) {
            multi.levels.retain(|level| *level != lease);
            if !multi.levels.is_empty() {
                return Some(Released::Level(multi.released()));
            }
        }
        let multi = self.remove(first)?;
        Some(Released::All {
            outcome: multi.released(),
            leases: multi.members,
        })
    }

    /// Handles the loss of one member: the multi-lock is lost, and so are its other members, except those that also
    /// have a level outside the multi-lock. Reports the loss to each level of the multi-lock.
    pub(super) fn member_lost(&mut self, members: &mut Members<'_>, first: LeaseId, reason: LostReason, now: Instant) {
        let Some(multi) = self.by_lease.get_mut(&first).filter(|multi| multi.lost.is_none()) else {
            return;
        };
        multi.lost = Some(reason);
        let is_forgotten = !multi.is_renewed && reason != LostReason::Closed;
        let lost = multi.members.clone();
        for level in &multi.levels {
            members.emit(Event::Lost { lease: *level, reason });
        }
        for member in &lost {
            let is_alone = |id: &HoldId| {
                let hold = members.locks().holds().get(*id);
                hold.is_some_and(|hold| hold.levels().len() == 1)
            };
            if let Some(id) = members.locks().holds().of_lease(*member).filter(is_alone) {
                members.lose(id, reason, now);
            }
        }
        if is_forgotten {
            self.remove(first);
            members.forget(&lost, now);
        }
    }

    /// Handles a new deadline of a member. The multi-lock lasts as long as the member that ends first.
    pub(super) fn member_renewed(&mut self, members: &mut Members<'_>, first: LeaseId) {
        let Some(multi) = self.by_lease.get_mut(&first) else {
            return;
        };
        let deadline = members.earliest_deadline(&multi.members);
        if multi.lost.is_none() && deadline > multi.deadline {
            multi.deadline = deadline;
            for level in &multi.levels {
                members.emit(Event::Renewed {
                    lease: *level,
                    deadline,
                });
            }
        }
    }

    /// Returns the result of an extension of all members: the deadline of the multi-lock.
    pub(super) fn extended(&self, first: LeaseId) -> Result<Instant, Error> {
        match self.by_lease.get(&first) {
            Some(multi) if multi.lost.is_none() => Ok(multi.deadline),
            Some(multi) => Err(multi.lost_error(Operation::Extend, multi.lost)),
            // The multi-lock was released meanwhile, or was lost and forgotten because its lease is fixed.
            None => Err(Error::lost_and_forgotten(Operation::Extend, None)),
        }
    }

    /// Removes a multi-lock from all tables.
    fn remove(&mut self, first: LeaseId) -> Option<MultiLock> {
        let multi = self.by_lease.remove(&first)?;
        for level in &multi.levels {
            self.levels.remove(level);
        }
        if let Some(context) = multi.context {
            let holder = (context, Arc::clone(&multi.locks));
            if let Some(held) = self.by_holder.get_mut(&holder) {
                held.retain(|known| *known != first);
                if held.is_empty() {
                    self.by_holder.remove(&holder);
                }
            }
        }
        Some(multi)
    }

    /// Closes the client's multi-locks: they receive no more events of their members.
    pub(super) fn close(&mut self, members: &mut Members<'_>) {
        self.levels.clear();
        self.by_holder.clear();
        for member in std::mem::take(&mut self.by_lease)
            .into_values()
            .flat_map(|multi| multi.members)
        {
            members.exclude(member);
        }
    }
}
