//! Callers that make a lease last longer, and when they are answered.

use std::sync::Arc;

use super::{LeasePlan, lost_error};
use crate::defects::Defect;
use crate::error::{Error, ErrorKind, Operation};
use crate::ids::{HoldId, LeaseId, Ticket};
use crate::instant::Instant;
use crate::lease::LeaseDuration;
use crate::session::Session;
use crate::timers::Timer;
use crate::types::Outcome;

/// A caller that waits for a hold to last longer.
#[derive(Debug)]
pub(crate) struct Extension {
    hold: HoldId,
    since: Instant,
    /// What `record_until` has to reach.
    until: Instant,
    aim: Aim,
}

/// What it is for.
#[derive(Debug)]
pub(super) enum Aim {
    /// A caller wants it to last longer.
    Extend,
    /// A caller enters again: the hold is renewed as this says, if that is for longer.
    Enter(LeasePlan),
    /// Several locks are held, and granted when each was confirmed.
    Confirm,
}

impl Extension {
    pub(crate) fn operation(&self) -> Operation {
        match self.aim {
            Aim::Extend => Operation::Extend,
            Aim::Enter(_) | Aim::Confirm => Operation::Acquire,
        }
    }
}

impl Session {
    /// Makes a hold last until `until`, and completes `ticket` when it does.
    pub(super) fn extend_hold(&mut self, ticket: Ticket, id: HoldId, until: Instant, aim: Aim, now: Instant) {
        let Some(hold) = self.holds.get_mut(id) else { return };
        hold.wanted_until = hold.wanted_until.max(until);
        hold.extensions.push(ticket);
        self.extensions.insert(
            ticket,
            Extension {
                hold: id,
                since: now,
                until,
                aim,
            },
        );
        self.io.set(Timer::Wait(ticket), now + self.io.config().command_timeout);
        self.renew(id, now);
    }

    /// Makes the hold of `lease` last `by` from now, never shorter than it does.
    pub(crate) fn extend_lease(&mut self, ticket: Ticket, lease: LeaseId, by: Option<LeaseDuration>, now: Instant) {
        let Some(id) = self.holds.of_lease(lease) else {
            let error = Error::new(
                ErrorKind::NotOwner,
                Operation::Extend,
                "this lease was released, or was lost and forgotten; acquire the lock again",
            );
            self.complete(ticket, Outcome::Failed(error));
            return;
        };
        let Some(hold) = self.holds.get(&id) else { return };
        if !hold.is_valid(now) {
            let error = lost_error(hold, Operation::Extend);
            self.complete(ticket, Outcome::Failed(error));
            return;
        }
        let until = hold.capped(now + by.map_or(hold.plan.length, LeaseDuration::get));
        if self.io.has(Defect::ExtendIsStale) {
            self.extend_behind(ticket, id, until, now);
        } else if hold.reaches(until) {
            let outcome = Outcome::Extended(hold.deadline);
            self.complete(ticket, outcome);
        } else {
            self.extend_hold(ticket, id, until, Aim::Extend, now);
        }
    }

    /// Completes the extensions that the record has reached.
    pub(crate) fn settle_extensions(&mut self, id: HoldId) {
        let Some(hold) = self.holds.get_mut(id) else { return };
        let deadline = hold.deadline;
        let extensions = &self.extensions;
        let is_done = |ticket: &Ticket| {
            extensions
                .get(ticket)
                .is_none_or(|extension| hold.reaches(extension.until))
        };
        let (done, open) = hold.extensions.iter().partition(|ticket| is_done(ticket));
        hold.extensions = open;
        let done: Vec<Ticket> = done;
        for ticket in done {
            self.io.stop(Timer::Wait(ticket));
            let Some(extension) = self.extensions.remove(&ticket) else {
                continue;
            };
            match extension.aim {
                Aim::Enter(plan) => {
                    if let Some(hold) = self.holds.get_mut(id) {
                        hold.watch(plan);
                    }
                    self.stays_renewed(ticket, id, plan);
                    self.enter(ticket, id);
                }
                Aim::Extend | Aim::Confirm => self.complete(ticket, Outcome::Extended(deadline)),
            }
        }
    }

    /// A caller has waited long enough for its extension.
    pub(crate) fn extension_over(&mut self, ticket: Ticket, now: Instant) {
        let Some(extension) = self.extensions.remove(&ticket) else {
            return;
        };
        let error = |cause: &str| {
            let message = match extension.aim {
                Aim::Confirm => format!("not granted: {cause}"),
                Aim::Extend | Aim::Enter(_) => format!("not extended: {cause}; the lease goes on as it was"),
            };
            Error::new(ErrorKind::Unavailable, extension.operation(), message)
        };
        let error = match self.holds.get_mut(extension.hold) {
            Some(hold) => {
                hold.extensions.retain(|waiting| *waiting != ticket);
                let (keys, failure) = (Arc::clone(&hold.keys), hold.failure.clone());
                let known = failure.filter(|_| self.io.is_connected(keys.node));
                let cause =
                    known.unwrap_or_else(|| self.io.unreached(keys.node, now.saturating_since(extension.since)));
                error(&cause).with_lock(keys.name.as_str())
            }
            None => error("it is not held any more"),
        };
        self.complete(ticket, Outcome::Failed(error));
    }

    /// A caller of an extension went away.
    pub(crate) fn cancel_extension(&mut self, ticket: Ticket) {
        if let Some(extension) = self.extensions.remove(&ticket) {
            self.io.stop(Timer::Wait(ticket));
            if let Some(hold) = self.holds.get_mut(extension.hold) {
                hold.extensions.retain(|waiting| *waiting != ticket);
            }
        }
    }
}
