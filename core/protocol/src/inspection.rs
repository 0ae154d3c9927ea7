//! Asking the server who holds a lock.

use std::sync::Arc;

use crate::calls::Purpose;
use crate::error::{Error, ErrorKind, Holder, Operation};
use crate::instant::Instant;
use crate::kinds::{Answer, Keys, parse_answer};
use crate::reply::{CallError, Refusal, Reply};
use crate::request::explain;
use crate::session::{Lane, LockState, Outcome, Session, Ticket};
use crate::timers::Timer;

impl Session {
    /// Asks now, or when there is a connection.
    pub(crate) fn start_inspection(&mut self, ticket: Ticket, keys: Arc<Keys>, now: Instant) {
        self.inspections.insert(ticket, keys);
        self.timers.set(Timer::Wait(ticket), now + self.config.command_timeout);
        self.ask(ticket);
    }

    /// There is a connection again: ask again, since reading twice is harmless.
    pub(crate) fn inspect_after_outage(&mut self, _now: Instant) {
        let waiting: Vec<Ticket> = self.inspections.keys().copied().collect();
        for ticket in waiting {
            self.ask(ticket);
        }
    }

    fn ask(&mut self, ticket: Ticket) {
        if !self.is_connected() {
            return;
        }
        let Some(invocation) = self.inspections.get(&ticket).map(|keys| keys.inspect()) else {
            return;
        };
        let call = self.calls.start(Purpose::Inspect(ticket));
        self.transmit(call, Lane::Command, invocation);
    }

    /// The answer came.
    pub(crate) fn inspection_answered(&mut self, ticket: Ticket, result: Result<Reply, CallError>) {
        let holder = match result {
            Ok(reply) => match parse_answer(&reply) {
                Some(Answer::Granted(_)) => Ok(None),
                Some(Answer::Held { owner, ttl }) => Ok(Some(Holder { owner, remaining: ttl })),
                None => Err((ErrorKind::Misconfigured, "the server's reply is not Leasehold's".into())),
            },
            Err(CallError::Server { code, message }) => match Refusal::of(&code) {
                Refusal::Temporary => Err((ErrorKind::Unavailable, explain(&code, &message))),
                _ => Err((ErrorKind::Misconfigured, explain(&code, &message))),
            },
            // Asked again on the next connection, if the caller's patience lasts.
            Err(CallError::Disconnected(_)) => return,
        };
        let Some(keys) = self.inspections.remove(&ticket) else {
            return;
        };
        self.timers.stop(Timer::Wait(ticket));
        let outcome = match holder {
            Ok(holder) => Outcome::State(LockState { holder }),
            Err((kind, message)) => {
                Outcome::Failed(Error::new(kind, Operation::Inspect, message).with_lock(keys.name.as_str()))
            }
        };
        self.complete(ticket, outcome);
    }

    /// The answer did not come in time.
    pub(crate) fn inspection_overdue(&mut self, ticket: Ticket) {
        let Some(keys) = self.inspections.remove(&ticket) else {
            return;
        };
        let cause = if self.is_connected() {
            "no answer".into()
        } else {
            self.outage()
        };
        let message = format!("the server did not answer in time: {cause}; check that it is up and reachable");
        let error = Error::new(ErrorKind::Unavailable, Operation::Inspect, message).with_lock(keys.name.as_str());
        self.complete(ticket, Outcome::Failed(error));
    }
}
