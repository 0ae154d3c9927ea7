//! What callers do: tasks that acquire, hold, re-enter, extend, write to a guarded
//! resource, ask, release, and go away at any time.

use std::collections::BTreeSet;

use leasehold_protocol::{Context, ErrorKind, Event as Told, Grant, Kind, LeaseId, LostReason, Outcome, Ticket, Token};

use crate::acquiring::check_not_owner;

use crate::checks::{Checked, broken, check_backing, check_levels, check_refusal, is_believed};
use crate::fault::Fault;
use crate::ledger::{Lease, Lock};
use crate::plan::ClientPlan;
use crate::records::Record;
use crate::time::{MS, SECOND};
use crate::trace::Line;
use crate::world::{Event, World};

/// What a task waits for.
#[derive(Clone, Debug)]
pub(crate) enum Wish {
    /// A hold, or with `inside` one more level of it or a read inside a write.
    Acquire {
        locks: Vec<Lock>,
        inside: Option<LeaseId>,
        /// Set if it can never be granted.
        is_wrong: bool,
        watched: bool,
        bounded: bool,
    },
    /// To be told that what it gives back is not its own.
    Refusal,
    /// The end of a release, an extension or a question.
    Other,
}

/// One caller, which does one thing at a time.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) context: Option<Context>,
    waits: Option<(Ticket, Wish)>,
    /// Its leases, outermost first.
    pub(crate) leases: Vec<LeaseId>,
    /// The last lease that it gave back.
    given_back: Option<LeaseId>,
}

impl Task {
    /// The tasks of a client.
    pub(crate) fn all(of: &ClientPlan) -> Vec<Self> {
        let task = |(number, has_context): (usize, &bool)| Self {
            context: has_context.then(|| Context::from_u64(1 + number as u64)),
            waits: None,
            leases: Vec::new(),
            given_back: None,
        };
        of.tasks.iter().enumerate().map(task).collect()
    }

    /// Whether it has nothing and waits for nothing.
    pub(crate) fn is_idle(&self) -> bool {
        self.waits.is_none() && self.leases.is_empty()
    }

    /// The hold that it waits for: the ticket and the locks.
    pub(crate) fn wants(&self) -> Option<(Ticket, &[Lock])> {
        match self.waits.as_ref()? {
            (
                ticket,
                Wish::Acquire {
                    inside: None, locks, ..
                },
            ) => Some((*ticket, locks)),
            _ => None,
        }
    }

    /// Whether it waits for this ticket.
    fn waits_for(&self, ticket: Ticket) -> bool {
        self.waits.as_ref().is_some_and(|(waited, _)| *waited == ticket)
    }
}

impl World {
    /// Lets a task do its next thing after it has thought for a while.
    pub(crate) fn think(&mut self, client: usize, task: usize) {
        // Now and then it takes longer than most leases last.
        let longest = if self.random.chance(60) && self.plan.crowd.is_none() {
            3 * SECOND
        } else {
            self.plan.think
        };
        let after = self.random.between(0, longest);
        self.schedule(after, Event::Task { client, task });
    }

    /// A task does its next thing.
    pub(crate) fn task_goes_on(&mut self, client: usize, task: usize) -> Checked {
        if self.clients[client].tasks[task].waits.is_some() {
            return Ok(());
        }
        self.check_task(client, task)?;
        let of = &self.clients[client].tasks[task];
        let (depth, is_closed) = (of.leases.len(), self.clients[client].closed);
        if depth == 0 {
            return match self.is_ending || is_closed {
                true => Ok(()),
                false => self.acquires(client, task, false),
            };
        }
        if self.is_ending || is_closed {
            return self.releases(client, task);
        }
        self.writes(client, task);
        match self.random.between(0, 99) {
            0..=29 => {
                self.think(client, task);
                Ok(())
            }
            30..=44 if depth < 4 => self.acquires(client, task, true),
            45..=54 => self.extends(client, task),
            55..=59 => self.inspects(client, task),
            _ => self.releases(client, task),
        }
    }

    fn extends(&mut self, client: usize, task: usize) -> Checked {
        let leases = &self.clients[client].tasks[task].leases;
        let lease = leases[self.random.index(leases.len())];
        let by = self.lease();
        let now = self.clients[client].clock.at(self.now);
        let Some(session) = &mut self.clients[client].session else {
            return Ok(());
        };
        let ticket = session.extend(lease, by, now);
        self.note(Line::Extends {
            client,
            task,
            ticket,
            lease,
        });
        self.waits(client, task, ticket, Wish::Other)
    }

    fn inspects(&mut self, client: usize, task: usize) -> Checked {
        let lease = self.clients[client].tasks[task].leases[0];
        let Some((name, kind)) = self.ledger.get(client, lease).map(|lease| lease.locks[0]) else {
            self.think(client, task);
            return Ok(());
        };
        let name = self.names[name].clone();
        let now = self.clients[client].clock.at(self.now);
        let Some(session) = &mut self.clients[client].session else {
            return Ok(());
        };
        let ticket = session.inspect(kind, &name, now);
        self.note(Line::Inspects { client, task, ticket });
        self.waits(client, task, ticket, Wish::Other)
    }

    fn releases(&mut self, client: usize, task: usize) -> Checked {
        let draw = self.random.between(0, 9);
        let of = &self.clients[client].tasks[task];
        let (context, innermost) = (of.context, of.leases.len() - 1);
        if let (7, Some(context)) = (draw, context)
            && let Some(locks) = self.only_together(client, task)
        {
            return self.gives_back_a_part(client, task, &locks, context);
        }
        let (place, context) = match (draw, context) {
            (0..=4, Some(context)) => (innermost, Some(context)),
            (5 | 6, _) => (self.random.index(innermost + 1), None),
            _ => (innermost, None),
        };
        let lease = self.clients[client].tasks[task].leases[place];
        let locks = self.ledger.get(client, lease).map(|lease| lease.locks.clone());
        let locks = self.named(&locks.unwrap_or_else(|| vec![(0, Kind::Lock)]));
        let of = &mut self.clients[client].tasks[task];
        let again = of.given_back.filter(|_| draw == 9);
        of.leases.remove(place);
        of.given_back = Some(lease);
        // From here on the caller relies on nothing.
        self.lets_go(client, lease);
        let now = self.clients[client].clock.at(self.now);
        let Some(session) = &mut self.clients[client].session else {
            return Ok(());
        };
        let (ticket, again) = match context {
            Some(context) => match locks.as_slice() {
                [(kind, name)] => (session.release_innermost(*kind, name, context, now), None),
                several => (session.release_innermost_of_all(several, context, now), None),
            },
            // A second release of a lease is harmless.
            None => (
                session.release(lease, now),
                again.map(|lease| (session.release(lease, now), lease)),
            ),
        };
        self.note(Line::Releases {
            client,
            task,
            ticket,
            lease,
        });
        if let Some((ticket, lease)) = again {
            self.note(Line::Releases {
                client,
                task,
                ticket,
                lease,
            });
            self.signals.opened(client, ticket)?;
        }
        self.waits(client, task, ticket, Wish::Other)
    }

    /// Several locks that a task holds together, none of them also alone.
    fn only_together(&self, client: usize, task: usize) -> Option<Vec<Lock>> {
        let leases = &self.clients[client].tasks[task].leases;
        let held = leases.iter().map(|lease| self.ledger.get(client, *lease));
        let held: Vec<_> = held.collect::<Option<_>>()?;
        let is_whole = |lease: &&Lease| lease.locks.len() > 1;
        held.iter()
            .all(is_whole)
            .then(|| held.first().map(|lease| lease.locks.clone()))?
    }

    /// A lease is relied on no more.
    pub(crate) fn lets_go(&mut self, client: usize, lease: LeaseId) {
        let locks = self
            .ledger
            .get(client, lease)
            .map_or_else(Vec::new, |held| held.locks.clone());
        if let Some(hold) = self.ledger.release(client, lease) {
            // A lock that was entered again by itself stays when the whole around it goes.
            let heir = |lock: &Lock| {
                let mut inside = self.ledger.of(client).map(|(_, held)| held);
                let heir = inside.find(|held| held.around.contains(&hold) && held.is_of(&[*lock]))?;
                Some((lock.0, heir.hold))
            };
            let heirs: Vec<(usize, u64)> = locks.iter().filter_map(heir).collect();
            self.owned.released(hold, &heirs, self.now);
        }
    }

    /// A task waits for a ticket, perhaps not to the end.
    pub(crate) fn waits(&mut self, client: usize, task: usize, ticket: Ticket, wish: Wish) -> Checked {
        self.clients[client].tasks[task].waits = Some((ticket, wish));
        self.signals.opened(client, ticket)?;
        if !self.is_ending && self.random.chance(self.plan.odds.cancel) {
            let longest = self.random.pick(&[MS, 20 * MS, 500 * MS]);
            let after = self.random.between(0, longest);
            self.schedule(after, Event::Impatient { client, task, ticket });
        }
        self.drain(client)
    }

    /// A task goes away from what it waits for.
    pub(crate) fn task_gives_up(&mut self, client: usize, task: usize, ticket: Ticket) -> Checked {
        let of = &mut self.clients[client].tasks[task];
        if !of.waits_for(ticket) {
            return Ok(());
        }
        if let Some((_, Wish::Acquire { locks, .. })) = of.waits.take() {
            self.gave_up(&locks);
        }
        self.struck(Fault::Cancel, client);
        self.note(Line::Cancels { client, task, ticket });
        self.signals.cancelled(client, ticket);
        self.owned.refused(client, ticket, self.now);
        self.think(client, task);
        self.tell(client, |session, now| session.cancel(ticket, now))
    }

    /// Who wanted these locks waits for them no more.
    fn gave_up(&mut self, locks: &[Lock]) {
        for (name, kind) in locks {
            self.starvation.gave_up(*name, *kind);
        }
        if locks.len() > 1 {
            self.progress.served();
        }
    }

    /// A holder writes to what the lock guards; the write may take its time.
    fn writes(&mut self, client: usize, task: usize) {
        let of = &self.clients[client].tasks[task];
        let lease = of.leases.last().and_then(|lease| self.ledger.get(client, *lease));
        let Some((name, hold, token)) = lease.and_then(|lease| Some((lease.locks[0].0, lease.hold, lease.token?)))
        else {
            return;
        };
        let longest = self.random.pick(&[MS, 100 * MS, 3 * SECOND]);
        let after = self.random.between(0, longest);
        self.schedule(
            after,
            Event::Write {
                client,
                name,
                hold,
                token,
            },
        );
    }

    /// A write reaches the guarded resource.
    pub(crate) fn write_arrives(&mut self, client: usize, name: usize, hold: u64, token: Token) -> Checked {
        let accepted = self.fencing.writes(name, hold, token)?;
        let token = token.get();
        self.note(Line::Writes {
            client,
            token,
            accepted,
        });
        Ok(())
    }

    /// A session told something.
    pub(crate) fn told(&mut self, client: usize, event: Told) -> Checked {
        match event {
            Told::Completed { ticket, outcome } => self.completed(client, ticket, outcome),
            Told::Lost { lease, reason } => {
                self.note(Line::lost(client, lease, reason));
                self.signals.lost(client, lease, &self.ledger)?;
                let is_kept = self.ledger.get(client, lease).is_some_and(|held| held.watched);
                let is_calm = self.is_settled() && self.clients[client].is_connected();
                if is_kept && is_calm && reason == LostReason::Expired && self.exclusion.is_promised {
                    broken("I9", format!("client {client}: the watchdog let {lease:?} expire"))?;
                }
                if let Some(held) = self.ledger.get_mut(client, lease) {
                    held.lost = true;
                }
                Ok(())
            }
            Told::Renewed { lease, deadline } => {
                self.note(Line::Renewed {
                    client,
                    lease,
                    deadline,
                });
                if let Some(held) = self.ledger.get_mut(client, lease) {
                    held.deadline = deadline;
                }
                self.believes(client, lease)?;
                self.is_backed(client, lease)
            }
        }
    }

    /// A lease was granted, or may be relied on for longer.
    fn believes(&mut self, client: usize, lease: LeaseId) -> Checked {
        self.exclusion
            .believes(client, lease, &self.ledger, &self.clocks, self.now)
    }

    /// Whoever relies on a lock of this name has a record that lasts as long.
    pub(crate) fn records_outlast(&mut self, name: usize) -> Checked {
        let of_name: Vec<(usize, LeaseId)> = self
            .ledger
            .live()
            .filter(|(_, held)| held.locks.iter().any(|(of, _)| *of == name))
            .map(|(whose, _)| whose)
            .collect();
        for (client, lease) in of_name {
            self.is_backed(client, lease)?;
        }
        Ok(())
    }

    /// Every lock of a lease that is relied on is on record for as long.
    fn is_backed(&mut self, client: usize, lease: LeaseId) -> Checked {
        let Some(held) = self.ledger.get(client, lease).filter(|_| self.exclusion.is_promised) else {
            return Ok(());
        };
        if !is_believed(held, self.clocks[client], self.now) {
            return Ok(());
        }
        let (until, locks) = (self.clocks[client].when(held.deadline), held.locks.clone());
        for (name, kind) in locks {
            let mut left = Vec::new();
            for node in 0..self.nodes.len() {
                let owners = self.holders_of(node, name, Record::of(kind)).into_iter();
                let own = owners.filter(|(owner, _)| owner.starts_with(self.clients[client].id.as_bytes()));
                left.extend(own.map(|(_, left)| left).max());
            }
            check_backing((client, lease, name), until - self.now, left, self.nodes.len())?;
        }
        Ok(())
    }

    fn completed(&mut self, client: usize, ticket: Ticket, outcome: Outcome) -> Checked {
        self.signals.completed(client, ticket)?;
        let is_its = |task: &Task| task.waits_for(ticket);
        let task = self.clients[client].tasks.iter().position(is_its);
        let wish = task.and_then(|task| self.clients[client].tasks[task].waits.take());
        let refused = match (&outcome, &wish) {
            (Outcome::Granted(_), _) => None,
            (_, Some((_, wish))) => Some(wish.clone()),
            _ => None,
        };
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
                if let (Some(task), Some((_, wish))) = (task, wish) {
                    self.is_granted(client, (task, ticket), &grant, wish)?;
                }
            }
            Outcome::NotGranted(_) => {
                self.note(Line::NotGranted { client, ticket });
                if let Some((_, Wish::Acquire { is_wrong: true, .. })) = wish {
                    broken("I9", format!("client {client}: {ticket:?} waited for itself"))?;
                }
                if let Some((_, Wish::Acquire { bounded: false, .. })) = wish {
                    broken(
                        "I9",
                        format!("client {client}: {ticket:?} waits without bound and is told: held"),
                    )?;
                }
            }
            // Nobody here forces a release.
            Outcome::Forced(_) => {}
            Outcome::Released(how) => {
                self.note(Line::released(client, ticket, how));
                if let Some((_, Wish::Refusal)) = wish {
                    check_not_owner(client, None)?;
                }
            }
            Outcome::Extended(deadline) => self.note(Line::Extended {
                client,
                ticket,
                deadline,
            }),
            Outcome::State(state) => {
                let held = state.holder.is_some();
                self.note(Line::Inspected { client, ticket, held });
            }
            Outcome::Failed(error) => {
                let kind = error.kind();
                self.note(Line::Failed { client, ticket, kind });
                match &wish {
                    Some((_, Wish::Acquire { is_wrong, locks, .. })) => {
                        let may_disagree = locks.iter().any(|(_, kind)| matches!(kind, Kind::Semaphore(_)));
                        check_refusal(client, ticket, kind, *is_wrong, may_disagree)?;
                    }
                    Some((_, Wish::Refusal)) => check_not_owner(client, Some(kind))?,
                    _ => {}
                }
                let is_unbounded = matches!(wish, Some((_, Wish::Acquire { bounded: false, .. })));
                if is_unbounded && kind == ErrorKind::Unavailable && self.is_settled() {
                    broken(
                        "I6",
                        format!("client {client}: {ticket:?} is told that the server is silent; it is not"),
                    )?;
                }
            }
        }
        self.owned.refused(client, ticket, self.now);
        if let Some(Wish::Acquire { locks, .. }) = &refused {
            self.gave_up(locks);
        }
        if let Some(task) = task {
            self.think(client, task);
        }
        Ok(())
    }

    fn is_granted(&mut self, client: usize, (task, ticket): (usize, Ticket), grant: &Grant, wish: Wish) -> Checked {
        let Wish::Acquire {
            locks,
            inside,
            watched,
            is_wrong,
            ..
        } = wish
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
        self.clients[client].tasks[task].leases.push(grant.lease);
        let of = (locks.clone(), watched);
        let hold = self.ledger.granted(client, grant, inside, of.0, of.1).hold;
        self.owned.granted(client, ticket, hold);
        self.grants += 1;
        for (name, kind) in &locks {
            self.progress.granted(*name);
            if inside.is_none() {
                self.starvation.granted(*name, *kind);
            }
        }
        if inside.is_none() {
            self.progress.served();
        }
        self.believes(client, grant.lease)?;
        self.is_backed(client, grant.lease)?;
        if self.clients[client].tasks[task].context.is_none() {
            return Ok(());
        }
        // A read inside a write may be a hold beside another read of the same context.
        let is_of_it = |lease: &LeaseId| self.ledger.get(client, *lease).is_some_and(|lease| lease.hold == hold);
        let leases = self.clients[client].tasks[task].leases.iter().copied();
        let leases: Vec<LeaseId> = leases.filter(is_of_it).collect();
        let said = grant.levels.saturating_sub(self.wholes_around(client, task, &locks));
        check_levels(client, task, (said, Some(grant.lease)), &leases)
    }

    /// How many holds of several locks a task has that one lock is a part of: each is a
    /// level of that lock, too.
    fn wholes_around(&self, client: usize, task: usize, locks: &[Lock]) -> u32 {
        let [lock] = locks else { return 0 };
        let leases = self.clients[client].tasks[task].leases.iter();
        let held = leases.filter_map(|lease| self.ledger.get(client, *lease));
        let around = held.filter(|held| held.locks.len() > 1 && held.has_part(*lock));
        let holds: BTreeSet<u64> = around.map(|held| held.hold).collect();
        u32::try_from(holds.len()).unwrap_or(u32::MAX)
    }

    /// I8, asked of the session.
    fn check_task(&self, client: usize, task: usize) -> Checked {
        let of = &self.clients[client].tasks[task];
        let (Some(context), Some(session)) = (of.context, &self.clients[client].session) else {
            return Ok(());
        };
        for lease in &of.leases {
            let Some(locks) = self.ledger.get(client, *lease).map(|lease| &lease.locks) else {
                continue;
            };
            if locks.len() > 1 {
                let named = self.named(locks);
                let said = (
                    session.levels_of_all(&named, context),
                    session.innermost_of_all(&named, context),
                );
                check_levels(client, task, said, &self.on_side(client, task, locks))?;
            }
            // What is held as a part of several is not held by itself.
            for (name, kind) in locks {
                let said = (
                    session.levels(*kind, &self.names[*name], context),
                    session.innermost(*kind, &self.names[*name], context),
                );
                check_levels(client, task, said, &self.on_side(client, task, &[(*name, *kind)]))?;
            }
        }
        Ok(())
    }
}
