//! Several locks as one: all or nothing.
//!
//! ```text
//!             the next one granted        the last one granted
//!   Gathering ────────────────────► ... ─────────────────────► Renewing ──► held
//!       │ one refused, failed, or cancelled                       │ one lost
//!       └──────────────► all that were granted are released ◄─────┘
//! ```
//!
//! The locks are taken one after the other in the order of their keys, the same
//! in every client, so that two clients never wait for each other. Meanwhile those
//! that are held already are renewed, also for a fixed lease. When one is lost,
//! all are. Who holds the whole enters it as a whole, whatever its locks are; a
//! lock that is held as a part is given back with the whole alone.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::defects::Defect;
use crate::error::{Error, ErrorKind, Operation};
use crate::hold::LeasePlan;
use crate::instant::Instant;
use crate::kinds::{Gate, Keys, Kind};
use crate::lease::LeaseDuration;
use crate::name::LockName;
use crate::session::{
    AcquireRequest, Context, Event, Grant, LeaseId, LostReason, NodeId, Outcome, ReleaseOutcome, Session, Ticket,
};

/// Whole acquisitions and whole leases.
#[derive(Debug, Default)]
pub(crate) struct Multis {
    gatherings: BTreeMap<Ticket, Gathering>,
    /// By the lease of the first level.
    held: BTreeMap<LeaseId, Multi>,
    /// The leases of all levels, and the first level's.
    levels: BTreeMap<LeaseId, LeaseId>,
    endings: BTreeMap<Ticket, Ending>,
}

impl Multis {
    pub(crate) fn len(&self) -> usize {
        let waiting = self.gatherings.len().saturating_add(self.endings.len());
        waiting.saturating_add(self.held.len())
    }
}

/// A caller that wants several locks.
#[derive(Debug)]
struct Gathering {
    /// What is still to be taken, in order.
    todo: VecDeque<AcquireRequest>,
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
    lost: Option<LostReason>,
    deadline: Instant,
}

/// A release or an extension of several leases.
#[derive(Debug)]
struct Ending {
    under_way: Vec<Ticket>,
    /// The worst so far.
    outcome: Outcome,
}

impl Multi {
    /// What a release comes to, unless a server says worse.
    fn released(&self) -> Outcome {
        let outcome = self.lost.map_or(ReleaseOutcome::Released, crate::hold::outcome_of_lost);
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

impl Session {
    /// Wants several locks, all or none; of each request the kind and the name
    /// count, the rest is the first one's. Completes like [`Session::acquire`];
    /// the lease is one, without a token.
    pub fn acquire_all(&mut self, mut requests: Vec<AcquireRequest>, now: Instant) -> Ticket {
        let ticket = self.ticket();
        if self.fail_if_closed(ticket, Operation::Acquire) {
            return ticket;
        }
        requests.sort_by_key(place);
        let first = match self.first_of_all(&requests) {
            Ok(first) => first.clone(),
            Err(message) => {
                let error = Error::new(ErrorKind::InvalidArgument, Operation::Acquire, message);
                self.complete(ticket, Outcome::Failed(error));
                return ticket;
            }
        };
        let locks = sorted(requests.iter().map(|request| (request.kind, request.name.clone())));
        let again = first.context.and_then(|context| self.multi_of(&locks, context));
        let held = again.and_then(|whole| self.composites.multis.held.get(&whole));
        if held.is_some_and(|held| held.lost.is_some() || held.deadline <= now) {
            self.complete(ticket, Outcome::Failed(whole_lost()));
            return ticket;
        }
        let gathering = Gathering {
            leases: held.map_or_else(Vec::new, |held| held.leases.clone()),
            todo: if again.is_some() {
                VecDeque::new()
            } else {
                requests.into()
            },
            again,
            locks,
            under_way: Vec::new(),
            plan: LeasePlan::of(first.lease, &self.config),
            until: first.wait.map(|wait| now + wait),
            context: first.context,
        };
        self.composites.multis.gatherings.insert(ticket, gathering);
        self.gather(ticket, now);
        self.settle_composites(now);
        ticket
    }

    /// The first of several requests, in order, whose wait, lease and context count
    /// for all; or why they make no whole.
    fn first_of_all<'a>(&self, requests: &'a [AcquireRequest]) -> Result<&'a AcquireRequest, &'static str> {
        let first = requests.first();
        let first = first.ok_or("several locks are wanted, and none is named; name one at least")?;
        let is_same = |pair: &[AcquireRequest]| matches!(pair, [a, b] if place(a) == place(b));
        if requests.windows(2).any(is_same) {
            Err("one lock is named twice; name each once")
        } else if self.votes() {
            Err("a RedLock is one lock of several primaries, and no part of several locks")
        } else if requests.iter().any(|request| request.within.is_some()) {
            Err("`within` names the lease of one lock; leave it out")
        } else {
            Ok(first)
        }
    }

    /// The innermost lease of `context` on these locks together, in any order.
    #[must_use]
    pub fn innermost_of_all(&self, locks: &[(Kind, LockName)], context: Context) -> Option<LeaseId> {
        let whole = self.multi_of(&sorted(locks.iter().cloned()), context)?;
        self.composites.multis.held.get(&whole)?.levels.last().copied()
    }

    /// How often `context` holds these locks together.
    #[must_use]
    pub fn levels_of_all(&self, locks: &[(Kind, LockName)], context: Context) -> u32 {
        let whole = self
            .multi_of(&sorted(locks.iter().cloned()), context)
            .and_then(|whole| self.composites.multis.held.get(&whole));
        whole.map_or(0, |whole| u32::try_from(whole.levels.len()).unwrap_or(u32::MAX))
    }

    /// The whole of these locks that `context` holds, by its first lease.
    fn multi_of(&self, locks: &Locks, context: Context) -> Option<LeaseId> {
        let is_it = |multi: &Multi| multi.context == Some(context) && multi.locks == *locks;
        let held = self.composites.multis.held.iter();
        held.filter(|(_, multi)| is_it(multi))
            .map(|(lease, _)| *lease)
            .next_back()
    }

    /// Takes the next lock, or renews all once the last one is held.
    fn gather(&mut self, ticket: Ticket, now: Instant) {
        let Some(gathering) = self.composites.multis.gatherings.get_mut(&ticket) else {
            return;
        };
        let Some(mut request) = gathering.todo.pop_front() else {
            self.renew_gathered(ticket, now);
            return;
        };
        request.wait = gathering.until.map(|until| until.saturating_since(now));
        let plan = LeasePlan {
            watched: true,
            ..gathering.plan
        };
        let part = self.part_ticket(Some(ticket));
        if let Some(gathering) = self.composites.multis.gatherings.get_mut(&ticket) {
            gathering.under_way = vec![part];
        }
        self.acquire_at(part, request, NodeId::default(), plan, now);
    }

    /// All locks are held: each gets its full length from now.
    fn renew_gathered(&mut self, ticket: Ticket, now: Instant) {
        let Some(gathering) = self.composites.multis.gatherings.get(&ticket) else {
            return;
        };
        let (leases, plan, is_new) = (gathering.leases.clone(), gathering.plan, gathering.again.is_none());
        let slack = plan.length.checked_div(10).unwrap_or_default();
        let unit = if self.has(Defect::MultiLockUnits) { 1_000 } else { 1 };
        let mut under_way = Vec::new();
        for lease in leases {
            let Some(id) = self.holds.of_lease(lease) else { continue };
            if let Some(hold) = self.holds.get_mut(id) {
                if is_new && hold.levels.len() == 1 {
                    hold.plan = plan;
                }
                if (plan.watched && hold.plan.watched) || hold.record_until + slack >= hold.capped(now + plan.length) {
                    continue;
                }
            }
            let part = self.part_ticket(Some(ticket));
            under_way.push(part);
            let length = LeaseDuration::of(plan.length.saturating_mul(unit));
            self.extend_lease(part, lease, Some(length), now);
        }
        let is_done = under_way.is_empty();
        if let Some(gathering) = self.composites.multis.gatherings.get_mut(&ticket) {
            gathering.under_way = under_way;
        }
        if is_done {
            self.gathered(ticket, now);
        }
    }

    /// All locks are held for their full length.
    fn gathered(&mut self, ticket: Ticket, now: Instant) {
        let Some(gathering) = self.composites.multis.gatherings.remove(&ticket) else {
            return;
        };
        if let Some(whole) = gathering.again {
            self.enter_whole(ticket, whole, gathering.plan, now);
            return;
        }
        let deadline = self.earliest_deadline(&gathering.leases);
        if deadline <= now {
            // One was lost while the last renewals were under way.
            self.give_back(&gathering.leases, now);
            let error = Error::new(
                ErrorKind::LockLost,
                Operation::Acquire,
                "one of the locks was lost while the others were taken; acquire them again",
            );
            self.complete(ticket, Outcome::Failed(error));
            return;
        }
        let lease = self.holds.next_lease();
        for part in &gathering.leases {
            self.composites.include(*part, lease);
        }
        self.composites.multis.levels.insert(lease, lease);
        self.composites.multis.held.insert(
            lease,
            Multi {
                leases: gathering.leases,
                levels: vec![lease],
                context: gathering.context,
                locks: gathering.locks,
                lost: None,
                deadline,
            },
        );
        self.complete(
            ticket,
            Outcome::Granted(Grant {
                lease,
                token: None,
                deadline,
                levels: 1,
            }),
        );
    }

    /// Gives one more lease of a whole that is held.
    fn enter_whole(&mut self, ticket: Ticket, whole: LeaseId, plan: LeasePlan, now: Instant) {
        let lease = self.holds.next_lease();
        let Some(multi) = self
            .composites
            .multis
            .held
            .get_mut(&whole)
            .filter(|multi| multi.lost.is_none())
        else {
            self.complete(ticket, Outcome::Failed(whole_lost()));
            return;
        };
        multi.levels.push(lease);
        let (levels, deadline, leases) = (multi.levels.len(), multi.deadline, multi.leases.clone());
        self.composites.multis.levels.insert(lease, whole);
        for part in leases {
            self.watch_part(part, plan, now);
        }
        self.complete(
            ticket,
            Outcome::Granted(Grant {
                lease,
                token: None,
                deadline,
                levels: u32::try_from(levels).unwrap_or(u32::MAX),
            }),
        );
    }

    /// A part of `whole` is done.
    pub(crate) fn part_completed(&mut self, whole: Ticket, part: Ticket, outcome: Outcome, now: Instant) {
        if self.composites.multis.endings.contains_key(&whole) {
            self.part_ended(whole, part, outcome);
            return;
        }
        let Some(gathering) = self.composites.multis.gatherings.get_mut(&whole) else {
            return;
        };
        gathering.under_way.retain(|ticket| *ticket != part);
        match outcome {
            Outcome::Granted(grant) => {
                gathering.leases.push(grant.lease);
                self.gather(whole, now);
            }
            Outcome::Extended(_) => {
                if gathering.under_way.is_empty() {
                    self.gathered(whole, now);
                }
            }
            refusal => {
                self.stop_gathering(whole, now);
                self.complete(whole, refusal);
            }
        }
    }

    /// The caller went away, or will not get the locks: what was taken goes back.
    fn stop_gathering(&mut self, whole: Ticket, now: Instant) {
        let Some(gathering) = self.composites.multis.gatherings.remove(&whole) else {
            return;
        };
        self.call_off(&gathering.under_way, now);
        if gathering.again.is_none() {
            self.give_back(&gathering.leases, now);
        }
    }

    fn give_back(&mut self, leases: &[LeaseId], now: Instant) {
        for lease in leases.iter().rev() {
            self.discard_lease(*lease, now);
        }
    }

    /// The caller of a whole went away.
    pub(crate) fn cancel_whole(&mut self, ticket: Ticket, now: Instant) {
        self.stop_gathering(ticket, now);
        if let Some(ending) = self.composites.multis.endings.remove(&ticket) {
            self.call_off(&ending.under_way, now);
        }
    }

    /// Releases a lease made of leases, in reverse order. False if it is none.
    pub(crate) fn release_whole(&mut self, ticket: Ticket, lease: LeaseId, now: Instant) -> bool {
        let Some(whole) = self.composites.multis.levels.remove(&lease) else {
            return false;
        };
        if let Some(multi) = self.composites.multis.held.get_mut(&whole) {
            multi.levels.retain(|level| *level != lease);
            if !multi.levels.is_empty() {
                let outcome = multi.released();
                self.complete(ticket, outcome);
                return true;
            }
        }
        let Some(multi) = self.composites.multis.held.remove(&whole) else {
            return false;
        };
        let mut under_way = Vec::new();
        for part in multi.leases.iter().rev() {
            self.composites.exclude(*part);
            let release = self.part_ticket(Some(ticket));
            under_way.push(release);
            self.release_lease(release, *part, now);
        }
        let outcome = multi.released();
        self.composites
            .multis
            .endings
            .insert(ticket, Ending { under_way, outcome });
        true
    }

    /// Extends a lease made of leases. False if it is none.
    pub(crate) fn extend_whole(
        &mut self,
        ticket: Ticket,
        lease: LeaseId,
        by: Option<LeaseDuration>,
        now: Instant,
    ) -> bool {
        let whole = self.composites.multis.levels.get(&lease);
        let Some(multi) = whole.and_then(|whole| self.composites.multis.held.get(whole)) else {
            return false;
        };
        let leases = multi.leases.clone();
        let mut under_way = Vec::new();
        for part in leases {
            let extension = self.part_ticket(Some(ticket));
            under_way.push(extension);
            self.extend_lease(extension, part, by, now);
        }
        let outcome = Outcome::Extended(Instant::FAR_FUTURE);
        self.composites
            .multis
            .endings
            .insert(ticket, Ending { under_way, outcome });
        true
    }

    /// A part of a release or of an extension is done.
    fn part_ended(&mut self, whole: Ticket, part: Ticket, outcome: Outcome) {
        let Some(ending) = self.composites.multis.endings.get_mut(&whole) else {
            return;
        };
        ending.under_way.retain(|ticket| *ticket != part);
        ending.outcome = worse(ending.outcome.clone(), outcome);
        if ending.under_way.is_empty()
            && let Some(ending) = self.composites.multis.endings.remove(&whole)
        {
            self.complete(whole, ending.outcome);
        }
    }

    /// One is lost, so all are.
    pub(crate) fn part_lost(&mut self, whole: LeaseId, reason: LostReason, now: Instant) {
        let Some(multi) = self.composites.multis.held.get_mut(&whole) else {
            return;
        };
        if multi.lost.is_some() {
            return;
        }
        multi.lost = Some(reason);
        let (leases, levels) = (multi.leases.clone(), multi.levels.clone());
        for lease in levels {
            self.tell(Event::Lost { lease, reason });
        }
        for lease in leases {
            // A lock that is held around the whole, too, stays.
            let alone = |id: &crate::hold::HoldId| self.holds.get(id).is_some_and(|hold| hold.levels.len() == 1);
            if let Some(id) = self.holds.of_lease(lease).filter(alone) {
                self.lose(id, reason, now);
            }
        }
    }

    /// One lasts longer; the whole lasts as long as the one that ends first.
    pub(crate) fn part_renewed(&mut self, whole: LeaseId) {
        let Some(multi) = self.composites.multis.held.get(&whole) else {
            return;
        };
        let deadline = self.earliest_deadline(&multi.leases);
        if let Some(multi) = self.composites.multis.held.get_mut(&whole)
            && multi.lost.is_none()
            && deadline > multi.deadline
        {
            multi.deadline = deadline;
            for lease in multi.levels.clone() {
                self.tell(Event::Renewed { lease, deadline });
            }
        }
    }

    fn earliest_deadline(&self, leases: &[LeaseId]) -> Instant {
        let deadline = |lease: &LeaseId| {
            let hold = self.holds.get(&self.holds.of_lease(*lease)?)?;
            hold.lost.is_none().then_some(hold.deadline)
        };
        let deadlines = leases.iter().map(|lease| deadline(lease).unwrap_or(Instant::ZERO));
        deadlines.min().unwrap_or(Instant::ZERO)
    }

    /// The tickets of callers that wait for several locks.
    pub(crate) fn waiting_for_several(&self) -> Vec<Ticket> {
        self.composites.multis.gatherings.keys().copied().collect()
    }

    /// The client is closed: wholes are no longer told of their parts.
    pub(crate) fn dissolve(&mut self) {
        self.composites.multis.levels.clear();
        for (_, multi) in std::mem::take(&mut self.composites.multis.held) {
            for part in multi.leases {
                self.composites.exclude(part);
            }
        }
    }
}

/// What is contended for: two requests of one place would wait for each other.
fn place(request: &AcquireRequest) -> (Arc<[u8]>, Gate) {
    let keys = Keys::new(request.kind, &request.name, NodeId::default());
    (keys.record, request.kind.gate())
}

fn whole_lost() -> Error {
    Error::new(
        ErrorKind::LockLost,
        Operation::Acquire,
        "the lease was lost; release it and acquire the locks again",
    )
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
