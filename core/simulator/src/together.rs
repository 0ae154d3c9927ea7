//! Composite locks: the records of granted ones, and requests with which a caller would wait for itself. The session
//! must refuse such a request at once.

use std::time::Duration;

use steadlock_protocol::{AcquireRequest, Kind, LeaseTerms, OnUnavailable, Ticket};

use crate::checks::Checked;
use crate::ledger::Lock;
use crate::plan::micros;
use crate::records::Record;
use crate::task::Request;
use crate::time::{MS, SECOND};
use crate::trace::Line;
use crate::world::World;

impl World {
    /// By chance, returns locks that include a mutex of the task's newest lease: the task would wait for itself.
    /// Otherwise returns `None`.
    pub(crate) fn own_to_request(&mut self, client: usize, task: usize) -> Option<Vec<Lock>> {
        let of = &self.clients[client].tasks[task];
        let (_, lease) = (of.context?, *of.leases.last()?);
        let now = self.clients[client].clock.at(self.now);
        let held = self.ledger.get(client, lease)?;
        let is_relied_on = !held.lost && now < held.deadline;
        let (held, mutexes): (Vec<Lock>, Vec<Lock>) = (
            held.locks.clone(),
            held.locks
                .iter()
                .filter(|(_, kind)| *kind == Kind::Mutex)
                .copied()
                .collect(),
        );
        let is_redlock = self.nodes.len() > 1;
        if !is_relied_on || mutexes.is_empty() || (self.plan.family.composite_odds() == 0 && !is_redlock) {
            return None;
        }
        let random = self.choices.task(client, task);
        if !random.chance(250) {
            return None;
        }
        let own = random.pick(&mutexes);
        if is_redlock || held.len() > 1 {
            return Some(vec![own]);
        }
        let names = 0..self.names.len();
        Some(
            names
                .map(|name| match name == own.0 {
                    true => own,
                    false => (name, random.pick(&self.plan.names[name])),
                })
                .collect(),
        )
    }

    /// Lets a task request locks with which it would wait for itself.
    pub(crate) fn requests_its_own(&mut self, client: usize, task: usize, locks: Vec<Lock>) -> Checked {
        let random = self.choices.task(client, task);
        let bounded = random.chance(500);
        let wait = bounded.then(|| Duration::from_micros(random.between(MS, 2 * SECOND)));
        let context = self.clients[client].tasks[task].context;
        let inside = self.clients[client].tasks[task].leases.last().copied();
        let request = |(name, kind): &Lock| AcquireRequest {
            run: None,
            kind: *kind,
            name: self.names[*name].clone(),
            context,
            within: None,
            wait,
            lease: LeaseTerms::CLIENT,
            max_hold: None,
            fencing: true,
            on_unavailable: OnUnavailable::Fail,
            blocked: Vec::new(),
        };
        let mut requests: Vec<AcquireRequest> = locks.iter().map(request).collect();
        let now = self.clients[client].clock.at(self.now);
        let Some(session) = &mut self.clients[client].session else {
            return Ok(());
        };
        let ticket = match requests.len() {
            1 => session.acquire(requests.swap_remove(0), now),
            _ => session.acquire_all(requests, now),
        };
        let (name, kind) = locks[0];
        self.note(Line::Acquires {
            client,
            task,
            ticket,
            wait: wait.map(micros),
            lease: None,
            within: true,
            name,
            kind,
        });
        let request = Request::Acquire {
            locks,
            inside,
            is_wrong: true,
            renewed: Some(self.clients[client].lease),
            bounded,
            once: wait.is_some_and(|wait| wait.is_zero()),
            fencing: true,
            on_unavailable: OnUnavailable::Fail,
            run: None,
        };
        self.waits(client, task, ticket, request)
    }

    /// Checks that a caller that was granted several locks has a record of each.
    pub(crate) fn check_all_on_record(&mut self, client: usize, locks: &[Lock]) -> Checked {
        if !self.is_settled() || self.plan.tier.keeps_records() {
            return Ok(());
        }
        for (name, kind) in locks {
            let holders = self.holders_of(0, *name, Record::of(*kind));
            let id = self.clients[client].id.as_bytes();
            if !holders.iter().any(|(owner, _)| owner.starts_with(id)) {
                let round_trips = 10 * self.plan.latency.1 + 60 * MS;
                self.removals.check(client, *name, round_trips, self.now)?;
            }
        }
        Ok(())
    }

    /// Checks that a waiter without a wait limit fails with `Unavailable` only after a long silence of the server.
    pub(crate) fn check_silence(&self, client: usize, ticket: Ticket, request: &Request) -> Checked {
        let Request::Acquire {
            bounded: false,
            inside: None,
            locks,
            ..
        } = request
        else {
            return Ok(());
        };
        let longest = self.clients[client]
            .lease
            .max(micros(self.plan.poll.1) + self.plan.timeout());
        // With RedLock, waiters do not ask while their client holds the lock. In other families they may ask, for
        // example for more permits.
        let is_redlock = self.nodes.len() > 1;
        let names = locks.iter().filter(|_| is_redlock).map(|(name, _)| *name);
        // The client's clock may be fast.
        self.signals
            .check_silence(client, ticket, names, longest - longest / 100, self.now)
    }
}
