//! What a session asks a server, and what operators do.

use std::sync::Arc;

use super::Session;
use crate::error::{Error, ErrorKind, Operation};
use crate::groups::Group;
use crate::groups::quorum::{self, SIMPLE_LOCKS_ONLY};
use crate::ids::{NodeId, Ticket, Verb};
use crate::instant::Instant;
use crate::kinds::{Keys, Kind, Permits};
use crate::machines::inspections::Question;
use crate::name::LockName;
use crate::types::Outcome;

impl Session {
    /// Asks the server who holds a lock. Completes with [`Outcome::State`].
    pub fn inspect(&mut self, kind: Kind, name: &LockName, now: Instant) -> Ticket {
        let ticket = self.members.ticket(Verb::Inspect);
        if !self.members.fail_if_closed(ticket, Operation::Inspect, Some(name)) {
            self.put_question(ticket, kind, name, Question::State, now);
        }
        ticket
    }

    /// Asks the server how many wait in the queue of a fair lock. Completes with [`Outcome::State`], whose
    /// `waiting` says it.
    pub fn queue_length(&mut self, name: &LockName, now: Instant) -> Ticket {
        self.ask_of_one(Operation::Inspect, Kind::Fair, name, Question::Length, now)
    }

    /// Removes a lock from its holder: for operators. The holder learns of the
    /// loss at its next renewal. Completes with [`Outcome::Forced`].
    pub fn force_release(&mut self, kind: Kind, name: &LockName, now: Instant) -> Ticket {
        let ticket = self.members.ticket(Verb::Inspect);
        if !self.members.fail_if_closed(ticket, Operation::Release, Some(name)) {
            self.put_question(ticket, kind, name, Question::Force, now);
        }
        ticket
    }

    /// Changes the limit on which those who hold permits of a semaphore agreed, to
    /// that of `permits`: for operators. Nobody loses a permit. Completes with
    /// [`Outcome::Forced`], false if none is held.
    pub fn set_limit(&mut self, permits: Permits, name: &LockName, now: Instant) -> Ticket {
        let question = Question::Limit(permits.limit());
        self.ask_of_one(Operation::SetLimit, Kind::Semaphore(permits), name, question, now)
    }

    /// Asks what a RedLock has not.
    fn ask_of_one(
        &mut self,
        operation: Operation,
        kind: Kind,
        name: &LockName,
        question: Question,
        now: Instant,
    ) -> Ticket {
        let ticket = self.members.ticket(Verb::Inspect);
        if self.members.fail_if_closed(ticket, operation, Some(name)) {
            return ticket;
        }
        if let Group::Quorum(_) = self.group {
            let error = Error::new(ErrorKind::InvalidArgument, operation, SIMPLE_LOCKS_ONLY);
            self.members
                .complete(ticket, Outcome::Failed(error.with_lock(name.as_str())));
        } else {
            self.put_question(ticket, kind, name, question, now);
        }
        ticket
    }

    fn put_question(&mut self, ticket: Ticket, kind: Kind, name: &LockName, question: Question, now: Instant) {
        match &mut self.group {
            Group::Quorum(quorum) => {
                let input = quorum::Input::Inspect(ticket, name.clone(), question);
                quorum.input(&mut self.members, input, now);
            }
            Group::Multi(_) => {
                let keys = Arc::new(Keys::new(kind, name, NodeId::default()));
                self.members.inspect(ticket, keys, question, now);
            }
        }
        self.settle(now);
    }
}
