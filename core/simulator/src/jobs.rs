//! The callers of jobs: what they ask for, how they end their runs, and what they are told.

use std::time::Duration;

use steadlock_protocol::{Ending, Error, ErrorKind, Kind, LeaseId, ReleaseOutcome, RunEnd, Ticket};

use crate::checks::{Checked, broken, check_skipped};
use crate::kinds::Terms;
use crate::operation::Operation;
use crate::task::{Request, Task};
use crate::time::{MS, Micros};
use crate::trace::Line;
use crate::world::World;

/// The time for which a refusal may wait for the name of the holder.
const GRACE: Micros = 40 * MS;

impl World {
    /// Draws how a caller ends its run, and notes what it says.
    pub(crate) fn run_ending(&mut self, client: usize, task: usize, lease: LeaseId) -> (Ending, Request) {
        let random = self.choices.task(client, task);
        let ending = Ending {
            end: match random.chance(650) {
                true => RunEnd::Succeeded,
                false => RunEnd::Failed,
            },
            at_least: random
                .chance(150)
                .then(|| Duration::from_millis(random.between(0, 3_000))),
            successor: None,
        };
        let held = self.ledger.get(client, lease);
        let owner = held.and_then(|held| self.owned.held_as(held.hold, held.locks[0].0));
        let owner = owner.and_then(|owner| self.owner_id(owner));
        if let Some(owner) = &owner {
            self.runs.says(owner, ending.clone());
        }
        (ending, Request::EndRun { owner })
    }

    /// Asks for the last runs of a job.
    pub(crate) fn asks_last_run(&mut self, client: usize, task: usize, name: usize) -> Checked {
        let now = self.clients[client].clock.at(self.now);
        let Some(session) = &mut self.clients[client].session else {
            return Ok(());
        };
        let ticket = session.last_run(&self.names[name], now);
        self.did(Operation::LastRun);
        self.note(Line::Inspects { client, task, ticket });
        let kind = Kind::Once;
        self.waits(client, task, ticket, Request::Operator { name, kind })
    }

    /// Returns what the caller of a ticket asks for, if it asks for a run.
    pub(crate) fn terms_of(&self, client: usize, ticket: Ticket) -> Option<Terms> {
        let mut tasks = self.clients[client].tasks.iter();
        let task = tasks.find(|task| Task::waits_for(task, ticket))?;
        match &task.waits {
            Some((_, Request::Acquire { run, .. })) => *run,
            _ => None,
        }
    }

    /// Notes that a run was granted to its caller.
    pub(crate) fn run_granted(&mut self, hold: u64, name: usize) {
        let owner = self.owned.held_as(hold, name);
        if let Some(owner) = owner.and_then(|owner| self.owner_id(owner)) {
            self.runs.granted(&owner);
        }
    }

    /// Checks the answer to a caller whose request for a run was skipped.
    pub(crate) fn check_run_skipped(&self, client: usize, ticket: Ticket, error: &Error, request: &Request) -> Checked {
        let (Some(skip), ErrorKind::Skipped) = (error.skip(), error.kind()) else {
            return broken(
                "I17",
                format!("client {client}: {ticket:?} got no run, and not why: {error}"),
            );
        };
        self.runs.check_skip(skip, error.holder().map(|by| by.owner.as_str()))?;
        match request {
            Request::Acquire { on_unavailable, .. } if error.is_skipped() => {
                check_skipped(client, ticket, *on_unavailable)
            }
            _ => Ok(()),
        }
    }

    /// Checks that a request for a run was answered at once: within the command timeout, and the grace for the name of
    /// the holder.
    pub(crate) fn check_never_waits(&self, client: usize, ticket: Ticket) -> Checked {
        let of = &self.clients[client];
        let longest = self.plan.timeout() + GRACE;
        let since = self
            .signals
            .opened_at(client, ticket)
            .unwrap_or(self.now)
            .max(of.awake_since);
        let waited = self.now - since;
        match waited > longest + longest / 100 + MS {
            true => broken(
                "I17",
                format!(
                    "client {client}: {ticket:?} asked for a run and was answered after {} ms",
                    waited / MS
                ),
            ),
            false => Ok(()),
        }
    }

    /// Checks the answer to a caller that ended its run. Where a server loses data, it may not know of the end, and a
    /// client that repeats a call cannot tell.
    pub(crate) fn check_run_ended(&self, owner: Option<&[u8]>, how: ReleaseOutcome) -> Checked {
        match owner {
            Some(owner) if how == ReleaseOutcome::Released && self.exclusion.is_promised => {
                self.runs.check_ended(owner)
            }
            _ => Ok(()),
        }
    }
}
