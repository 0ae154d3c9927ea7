//! Asking the server who holds a lock, and what an operator does to those who do.

use std::sync::Arc;

use crate::calls::Purpose;
use crate::error::{Error, ErrorKind, Holder, Operation};
use crate::instant::Instant;
use crate::kinds::{Answer, Keys, Record, parse_record};
use crate::refusal::explain;
use crate::reply::{CallError, Refusal, Reply};
use crate::session::{Lane, LockState, Outcome, Session, Ticket};
use crate::timers::Timer;

/// What is asked of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// Who holds it?
    State,
    /// Take it from whoever holds it.
    Force,
    /// Let those who hold permits agree on this limit.
    Limit(u32),
}

/// A question that waits for its answer.
#[derive(Debug)]
pub(crate) struct Inspection {
    keys: Arc<Keys>,
    question: Question,
    /// A forced release was sent: asking again might take it from the next holder.
    is_spent: bool,
}

impl Inspection {
    const fn operation(&self) -> Operation {
        match self.question {
            Question::State => Operation::Inspect,
            Question::Force => Operation::Release,
            Question::Limit(_) => Operation::SetLimit,
        }
    }
}

impl Session {
    /// Asks now, or when there is a connection.
    pub(crate) fn start_inspection(&mut self, ticket: Ticket, keys: Arc<Keys>, question: Question, now: Instant) {
        let inspection = Inspection {
            keys,
            question,
            is_spent: false,
        };
        self.inspections.insert(ticket, inspection);
        self.timers.set(Timer::Wait(ticket), now + self.config.command_timeout);
        self.ask(ticket);
    }

    /// There is a connection again: ask again, since reading twice is harmless,
    /// and so is setting a limit twice.
    pub(crate) fn inspect_after_outage(&mut self, _now: Instant) {
        let waiting: Vec<Ticket> = self.inspections.keys().copied().collect();
        for ticket in waiting {
            self.ask(ticket);
        }
    }

    fn ask(&mut self, ticket: Ticket) {
        let connected = &self.links.commands;
        let Some(inspection) = self
            .inspections
            .get_mut(&ticket)
            .filter(|inspection| connected.contains(&inspection.keys.node) && !inspection.is_spent)
        else {
            return;
        };
        let (node, invocation) = match inspection.question {
            Question::State => (inspection.keys.node, inspection.keys.inspect()),
            Question::Force => {
                inspection.is_spent = true;
                (inspection.keys.node, inspection.keys.force())
            }
            Question::Limit(limit) => (inspection.keys.node, inspection.keys.set_limit(limit)),
        };
        let call = self.calls.start(Purpose::Inspect(ticket));
        self.transmit(call, node, Lane::Command, invocation);
    }

    /// The answer came.
    pub(crate) fn inspection_answered(&mut self, ticket: Ticket, result: Result<Reply, CallError>) {
        let Some(inspection) = self.inspections.get(&ticket) else {
            return;
        };
        let refused = || {
            Err((
                ErrorKind::Misconfigured,
                "the server's reply is not Leasehold's".to_owned(),
            ))
        };
        let outcome = match (result, inspection.question) {
            (Ok(reply), Question::State) => inspection
                .keys
                .parse_answer(&reply)
                .map(|answer| Outcome::State(state_of(answer)))
                .map_or_else(refused, Ok),
            (Ok(reply), Question::Force | Question::Limit(_)) => parse_record(&reply)
                .map(|record| Outcome::Forced(matches!(record, Record::Mine { .. })))
                .map_or_else(refused, Ok),
            (Err(CallError::Server { code, message }), _) => {
                let kind = match Refusal::of(&code) {
                    Refusal::Temporary => ErrorKind::Unavailable,
                    _ => ErrorKind::Misconfigured,
                };
                Err((kind, explain(&inspection.keys, &code, &message)))
            }
            // Asked again on the next connection, if the caller's patience lasts.
            (Err(CallError::Disconnected(_)), Question::State | Question::Limit(_)) => return,
            (Err(CallError::Disconnected(cause)), Question::Force) => Err((
                ErrorKind::Unavailable,
                format!("the connection closed before the answer came ({cause}); look whether it is still held"),
            )),
        };
        let Some(inspection) = self.inspections.remove(&ticket) else {
            return;
        };
        self.timers.stop(Timer::Wait(ticket));
        let outcome = outcome.unwrap_or_else(|(kind, message)| {
            Outcome::Failed(Error::new(kind, inspection.operation(), message).with_lock(inspection.keys.name.as_str()))
        });
        self.complete(ticket, outcome);
    }

    /// The answer did not come in time.
    pub(crate) fn inspection_overdue(&mut self, ticket: Ticket) {
        let Some(inspection) = self.inspections.remove(&ticket) else {
            return;
        };
        let message = self.unreached(inspection.keys.node, self.config.command_timeout);
        let error = Error::new(ErrorKind::Unavailable, inspection.operation(), message)
            .with_lock(inspection.keys.name.as_str());
        self.complete(ticket, Outcome::Failed(error));
    }
}

fn state_of(answer: Answer) -> LockState {
    match answer {
        Answer::Granted(_) => LockState::default(),
        Answer::Held {
            owner, ttl, permits, ..
        } => LockState {
            holder: Some(Holder { owner, remaining: ttl }),
            permits,
        },
    }
}
