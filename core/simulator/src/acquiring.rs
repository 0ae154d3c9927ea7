//! The requests of callers: for one lock or a composite lock, for locks that the caller already holds, and for locks
//! that it can never acquire.

use std::time::Duration;

use steadlock_protocol::{
    AcquireRequest, Context, ErrorKind, Kind, LeaseDuration, LeaseId, LeaseTerms, LockName, OnUnavailable,
};

use crate::checks::{Checked, broken};
use crate::kinds::{self, Terms};
use crate::ledger::Lock;
use crate::operation::Operation;
use crate::plan::micros;
use crate::task::Request;
use crate::time::{MS, SECOND};
use crate::trace::Line;
use crate::world::World;

impl World {
    /// Lets a task request locks. With `again`, it requests them inside its newest lease, if it has one.
    pub(crate) fn acquires(&mut self, client: usize, task: usize, again: bool) -> Checked {
        // If a lease ends right now, the session must notice the end first. Otherwise the session and the task could
        // disagree about what is held.
        self.input(client, |session, now| session.on_timeout(now))?;
        if again && let Some(locks) = self.own_to_request(client, task) {
            return self.requests_its_own(client, task, locks);
        }
        let around = self.clients[client].tasks[task].leases.last().copied();
        let inside = around.filter(|_| again);
        let Some(locks) = self.wanted(client, task, inside) else {
            self.think(client, task);
            return Ok(());
        };
        let (name, kind) = locks[0];
        let is_composite = locks.len() > 1;
        let wait = self.draw_wait(client, task);
        let is_reentry = is_composite && again;
        let terms = self.terms(client, task);
        let run = kinds::never_waits(kind).then(|| Terms::draw(self.choices.task(client, task)));
        // The lease of a run is always renewed.
        let terms = if run.is_some() && !terms.is_renewed() {
            LeaseTerms::CLIENT
        } else {
            terms
        };
        let lease = match is_reentry && self.choices.task(client, task).chance(500) {
            true => LeaseTerms::CLIENT,
            false => terms,
        };
        let max_hold_odds = if is_composite { 400 } else { 150 };
        let random = self.choices.task(client, task);
        let max_hold = random
            .chance(max_hold_odds)
            .then(|| Duration::from_millis(random.between(100, 1_500)));
        let fencing = !random.chance(100);
        let on_unavailable = self.draw_outage_policy(client, task);
        let context = self.clients[client].tasks[task].context;
        // A caller always names its lease if it requests a lock again that is not reentrant. The session then refuses
        // the request; otherwise the caller would wait for itself. Composite locks are re-entered by context alone: a
        // request that names their lease is refused too.
        let by_lease = match inside.and_then(|lease| self.ledger.get(client, lease)) {
            Some(around) if is_composite || around.locks.len() > 1 => self.choices.task(client, task).chance(30),
            _ => self.choices.task(client, task).chance(400) || !kind.is_reentrant(),
        };
        let inside = match context {
            // A caller with a context re-enters its newest hold of these locks. A caller without such a hold requests
            // the lock inside its hold on the other side of the read-write lock.
            Some(_) if !by_lease => inside.map(|around| self.of_context(client, task, &locks).unwrap_or(around)),
            _ => inside,
        };
        let within = inside.filter(|_| by_lease || context.is_none());
        let around = inside.and_then(|lease| self.ledger.get(client, lease));
        let is_wrong = match around {
            // The lease of a composite lock is not a lease of its members.
            Some(around) if is_composite || around.locks.len() > 1 => within.is_some(),
            around => around
                .and_then(|around| around.kind_of(name))
                .is_some_and(|held| kinds::is_refused_inside(kind, held)),
        };
        let request = |(name, kind): &Lock| AcquireRequest {
            run: run.and_then(Terms::request),
            kind: *kind,
            name: self.names[*name].clone(),
            context,
            within,
            wait,
            lease,
            max_hold,
            fencing,
            on_unavailable,
            blocked: Vec::new(),
        };
        let mut requests: Vec<AcquireRequest> = locks.iter().map(request).collect();
        let names_one_twice = is_composite && self.choices.task(client, task).chance(20);
        if names_one_twice {
            requests.push(requests[0].clone());
        }
        self.choices.task(client, task).shuffle(&mut requests);
        let now = self.clients[client].clock.at(self.now);
        let Some(session) = &mut self.clients[client].session else {
            return Ok(());
        };
        let ticket = if is_composite {
            session.acquire_all(requests, now)
        } else {
            session.acquire(requests.swap_remove(0), now)
        };
        self.did(match (again, is_composite) {
            (true, _) => Operation::AcquireInside,
            (false, true) => Operation::AcquireAll,
            (false, false) => Operation::Acquire,
        });
        for (name, kind) in locks.iter().skip(1) {
            self.note(Line::Wants {
                client,
                ticket,
                name: *name,
                kind: *kind,
            });
        }
        if let Some(terms) = run {
            self.note(Line::WantsRun { client, ticket, terms });
        }
        let request = Request::Acquire {
            locks,
            inside,
            is_wrong: is_wrong || names_one_twice,
            renewed: lease
                .is_renewed()
                .then(|| lease.length().map_or(self.clients[client].lease, |of| micros(of.get()))),
            bounded: wait.is_some() || run.is_some(),
            once: wait.is_some_and(|wait| wait.is_zero()) || run.is_some(),
            fencing,
            on_unavailable,
            run,
        };
        let (wait, lease) = (wait.map(micros), lease.length().map(|lease| micros(lease.get())));
        self.note(Line::Acquires {
            client,
            task,
            ticket,
            wait,
            lease,
            within: again,
            name,
            kind,
        });
        self.waits(client, task, ticket, request)
    }

    /// Returns the locks that a caller requests. Inside a lease, these are locks of the lease, or the other side of its
    /// read-write lock; `None` if the caller cannot re-enter them.
    fn wanted(&mut self, client: usize, task: usize, inside: Option<LeaseId>) -> Option<Vec<Lock>> {
        if let Some(lease) = inside {
            let held = self.ledger.get(client, lease)?.locks.clone();
            if let [(name, held_as)] = *held {
                let kind = self.kind(client, task, name);
                // A caller that holds a name as one kind and requests it as another can deadlock with a caller that
                // holds the two kinds in the other order.
                return Some(vec![(
                    name,
                    if kinds::goes_inside(kind, held_as) {
                        kind
                    } else {
                        held_as
                    },
                )]);
            }
            // Composite locks cannot be re-entered without a context.
            self.clients[client].tasks[task].context?;
            let mut reentrant = held.clone();
            reentrant.retain(|(_, kind)| kind.is_reentrant());
            return match self.choices.task(client, task).chance(700) || reentrant.is_empty() {
                true => Some(held),
                false => Some(vec![self.choices.task(client, task).pick(&reentrant)]),
            };
        }
        let random = self.choices.task(client, task);
        if !random.chance(self.plan.family.composite_odds()) {
            let name = random.index(self.names.len());
            return Some(vec![(name, self.kind(client, task, name))]);
        }
        let mut names: Vec<usize> = (0..self.names.len()).collect();
        random.shuffle(&mut names);
        let most = names.len() as u64;
        names.truncate(usize::try_from(random.between(2, most)).unwrap_or(2));
        names.sort_unstable();
        Some(
            names
                .into_iter()
                .map(|name| (name, self.kind(client, task, name)))
                .collect(),
        )
    }

    /// Draws the kind of lock that a caller requests under a name.
    fn kind(&mut self, client: usize, task: usize, name: usize) -> Kind {
        let drawn = self.choices.task(client, task).pick(&self.plan.names[name]);
        match &self.plan.crowd {
            Some(crowd) if (client, task) == (0, 0) => crowd.one,
            Some(crowd) => crowd.others,
            None => drawn,
        }
    }

    /// Draws how long a caller waits; `None` for a wait without a limit.
    fn draw_wait(&mut self, client: usize, task: usize) -> Option<Duration> {
        let random = self.choices.task(client, task);
        match random.between(0, 9) {
            0 | 1 => Some(Duration::ZERO),
            // In a history that tests starvation, no caller gives up.
            2..=5 if self.plan.crowd.is_none() => Some(Duration::from_micros(random.between(MS, 2 * SECOND))),
            _ => None,
        }
    }

    /// Draws how a caller wants to be served during an outage.
    fn draw_outage_policy(&mut self, client: usize, task: usize) -> OnUnavailable {
        match self.plan.breaker {
            Some(_) => self.choices.task(client, task).pick(&[
                OnUnavailable::Fail,
                OnUnavailable::Local,
                OnUnavailable::Local,
                OnUnavailable::Skip,
            ]),
            None => OnUnavailable::Fail,
        }
    }

    /// Returns the newest lease of a task for these locks. If a single lock has none, returns the newest lease of a
    /// composite lock that has it as a member.
    fn of_context(&self, client: usize, task: usize, locks: &[Lock]) -> Option<LeaseId> {
        let newest = self.on_side(client, task, locks).last().copied();
        newest.or_else(|| {
            let [lock] = locks else { return None };
            let is_around = |lease: &&LeaseId| self.ledger.get(client, **lease).is_some_and(|of| of.has_lock(*lock));
            self.clients[client].tasks[task].leases.iter().rfind(is_around).copied()
        })
    }

    /// Returns the leases of a task for these locks, outermost first. The two sides of a read-write lock count as two
    /// locks.
    pub(crate) fn on_side(&self, client: usize, task: usize, locks: &[Lock]) -> Vec<LeaseId> {
        let is_on_it = |lease: &&LeaseId| self.ledger.get(client, **lease).is_some_and(|lease| lease.is_of(locks));
        let leases = self.clients[client].tasks[task].leases.iter();
        leases.filter(is_on_it).copied().collect()
    }

    /// Returns the locks as the session names them.
    pub(crate) fn named(&self, locks: &[Lock]) -> Vec<(Kind, LockName)> {
        let named = |(name, kind): &Lock| (*kind, self.names[*name].clone());
        locks.iter().map(named).collect()
    }

    /// Draws the lease terms that a caller requests.
    fn terms(&mut self, client: usize, task: usize) -> LeaseTerms {
        let Some(length) = self.lease(client, task) else {
            return LeaseTerms::CLIENT;
        };
        let renewed = LeaseTerms::renewed(length.get()).ok();
        let terms = renewed.filter(|_| self.choices.task(client, task).chance(400));
        terms
            .or_else(|| LeaseTerms::fixed(length.get()).ok())
            .unwrap_or_default()
    }

    /// Draws the length of a lease that a caller requests. With `None`, a new lease has the client's length, and an
    /// extension keeps the length of its lease.
    pub(crate) fn lease(&mut self, client: usize, task: usize) -> Option<LeaseDuration> {
        let random = self.choices.task(client, task);
        let millis = match random.between(0, 99) {
            0..=54 => return None,
            55..=89 => random.between(100, 1_500),
            90..=98 => random.between(1_500, 6_000),
            // An attempt requests at most 30 s, so this lease needs a second call.
            _ => 31_000,
        };
        LeaseDuration::fixed(Duration::from_millis(millis)).ok()
    }

    /// Releases a member of a composite lock by its own name. The caller does not hold the member by itself, so the
    /// session must refuse.
    pub(crate) fn releases_a_member(
        &mut self,
        client: usize,
        task: usize,
        locks: &[Lock],
        context: Context,
    ) -> Checked {
        let part = self.choices.task(client, task).pick(locks);
        let (name, kind) = (self.names[part.0].clone(), part.1);
        let now = self.clients[client].clock.at(self.now);
        let Some(session) = &mut self.clients[client].session else {
            return Ok(());
        };
        let ticket = session.release_innermost(&(kind, name).into(), context, now);
        self.did(Operation::ReleasePart);
        self.note(Line::ReleasesMember { client, task, ticket });
        self.waits(client, task, ticket, Request::Refusal)
    }
}

/// Checks the answer to a caller that released or extended a lease that it does not own.
pub(crate) fn check_not_owner(client: usize, answer: Option<ErrorKind>) -> Checked {
    match answer {
        Some(ErrorKind::NotOwner | ErrorKind::Closed) => Ok(()),
        answer => broken(
            "I8",
            format!("client {client} released or extended a lease that it does not own: {answer:?}"),
        ),
    }
}
