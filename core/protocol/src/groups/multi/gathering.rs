//! Taking several locks one after the other, until all are held.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::{Gathering, Multi, Multis, sorted, whole_lost};
use crate::defects::Defect;
use crate::ending::LostReason;
use crate::error::{Error, ErrorKind, Operation};
use crate::groups::members::Members;
use crate::ids::{HoldId, LeaseId, NodeId, Ticket};
use crate::instant::Instant;
use crate::kinds::Keys;
use crate::lease::LeasePlan;
use crate::machines::holds;
use crate::periods::MIN_GAP;
use crate::types::{AcquireRequest, Outcome};

impl Multis {
    /// Wants several locks, in order, all or none; the wait, the lease and the context are the first one's.
    pub(crate) fn acquire(
        &mut self,
        members: &mut Members,
        ticket: Ticket,
        requests: Vec<AcquireRequest>,
        now: Instant,
    ) {
        let Some(first) = requests.first().cloned() else { return };
        if requests.iter().any(|request| request.within.is_some()) {
            let message = "`within` names the lease of one lock; leave it out";
            let error = Error::new(ErrorKind::InvalidArgument, Operation::Acquire, message);
            members.complete(ticket, Outcome::Failed(error));
            return;
        }
        let locks = sorted(requests.iter().map(|request| (request.kind, request.name.clone())));
        if let Some(whole) = first.context.and_then(|context| self.multi_of(&locks, context)) {
            self.lapse_whole_if_over(members, whole, now);
        }
        let again = first.context.and_then(|context| self.multi_of(&locks, context));
        let held = again.and_then(|whole| self.held.get(&whole));
        if let Some(held) = held.filter(|held| held.lost.is_some() || held.deadline <= now) {
            let reason = held.lost.unwrap_or(LostReason::Expired);
            members.complete(ticket, Outcome::Failed(whole_lost(Operation::Acquire, Some(reason))));
            return;
        }
        if again.is_none()
            && let Some(error) = members.waits_for_itself(&requests, now)
        {
            members.complete(ticket, Outcome::Failed(error));
            return;
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
            plan: LeasePlan::of(first.lease, members.io().config().lease),
            until: first.wait.map(|wait| now + wait),
            context: first.context,
            around: BTreeMap::new(),
        };
        self.gatherings.insert(ticket, gathering);
        self.gather(members, ticket, now);
    }

    /// Takes the next lock, or renews all once the last one is held.
    pub(super) fn gather(&mut self, members: &mut Members, ticket: Ticket, now: Instant) {
        let Some(gathering) = self.gatherings.get_mut(&ticket) else {
            return;
        };
        let Some(mut request) = gathering.todo.pop_front() else {
            self.renew_gathered(members, ticket, now);
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
        let around = request
            .context
            .and_then(|context| members.locks().held_by(&keys, context));
        let around = around.and_then(|id| Some((id, members.locks().holds().get(id)?.plan())));
        let part = members.ticket_for(Some(ticket));
        if let Some(gathering) = self.gatherings.get_mut(&ticket) {
            gathering.under_way = vec![part];
            gathering.asked = now;
            if let Some((id, plan)) = around {
                gathering.around.entry(id).or_insert(plan);
            }
        }
        members.acquire(part, request, (NodeId::default(), plan), now);
    }

    /// All locks are held: each gets its full length from now.
    pub(super) fn renew_gathered(&mut self, members: &mut Members, ticket: Ticket, now: Instant) {
        let Some(gathering) = self.gatherings.get(&ticket) else {
            return;
        };
        let (leases, plan, is_new) = (gathering.leases.clone(), gathering.plan, gathering.again.is_none());
        let answer_by = gathering.answer_by(now);
        let in_vain = gathering.renewed_in_vain;
        let waited = (gathering.waited || in_vain) && !members.io().has(Defect::LostMemberIsGranted);
        // What was just granted is long enough. What is entered again may be anything.
        let may_be_short = is_new || members.io().has(Defect::ReentryLeavesMembers);
        let slack = plan.length.checked_div(10).filter(|_| may_be_short).unwrap_or_default();
        // What was granted just now is there.
        let newest = leases.last().copied().filter(|_| !in_vain);
        let unit = if members.io().has(Defect::MultiLockUnits) {
            1_000
        } else {
            1
        };
        let mut under_way = Vec::new();
        for lease in leases {
            let Some(id) = members.locks().holds().of_lease(lease) else {
                continue;
            };
            let Some(hold) = members.locks().holds().get(id) else {
                continue;
            };
            // What the caller had before gets its own back.
            let is_own = is_new && hold.levels().len() == 1;
            let renewed = if is_own { plan } else { hold.plan() };
            let is_known = !waited || newest == Some(lease);
            let until = hold.capped(now + plan.length);
            let is_enough = is_known && (renewed.renews_for(plan) || hold.lasts(until, slack));
            if is_own {
                members.hold(holds::Input::Plan(id, plan), now);
            }
            if is_enough {
                members.hold(holds::Input::RenewNoMore(id), now);
                continue;
            }
            let part = members.ticket_for(Some(ticket));
            under_way.push(part);
            let until = now + plan.length.saturating_mul(unit);
            members.hold(holds::Input::Confirm(part, id, until, answer_by), now);
        }
        let is_done = under_way.is_empty();
        if let Some(gathering) = self.gatherings.get_mut(&ticket) {
            gathering.under_way = under_way;
        }
        if is_done {
            self.gathered(members, ticket, now);
        }
    }

    /// All locks are held for their full length.
    pub(super) fn gathered(&mut self, members: &mut Members, ticket: Ticket, now: Instant) {
        let Some(gathering) = self.gatherings.get(&ticket) else {
            return;
        };
        let deadline = self.earliest_deadline(members, &gathering.leases);
        if deadline <= now && gathering.again.is_none() {
            self.gather_again(members, ticket, now);
            return;
        }
        let Some(gathering) = self.gatherings.remove(&ticket) else {
            return;
        };
        if !gathering.plan.watched {
            self.renew_as_before(members, &gathering.around, now);
        }
        if let Some(whole) = gathering.again {
            self.enter_whole(members, ticket, whole, gathering.plan, now);
            return;
        }
        let lease = members.next_lease();
        for part in &gathering.leases {
            members.include(*part, lease);
        }
        self.insert(
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
        members.grant(ticket, lease, deadline, 1);
    }

    /// Gives one more lease of a whole that is held.
    fn enter_whole(&mut self, members: &mut Members, ticket: Ticket, whole: LeaseId, plan: LeasePlan, now: Instant) {
        let lease = members.next_lease();
        let Some(multi) = self.held.get_mut(&whole).filter(|multi| multi.lost.is_none()) else {
            members.complete(ticket, Outcome::Failed(whole_lost(Operation::Acquire, None)));
            return;
        };
        multi.levels.push(lease);
        multi.watched |= plan.watched;
        let (levels, deadline, leases) = (multi.levels.len(), multi.deadline, multi.leases.clone());
        self.levels.insert(lease, whole);
        for part in leases {
            members.hold(holds::Input::Watch(part, plan), now);
        }
        members.grant(ticket, lease, deadline, levels);
    }

    /// The caller went away, or will not get the locks: what was taken goes back.
    pub(super) fn stop_gathering(&mut self, members: &mut Members, whole: Ticket, now: Instant) {
        let Some(gathering) = self.gatherings.remove(&whole) else {
            return;
        };
        members.cancel_all(&gathering.under_way, now);
        if gathering.again.is_none() {
            self.give_back(members, &gathering.leases, now);
        }
        self.renew_as_before(members, &gathering.around, now);
    }

    /// A caller entered a hold, of which several locks may be taken meanwhile: it stays renewed
    /// for that caller when they are done with it.
    pub(super) fn stays_renewed(&mut self, id: HoldId, plan: LeasePlan) {
        if !plan.watched {
            return;
        }
        for gathering in self.gatherings.values_mut() {
            if let Some(before) = gathering.around.get_mut(&id).filter(|before| !before.renews_for(plan)) {
                *before = plan;
            }
        }
    }

    /// What the caller held before it gathered several is renewed no more than it was then.
    pub(super) fn renew_as_before(
        &mut self,
        members: &mut Members,
        around: &BTreeMap<HoldId, LeasePlan>,
        now: Instant,
    ) {
        for (id, plan) in around {
            members.hold(holds::Input::Plan(*id, *plan), now);
            members.hold(holds::Input::RenewNoMore(*id), now);
        }
    }
}
