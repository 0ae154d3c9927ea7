//! What callers do: tasks that acquire, hold, re-enter, extend, write to a guarded
//! resource, ask, release, and go away at any time.

use std::time::Duration;

use leasehold_protocol::{
    AcquireRequest, Context, ErrorKind, Event as Told, Grant, Kind, LeaseDuration, LeaseId, Outcome, Ticket, Token,
};

use crate::checks::{Checked, broken, check_levels, is_believed};
use crate::fault::Fault;
use crate::kinds;
use crate::plan::{ClientPlan, Plan, micros};
use crate::time::{MS, SECOND};
use crate::trace::Line;
use crate::world::{Event, World};

/// What a task waits for.
#[derive(Clone, Copy, Debug)]
enum Wish {
    /// A hold, or with `inside` one more level.
    Acquire {
        inside: Option<LeaseId>,
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
    /// The lock that it works with.
    pub(crate) name: usize,
    kind: Kind,
    /// Its leases, outermost first.
    pub(crate) leases: Vec<LeaseId>,
    /// The last lease that it gave back.
    given_back: Option<LeaseId>,
}

impl Task {
    /// The tasks of a client.
    pub(crate) fn all(of: &ClientPlan, plan: &Plan) -> Vec<Self> {
        let task = |(number, has_context): (usize, &bool)| Self {
            context: has_context.then(|| Context::from_u64(1 + number as u64)),
            waits: None,
            name: 0,
            kind: plan.family.kinds[0],
            leases: Vec::new(),
            given_back: None,
        };
        of.tasks.iter().enumerate().map(task).collect()
    }

    /// Whether it has nothing and waits for nothing.
    pub(crate) fn is_idle(&self) -> bool {
        self.waits.is_none() && self.leases.is_empty()
    }

    /// The ticket of the hold that it waits for.
    pub(crate) fn wants(&self) -> Option<Ticket> {
        match self.waits? {
            (ticket, Wish::Acquire { inside: None, .. }) => Some(ticket),
            _ => None,
        }
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
            30..=44 if depth < 3 => self.acquires(client, task, true),
            45..=54 => self.extends(client, task),
            55..=59 => self.inspects(client, task),
            _ => self.releases(client, task),
        }
    }

    fn acquires(&mut self, client: usize, task: usize, again: bool) -> Checked {
        let kinds = self.plan.family.kinds;
        let (name, kind) = if again {
            let of = &self.clients[client].tasks[task];
            (of.name, of.kind)
        } else {
            (self.random.index(self.names.len()), self.random.pick(kinds))
        };
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
        let fencing = self.plan.family.has_tokens && !self.random.chance(100);
        let by_lease = self.random.chance(400);
        let of = &mut self.clients[client].tasks[task];
        of.name = name;
        of.kind = kind;
        let inside = of.leases.last().copied();
        let request = AcquireRequest {
            kind,
            name: self.names[name].clone(),
            context: of.context,
            within: inside.filter(|_| by_lease || of.context.is_none()),
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
            inside,
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
        });
        self.waits(client, task, ticket, wish)
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
        let of = &self.clients[client].tasks[task];
        let (kind, name) = (of.kind, self.names[of.name].clone());
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
        let of = &mut self.clients[client].tasks[task];
        let (context, kind, name) = (of.context, of.kind, self.names[of.name].clone());
        let innermost = of.leases.len() - 1;
        let (place, context) = match (draw, context) {
            (0..=4, Some(context)) => (innermost, Some(context)),
            (5 | 6, _) => (self.random.index(innermost + 1), None),
            _ => (innermost, None),
        };
        let again = of.given_back.filter(|_| draw == 9);
        let lease = of.leases.remove(place);
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
        if of.waits.is_none_or(|(waited, _)| waited != ticket) {
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
        let Some((name, hold, token)) = lease.and_then(|lease| Some((lease.name, lease.hold, lease.token?))) else {
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
                self.believes(client, lease)
            }
        }
    }

    /// A lease was granted, or may be relied on for longer.
    fn believes(&mut self, client: usize, lease: LeaseId) -> Checked {
        self.exclusion
            .believes(client, lease, &self.ledger, &self.clocks, self.now)?;
        match self.ledger.get(client, lease) {
            Some(held) => self.records_outlast(held.name),
            None => Ok(()),
        }
    }

    /// Whoever relies on a lock of this name has a record that lasts as long.
    pub(crate) fn records_outlast(&mut self, name: usize) -> Checked {
        let record = self.names[name].as_str().as_bytes();
        let left = kinds::lasts(&mut self.nodes[0], record, self.now);
        for ((client, id), held) in self.ledger.live() {
            let clock = self.clocks[client];
            if held.name == name && is_believed(held, clock, self.now) {
                let relied_on = clock.when(held.deadline);
                self.exclusion.outlasts(client, id, relied_on, self.now + left)?;
            }
        }
        Ok(())
    }

    fn completed(&mut self, client: usize, ticket: Ticket, outcome: Outcome) -> Checked {
        self.signals.completed(client, ticket)?;
        let is_its = |task: &Task| task.waits.is_some_and(|(waited, _)| waited == ticket);
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
                if let (Some(task), Some((_, Wish::Acquire { inside, watched, .. }))) = (task, wish) {
                    self.is_granted(client, (task, ticket), &grant, inside, watched)?;
                }
            }
            Outcome::NotGranted(_) => {
                self.note(Line::NotGranted { client, ticket });
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

    fn is_granted(
        &mut self,
        client: usize,
        (task, ticket): (usize, Ticket),
        grant: &Grant,
        inside: Option<LeaseId>,
        watched: bool,
    ) -> Checked {
        let of = &mut self.clients[client].tasks[task];
        let what = (of.name, of.kind, watched);
        of.leases.push(grant.lease);
        let levels = of.leases.len();
        let hold = self.ledger.granted(client, grant, inside, what).hold;
        self.owned.granted(client, ticket, hold);
        self.grants += 1;
        self.progress.granted(what.0);
        self.believes(client, grant.lease)?;
        let said = (grant.levels, Some(grant.lease));
        let leases = &self.clients[client].tasks[task].leases;
        debug_assert_eq!(levels, leases.len());
        check_levels(client, task, said, leases)
    }

    /// I8, asked of the session.
    fn check_task(&self, client: usize, task: usize) -> Checked {
        let of = &self.clients[client].tasks[task];
        let (Some(context), Some(session)) = (of.context, &self.clients[client].session) else {
            return Ok(());
        };
        let name = &self.names[of.name];
        let said = (
            session.levels(of.kind, name, context),
            session.innermost(of.kind, name, context),
        );
        check_levels(client, task, said, &of.leases)
    }
}
