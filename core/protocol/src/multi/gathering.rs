//! Taking several locks one after the other, until all are held.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::{Gathering, Multi, place, sorted, whole_lost};
use crate::defects::Defect;
use crate::ending::LostReason;
use crate::error::{Error, ErrorKind, Operation};
use crate::ids::{HoldId, LeaseId, NodeId, Ticket};
use crate::instant::Instant;
use crate::kinds::Keys;
use crate::lease::LeasePlan;
use crate::machines::holds;
use crate::periods::MIN_GAP;
use crate::session::Session;
use crate::types::{AcquireRequest, Outcome};

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
        if let Some(whole) = first.context.and_then(|context| self.multi_of(&locks, context)) {
            self.lapse_whole_if_over(whole, now);
        }
        let again = first.context.and_then(|context| self.multi_of(&locks, context));
        let held = again.and_then(|whole| self.composites.multis.held.get(&whole));
        if let Some(held) = held.filter(|held| held.lost.is_some() || held.deadline <= now) {
            let reason = held.lost.unwrap_or(LostReason::Expired);
            self.complete(ticket, Outcome::Failed(whole_lost(Operation::Acquire, Some(reason))));
            return ticket;
        }
        if again.is_none()
            && let Some(error) = self.waits_for_itself(&requests, now)
        {
            self.complete(ticket, Outcome::Failed(error));
            return ticket;
        }
        let gathering = Gathering {
            all: requests.clone(),
            asked: now,
            waited: false,
            renewed_in_vain: false,
            leases: held.map_or_else(Vec::new, |held| held.leases.clone()),
            todo: if again.is_some() {
                VecDeque::new()
            } else {
                requests.into()
            },
            again,
            locks,
            under_way: Vec::new(),
            plan: LeasePlan::of(first.lease, self.locks.io().config().lease),
            until: first.wait.map(|wait| now + wait),
            context: first.context,
            around: BTreeMap::new(),
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

    /// Takes the next lock, or renews all once the last one is held.
    pub(super) fn gather(&mut self, ticket: Ticket, now: Instant) {
        let Some(gathering) = self.composites.multis.gatherings.get_mut(&ticket) else {
            return;
        };
        let Some(mut request) = gathering.todo.pop_front() else {
            self.renew_gathered(ticket, now);
            return;
        };
        // Who waits never becomes one who tries once: a single try may take longer.
        let least = if gathering.tries_once() {
            Duration::ZERO
        } else {
            MIN_GAP
        };
        request.wait = gathering.until.map(|until| until.saturating_since(now).max(least));
        let plan = LeasePlan {
            watched: true,
            ..gathering.plan
        };
        let keys = Keys::new(request.kind, &request.name, NodeId::default());
        let around = request.context.and_then(|context| self.locks.held_by(&keys, context));
        let around = around.and_then(|id| Some((id, self.locks.holds().get(id)?.plan())));
        let part = self.part_ticket(Some(ticket));
        if let Some(gathering) = self.composites.multis.gatherings.get_mut(&ticket) {
            gathering.under_way = vec![part];
            gathering.asked = now;
            if let Some((id, plan)) = around {
                gathering.around.entry(id).or_insert(plan);
            }
        }
        self.acquire_at(part, request, NodeId::default(), plan, now);
    }

    /// All locks are held: each gets its full length from now.
    pub(super) fn renew_gathered(&mut self, ticket: Ticket, now: Instant) {
        let Some(gathering) = self.composites.multis.gatherings.get(&ticket) else {
            return;
        };
        let (leases, plan, is_new) = (gathering.leases.clone(), gathering.plan, gathering.again.is_none());
        let answer_by = gathering.answer_by(now);
        let in_vain = gathering.renewed_in_vain;
        let waited = (gathering.waited || in_vain) && !self.locks.io().has(Defect::LostMemberIsGranted);
        // What was just granted is long enough. What is entered again may be anything.
        let may_be_short = is_new || self.locks.io().has(Defect::ReentryLeavesMembers);
        let slack = plan.length.checked_div(10).filter(|_| may_be_short).unwrap_or_default();
        // What was granted just now is there.
        let newest = leases.last().copied().filter(|_| !in_vain);
        let unit = if self.locks.io().has(Defect::MultiLockUnits) {
            1_000
        } else {
            1
        };
        let mut under_way = Vec::new();
        for lease in leases {
            let Some(id) = self.locks.holds().of_lease(lease) else {
                continue;
            };
            let Some(hold) = self.locks.holds().get(id) else {
                continue;
            };
            // What the caller had before gets its own back.
            let is_own = is_new && hold.levels().len() == 1;
            let renewed = if is_own { plan } else { hold.plan() };
            let is_known = !waited || newest == Some(lease);
            let until = hold.capped(now + plan.length);
            let is_enough = is_known && (renewed.renews_for(plan) || hold.lasts(until, slack));
            if is_own {
                self.hold_by(holds::Input::Plan(id, plan), now);
            }
            if is_enough {
                self.hold_by(holds::Input::RenewNoMore(id), now);
                continue;
            }
            let part = self.part_ticket(Some(ticket));
            under_way.push(part);
            let until = now + plan.length.saturating_mul(unit);
            self.hold_by(holds::Input::Confirm(part, id, until, answer_by), now);
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
    pub(super) fn gathered(&mut self, ticket: Ticket, now: Instant) {
        let Some(gathering) = self.composites.multis.gatherings.get(&ticket) else {
            return;
        };
        let deadline = self.earliest_deadline(&gathering.leases);
        if deadline <= now && gathering.again.is_none() {
            self.gather_again(ticket, now);
            return;
        }
        let Some(gathering) = self.composites.multis.gatherings.remove(&ticket) else {
            return;
        };
        if !gathering.plan.watched {
            self.renew_as_before(&gathering.around, now);
        }
        if let Some(whole) = gathering.again {
            self.enter_whole(ticket, whole, gathering.plan, now);
            return;
        }
        let lease = self.locks.io_mut().next_lease();
        for part in &gathering.leases {
            self.composites.include(*part, lease);
        }
        self.composites.multis.insert(
            lease,
            Multi {
                leases: gathering.leases,
                levels: vec![lease],
                context: gathering.context,
                locks: gathering.locks,
                watched: gathering.plan.watched,
                lost: None,
                deadline,
            },
        );
        self.grant_whole(ticket, lease, deadline, 1);
    }

    /// Gives one more lease of a whole that is held.
    fn enter_whole(&mut self, ticket: Ticket, whole: LeaseId, plan: LeasePlan, now: Instant) {
        let lease = self.locks.io_mut().next_lease();
        let Some(multi) = self
            .composites
            .multis
            .held
            .get_mut(&whole)
            .filter(|multi| multi.lost.is_none())
        else {
            self.complete(ticket, Outcome::Failed(whole_lost(Operation::Acquire, None)));
            return;
        };
        multi.levels.push(lease);
        multi.watched |= plan.watched;
        let (levels, deadline, leases) = (multi.levels.len(), multi.deadline, multi.leases.clone());
        self.composites.multis.levels.insert(lease, whole);
        for part in leases {
            self.hold_by(holds::Input::Watch(part, plan), now);
        }
        self.grant_whole(ticket, lease, deadline, levels);
    }

    /// The caller went away, or will not get the locks: what was taken goes back.
    pub(super) fn stop_gathering(&mut self, whole: Ticket, now: Instant) {
        let Some(gathering) = self.composites.multis.gatherings.remove(&whole) else {
            return;
        };
        self.call_off(&gathering.under_way, now);
        if gathering.again.is_none() {
            self.give_back(&gathering.leases, now);
        }
        self.renew_as_before(&gathering.around, now);
    }

    /// A caller entered a hold, of which several locks may be taken meanwhile: it stays renewed
    /// for that caller when they are done with it.
    pub(crate) fn stays_renewed(&mut self, ticket: Ticket, id: HoldId, plan: LeasePlan) {
        if !plan.watched || self.is_part(ticket) {
            return;
        }
        for gathering in self.composites.multis.gatherings.values_mut() {
            if let Some(before) = gathering.around.get_mut(&id).filter(|before| !before.renews_for(plan)) {
                *before = plan;
            }
        }
    }

    /// What the caller held before it gathered several is renewed no more than it was then.
    pub(super) fn renew_as_before(&mut self, around: &BTreeMap<HoldId, LeasePlan>, now: Instant) {
        for (id, plan) in around {
            self.hold_by(holds::Input::Plan(*id, *plan), now);
            self.hold_by(holds::Input::RenewNoMore(*id), now);
        }
    }
}
