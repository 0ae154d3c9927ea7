//! Several locks as one: all or nothing.
//!
//! ```text
//!             the next one granted        the last one granted
//!   Gathering ────────────────────► ... ─────────────────────► Renewing ──► held
//!     │ ▲ │ one of them lost                                      │ one lost
//!     │ │ └──────────► all that were granted are released ◄───────┤
//!     │ └──────────────┘ the wait is not over                     │
//!     │ one refused, failed, or cancelled                         │
//!     └──────────────► all that were granted are released ◄───────┘
//! ```
//!
//! The locks are taken one after the other in the order of their keys, the same
//! in every client, so that two clients never wait for each other. Meanwhile those
//! that are held already are renewed, also for a fixed lease. When one is lost,
//! all are: before the last one is granted they are gathered again (`lost`), after
//! it the whole is lost. Who holds the whole enters it as a whole, whatever its
//! locks are; a lock that is held as a part is given back with the whole alone.

mod gathering;
mod lost;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::members::{MemberEvent, Members};
use crate::defects::Defect;
use crate::ending::{LostReason, ReleaseOutcome};
use crate::error::{Error, ErrorKind, Operation};
use crate::ids::{Context, HoldId, LeaseId, NodeId, Ticket};
use crate::instant::Instant;
use crate::kinds::{Gate, Keys, Kind};
use crate::lease::{LeaseDuration, LeasePlan};
use crate::machines::holds;
use crate::name::LockName;
use crate::periods::FIRST_ANSWER_GRACE;
use crate::types::{AcquireRequest, Event, Outcome};

/// Whole acquisitions and whole leases.
#[derive(Debug, Default)]
pub(crate) struct Multis {
    gatherings: BTreeMap<Ticket, Gathering>,
    /// By the lease of the first level.
    held: BTreeMap<LeaseId, Multi>,
    /// The leases of all levels, and the first level's.
    levels: BTreeMap<LeaseId, LeaseId>,
    /// The wholes that a context holds of some locks, oldest first.
    by_holder: BTreeMap<(Context, Locks), Vec<LeaseId>>,
    endings: BTreeMap<Ticket, Ending>,
}

impl Multis {
    pub(crate) fn len(&self) -> usize {
        let waiting = self.gatherings.len().saturating_add(self.endings.len());
        let held = self.held.len().saturating_add(self.by_holder.len());
        waiting.saturating_add(held).saturating_add(self.levels.len())
    }

    /// Whether a lease is one of a whole.
    pub(crate) fn has(&self, lease: LeaseId) -> bool {
        self.levels.contains_key(&lease)
    }

    fn insert(&mut self, lease: LeaseId, multi: Multi) {
        if let Some(context) = multi.context {
            let holder = (context, Arc::clone(&multi.locks));
            self.by_holder.entry(holder).or_default().push(lease);
        }
        self.levels.insert(lease, lease);
        self.held.insert(lease, multi);
    }

    /// Takes a whole out of all tables.
    fn remove(&mut self, whole: LeaseId) -> Option<Multi> {
        let multi = self.held.remove(&whole)?;
        for level in &multi.levels {
            self.levels.remove(level);
        }
        if let Some(context) = multi.context {
            let holder = (context, Arc::clone(&multi.locks));
            if let Some(wholes) = self.by_holder.get_mut(&holder) {
                wholes.retain(|known| *known != whole);
                if wholes.is_empty() {
                    self.by_holder.remove(&holder);
                }
            }
        }
        Some(multi)
    }
}

/// A caller that wants several locks.
#[derive(Debug)]
struct Gathering {
    /// All that is to be taken, in order.
    all: Vec<AcquireRequest>,
    /// What is still to be taken, in order.
    todo: VecDeque<AcquireRequest>,
    /// When the one that is under way was asked for.
    asked: Instant,
    /// Others were held already while one of them was waited for.
    waited: bool,
    /// The last renewals were asked for before, in vain.
    renewed_in_vain: bool,
    /// What was granted.
    leases: Vec<LeaseId>,
    /// The parts that are under way: one acquisition, or the last renewals.
    under_way: Vec<Ticket>,
    plan: LeasePlan,
    /// When the caller's patience ends.
    until: Option<Instant>,
    context: Option<Context>,
    locks: Locks,
    /// The whole that is entered again, by its first lease; nothing is taken for it.
    again: Option<LeaseId>,
    /// The holds that the caller had before, and how they were renewed: meanwhile all are.
    around: BTreeMap<HoldId, LeasePlan>,
}

impl Gathering {
    /// Whether its caller does not wait.
    fn tries_once(&self) -> bool {
        let wait = self.all.first().and_then(|request| request.wait);
        wait.is_some_and(|wait| wait.is_zero())
    }

    /// Whether its caller's wait is over.
    fn is_over(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    /// When its caller is told, though an answer to what is sent now is still due.
    fn answer_by(&self, now: Instant) -> Option<Instant> {
        let until = self.until.filter(|_| !self.tries_once());
        until.map(|until| until.max(now) + FIRST_ANSWER_GRACE)
    }
}

/// Several leases as one.
#[derive(Debug)]
struct Multi {
    /// The parts.
    leases: Vec<LeaseId>,
    /// The leases that were given and not released, outermost first.
    levels: Vec<LeaseId>,
    context: Option<Context>,
    locks: Locks,
    /// Whether the watchdog renews it, for one of its levels at least.
    watched: bool,
    lost: Option<LostReason>,
    deadline: Instant,
}

/// A release or an extension of several leases.
#[derive(Debug)]
struct Ending {
    /// The whole that is extended.
    extends: Option<LeaseId>,
    under_way: Vec<Ticket>,
    /// The worst so far.
    outcome: Outcome,
}

impl Multi {
    /// What a release comes to, unless a server says worse.
    fn released(&self) -> Outcome {
        let outcome = self.lost.map_or(ReleaseOutcome::Released, LostReason::outcome);
        Outcome::Released(outcome)
    }
}

/// The locks of a whole, sorted, so that two wholes of the same locks are seen to be.
type Locks = Arc<[(Kind, LockName)]>;

fn sorted(locks: impl Iterator<Item = (Kind, LockName)>) -> Locks {
    let mut locks: Vec<_> = locks.collect();
    locks.sort();
    locks.into()
}

impl Multis {
    /// The innermost lease of `context` on these locks together, in any order.
    pub(crate) fn innermost(&self, locks: &[(Kind, LockName)], context: Context) -> Option<LeaseId> {
        let whole = self.multi_of(&sorted(locks.iter().cloned()), context)?;
        self.held.get(&whole)?.levels.last().copied()
    }

    /// How often `context` holds these locks together.
    pub(crate) fn levels(&self, locks: &[(Kind, LockName)], context: Context) -> u32 {
        let whole = self
            .multi_of(&sorted(locks.iter().cloned()), context)
            .and_then(|whole| self.held.get(&whole));
        whole.map_or(0, |whole| u32::try_from(whole.levels.len()).unwrap_or(u32::MAX))
    }

    /// The whole of these locks that `context` holds, by its first lease.
    fn multi_of(&self, locks: &Locks, context: Context) -> Option<LeaseId> {
        let held = self.by_holder.get(&(context, Arc::clone(locks)))?;
        held.last().copied()
    }

    /// Who sees that its fixed leases are over, and comes back before a timer has told
    /// so, holds nothing any more.
    fn lapse_whole_if_over(&mut self, members: &mut Members, whole: LeaseId, now: Instant) {
        let Some(multi) = self.held.get(&whole) else {
            return;
        };
        for part in multi.leases.clone() {
            if let Some(id) = members.locks().holds().of_lease(part) {
                members.hold(holds::Input::Return(id), now);
            }
        }
        self.settle(members, now);
    }

    /// What happened to members, until nothing has.
    pub(crate) fn settle(&mut self, members: &mut Members, now: Instant) {
        while let Some(news) = members.next_member_event(now) {
            match news {
                MemberEvent::Completed {
                    caller,
                    member,
                    outcome,
                } => self.part_completed(members, caller, member, outcome, now),
                MemberEvent::Lost { composite, reason, .. } => self.part_lost(members, composite, reason, now),
                MemberEvent::LostBefore(lease) => self.gathered_lost(members, lease, now),
                MemberEvent::Renewed { composite, .. } => self.part_renewed(members, composite),
                MemberEvent::Entered(hold, plan) => self.stays_renewed(hold, plan),
            }
        }
    }

    /// A part of `whole` is done.
    pub(crate) fn part_completed(
        &mut self,
        members: &mut Members,
        whole: Ticket,
        part: Ticket,
        outcome: Outcome,
        now: Instant,
    ) {
        if self.endings.contains_key(&whole) {
            self.part_ended(members, whole, part, outcome);
            return;
        }
        let Some(gathering) = self.gatherings.get_mut(&whole) else {
            return;
        };
        gathering.under_way.retain(|ticket| *ticket != part);
        match outcome {
            Outcome::Granted(grant) => {
                gathering.leases.push(grant.lease);
                self.note_wait(members, whole, grant.lease, now);
                self.gather(members, whole, now);
            }
            Outcome::Extended(_) => {
                if gathering.under_way.is_empty() {
                    self.gathered(members, whole, now);
                }
            }
            Outcome::Failed(error) if self.may_renew_again(whole, &error, now) => self.renew_again(members, whole, now),
            refusal => {
                self.stop_gathering(members, whole, now);
                members.complete(whole, refusal);
            }
        }
    }

    fn give_back(&mut self, members: &mut Members, leases: &[LeaseId], now: Instant) {
        for lease in leases.iter().rev() {
            members.discard(*lease, now);
        }
    }

    /// The caller of a whole went away.
    pub(crate) fn cancel(&mut self, members: &mut Members, ticket: Ticket, now: Instant) {
        self.stop_gathering(members, ticket, now);
        if let Some(ending) = self.endings.remove(&ticket) {
            members.cancel_all(&ending.under_way, now);
        }
    }

    /// Releases a lease made of leases, in reverse order. False if it is none.
    pub(crate) fn release(&mut self, members: &mut Members, ticket: Ticket, lease: LeaseId, now: Instant) -> bool {
        let Some(whole) = self.levels.remove(&lease) else {
            return false;
        };
        if let Some(multi) = self.held.get_mut(&whole) {
            multi.levels.retain(|level| *level != lease);
            if !multi.levels.is_empty() {
                let outcome = multi.released();
                members.complete(ticket, outcome);
                return true;
            }
        }
        let Some(multi) = self.remove(whole) else {
            return false;
        };
        let mut under_way = Vec::new();
        for part in multi.leases.iter().rev() {
            members.exclude(*part);
            let release = members.ticket_for(Some(ticket));
            under_way.push(release);
            members.release(release, *part, now);
        }
        let ending = Ending {
            extends: None,
            under_way,
            outcome: multi.released(),
        };
        self.endings.insert(ticket, ending);
        true
    }

    /// Extends a lease made of leases. False if it is none.
    pub(crate) fn extend(
        &mut self,
        members: &mut Members,
        ticket: Ticket,
        lease: LeaseId,
        by: Option<LeaseDuration>,
        now: Instant,
    ) -> bool {
        let whole = self.levels.get(&lease).copied();
        let Some(multi) = whole.and_then(|whole| self.held.get(&whole)) else {
            return false;
        };
        let leases = multi.leases.clone();
        let mut under_way = Vec::new();
        for part in leases {
            let extension = members.ticket_for(Some(ticket));
            under_way.push(extension);
            members.extend(extension, part, by, now);
        }
        let ending = Ending {
            extends: whole,
            under_way,
            outcome: Outcome::Extended(Instant::FAR_FUTURE),
        };
        self.endings.insert(ticket, ending);
        true
    }

    /// A part of a release or of an extension is done.
    fn part_ended(&mut self, members: &mut Members, whole: Ticket, part: Ticket, outcome: Outcome) {
        let Some(ending) = self.endings.get_mut(&whole) else {
            return;
        };
        ending.under_way.retain(|ticket| *ticket != part);
        ending.outcome = worse(ending.outcome.clone(), outcome);
        if ending.under_way.is_empty()
            && let Some(ending) = self.endings.remove(&whole)
        {
            let outcome = self.extended_whole(&ending).unwrap_or(ending.outcome);
            members.complete(whole, outcome);
        }
    }

    /// One is lost, so all are.
    pub(crate) fn part_lost(&mut self, members: &mut Members, whole: LeaseId, reason: LostReason, now: Instant) {
        let Some(multi) = self.held.get_mut(&whole) else {
            return;
        };
        if multi.lost.is_some() {
            return;
        }
        multi.lost = Some(reason);
        let is_forgotten = !multi.watched && reason != LostReason::Closed;
        let (leases, levels) = (multi.leases.clone(), multi.levels.clone());
        for lease in levels {
            members.tell(Event::Lost { lease, reason });
        }
        for lease in &leases {
            // A lock that is held around the whole, too, stays.
            let alone = |id: &HoldId| {
                members
                    .locks()
                    .holds()
                    .get(*id)
                    .is_some_and(|hold| hold.levels().len() == 1)
            };
            if let Some(id) = members.locks().holds().of_lease(*lease).filter(alone) {
                members.lose(id, reason, now);
            }
        }
        if is_forgotten && !members.io().has(Defect::LapsedLeaseStays) {
            self.remove(whole);
            members.forget(&leases, now);
        }
    }

    /// One lasts longer; the whole lasts as long as the one that ends first.
    pub(crate) fn part_renewed(&mut self, members: &mut Members, whole: LeaseId) {
        let Some(multi) = self.held.get(&whole) else {
            return;
        };
        let deadline = self.earliest_deadline(members, &multi.leases);
        if let Some(multi) = self.held.get_mut(&whole)
            && multi.lost.is_none()
            && deadline > multi.deadline
        {
            multi.deadline = deadline;
            for lease in multi.levels.clone() {
                members.tell(Event::Renewed { lease, deadline });
            }
        }
    }

    fn earliest_deadline(&self, members: &Members, leases: &[LeaseId]) -> Instant {
        let deadline = |lease: &LeaseId| {
            let hold = members.locks().holds().get(members.locks().holds().of_lease(*lease)?)?;
            hold.lost().is_none().then_some(hold.deadline())
        };
        let deadlines = leases.iter().map(|lease| deadline(lease).unwrap_or(Instant::ZERO));
        deadlines.min().unwrap_or(Instant::ZERO)
    }

    /// The tickets of callers that wait for several locks.
    pub(crate) fn waiting(&self) -> Vec<Ticket> {
        self.gatherings.keys().copied().collect()
    }

    /// The client is closed: wholes are no longer told of their parts.
    pub(crate) fn dissolve(&mut self, members: &mut Members) {
        self.levels.clear();
        self.by_holder.clear();
        for (_, multi) in std::mem::take(&mut self.held) {
            for part in multi.leases {
                members.exclude(part);
            }
        }
    }
}

/// Puts requests into the order in which they are taken, the same in every client; or says why
/// they make no multi-lock.
pub(crate) fn in_order(requests: &mut [AcquireRequest]) -> Result<(), &'static str> {
    requests.sort_by_key(place);
    let is_same = |pair: &[AcquireRequest]| matches!(pair, [a, b] if place(a) == place(b));
    if requests.is_empty() {
        Err("several locks are wanted, and none is named; name one at least")
    } else if requests.windows(2).any(is_same) {
        Err("one lock is named twice; name each once")
    } else {
        Ok(())
    }
}

/// What is contended for: two requests of one place would wait for each other.
fn place(request: &AcquireRequest) -> (Arc<[u8]>, Gate) {
    let keys = Keys::new(request.kind, &request.name, NodeId::default());
    (keys.record, request.kind.gate())
}

fn whole_lost(operation: Operation, reason: Option<LostReason>) -> Error {
    Error::new(
        ErrorKind::LockLost,
        operation,
        "the lease was lost; release it and acquire the locks again",
    )
    .with_reason(reason)
}

/// The one of two outcomes that the caller has to know.
fn worse(a: Outcome, b: Outcome) -> Outcome {
    let rank = |outcome: &Outcome| match outcome {
        // Somebody else may have held it: no other failure must hide that.
        Outcome::Released(ReleaseOutcome::Stolen) => 4,
        Outcome::Released(ReleaseOutcome::Expired) => 3,
        Outcome::Failed(_) => 2,
        Outcome::Released(ReleaseOutcome::Unknown) => 1,
        _ => 0,
    };
    match (a, b) {
        (Outcome::Extended(a), Outcome::Extended(b)) => Outcome::Extended(a.min(b)),
        (a, b) if rank(&b) > rank(&a) => b,
        (a, _) => a,
    }
}
