//! An observer that regularly looks at the locks, and compares the servers' records with what holders and waiters
//! believe.

use std::collections::{BTreeMap, BTreeSet};

use steadlock_protocol::{Kind, Ticket};

use crate::checks::{Broken, Checked, NameState, broken, is_valid};
use crate::client::Client;
use crate::event::Event;
use crate::kinds::{Family, admits, never_waits};
use crate::ledger::{Lease, Lock};
use crate::records::{Group, Record};
use crate::task::Task;
use crate::time::{MS, Micros};
use crate::world::World;

/// The interval between two looks.
const LOOK: Micros = 50 * MS;

/// A waiter: the client, the ticket, and the locks that it requests.
type Caller = (usize, Ticket, Vec<Lock>);

impl World {
    /// Looks at all locks.
    pub(crate) fn observe(&mut self) -> Checked {
        self.schedule(LOOK, Event::Observe);
        for name in 0..self.names.len() {
            self.check_rough_records(name)?;
        }
        if !self.is_settled() {
            return Ok(());
        }
        for name in 0..self.names.len() {
            self.check_records(name)?;
            let groups: BTreeSet<Group> = self.records(name).into_iter().map(Record::group).collect();
            for group in groups {
                let name_state = self.name_state(name, group)?;
                self.progress.observed((name, group), name_state, self.now)?;
            }
            self.check_sides(name)?;
            self.check_grants(name)?;
        }
        self.following.observed(&self.clients, self.now)?;
        let clients = &self.clients;
        self.wakes.observed(self.now, |client, waiter| {
            let client = &clients[client];
            let mut waiting = client.tasks.iter().filter_map(Task::wants);
            client.is_connected() && waiting.any(|(ticket, _)| ticket == waiter)
        })?;
        self.check_forced_holds()?;
        match self.plan.family {
            Family::Several => self.check_callers(),
            _ => Ok(()),
        }
    }

    /// Notes that a message on a lock's channel reaches a client. If the lock is free, the client's first waiter for it
    /// must ask.
    pub(crate) fn on_notification(&mut self, client: usize, channel: &[u8]) {
        self.must_ask(client, channel, |_, _| true);
    }

    /// Notes that a client's first waiter for a lock of this channel must ask. Does nothing if the lock is not free for
    /// the waiter, or if `is_such` is false for its name and kind.
    ///
    /// RedLock and multi-locks are left out. Waiters for a RedLock listen to no channel: they ask again after a random
    /// pause, and `Progress` checks how long a majority may stay free. A caller that acquires several locks waits for
    /// one of them at a time, and the observer does not know for which one. `check_callers` checks such callers, and
    /// those behind them.
    fn must_ask(&mut self, client: usize, channel: &[u8], is_such: impl Fn(usize, Kind) -> bool) {
        let is_simple = self.nodes.len() == 1 && self.plan.family != Family::Several;
        if !is_simple || !self.is_settled() || !self.clients[client].is_connected() {
            return;
        }
        let text = String::from_utf8_lossy(channel);
        let tagged = |name: usize| format!("{{{}}}", self.names[name].as_str());
        let is_of = |name: &usize| text.contains(&tagged(*name)) && !text.contains(":grants:");
        let Some(name) = (0..self.names.len()).find(is_of) else {
            return;
        };
        // While this client holds the lock, its waiters do not need to ask.
        if self.ledger.of(client).any(|(_, lease)| lease.kind_of(name).is_some()) {
            return;
        }
        let waiting = self.clients[client].tasks.iter().filter(|task| !task.bypasses_queue());
        let of_name = waiting
            .filter_map(Task::wants)
            .filter_map(|(ticket, locks)| match locks {
                // Kinds with the same name can have different channels.
                [(of, kind)] if *of == name && is_published_on(*kind, &text) => Some((ticket, *kind)),
                _ => None,
            });
        if let Some((ticket, kind)) = of_name.min_by_key(|(ticket, _)| *ticket)
            && is_such(name, kind)
            && self.is_free_for(kind, name)
        {
            self.wakes.on_notification(client, name, ticket, self.now);
        }
    }

    /// Returns the kinds of locks under a name that cannot be acquired now. Empty while the effects of faults last, or
    /// if no message ever arrives: then no waiter must ask.
    pub(crate) fn kept_out_of(&mut self, name: usize) -> Vec<Kind> {
        if self.plan.loses_all_messages || !self.is_settled() {
            return Vec::new();
        }
        let mut kinds = self.plan.names[name].clone();
        kinds.sort_unstable();
        kinds.dedup();
        kinds.retain(|kind| !self.is_free_for(*kind, name));
        kinds
    }

    /// Notes that a release or an operator may have freed a name for kinds of locks that could not be acquired before.
    /// Clients that listen on its channels are notified, and must ask.
    pub(crate) fn on_freed(&mut self, node: usize, name: usize, mut kept_out: Vec<Kind>) {
        kept_out.retain(|kind| self.is_free_for(*kind, name));
        if kept_out.is_empty() {
            return;
        }
        for (client, channel) in self.nodes[node].listeners() {
            self.must_ask(client, &channel, |of, kind| of == name && kept_out.contains(&kind));
        }
    }

    /// Checks I10 for the two sides of a read-write lock.
    fn check_sides(&mut self, name: usize) -> Checked {
        if self.plan.family != Family::ReadWrite || self.plan.tier.keeps_records() {
            return Ok(());
        }
        let mut wanted = BTreeSet::new();
        for client in self.clients.iter().filter(|client| client.is_connected()) {
            for (_, locks) in client.tasks.iter().filter_map(Task::wants) {
                wanted.extend(locks.iter().filter(|(of, _)| *of == name).map(|(_, kind)| *kind));
            }
        }
        if self.plan.loses_all_messages {
            // Without messages, readers do not learn that it is their turn, and the turn can be over before they poll.
            wanted.remove(&Kind::Read);
        }
        let owners: Vec<Vec<u8>> = self.holders(0, name).into_iter().map(|(owner, _)| owner).collect();
        let holders = owners.iter().map(|owner| self.owner(owner)).collect();
        self.starvation.observed(name, &wanted, &holders, self.now)
    }

    /// Checks I6 for a grant that a server has made to a waiter: the waiter must learn of it.
    fn check_grants(&mut self, name: usize) -> Checked {
        // A caller that acquires a composite lock holds some members while it waits for others.
        if self.plan.family == Family::Several || self.nodes.len() > 1 || self.plan.loses_all_messages {
            return Ok(());
        }
        let mut asking = BTreeSet::new();
        for (number, client) in self.clients.iter().enumerate() {
            if client.is_connected() {
                let waiting = client.tasks.iter().filter_map(Task::wants);
                asking.extend(waiting.filter_map(|(ticket, _)| self.owned.owner_of(number, ticket, name)));
            }
        }
        let holders = self.holders(0, name);
        let holders: BTreeSet<usize> = holders.iter().map(|(owner, _)| self.owner(owner)).collect();
        self.progress.check_unreported(name, &(&holders & &asking), self.now)
    }

    /// Checks I6 if some callers request several locks: if callers wait only for each other, one of them must be
    /// served.
    fn check_callers(&mut self) -> Checked {
        let callers = self.callers_to_be_served();
        self.progress.waiting(&callers, self.now)
    }

    /// Returns the callers that wait only for each other, with the number of locks that each requests. Every lock that
    /// one of them requests is free, or held by another of them that waits for further locks.
    fn callers_to_be_served(&mut self) -> BTreeMap<(usize, Ticket), usize> {
        let mut callers = Vec::new();
        for (number, client) in self.clients.iter().enumerate() {
            if client.is_connected() {
                let waiting = client.tasks.iter().filter_map(Task::wants);
                callers.extend(waiting.map(|(ticket, locks)| (number, ticket, locks.to_vec())));
            }
        }
        loop {
            let served: Vec<bool> = (0..callers.len())
                .map(|caller| self.may_be_served(&callers[caller], &callers))
                .collect();
            // A caller that queues behind one that cannot be served cannot be served either.
            let mut left = Vec::new();
            for (caller, is_served) in callers.iter().zip(&served) {
                let queues_behind = |other: &Caller| {
                    let same = |(name, kind): &Lock| {
                        let own = caller.2.iter();
                        own.clone()
                            .any(|(of, own)| of == name && Record::of(*own) == Record::of(*kind))
                    };
                    other.0 == caller.0 && other.2.iter().any(same)
                };
                let mut others = callers.iter().zip(&served);
                if *is_served && !others.any(|(other, served)| !served && queues_behind(other)) {
                    left.push(caller.clone());
                }
            }
            if left.len() == callers.len() {
                return left.into_iter().map(|of| ((of.0, of.1), of.2.len())).collect();
            }
            callers = left;
        }
    }

    /// Returns whether only the waiters in `beside` keep a caller waiting.
    fn may_be_served(&mut self, caller: &Caller, beside: &[Caller]) -> bool {
        caller.2.iter().all(|(name, kind)| {
            if self.queues_behind_forced(caller.0, *name) || self.is_held_here(caller.0, *name) {
                return false;
            }
            let group = Record::of(*kind).group();
            let valid_holds: Vec<Kind> = self
                .valid_holds(*name, group)
                .into_iter()
                .map(|(kind, ..)| kind)
                .collect();
            if !admits(*kind, &valid_holds) {
                return false;
            }
            let mut taken: BTreeMap<usize, Kind> = BTreeMap::new();
            for (client, ticket, locks) in beside {
                let owner = self.owned.owner_of(*client, *ticket, *name);
                let kind = locks.iter().find(|(of, _)| of == name).map(|(_, kind)| *kind);
                taken.extend(owner.zip(kind));
            }
            let mut others = Vec::new();
            for record in self.records(*name) {
                for (owner, _) in self.holders_of(0, *name, record) {
                    if !taken.contains_key(&self.owner(&owner)) {
                        others.push((record, owner));
                    }
                }
            }
            match kind {
                Kind::Read => others.iter().all(|(record, _)| *record != Record::Writer),
                Kind::Semaphore(permits) => {
                    let owners: Vec<&[u8]> = others.iter().map(|(_, owner)| owner.as_slice()).collect();
                    let node = &mut self.nodes[0];
                    let clock = node.clock(self.now);
                    let held = Record::permits_of(&mut node.store, self.names[*name].as_str(), clock, &owners);
                    held + permits.wanted() <= permits.limit()
                }
                _ => others.is_empty(),
            }
        })
    }

    /// Returns the holds of a name that holders rely on: the kind, and the length of the lease if the client renews it.
    /// Holds whose record an operator has removed are left out, and so are names that no server granted.
    fn valid_holds(&self, name: usize, group: Group) -> Vec<(Kind, Option<Micros>)> {
        let (mut holds, mut valid_holds) = (Vec::new(), Vec::new());
        for ((client, _), lease) in self.ledger.live() {
            let Some(kind) = lease.kind_of(name).filter(|_| !holds.contains(&lease.hold)) else {
                continue;
            };
            if Record::of(kind).group() != group || self.is_forced(lease, name) || lease.is_local(name) {
                continue;
            }
            // A re-entered member of a composite lock has no second record.
            let is_part = |(_, other): (_, &Lease)| lease.around.contains(&other.hold) && other.has_lock((name, kind));
            if is_valid(lease, self.clocks[client], self.now) && !self.ledger.of(client).any(is_part) {
                holds.push(lease.hold);
                valid_holds.push((kind, lease.renewed));
            }
        }
        valid_holds
    }

    /// Checks I5 for every owner on record whose client is connected and can release the record.
    fn check_records(&mut self, name: usize) -> Checked {
        if self.plan.tier.keeps_records() {
            return Ok(());
        }
        let settled = self.undisturbed_since + self.plan.settles_in();
        for node in 0..self.nodes.len() {
            for (id, _) in self.holders(node, name) {
                let is_there = |client: &Client| client.is_connected() && id.starts_with(client.id.as_bytes());
                if let Some(client) = self.clients.iter().position(is_there) {
                    let is_unwanted = self.is_unwanted_name(client, name);
                    let owner = self.owner(&id);
                    let longest = self.plan.timeout();
                    let longest = longest + longest / 100;
                    self.owned
                        .check_record(owner, is_unwanted, settled, longest, self.now)?;
                }
            }
        }
        Ok(())
    }

    /// Checks I5 even while faults strike, for an owner whose client could have released its record by now.
    fn check_rough_records(&mut self, name: usize) -> Checked {
        // A caller that gave up can still be granted a fair lock from the server's queue. The client releases the lock
        // only when it learns of the grant.
        if self.plan.tier.keeps_records() || self.plan.names[name].contains(&Kind::Fair) {
            return Ok(());
        }
        for node in 0..self.nodes.len() {
            for (id, _) in self.holders(node, name) {
                let mut clients = self.clients.iter().enumerate();
                let whose = clients.find(|(_, client)| id.starts_with(client.id.as_bytes()));
                let Some((number, client)) = whose else { continue };
                let of = (number, client);
                let clear = self.following.clear_since(of, (node, &self.nodes[node]), self.now);
                let Some(clear) = clear else { continue };
                let is_unwanted = self.is_unwanted_name(number, name);
                let owner = self.owner(&id);
                let longest = self.plan.timeout();
                let longest = longest + longest / 100;
                self.owned.check_record(owner, is_unwanted, clear, longest, self.now)?;
            }
        }
        Ok(())
    }

    /// Returns whether a client should have no record of a name: its callers neither hold nor request the name, and no
    /// lost fixed lease may still have a record.
    fn is_unwanted_name(&self, client: usize, name: usize) -> bool {
        let has_it = self.ledger.of(client).any(|(_, lease)| lease.kind_of(name).is_some());
        let waiting = self.clients[client].tasks.iter().filter_map(Task::wants);
        let wants_it = waiting.flat_map(|(_, locks)| locks).any(|(of, _)| *of == name);
        !has_it && !wants_it && !self.owned.may_have_record(client, name, self.now)
    }

    fn name_state(&mut self, name: usize, group: Group) -> Result<NameState, Broken> {
        let of_group: Vec<Record> = self
            .records(name)
            .into_iter()
            .filter(|of| of.group() == group)
            .collect();
        let held = of_group.iter().map(|record| self.holders_of(0, name, *record).len());
        let mut name_state = NameState {
            waiters: 0,
            records: held.sum(),
            valid: 0,
            renewed: 0,
            longest_lease: 0,
        };
        let valid_holds = self.valid_holds(name, group);
        name_state.valid = valid_holds.len();
        for length in valid_holds.iter().filter_map(|(_, renewed)| *renewed) {
            name_state.renewed += 1;
            name_state.longest_lease = name_state.longest_lease.max(length);
        }
        let kinds: Vec<Kind> = valid_holds.iter().map(|(kind, ..)| *kind).collect();
        for record in of_group {
            let node = &mut self.nodes[0];
            let is_there = node.pttl(record.key(self.names[name].as_str()).as_bytes(), self.now) != -2;
            if record.is_bare() && name_state.records == 0 && is_there {
                broken("I3", format!("name {name} has a record without owner"))?;
            }
        }
        if self.nodes.len() > 1 {
            // With RedLock, a hold needs no record on server 0, so the records there are not compared with the holds.
            name_state.records = name_state.renewed;
        }
        // Waiters for several locks, and waiters behind them, have a check of their own.
        let wanted = match self.plan.family {
            Family::Several => Vec::new(),
            _ => self.first_wanted(name),
        };
        let mut waiters = 0;
        for kind in wanted.into_iter().filter(|kind| Record::of(*kind).group() == group) {
            // A record of another kind with the same key does not make a caller wait: the caller is refused with an
            // error.
            let alike = |other: &&Kind| group != Group::Plain || Record::of(**other) == Record::of(kind);
            let kinds: Vec<Kind> = kinds.iter().filter(alike).copied().collect();
            if admits(kind, &kinds) && self.is_free_for(kind, name) {
                waiters += 1;
            }
        }
        name_state.waiters = waiters;
        Ok(name_state)
    }

    /// Returns the kinds that the first waiters of each connected client request for a name.
    fn first_wanted(&self, name: usize) -> Vec<Kind> {
        let mut wanted = Vec::new();
        for (number, client) in self.clients.iter().enumerate() {
            if !client.is_connected() || self.queues_behind_forced(number, name) || self.is_held_here(number, name) {
                continue;
            }
            let mut first = BTreeMap::new();
            for (ticket, locks) in client.tasks.iter().filter_map(|task| task.wants()) {
                if let [(of, kind)] = locks
                    && *of == name
                    && !never_waits(*kind)
                {
                    let (before, _) = first.entry(Record::of(*kind)).or_insert((ticket, *kind));
                    if ticket <= *before {
                        first.insert(Record::of(*kind), (ticket, *kind));
                    }
                }
            }
            wanted.extend(first.into_values().map(|(_, kind)| kind));
        }
        wanted
    }

    /// Returns whether a client granted a name without a server. The client's other callers then wait for that hold.
    fn is_held_here(&self, client: usize, name: usize) -> bool {
        let mut held = self.ledger.of(client).map(|(_, lease)| lease);
        held.any(|lease| lease.is_local(name))
    }

    /// Returns whether the records leave room for one more holder of this kind.
    fn is_free_for(&mut self, kind: Kind, name: usize) -> bool {
        match kind {
            Kind::Semaphore(permits) => {
                let node = &mut self.nodes[0];
                let clock = node.clock(self.now);
                let held = Record::permits(&mut node.store, self.names[name].as_str(), clock);
                let limit = Record::limit(&mut node.store, self.names[name].as_str(), clock);
                // A request with another limit than the one that applies does not wait: it is refused at once.
                held + permits.wanted() <= permits.limit() || (held > 0 && limit != Some(permits.limit()))
            }
            Kind::Read => self.holders_of(0, name, Record::Writer).is_empty(),
            _ => {
                let mut free = 0;
                let record = Record::of(kind);
                let beside: Vec<Record> = self.records(name).into_iter().collect();
                let beside = beside.into_iter().filter(|other| match record.group() {
                    Group::Plain => *other == record,
                    group => other.group() == group,
                });
                let beside: Vec<Record> = beside.collect();
                for node in 0..self.nodes.len() {
                    let is_free = |of: &Record| self.holders_of(node, name, *of).is_empty();
                    free += usize::from(beside.iter().all(is_free));
                }
                free > self.nodes.len() / 2
            }
        }
    }
}

/// Returns whether releases of a lock of this kind are published on this channel.
fn is_published_on(kind: Kind, channel: &str) -> bool {
    match kind {
        Kind::Mutex => channel.ends_with("}:channel"),
        Kind::Read | Kind::Write => channel.ends_with("}:rw-channel"),
        Kind::Semaphore(_) => channel.ends_with("}:semaphore-channel"),
        // Nobody waits for a run of a job.
        Kind::Once => false,
        _ => channel.starts_with("redisson_lock__channel:"),
    }
}
