//! What callers do: tasks that acquire, hold, re-enter, extend, write to a guarded
//! resource, ask, release, and go away at any time.

use std::time::Duration;

use leasehold_protocol::{
    AcquireRequest, Context, ErrorKind, Event as Told, Grant, Kind, LeaseDuration, LeaseId, Outcome, Ticket, Token,
};

use crate::checks::{Checked, broken, check_backing, check_levels, check_refusal, is_believed};
use crate::fault::Fault;
use crate::kinds::{self, Family};
use crate::ledger::Lock;
use crate::plan::{ClientPlan, micros};
use crate::records::Record;
use crate::time::{MS, SECOND};
use crate::trace::Line;
use crate::world::{Event, World};

/// What a task waits for.
#[derive(Clone, Debug)]
enum Wish {
    /// A hold, or with `inside` one more level of it or a read inside a write.
    Acquire {
        locks: Vec<Lock>,
        inside: Option<LeaseId>,
        /// Set if it can never be granted.
        is_wrong: bool,
        watched: bool,
        bounded: bool,
    },
    /// The end of a release, an extension or a question.
    Other,
}

/// One caller, which does one thing at a time.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    context: Option<Context>,
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
    fn think(&mut self, client: usize, task: usize) {
        // Now and then it takes longer than most leases last.
        let longest = if self.random.chance(60) {
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

    fn acquires(&mut self, client: usize, task: usize, again: bool) -> Checked {
        let around = self.clients[client].tasks[task].leases.last().copied();
        let inside = around.filter(|_| again);
        let Some(locks) = self.wanted(client, inside) else {
            self.think(client, task);
            return Ok(());
        };
        let (name, kind) = locks[0];
        let wait = match self.random.between(0, 9) {
            0 | 1 => Some(Duration::ZERO),
            2..=5 => Some(Duration::from_micros(self.random.between(MS, 2 * SECOND))),
            _ => None,
        };
        let lease = self.lease();
        let max_hold = self
            .random
            .chance(150)
            .then(|| Duration::from_millis(self.random.between(100, 1_500)));
        let fencing = !self.random.chance(100);
        // Without its lease, who cannot be let in again waits for itself.
        let by_lease = self.random.chance(400) || !kind.is_reentrant();
        let context = self.clients[client].tasks[task].context;
        let inside = match context {
            // Its own side's newest hold is entered again, and only else the other side's.
            Some(_) if !by_lease => inside.map(|around| self.of_context(client, task, &locks).unwrap_or(around)),
            _ => inside,
        };
        let held_as = inside.and_then(|lease| self.ledger.get(client, lease)?.kind_of(name));
        let is_wrong = held_as.is_some_and(|held| kinds::is_refused_inside(kind, held));
        let request = AcquireRequest {
            kind,
            name: self.names[name].clone(),
            context,
            within: inside.filter(|_| by_lease || context.is_none()),
            wait,
            lease,
            max_hold,
            fencing,
        };
        let now = self.clients[client].clock.at(self.now);
        let Some(session) = &mut self.clients[client].session else {
            return Ok(());
        };
        let ticket = session.acquire(request, now);
        let wish = Wish::Acquire {
            locks,
            inside,
            is_wrong,
            watched: lease.is_none(),
            bounded: wait.is_some(),
        };
        let (wait, lease) = (wait.map(micros), lease.map(|lease| micros(lease.get())));
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
        self.waits(client, task, ticket, wish)
    }

    /// The locks that a caller wants: of what it holds already if it is inside, and
    /// `None` if it had better not.
    fn wanted(&mut self, client: usize, inside: Option<LeaseId>) -> Option<Vec<Lock>> {
        let held = inside.map(|lease| self.ledger.get(client, lease).map(|lease| lease.locks[0].0));
        let name = match held {
            Some(held) => held?,
            None => self.random.index(self.names.len()),
        };
        let kind = self.random.pick(&self.plan.names[name]);
        Some(vec![(name, kind)])
    }

    /// The newest lease of a task on the side of these locks.
    fn of_context(&self, client: usize, task: usize, locks: &[Lock]) -> Option<LeaseId> {
        self.on_side(client, task, locks).last().copied()
    }

    /// The leases of a task on the side of these locks, outermost first.
    fn on_side(&self, client: usize, task: usize, locks: &[Lock]) -> Vec<LeaseId> {
        let is_on_it = |lease: &&LeaseId| self.ledger.get(client, **lease).is_some_and(|lease| lease.is_of(locks));
        let leases = self.clients[client].tasks[task].leases.iter();
        leases.filter(is_on_it).copied().collect()
    }

    /// A lease that a caller asks for; `None` for the watchdog's.
    fn lease(&mut self) -> Option<LeaseDuration> {
        let millis = match self.random.between(0, 99) {
            0..=54 => return None,
            55..=89 => self.random.between(100, 1_500),
            90..=98 => self.random.between(1_500, 6_000),
            // Longer than an attempt asks for.
            _ => 31_000,
        };
        LeaseDuration::fixed(Duration::from_millis(millis)).ok()
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
        let (place, context) = match (draw, context) {
            (0..=4, Some(context)) => (innermost, Some(context)),
            (5 | 6, _) => (self.random.index(innermost + 1), None),
            _ => (innermost, None),
        };
        let lease = self.clients[client].tasks[task].leases[place];
        let locks = self.ledger.get(client, lease).map(|lease| lease.locks.clone());
        let (name, kind) = locks
            .and_then(|locks| locks.first().copied())
            .unwrap_or((0, Kind::Lock));
        let name = self.names[name].clone();
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
            Some(context) => (session.release_innermost(kind, &name, context, now), None),
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

    /// A lease is relied on no more.
    pub(crate) fn lets_go(&mut self, client: usize, lease: LeaseId) {
        if let Some(hold) = self.ledger.release(client, lease) {
            self.owned.released(hold, self.now);
        }
    }

    /// A task waits for a ticket, perhaps not to the end.
    fn waits(&mut self, client: usize, task: usize, ticket: Ticket, wish: Wish) -> Checked {
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
        of.waits = None;
        self.struck(Fault::Cancel, client);
        self.note(Line::Cancels { client, task, ticket });
        self.signals.cancelled(client, ticket);
        self.owned.refused(client, ticket, self.now);
        self.think(client, task);
        self.tell(client, |session, now| session.cancel(ticket, now))
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
            Outcome::Released(how) => self.note(Line::released(client, ticket, how)),
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
                if let Some((_, Wish::Acquire { is_wrong, .. })) = &wish {
                    check_refusal(client, ticket, kind, *is_wrong, self.plan.family == Family::Semaphore)?;
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
        for (name, _) in &locks {
            self.progress.granted(*name);
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
        check_levels(client, task, (grant.levels, Some(grant.lease)), &leases)
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
            let (name, kind) = locks[0];
            let name = &self.names[name];
            let said = (
                session.levels(kind, name, context),
                session.innermost(kind, name, context),
            );
            check_levels(client, task, said, &self.on_side(client, task, locks))?;
        }
        Ok(())
    }
}
