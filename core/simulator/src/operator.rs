//! The actions of operators: they ask who holds a lock, release it by force, and change the limit of a semaphore.

use steadlock_protocol::{Call, CallError, ErrorKind, Kind, LeaseId, Permits, Reply, Ticket};

use crate::checks::{
    Broken, Checked, PermitReply, SemaphoreState, broken, check_forced, check_inspected, check_next, check_undisturbed,
    is_valid, shown,
};
use crate::kinds::{self, Family, Role, role};
use crate::ledger::{Lease, Lock};
use crate::operation::Operation;
use crate::records::{FairState, Group, OnRecord, Record};
use crate::task::{Request, Task};
use crate::trace::Line;
use crate::world::World;

/// The records on a server before a script ran. They are compared if an operator is involved, if permits are requested,
/// or if a name has several kinds.
pub(crate) struct Before {
    /// The holders in the record that the call is about.
    own: Vec<OnRecord>,
    /// The state of the semaphore, if the call requests permits or sets their limit.
    permits: Option<SemaphoreState>,
    /// The holders in the other records of the name, if it has several kinds.
    others: Vec<(Record, Vec<OnRecord>)>,
}

impl World {
    /// By chance, lets a caller that holds nothing act as an operator. Returns whether it did.
    pub(crate) fn operates(&mut self, client: usize, task: usize) -> Result<bool, Broken> {
        let odds = self.plan.operators.clone();
        let random = self.choices.task(client, task);
        let name = random.index(self.names.len());
        let kind = random.pick(&self.plan.names[name]);
        let draw = random.between(0, 999);
        if draw < odds.inspect && kinds::never_waits(kind) && draw.is_multiple_of(2) {
            self.asks_last_run(client, task, name)?;
        } else if draw < odds.inspect {
            self.inspects(client, task, (name, kind))?;
        } else if draw < odds.inspect + odds.force {
            self.forces(client, task, (name, kind))?;
        } else if let (Kind::Semaphore(permits), true) = (kind, draw < odds.inspect + odds.force + odds.set_limit) {
            self.sets_limit(client, task, name, permits.limit())?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    pub(crate) fn inspects(&mut self, client: usize, task: usize, (name, kind): Lock) -> Checked {
        let now = self.clients[client].clock.at(self.now);
        let Some(session) = &mut self.clients[client].session else {
            return Ok(());
        };
        let ticket = session.inspect(kind, &self.names[name], now);
        self.did(Operation::Inspect);
        self.note(Line::Inspects { client, task, ticket });
        self.waits(client, task, ticket, Request::Operator { name, kind })
    }

    fn forces(&mut self, client: usize, task: usize, (name, kind): Lock) -> Checked {
        let now = self.clients[client].clock.at(self.now);
        let Some(session) = &mut self.clients[client].session else {
            return Ok(());
        };
        let ticket = session.force_release(kind, &self.names[name], now);
        self.did(Operation::ForceRelease);
        self.operators.requested(client, self.nodes.len());
        self.note(Line::Forces {
            client,
            task,
            ticket,
            name,
            kind,
        });
        self.waits(client, task, ticket, Request::Operator { name, kind })
    }

    fn sets_limit(&mut self, client: usize, task: usize, name: usize, limit: u32) -> Checked {
        let now = self.clients[client].clock.at(self.now);
        let (Some(session), Ok(permits)) = (&mut self.clients[client].session, Permits::new(1, limit)) else {
            return Ok(());
        };
        let ticket = session.set_limit(permits, &self.names[name], now);
        self.did(Operation::SetLimit);
        self.note(Line::SetsLimit {
            client,
            task,
            ticket,
            name,
            limit,
        });
        let kind = Kind::Semaphore(permits);
        self.waits(client, task, ticket, Request::Operator { name, kind })
    }

    /// Checks the error of an operator's request.
    pub(crate) fn check_operator(
        &self,
        client: usize,
        ticket: Ticket,
        (name, kind): Lock,
        reply: ErrorKind,
    ) -> Checked {
        // A client that is still connected to a demoted server must first notice the demotion.
        let since = self.now.saturating_sub(self.plan.timeout());
        let is_reachable = self.following.reaches((client, &self.clients[client]), since);
        let is_right = match reply {
            ErrorKind::Closed => true,
            ErrorKind::Unavailable => !self.is_settled() || !is_reachable || self.may_have_open_breakers(),
            ErrorKind::Misconfigured => self.collides(name, kind),
            _ => false,
        };
        if is_right {
            return Ok(());
        }
        broken(
            "I9",
            format!("client {client}: {ticket:?} of an operator failed with {reply:?}"),
        )
    }

    /// Returns whether a name is also requested as a kind whose record has the same key but another type.
    pub(crate) fn collides(&self, name: usize, kind: Kind) -> bool {
        let record = Record::of(kind);
        let others = self.plan.names[name].iter().map(|other| Record::of(*other));
        record.group() == Group::Plain
            && others
                .into_iter()
                .any(|other| other.group() == Group::Plain && other != record)
    }

    /// Returns whether a server may refuse a request because of another kind or another limit.
    pub(crate) fn may_disagree(&self, (name, kind): Lock) -> bool {
        let differs = |other: &Kind| match (kind, other) {
            (Kind::Semaphore(own), Kind::Semaphore(other)) => own.limit() != other.limit(),
            _ => false,
        };
        self.collides(name, kind) || self.plan.names[name].iter().any(differs)
    }

    /// Returns whether an operator has removed the record of `name` that belongs to a lease, or to a hold around the
    /// lease.
    pub(crate) fn is_forced(&self, lease: &Lease, name: usize) -> bool {
        let holds = lease.around.iter().copied().chain([lease.hold]);
        self.operators.has_removed(name, holds)
    }

    /// Returns whether callers of a client may wait for a hold whose record an operator has removed, because the client
    /// has not noticed the removal yet.
    pub(crate) fn queues_behind_forced(&self, client: usize, name: usize) -> bool {
        let held = self.ledger.of(client).map(|(_, lease)| lease);
        let mut forced = held.filter(|lease| lease.kind_of(name).is_some() && self.is_forced(lease, name));
        forced.any(|lease| is_valid(lease, self.clocks[client], self.now))
    }

    /// Reads the records before a script runs; `None` if they are not compared afterwards.
    pub(crate) fn records_before(&mut self, node: usize, name: Option<usize>, call: &Call) -> Option<Before> {
        let (name, role, record) = (name?, role(call.script).0, kinds::record(call));
        let is_mixed = matches!(self.plan.family, Family::OneName | Family::Once);
        let is_permits = record == Record::Permits && matches!(role, Role::Acquire | Role::Limit);
        if !(is_mixed || is_permits || matches!(role, Role::Force | Role::Inspect)) {
            return None;
        }
        let own = self.holders_of(node, name, record);
        let permits = is_permits.then(|| self.semaphore_state(node, name, kinds::owner(call)));
        let mut others = Vec::new();
        for other in self.records(name) {
            // Readers and the writer change together, so their records are not compared.
            if is_mixed && other != record && (other.group() != record.group() || other.group() == Group::Plain) {
                others.push((other, self.holders_of(node, name, other)));
            }
        }
        Some(Before { own, permits, others })
    }

    /// Returns the state of a semaphore. Its `held` does not count the permits of the owner `beside`.
    fn semaphore_state(&mut self, node: usize, name: usize, beside: Option<&[u8]>) -> SemaphoreState {
        let holders = self.holders_of(node, name, Record::Permits);
        let node = &mut self.nodes[node];
        let clock = node.clock(self.now);
        let name = self.names[name].as_str();
        let own = beside.map_or(0, |owner| Record::permits_of(&mut node.store, name, clock, &[owner]));
        SemaphoreState {
            holders: shown(&holders),
            held: Record::permits(&mut node.store, name, clock) - own,
            limit: Record::limit(&mut node.store, name, clock),
        }
    }

    /// Checks the effect of a script on the records.
    pub(crate) fn check_after(
        &mut self,
        node: usize,
        name: usize,
        call: &Call,
        (before, had_it): (&Before, bool),
        result: &Result<Reply, CallError>,
    ) -> Checked {
        let (role, record) = (role(call.script).0, kinds::record(call));
        let is_yes = result.as_ref().is_ok_and(kinds::is_yes);
        let is_of_type = |code: &str| matches!(code, "WRONGTYPE" | "STEADLOCK_KIND");
        let was_wrong_type = matches!(result, Err(CallError::Server { code, .. }) if is_of_type(code));
        for (other, held) in &before.others {
            let after = self.holders_of(node, name, *other);
            let collides = other.group() == record.group();
            check_undisturbed(name, (held, &after), collides, was_wrong_type)?;
        }
        let keeps_records = self.plan.tier.keeps_records();
        match (role, &before.permits) {
            (Role::Acquire, Some(permits)) if !had_it => {
                // The owner's own permits do not count, unless this attempt was granted new ones.
                let after = self.semaphore_state(node, name, kinds::owner(call).filter(|_| !is_yes));
                if let Some(wanted) = kinds::permits(call) {
                    let reply = match result {
                        Ok(_) if is_yes => PermitReply::Granted,
                        Ok(_) => PermitReply::Held,
                        Err(CallError::Server { code, .. }) if code == "STEADLOCK_LIMIT" => PermitReply::OtherLimit,
                        Err(_) => PermitReply::Failed,
                    };
                    self.operators
                        .check_permits(name, wanted, (permits, &after), reply, keeps_records)?;
                }
            }
            (Role::Limit, Some(permits)) if result.is_ok() => {
                let after = self.semaphore_state(node, name, None);
                let limit = kinds::limit(call).unwrap_or(0);
                self.operators.set_limit(name, limit, (permits, &after), is_yes)?;
            }
            (Role::Force, _) if result.is_ok() => {
                let after = self.holders_of(node, name, record);
                check_forced(name, &before.own, &after, is_yes)?;
                self.removals.removed(name, self.now);
                self.mark_forced(name, record, &before.own);
            }
            // For a job, `Runs` checks which run the server names, since that run may have ended.
            (Role::Inspect, _) if record != Record::Run => {
                if let Ok(reply) = result {
                    check_inspected(name, &before.own, kinds::holder(reply).as_deref())?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Checks a script of the fair lock. A waiter that gave up must have left the queue. If the script removed the
    /// holder, the first waiter must hold the lock now, unless that waiter is dead.
    pub(crate) fn check_next(
        &self,
        node: usize,
        name: usize,
        call: &Call,
        states: (&FairState, &FairState),
    ) -> Checked {
        let (before, after) = states;
        let (role, owner) = (role(call.script).0, kinds::owner(call));
        let stays = |owner: &[u8]| role == Role::Release && after.queue.iter().any(|of| of == owner);
        if owner.is_some_and(stays) {
            broken("I5", format!("a caller that gave up is in the queue of name {name}"))?;
        }
        let was_held = match (role, &before.holder) {
            (Role::Force, holder) => holder.is_some(),
            (Role::Release, Some((holder, _))) => owner == Some(holder.as_slice()),
            _ => false,
        };
        let now = self.nodes[node].clock(self.now).as_micros();
        if was_held {
            check_next(name, before, after, now)
        } else {
            Ok(())
        }
    }

    /// Notes which holds and tickets may have lost their record to an operator.
    fn mark_forced(&mut self, name: usize, record: Record, owners: &[OnRecord]) {
        let on_record: Vec<usize> = owners.iter().map(|(id, _)| self.owner(id)).collect();
        for ((id, _), owner) in owners.iter().zip(on_record.iter().copied()) {
            let Some(client) = self
                .clients
                .iter()
                .position(|client| id.starts_with(client.id.as_bytes()))
            else {
                continue;
            };
            let is_its = |kind: Kind| Record::of(kind) == record;
            let holds = self
                .ledger
                .of(client)
                .filter(|(_, lease)| lease.kind_of(name).is_some_and(is_its))
                // A degraded hold has no record on any server.
                .filter(|(_, lease)| !lease.is_local(name));
            // The checks do not always know which caller used which owner id, and a caller that acquires several locks
            // can ask for one of them again under another owner id. Every hold and ticket that the record may belong to
            // is marked.
            let is_it = |known: usize| known == owner || !on_record.contains(&known);
            let meant = |(_, lease): &(LeaseId, &Lease)| {
                let known = self.owned.held_as(lease.hold, name);
                lease.locks.len() > 1 || known.is_none_or(is_it)
            };
            let holds: Vec<u64> = holds.filter(meant).map(|(_, lease)| lease.hold).collect();
            let waiting = self.clients[client].tasks.iter().filter_map(Task::asks_for);
            let waiting = waiting.filter(|(_, locks)| locks.iter().any(|(of, kind)| *of == name && is_its(*kind)));
            let meant = |(ticket, locks): &(Ticket, &[Lock])| {
                let known = self.owned.owner_of(client, *ticket, name);
                locks.len() > 1 || known.is_none_or(is_it)
            };
            let waiting: Vec<Ticket> = waiting.filter(meant).map(|(ticket, _)| ticket).collect();
            for hold in holds {
                self.operators.removed(hold, name);
            }
            for ticket in waiting {
                self.operators.removed_before_grant(client, ticket, name);
            }
        }
    }

    /// Checks I9 for holders whose record an operator has removed.
    pub(crate) fn check_forced_holds(&mut self) -> Checked {
        let mut seen = Vec::new();
        for ((client, _), lease) in self.ledger.live() {
            for (name, kind) in &lease.locks {
                let Some(length) = lease.renewed else { continue };
                if self.operators.has_removed(*name, [lease.hold].into_iter()) {
                    let knows = !is_valid(lease, self.clocks[client], self.now) || !self.clients[client].is_connected();
                    seen.push((client, lease.hold, (*name, *kind), knows, length));
                }
            }
        }
        for (client, hold, (name, kind), knows, length) in seen {
            let mut is_on_record = false;
            for node in 0..self.nodes.len() {
                let mut owners = self.holders_of(node, name, Record::of(kind)).into_iter();
                is_on_record |= owners.any(|(owner, _)| owner.starts_with(self.clients[client].id.as_bytes()));
            }
            self.operators
                .observed(hold, name, knows || is_on_record, length, self.now)?;
        }
        Ok(())
    }
}
