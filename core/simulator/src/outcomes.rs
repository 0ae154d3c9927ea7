//! The results that sessions report to callers, and whether they can be true.

use std::collections::BTreeSet;

use steadlock_protocol::{
    Error, ErrorKind, Event as SessionEvent, Grant, Holder, Kind, LeaseId, LostReason, Outcome, Subject, Ticket, Token,
};

use crate::acquiring::check_not_owner;
use crate::checks::{
    Checked, Levels, broken, check_backing, check_degraded_grant, check_levels, check_refusal, check_skipped, is_valid,
};
use crate::kinds::Family;
use crate::ledger::Lock;
use crate::operation::Operation;
use crate::plan::micros;
use crate::records::Record;
use crate::task::{Request, Task};
use crate::time::MS;
use crate::trace::Line;
use crate::world::World;

impl World {
    /// Handles an event of a session.
    pub(crate) fn on_event(&mut self, client: usize, event: SessionEvent) -> Checked {
        match event {
            SessionEvent::Completed { ticket, outcome } => self.completed(client, ticket, outcome),
            SessionEvent::Lost { lease, reason } => {
                self.note(Line::lost(client, lease, reason));
                self.signals.lost(client, lease, &self.ledger)?;
                let renewed = self.ledger.get(client, lease).and_then(|held| held.renewed);
                let is_kept = renewed.is_some();
                if let Some(length) = renewed
                    && reason == LostReason::Expired
                    && self.nodes.len() == 1
                {
                    let of = &self.clients[client];
                    self.following
                        .expired((client, of), (lease, length), &self.nodes[0], self.now)?;
                }
                let is_undisturbed = self.is_settled() && self.clients[client].is_connected();
                if is_kept && is_undisturbed && reason == LostReason::Expired && self.exclusion.is_promised {
                    broken("I9", format!("client {client}: the watchdog let {lease:?} expire"))?;
                }
                let lost = self.ledger.get_mut(client, lease).map(|held| {
                    held.lost = true;
                    held.locks.clone()
                });
                for (name, _) in lost.unwrap_or_default() {
                    self.signals.on_hold_ended(client, name, self.now);
                }
                self.on_lost(client, lease, reason)
            }
            SessionEvent::Renewed { lease, deadline } => {
                self.note(Line::Renewed {
                    client,
                    lease,
                    deadline,
                });
                if let Some(held) = self.ledger.get_mut(client, lease) {
                    held.deadline = deadline;
                }
                self.check_exclusion(client, lease)?;
                self.check_backed(client, lease)
            }
        }
    }

    /// Checks a lease that was granted or renewed.
    fn check_exclusion(&mut self, client: usize, lease: LeaseId) -> Checked {
        self.exclusion
            .check_lease(client, lease, &self.ledger, &self.operators, &self.clocks, self.now)
    }

    /// Checks that every valid lease of this name has a record that lasts as long as the lease.
    pub(crate) fn records_outlast(&mut self, name: usize) -> Checked {
        let of_name: Vec<(usize, LeaseId)> = self
            .ledger
            .live()
            .filter(|(_, held)| held.locks.iter().any(|(of, _)| *of == name))
            .map(|(whose, _)| whose)
            .collect();
        for (client, lease) in of_name {
            self.check_backed(client, lease)?;
        }
        Ok(())
    }

    /// Checks that every lock of a valid lease has a record that lasts as long as the lease, unless no server granted
    /// the lock or an operator removed its record.
    fn check_backed(&mut self, client: usize, lease: LeaseId) -> Checked {
        let is_promised = self.exclusion.is_promised;
        let held = self.ledger.get(client, lease).filter(|_| is_promised);
        let Some(held) = held else {
            return Ok(());
        };
        if !is_valid(held, self.clocks[client], self.now) {
            return Ok(());
        }
        // Until a holder learns of the loss, it relies on a lock whose record an operator has removed.
        let is_on_record = |name: usize| !held.is_local(name) && !self.is_forced(held, name);
        let locks = held.locks.iter().filter(|(name, _)| is_on_record(*name));
        let locks: Vec<Lock> = locks.copied().collect();
        // A lease that no server granted may have no end.
        let Some(deadline) = (!locks.is_empty()).then_some(held.deadline) else {
            return Ok(());
        };
        let until = self.clocks[client].when(deadline);
        for (name, kind) in locks {
            let mut left = Vec::new();
            for node in 0..self.nodes.len() {
                let owners = self.holders_of(node, name, Record::of(kind)).into_iter();
                let own = owners.filter(|(owner, _)| owner.starts_with(self.clients[client].id.as_bytes()));
                let own = own.map(|(_, left)| left.unsigned_abs() * MS + MS);
                left.extend(own.max().map(|left| self.nodes[node].true_duration(left)));
            }
            check_backing((client, lease, name), until - self.now, left, self.nodes.len())?;
        }
        Ok(())
    }

    fn completed(&mut self, client: usize, ticket: Ticket, outcome: Outcome) -> Checked {
        self.signals.completed(client, ticket)?;
        let is_its = |task: &Task| task.waits_for(ticket);
        let task = self.clients[client].tasks.iter().position(is_its);
        let request = task.and_then(|task| self.clients[client].tasks[task].waits.take());
        let refused = match (&outcome, &request) {
            (Outcome::Granted(_), _) => None,
            (_, Some((_, request))) => Some(request.clone()),
            _ => None,
        };
        if let Some((_, Request::Acquire { run: Some(_), .. })) = &request {
            self.check_never_waits(client, ticket)?;
        }
        match outcome {
            Outcome::Granted(grant) => {
                self.note(Line::Granted {
                    client,
                    ticket,
                    lease: grant.lease,
                    token: grant.token.map(Token::get),
                    deadline: grant.deadline,
                    levels: grant.levels,
                });
                self.following.granted(client, grant.lease, self.now);
                if let (Some(task), Some((_, request))) = (task, request) {
                    self.on_granted(client, (task, ticket), &grant, request)?;
                }
            }
            Outcome::NotGranted(error) if matches!(request, Some((_, Request::Acquire { run: Some(_), .. }))) => {
                check_name(client, ticket, error.holder())?;
                self.note(Line::NotGranted { client, ticket });
                self.did(if error.is_skipped() {
                    Operation::Skipped
                } else {
                    Operation::RunSkipped
                });
                match request {
                    Some((_, Request::Acquire { is_wrong: true, .. })) => {
                        broken("I9", format!("client {client}: {ticket:?} waited for itself"))?;
                    }
                    Some((_, request)) => self.check_run_skipped(client, ticket, &error, &request)?,
                    None => {}
                }
            }
            Outcome::NotGranted(error) if error.is_skipped() => {
                self.note(Line::NotGranted { client, ticket });
                self.did(Operation::Skipped);
                if let Some((_, Request::Acquire { on_unavailable, .. })) = request {
                    check_skipped(client, ticket, on_unavailable)?;
                }
            }
            Outcome::NotGranted(error) => {
                check_name(client, ticket, error.holder())?;
                self.note(Line::NotGranted { client, ticket });
                if let Some((_, Request::Acquire { is_wrong: true, .. })) = request {
                    broken("I9", format!("client {client}: {ticket:?} waited for itself"))?;
                }
                if let Some((_, Request::Acquire { bounded: false, .. })) = request {
                    broken(
                        "I9",
                        format!("client {client}: {ticket:?} waits without bound and gets the answer: held"),
                    )?;
                }
                if let Some((_, Request::Acquire { locks, .. })) = &request
                    && let [(name, kind)] = locks.as_slice()
                    && !kind.is_exclusive()
                    && !self.comes_after_others(client, (*name, *kind))
                {
                    self.signals.found_no_room(client, ticket, self.now)?;
                }
            }
            Outcome::Forced(is_done) => self.note(Line::Forced {
                client,
                ticket,
                is_done,
            }),
            Outcome::Released(how) => {
                self.note(Line::released(client, ticket, how));
                match request {
                    Some((_, Request::Refusal)) => check_not_owner(client, None)?,
                    Some((_, Request::EndRun { owner })) => self.check_run_ended(owner.as_deref(), how)?,
                    _ => {}
                }
            }
            Outcome::Extended(deadline) => {
                self.note(Line::Extended {
                    client,
                    ticket,
                    deadline,
                });
                if let Some((_, Request::Refusal)) = request {
                    check_not_owner(client, None)?;
                }
                let lease = match request {
                    Some((_, Request::Extend(lease))) => self.ledger.get(client, lease),
                    _ => None,
                };
                if let Some(held) = lease.filter(|held| !held.lost && held.deadline < deadline) {
                    let known = held.deadline;
                    let what =
                        format!("client {client}: {ticket:?} extends to {deadline:?}, the lease lasts to {known:?}");
                    broken("I9", what)?;
                }
            }
            Outcome::State(state) => {
                check_name(client, ticket, state.holder.as_ref())?;
                if let Some(last_run) = &state.last_run {
                    self.runs.check_last_run(last_run)?;
                }
                let held = state.holder.is_some();
                self.note(Line::Inspected { client, ticket, held });
            }
            Outcome::Failed(error) => {
                check_name(client, ticket, error.holder())?;
                let kind = error.kind();
                self.note(Line::Failed { client, ticket, kind });
                match &request {
                    Some((_, Request::Acquire { is_wrong, locks, .. })) => {
                        let may_disagree = locks.iter().any(|lock| self.may_disagree(*lock));
                        check_refusal(client, ticket, kind, *is_wrong, may_disagree)?;
                        self.check_may_ask_again(client, ticket, kind, request.as_ref())?;
                        if kind == ErrorKind::Misconfigured {
                            for (name, kind) in locks {
                                self.progress.granted(*name, *kind);
                            }
                        }
                    }
                    Some((_, Request::Operator { name, kind: of })) => {
                        self.check_operator(client, ticket, (*name, *of), kind)?;
                    }
                    Some((_, Request::Refusal)) => check_not_owner(client, Some(kind))?,
                    _ => {}
                }
                // A server whose replies always come too late for the lease is not silent.
                let is_silence = kind == ErrorKind::Unavailable && !is_too_slow(&error);
                if is_silence
                    && self.plan.breaker.is_none()
                    && let Some((_, request)) = &request
                {
                    self.check_silence(client, ticket, request)?;
                }
                let is_unbounded = matches!(request, Some((_, Request::Acquire { bounded: false, .. })));
                let since = self.now.saturating_sub(micros(self.plan.poll.1) + self.plan.timeout());
                let is_reachable = self.following.reaches((client, &self.clients[client]), since);
                let is_reachable = is_reachable && !self.may_have_open_breakers();
                if is_unbounded && is_silence && self.is_settled() && is_reachable {
                    broken(
                        "I6",
                        format!("client {client}: {ticket:?} gets the answer that the server is silent; it is not"),
                    )?;
                }
            }
        }
        self.owned.refused(client, ticket, self.now);
        if let Some(Request::Acquire { locks, .. }) = &refused {
            self.gave_up(locks);
        }
        if let Some(task) = task {
            self.think(client, task);
        }
        Ok(())
    }

    /// Returns whether other callers of this client wait for permits of the same name. A single attempt must not
    /// overtake them.
    fn comes_after_others(&self, client: usize, (name, kind): Lock) -> bool {
        let is_it = |(of, other): &Lock| *of == name && Record::of(*other) == Record::Permits;
        let waiting = self.clients[client].tasks.iter().filter(|task| !task.bypasses_queue());
        Record::of(kind) == Record::Permits
            && waiting
                .filter_map(Task::wants)
                .any(|(_, locks)| locks.iter().any(is_it))
    }

    fn on_granted(
        &mut self,
        client: usize,
        (task, ticket): (usize, Ticket),
        grant: &Grant,
        request: Request,
    ) -> Checked {
        let Request::Acquire {
            locks,
            inside,
            renewed,
            is_wrong,
            fencing,
            on_unavailable,
            ..
        } = request
        else {
            return broken(
                "I9",
                format!("client {client}: {ticket:?} asked for no lock and was granted one"),
            );
        };
        if is_wrong {
            return broken(
                "I10",
                format!("client {client}: {ticket:?} waits for itself and was granted"),
            );
        }
        let is_inside = inside.is_some();
        if !is_inside {
            check_degraded_grant(client, ticket, grant, on_unavailable, self.plan.breaker.is_some())?;
        }
        if grant.deadline <= self.clients[client].clock.at(self.now) {
            return broken(
                "I9",
                format!("client {client}: {ticket:?} was granted a lease that has already expired"),
            );
        }
        let is_token_due = fencing && !is_inside && !grant.degraded;
        self.check_token(client, ticket, grant, &locks, is_token_due)?;
        self.clients[client].tasks[task].leases.push(grant.lease);
        let local = self.granted_locally(client, grant, &locks);
        let of = (locks.clone(), local.clone());
        let hold = self.ledger.granted(client, grant, inside, of, renewed).hold;
        if grant.degraded {
            self.did(Operation::Degraded);
        }
        // Some members of a degraded composite lock may have a record.
        if !grant.degraded || locks.len() > 1 {
            self.owned.granted(client, ticket, hold);
            let on_record = locks.iter().map(|(name, _)| *name).filter(|name| !local.contains(name));
            self.operators.granted(client, ticket, hold, on_record);
        }
        self.grants += 1;
        if let [(name, Kind::Once)] = *locks {
            self.run_granted(hold, name);
        }
        for (name, kind) in &locks {
            self.progress.granted(*name, *kind);
            if kind.is_exclusive() {
                self.wakes.granted(client, *name);
            }
            if inside.is_none() {
                self.starvation.granted(*name, *kind);
            }
        }
        if inside.is_none() {
            self.progress.served();
        }
        self.check_exclusion(client, grant.lease)?;
        self.check_backed(client, grant.lease)?;
        if inside.is_none() && locks.len() > 1 && !grant.degraded {
            self.check_all_on_record(client, &locks)?;
        }
        if self.clients[client].tasks[task].context.is_none() {
            return Ok(());
        }
        // The same context can have two read holds: one inside its write, and another one. Only leases of this hold
        // count.
        let is_of_it = |lease: &LeaseId| self.ledger.get(client, *lease).is_some_and(|lease| lease.hold == hold);
        let leases = self.clients[client].tasks[task].leases.iter().copied();
        let leases: Vec<LeaseId> = leases.filter(is_of_it).collect();
        let reported = Levels {
            count: grant
                .levels
                .saturating_sub(self.composites_around(client, task, &locks)),
            innermost: Some(grant.lease),
        };
        check_levels(client, task, &reported, &leases)
    }

    /// Returns which names of a lease no server granted.
    fn granted_locally(&self, client: usize, grant: &Grant, locks: &[Lock]) -> Vec<usize> {
        let names = locks.iter().map(|(name, _)| *name);
        if !grant.degraded || locks.len() == 1 {
            return names.filter(|_| grant.degraded).collect();
        }
        let session = self.clients[client].session.as_ref();
        let local = session.map_or_else(Vec::new, |session| session.degraded_locks(grant.lease));
        names.filter(|name| local.contains(&self.names[*name])).collect()
    }

    /// Checks I2: a caller that requested a token was given one, if its lock has tokens. Composite locks have none.
    fn check_token(&self, client: usize, ticket: Ticket, grant: &Grant, locks: &[Lock], is_wanted: bool) -> Checked {
        let has_one = match locks {
            [(_, kind)] => matches!(kind, Kind::Lock | Kind::Mutex | Kind::Fair | Kind::Write | Kind::Once),
            _ => false,
        };
        if is_wanted && has_one && grant.token.is_none() && self.plan.family != Family::RedLock {
            return broken(
                "I2",
                format!("client {client}: {ticket:?} wanted a token, and was granted without"),
            );
        }
        Ok(())
    }

    /// Returns how many composite locks of a task have this lock as a member. Each of them is also a level of the lock.
    fn composites_around(&self, client: usize, task: usize, locks: &[Lock]) -> u32 {
        let [lock] = locks else { return 0 };
        let leases = self.clients[client].tasks[task].leases.iter();
        let held = leases.filter_map(|lease| self.ledger.get(client, *lease));
        let around = held.filter(|held| held.locks.len() > 1 && held.has_lock(*lock));
        let holds: BTreeSet<u64> = around.map(|held| held.hold).collect();
        u32::try_from(holds.len()).unwrap_or(u32::MAX)
    }

    /// Checks I8 by asking the session.
    pub(crate) fn check_task(&self, client: usize, task: usize) -> Checked {
        let of = &self.clients[client].tasks[task];
        let (Some(context), Some(session)) = (of.context, &self.clients[client].session) else {
            return Ok(());
        };
        let reported = |subject: &Subject| Levels {
            count: session.levels(subject, context),
            innermost: session.innermost(subject, context),
        };
        for lease in &of.leases {
            let Some(locks) = self.ledger.get(client, *lease).map(|lease| &lease.locks) else {
                continue;
            };
            if locks.len() > 1 {
                let all = Subject::All(self.named(locks));
                check_levels(client, task, &reported(&all), &self.on_side(client, task, locks))?;
            }
            // A member of a composite lock is not held by itself.
            for (name, kind) in locks {
                let one = Subject::One(*kind, self.names[*name].clone());
                check_levels(
                    client,
                    task,
                    &reported(&one),
                    &self.on_side(client, task, &[(*name, *kind)]),
                )?;
            }
        }
        Ok(())
    }
}

/// Checks the client that an answer names as the holder's: it must be the client of the named owner.
fn check_name(client: usize, ticket: Ticket, holder: Option<&Holder>) -> Checked {
    let Some((holder, info)) = holder.and_then(|holder| Some((holder, holder.client.as_ref()?))) else {
        return Ok(());
    };
    let is_its = holder
        .owner
        .strip_prefix(&info.host)
        .is_some_and(|rest| rest.starts_with(':'));
    if is_its {
        return Ok(());
    }
    broken(
        "I9",
        format!(
            "client {client}: {ticket:?} gets the answer that {:?} is {info}",
            holder.owner
        ),
    )
}

/// Returns whether the error says that replies take too long for the lease.
fn is_too_slow(error: &Error) -> bool {
    let words = ["the primaries take ", "granted too late to be relied on"];
    words
        .iter()
        .any(|words| error.cause().is_some_and(|cause| cause.contains(words)))
}
