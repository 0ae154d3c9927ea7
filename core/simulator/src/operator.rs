//! What operators do: they ask who holds a lock, release it by force, and change how many
//! permits of a semaphore there are.

use steadlock_protocol::{Call, CallError, ErrorKind, Kind, LeaseId, Permits, Reply, Ticket};

use crate::checks::{
    Broken, Checked, PermitsStanding, Said, broken, check_forced, check_inspected, check_next, check_undisturbed,
    is_believed, shown,
};
use crate::kinds::{self, Family, Role, role};
use crate::ledger::{Lease, Lock};
use crate::operation::Operation;
use crate::records::{Group, OnRecord, Record, Standing};
use crate::task::{Task, Wish};
use crate::trace::Line;
use crate::world::World;

/// What a server had before a script ran, where operators or several kinds of one name come
/// into it.
pub(crate) struct Before {
    /// The record that the call is about.
    own: Vec<OnRecord>,
    /// If that is a semaphore's.
    permits: Option<PermitsStanding>,
    /// The other records of the name.
    others: Vec<(Record, Vec<OnRecord>)>,
}

impl World {
    /// A caller that holds nothing does what operators do, perhaps; whether it did.
    pub(crate) fn operates(&mut self, client: usize, task: usize) -> Result<bool, Broken> {
        let odds = self.plan.operators.clone();
        let random = self.choices.task(client, task);
        let name = random.index(self.names.len());
        let kind = random.pick(&self.plan.names[name]);
        let draw = random.between(0, 999);
        if draw < odds.inspect {
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
        self.waits(client, task, ticket, Wish::Operator { name, kind })
    }

    fn forces(&mut self, client: usize, task: usize, (name, kind): Lock) -> Checked {
        let now = self.clients[client].clock.at(self.now);
        let Some(session) = &mut self.clients[client].session else {
            return Ok(());
        };
        let ticket = session.force_release(kind, &self.names[name], now);
        self.did(Operation::ForceRelease);
        self.operators.wishes(client, self.nodes.len());
        self.note(Line::Forces {
            client,
            task,
            ticket,
            name,
            kind,
        });
        self.waits(client, task, ticket, Wish::Operator { name, kind })
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
        self.waits(client, task, ticket, Wish::Operator { name, kind })
    }

    /// What an operator asked for failed.
    pub(crate) fn check_operator(&self, client: usize, ticket: Ticket, (name, kind): Lock, said: ErrorKind) -> Checked {
        // One that is still on a demoted server first has to find that out.
        let since = self.now.saturating_sub(self.plan.timeout());
        let is_heard = self.following.reaches((client, &self.clients[client]), since);
        let is_right = match said {
            ErrorKind::Closed => true,
            ErrorKind::Unavailable => !self.is_settled() || !is_heard || self.may_have_open_breakers(),
            ErrorKind::Misconfigured => self.collides(name, kind),
            _ => false,
        };
        if is_right {
            return Ok(());
        }
        broken(
            "I9",
            format!("client {client}: {ticket:?} of an operator failed with {said:?}"),
        )
    }

    /// Whether a name is wanted as kinds whose records have one key and are not alike.
    pub(crate) fn collides(&self, name: usize, kind: Kind) -> bool {
        let record = Record::of(kind);
        let others = self.plan.names[name].iter().map(|other| Record::of(*other));
        record.group() == Group::Plain
            && others
                .into_iter()
                .any(|other| other.group() == Group::Plain && other != record)
    }

    /// Whether a server may refuse what is wanted as the wrong kind, or with the wrong limit.
    pub(crate) fn may_disagree(&self, (name, kind): Lock) -> bool {
        let differs = |other: &Kind| match (kind, other) {
            (Kind::Semaphore(own), Kind::Semaphore(other)) => own.limit() != other.limit(),
            _ => false,
        };
        self.collides(name, kind) || self.plan.names[name].iter().any(differs)
    }

    /// Whether an operator took the record of this lock from a lease, or from what it was
    /// taken inside.
    pub(crate) fn is_forced(&self, lease: &Lease, name: usize) -> bool {
        let holds = lease.around.iter().copied().chain([lease.hold]);
        self.operators.has_taken(name, holds)
    }

    /// Whether callers of a client may wait for a hold of it that an operator took away, and
    /// that nobody there knows to be lost.
    pub(crate) fn stands_behind_forced(&self, client: usize, name: usize) -> bool {
        let held = self.ledger.of(client).map(|(_, lease)| lease);
        let mut forced = held.filter(|lease| lease.kind_of(name).is_some() && self.is_forced(lease, name));
        forced.any(|lease| is_believed(lease, self.clocks[client], self.now))
    }

    /// A script is about to run: what there is before.
    pub(crate) fn before(&mut self, node: usize, name: Option<usize>, call: &Call) -> Option<Before> {
        let (name, role, record) = (name?, role(call.script).0, kinds::record(call));
        let is_mixed = self.plan.family == Family::OneName;
        let is_permits = record == Record::Permits && matches!(role, Role::Acquire | Role::Limit);
        if !(is_mixed || is_permits || matches!(role, Role::Force | Role::Inspect)) {
            return None;
        }
        let own = self.holders_of(node, name, record);
        let permits = is_permits.then(|| self.permits_standing(node, name, kinds::owner(call)));
        let mut others = Vec::new();
        for other in self.records(name) {
            // Readers come and go with the writer.
            if is_mixed && other != record && (other.group() != record.group() || other.group() == Group::Plain) {
                others.push((other, self.holders_of(node, name, other)));
            }
        }
        Some(Before { own, permits, others })
    }

    /// How a semaphore stands, beside what an owner has of it.
    fn permits_standing(&mut self, node: usize, name: usize, beside: Option<&[u8]>) -> PermitsStanding {
        let holders = self.holders_of(node, name, Record::Permits);
        let node = &mut self.nodes[node];
        let clock = node.clock(self.now);
        let name = self.names[name].as_str();
        let own = beside.map_or(0, |owner| Record::permits_of(&mut node.store, name, clock, &[owner]));
        PermitsStanding {
            holders: shown(&holders),
            held: Record::permits(&mut node.store, name, clock) - own,
            limit: Record::limit(&mut node.store, name, clock),
        }
    }

    /// A script ran: what it did to what there was.
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
                // What was left of its own counts for nothing, unless it got them anew.
                let after = self.permits_standing(node, name, kinds::owner(call).filter(|_| !is_yes));
                if let Some(wanted) = kinds::permits(call) {
                    let said = match result {
                        Ok(_) if is_yes => Said::Granted,
                        Ok(_) => Said::Held,
                        Err(CallError::Server { code, .. }) if code == "STEADLOCK_LIMIT" => Said::OtherLimit,
                        Err(_) => Said::Failed,
                    };
                    self.operators
                        .asked_for_permits(name, wanted, (permits, &after), said, keeps_records)?;
                }
            }
            (Role::Limit, Some(permits)) if result.is_ok() => {
                let after = self.permits_standing(node, name, None);
                let limit = kinds::limit(call).unwrap_or(0);
                self.operators.set_limit(name, limit, (permits, &after), is_yes)?;
            }
            (Role::Force, _) if result.is_ok() => {
                let after = self.holders_of(node, name, record);
                check_forced(name, &before.own, &after, is_yes)?;
                self.removals.removed(name, self.now);
                self.take_away(name, record, &before.own);
            }
            (Role::Inspect, _) => {
                if let Ok(reply) = result {
                    check_inspected(name, &before.own, kinds::holder(reply).as_deref())?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A script of the fair lock ran: who gives up has no place in the queue, and if the holder
    /// went by it, the next has it.
    pub(crate) fn check_next(
        &self,
        node: usize,
        name: usize,
        call: &Call,
        standing: (&Standing, &Standing),
    ) -> Checked {
        let (before, after) = standing;
        let (role, owner) = (role(call.script).0, kinds::owner(call));
        let stays = |owner: &[u8]| role == Role::Release && after.queue.iter().any(|of| of == owner);
        if owner.is_some_and(stays) {
            broken("I5", format!("who gave up is in the queue of name {name}"))?;
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

    /// These owners were on record, and an operator took it from them: whom they stand for.
    fn take_away(&mut self, name: usize, record: Record, owners: &[OnRecord]) {
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
            // Whose owner id is not known may be meant.
            let holds = self
                .ledger
                .of(client)
                .filter(|(_, lease)| lease.kind_of(name).is_some_and(is_its))
                // That one is on no record.
                .filter(|(_, lease)| !lease.is_local(name));
            // Which of two callers asked under which owner id is a guess; who gathers several may
            // ask for one of them again, under another.
            let is_it = |known: usize| known == owner || !on_record.contains(&known);
            let meant = |(_, lease): &(LeaseId, &Lease)| {
                let known = self.owned.held_as(lease.hold, name);
                lease.locks.len() > 1 || known.is_none_or(is_it)
            };
            let holds: Vec<u64> = holds.filter(meant).map(|(_, lease)| lease.hold).collect();
            let waiting = self.clients[client].tasks.iter().filter_map(Task::asks_for);
            let waiting = waiting.filter(|(_, locks)| locks.iter().any(|(of, kind)| *of == name && is_its(*kind)));
            let meant = |(ticket, locks): &(Ticket, &[Lock])| {
                let known = self.owned.asked_as(client, *ticket, name);
                locks.len() > 1 || known.is_none_or(is_it)
            };
            let waiting: Vec<Ticket> = waiting.filter(meant).map(|(ticket, _)| ticket).collect();
            for hold in holds {
                self.operators.took(hold, name);
            }
            for ticket in waiting {
                self.operators.took_early(client, ticket, name);
            }
        }
    }

    /// I9 of those from whom an operator took a lock.
    pub(crate) fn look_at_forced(&mut self) -> Checked {
        let mut seen = Vec::new();
        for ((client, _), lease) in self.ledger.live() {
            for (name, kind) in &lease.locks {
                let Some(length) = lease.renewed else { continue };
                if self.operators.has_taken(*name, [lease.hold].into_iter()) {
                    let knows =
                        !is_believed(lease, self.clocks[client], self.now) || !self.clients[client].is_connected();
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
