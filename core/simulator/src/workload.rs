//! The actions of callers: tasks that acquire, hold, re-enter, extend, inspect and release locks, write to a guarded
//! resource, and give up at any time.

use steadlock_protocol::{Kind, LeaseId, RunEnd, Ticket, Token};

use crate::checks::Checked;
use crate::event::Event;
use crate::fault::Fault;
use crate::ledger::{Lease, Lock};
use crate::operation::Operation;
use crate::plan::micros;
use crate::task::Request;
use crate::time::{MS, Micros, SECOND};
use crate::trace::Line;
use crate::world::World;

impl World {
    /// Schedules the next action of a task after a pause.
    pub(crate) fn think(&mut self, client: usize, task: usize) {
        // Some pauses are longer than most leases.
        let random = self.choices.task(client, task);
        let longest = if random.chance(60) && self.plan.crowd.is_none() {
            3 * SECOND
        } else {
            self.plan.think
        };
        let after = random.between(0, longest);
        self.schedule(after, Event::Task { client, task });
    }

    /// Lets a task take its next action.
    pub(crate) fn task_continues(&mut self, client: usize, task: usize) -> Checked {
        if self.clients[client].tasks[task].waits.is_some() {
            return Ok(());
        }
        self.check_task(client, task)?;
        let of = &self.clients[client].tasks[task];
        let (depth, is_closed) = (of.leases.len(), self.clients[client].closed);
        if !of.expired.is_empty() && !self.is_ending && self.choices.task(client, task).chance(300) {
            return self.uses_lost_lease(client, task);
        }
        if depth == 0 {
            return match self.is_ending || is_closed {
                true => Ok(()),
                false if self.operates(client, task)? => Ok(()),
                false => self.acquires(client, task, false),
            };
        }
        if self.is_ending || is_closed {
            return self.releases(client, task);
        }
        self.writes(client, task);
        match self.choices.task(client, task).between(0, 99) {
            0..=29 => {
                self.think(client, task);
                Ok(())
            }
            30..=44 if depth < 4 => self.acquires(client, task, true),
            45..=54 => self.extends(client, task),
            55..=59 => self.inspects_own(client, task),
            _ => self.releases(client, task),
        }
    }

    fn extends(&mut self, client: usize, task: usize) -> Checked {
        let leases = &self.clients[client].tasks[task].leases;
        let lease = leases[self.choices.task(client, task).index(leases.len())];
        let by = self.lease(client, task);
        let now = self.clients[client].clock.at(self.now);
        let Some(session) = &mut self.clients[client].session else {
            return Ok(());
        };
        let ticket = session.extend(lease, by, now);
        self.did(Operation::Extend);
        self.note(Line::Extends {
            client,
            task,
            ticket,
            lease,
        });
        self.waits(client, task, ticket, Request::Extend(lease))
    }

    fn inspects_own(&mut self, client: usize, task: usize) -> Checked {
        let lease = self.clients[client].tasks[task].leases[0];
        match self.ledger.get(client, lease).map(|lease| lease.locks[0]) {
            Some(lock) => self.inspects(client, task, lock),
            None => {
                self.think(client, task);
                Ok(())
            }
        }
    }

    fn releases(&mut self, client: usize, task: usize) -> Checked {
        let draw = self.choices.task(client, task).between(0, 9);
        let of = &self.clients[client].tasks[task];
        let (context, innermost) = (of.context, of.leases.len() - 1);
        if let (7, Some(context)) = (draw, context)
            && let Some(locks) = self.only_together(client, task)
        {
            return self.releases_a_member(client, task, &locks, context);
        }
        let (place, context) = match (draw, context) {
            (0..=4, Some(context)) => (innermost, Some(context)),
            (5 | 6, _) => (self.choices.task(client, task).index(innermost + 1), None),
            _ => (innermost, None),
        };
        let lease = self.clients[client].tasks[task].leases[place];
        let locks = self.ledger.get(client, lease).map(|lease| lease.locks.clone());
        let locks = locks.unwrap_or_else(|| vec![(0, Kind::Lock)]);
        let is_run = matches!(locks.as_slice(), [(_, Kind::Once)]);
        let ending = is_run.then(|| self.run_ending(client, task, lease));
        // Only the lease says which run ends.
        let context = context.filter(|_| !is_run);
        let locks = self.named(&locks);
        let of = &mut self.clients[client].tasks[task];
        let again = of.released_before.filter(|_| draw == 9);
        of.leases.remove(place);
        of.released_before = Some(lease);
        // From here on the caller does not rely on this lease.
        self.lets_go(client, lease);
        let now = self.clients[client].clock.at(self.now);
        let Some(session) = &mut self.clients[client].session else {
            return Ok(());
        };
        let (ticket, again) = match context {
            Some(context) => (session.release_innermost(&locks.into(), context, now), None),
            // A second release of a lease must have no effect.
            None => (
                match &ending {
                    Some((ending, _)) => session.end_run(lease, ending.clone(), now),
                    None => session.release(lease, now),
                },
                again.map(|lease| (session.release(lease, now), lease)),
            ),
        };
        self.did(match (context, &ending) {
            (Some(_), _) => Operation::ReleaseInnermost,
            (None, None) => Operation::Release,
            (None, Some(_)) => Operation::EndRun,
        });
        self.note(match &ending {
            Some((ending, _)) => Line::EndsRun {
                client,
                task,
                ticket,
                lease,
                succeeded: ending.end == RunEnd::Succeeded,
                at_least: ending.at_least.map(micros),
            },
            None => Line::Releases {
                client,
                task,
                ticket,
                lease,
            },
        });
        if let Some((ticket, lease)) = again {
            self.did(Operation::ReleaseAgain);
            self.note(Line::Releases {
                client,
                task,
                ticket,
                lease,
            });
            self.signals.opened(client, ticket, self.now)?;
        }
        let request = ending.map_or(Request::Other, |(_, request)| request);
        self.waits(client, task, ticket, request)
    }

    /// Returns the members of a task's first composite lock, if the task holds no lock by itself.
    fn only_together(&self, client: usize, task: usize) -> Option<Vec<Lock>> {
        let leases = &self.clients[client].tasks[task].leases;
        let held = leases.iter().map(|lease| self.ledger.get(client, *lease));
        let held: Vec<_> = held.collect::<Option<_>>()?;
        let is_composite = |lease: &&Lease| lease.locks.len() > 1;
        held.iter()
            .all(is_composite)
            .then(|| held.first().map(|lease| lease.locks.clone()))?
    }

    /// Ends a lease: its holder does not rely on it any more.
    pub(crate) fn lets_go(&mut self, client: usize, lease: LeaseId) {
        self.lets_go_until(client, lease, self.now);
    }

    /// Ends a lease whose record may stay until `until`.
    pub(crate) fn lets_go_until(&mut self, client: usize, lease: LeaseId, until: Micros) {
        let held = self.ledger.get(client, lease);
        let was_lost = held.is_none_or(|held| held.lost);
        let locks = held.map_or_else(Vec::new, |held| held.locks.clone());
        for (name, _) in locks.iter().filter(|_| !was_lost) {
            self.signals.on_hold_ended(client, *name, self.now);
        }
        if let Some(hold) = self.ledger.release(client, lease) {
            // A member that was re-entered by itself stays held when the composite lock around it is released. The hold
            // of the re-entry is the heir of the record.
            let heir = |lock: &Lock| {
                let mut inside = self.ledger.of(client).map(|(_, held)| held);
                let heir = inside.find(|held| held.around.contains(&hold) && held.is_of(&[*lock]))?;
                Some((lock.0, heir.hold))
            };
            let heirs: Vec<(usize, u64)> = locks.iter().filter_map(heir).collect();
            for (name, heir) in &heirs {
                self.operators.inherits(hold, *heir, *name);
            }
            self.owned.released(hold, &heirs, until);
        }
    }

    /// Lets a task wait for a ticket. By chance, the task gives up early.
    pub(crate) fn waits(&mut self, client: usize, task: usize, ticket: Ticket, request: Request) -> Checked {
        self.clients[client].tasks[task].waits = Some((ticket, request));
        self.signals.opened(client, ticket, self.now)?;
        let random = self.choices.task(client, task);
        if !self.is_ending && random.chance(self.plan.odds.cancel) {
            let longest = random.pick(&[MS, 20 * MS, 500 * MS]);
            let after = random.between(0, longest);
            self.schedule(after, Event::Impatient { client, task, ticket });
        }
        self.drain(client)
    }

    /// Lets a task give up its wait.
    pub(crate) fn task_gives_up(&mut self, client: usize, task: usize, ticket: Ticket) -> Checked {
        let of = &mut self.clients[client].tasks[task];
        if !of.waits_for(ticket) {
            return Ok(());
        }
        if let Some((_, Request::Acquire { locks, .. })) = of.waits.take() {
            self.gave_up(&locks);
        }
        self.struck(Fault::Cancel, client);
        self.note(Line::Cancels { client, task, ticket });
        self.signals.cancelled(client, ticket);
        self.owned.refused(client, ticket, self.now);
        self.think(client, task);
        self.input(client, |session, now| session.cancel(ticket, now))
    }

    /// Notes that a caller does not wait for these locks any more.
    pub(crate) fn gave_up(&mut self, locks: &[Lock]) {
        for (name, kind) in locks {
            self.starvation.gave_up(*name, *kind);
        }
        if locks.len() > 1 {
            self.progress.served();
        }
    }

    /// Lets a holder write to the guarded resource. The write can be slow.
    fn writes(&mut self, client: usize, task: usize) {
        let of = &self.clients[client].tasks[task];
        let lease = of.leases.last().and_then(|lease| self.ledger.get(client, *lease));
        let Some((name, hold, token)) = lease.and_then(|lease| Some((lease.locks[0].0, lease.hold, lease.token?)))
        else {
            return;
        };
        let random = self.choices.task(client, task);
        let longest = random.pick(&[MS, 100 * MS, 3 * SECOND]);
        let after = random.between(0, longest);
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
        self.did(Operation::GuardedWrite);
        let token = token.get();
        self.note(Line::Writes {
            client,
            token,
            accepted,
        });
        Ok(())
    }
}
