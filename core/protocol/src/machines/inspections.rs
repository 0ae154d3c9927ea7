//! Questions to the server about a lock, and the operations of an operator: forced releases and limits.
//!
//! ```text
//!          asked, connected              answered
//!   Open ───────────────────► Asked ─────────────────► completed
//!     ▲                         │ │                      ▲
//!     └── disconnected ─────────┘ │ answered             │ identified, overdue
//!         (a forced release       └───────► Unnamed ─────┘
//!         is completed)            the program of the holder is not known yet
//!
//!   asked who holds the lock, with an open circuit breaker ──► completed at once: unavailable
//!   Open, Asked ── overdue ──► completed: no reply came
//!   cancelled ────► gone
//! ```

#[cfg(any(test, feature = "transitions"))]
mod drawing;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use steadlock_collections::SortedMap;

use crate::calls::Purpose;
use crate::error::Cause;
use crate::error::{Error, ErrorKind, Holder, Operation};
use crate::ids::Ticket;
use crate::instant::Instant;
use crate::io::Io;
use crate::kinds::{Answer, Keys, Record, parse_last_run, parse_leadership, parse_record};
use crate::machines::elections::MOST_NAMES;
use crate::reply::{CallError, Refusal, Reply};
use crate::timers::Timer;
use crate::transitions;
use crate::types::{Lane, LockState, Outcome};
use crate::wording::{cut, explain};

/// A question or an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// The holder of the lock.
    State,
    /// The number of waiters in the server's queue.
    Length,
    /// The last runs of a job.
    LastRun,
    /// The leader of a group.
    Leadership,
    /// A forced release: removes the record, no matter who holds the lock.
    Force,
    /// A new limit for a semaphore whose permits are held.
    Limit(u32),
}

/// The events that concern questions.
#[derive(Debug)]
pub(crate) enum Input {
    /// A caller asks a question about a lock.
    Asked {
        ticket: Ticket,
        keys: Arc<Keys>,
        question: Question,
    },
    /// A node is connected.
    Connected,
    /// A question was answered, or its connection closed.
    Answered(Ticket, Result<Reply, CallError>),
    /// The reply to a question is overdue.
    Overdue(Ticket),
    /// The caller no longer waits.
    Cancelled(Ticket),
    /// The program of a holder is known now, or will stay unknown.
    Identified,
}

/// The open questions of a client.
#[derive(Debug, Default)]
pub(crate) struct Inspections {
    open: SortedMap<Ticket, Inspection>,
}

#[derive(Debug)]
struct Inspection {
    keys: Arc<Keys>,
    question: Question,
    /// Whether a call with the question is in flight.
    is_asked: bool,
    /// The answer, kept while the client asks which program the holder is.
    answer: Option<LockState>,
}

impl Inspections {
    pub(crate) fn input(&mut self, io: &mut Io, input: Input, now: Instant) {
        let before = transitions::before(self, io, &input);
        match input {
            Input::Asked { ticket, keys, question } => {
                let inspection = Inspection {
                    keys,
                    question,
                    is_asked: false,
                    answer: None,
                };
                io.note_lock(&inspection.keys);
                if let Some(outage) = io.outage(&inspection.keys).filter(|_| question == Question::State) {
                    let outcome = inspection.failed(ErrorKind::Unavailable, outage.refusal_cause(now));
                    io.complete(ticket, outcome);
                    return transitions::after(self, io, &before);
                }
                self.open.insert(ticket, inspection);
                io.set(Timer::Answer(ticket), io.timeout(now));
                self.ask(io, ticket);
            }
            // A question or a limit may be sent twice, because both are idempotent. `ask` never sends a forced release
            // twice.
            Input::Connected => {
                for ticket in self.tickets() {
                    self.ask(io, ticket);
                }
            }
            Input::Answered(ticket, result) => self.answered(io, ticket, result, now),
            Input::Identified => self.identified(io),
            Input::Overdue(ticket) => self.overdue(io, ticket),
            Input::Cancelled(ticket) => {
                if self.open.remove(&ticket).is_some() {
                    io.stop(Timer::Answer(ticket));
                }
            }
        }
        transitions::after(self, io, &before);
    }

    /// Returns the tickets of the open questions, oldest first.
    pub(crate) fn tickets(&self) -> Vec<Ticket> {
        self.open.keys().copied().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// Sends a question if its node is connected. Otherwise keeps the question open until the node is connected.
    fn ask(&mut self, io: &mut Io, ticket: Ticket) {
        let Some(inspection) = self
            .open
            .get_mut(&ticket)
            .filter(|inspection| io.is_connected(inspection.keys.node) && !inspection.is_sent_forced_release())
            .filter(|inspection| inspection.answer.is_none())
        else {
            return;
        };
        let keys = &inspection.keys;
        let invocation = match inspection.question {
            Question::State => keys.inspect(),
            Question::Length => keys.queue_length(),
            Question::LastRun => keys.last_run(),
            Question::Leadership => keys.leadership(),
            Question::Force => keys.force(),
            Question::Limit(limit) => keys.set_limit(limit),
        };
        io.call(Purpose::Inspect(ticket), keys.node, Lane::Command, invocation, None);
        inspection.is_asked = true;
    }

    fn answered(&mut self, io: &mut Io, ticket: Ticket, result: Result<Reply, CallError>, now: Instant) {
        let Some(inspection) = self.open.get_mut(&ticket) else {
            return;
        };
        inspection.is_asked = false;
        match inspection.outcome(result) {
            Some(Outcome::State(state)) => {
                if let Some(holder) = state.holder.as_ref().filter(|holder| holder.client.is_none()) {
                    io.ask_identity(inspection.keys.node, &holder.owner, now);
                }
                for owner in state.leadership.iter().flat_map(|of| of.owners()).take(MOST_NAMES) {
                    io.ask_identity(inspection.keys.node, owner, now);
                }
                inspection.answer = Some(state);
                self.identified(io);
            }
            Some(outcome) => self.complete(io, ticket, outcome),
            None => {}
        }
    }

    /// Completes the questions whose answer need not wait any longer for the program of the holder.
    fn identified(&mut self, io: &mut Io) {
        let is_complete = |state: &LockState| !awaits_identity(io, state);
        let complete: Vec<Ticket> = self
            .open
            .iter()
            .filter(|(_, inspection)| inspection.answer.as_ref().is_some_and(is_complete))
            .map(|(ticket, _)| *ticket)
            .collect();
        for ticket in complete {
            if let Some(state) = self
                .open
                .get_mut(&ticket)
                .and_then(|inspection| inspection.answer.take())
            {
                self.complete(io, ticket, Outcome::State(named(io, state)));
            }
        }
    }

    fn complete(&mut self, io: &mut Io, ticket: Ticket, outcome: Outcome) {
        self.open.remove(&ticket);
        io.stop(Timer::Answer(ticket));
        io.complete(ticket, outcome);
    }

    fn overdue(&mut self, io: &mut Io, ticket: Ticket) {
        let Some(inspection) = self.open.remove(&ticket) else {
            return;
        };
        if let Some(state) = inspection.answer {
            return io.complete(ticket, Outcome::State(named(io, state)));
        }
        let cause = io.unreached(inspection.keys.node, io.config().command_timeout);
        let outcome = inspection.failed(ErrorKind::Unavailable, cause);
        io.complete(ticket, outcome);
    }
}

impl Inspection {
    /// Whether this is a forced release in flight. Sending it again could remove the record of the next holder.
    fn is_sent_forced_release(&self) -> bool {
        self.is_asked && self.question == Question::Force
    }

    const fn operation(&self) -> Operation {
        match self.question {
            Question::State | Question::Length | Question::LastRun | Question::Leadership => Operation::Inspect,
            Question::Force => Operation::Release,
            Question::Limit(_) => Operation::SetLimit,
        }
    }

    fn failed(&self, kind: ErrorKind, cause: Cause) -> Outcome {
        Outcome::Failed(Error::caused(kind, self.operation(), cause).with_lock(self.keys.name.as_str()))
    }

    /// Returns the outcome of a reply; `None` if the question is sent again on the next connection.
    fn outcome(&self, result: Result<Reply, CallError>) -> Option<Outcome> {
        let outcome = match (result, self.question) {
            (Ok(reply), Question::State) => self
                .keys
                .parse_answer(&reply)
                .map(|answer| Outcome::State(state_of(answer))),
            (Ok(reply), Question::Length) => match parse_record(&reply) {
                Some(Record::Mine { listeners: length }) => Some(Outcome::State(LockState {
                    waiting: Some(length),
                    ..LockState::default()
                })),
                _ => None,
            },
            (Ok(reply), Question::Leadership) => parse_leadership(&reply).map(|leadership| {
                Outcome::State(LockState {
                    leadership: Some(Box::new(leadership)),
                    ..LockState::default()
                })
            }),
            (Ok(reply), Question::LastRun) => parse_last_run(&reply).map(|last_run| {
                Outcome::State(LockState {
                    last_run: last_run.map(Box::new),
                    ..LockState::default()
                })
            }),
            (Ok(reply), Question::Force | Question::Limit(_)) => {
                parse_record(&reply).map(|record| Outcome::Forced(matches!(record, Record::Mine { .. })))
            }
            (Err(CallError::Server { code, message }), _) => {
                let kind = match Refusal::of(&code) {
                    Refusal::Temporary => ErrorKind::Unavailable,
                    _ => ErrorKind::Misconfigured,
                };
                Some(self.failed(kind, explain(&self.keys, &code, &message)))
            }
            (Err(CallError::Disconnected(_)), question) if question != Question::Force => return None,
            (Err(CallError::Disconnected(cause)), _) => Some(self.failed(
                ErrorKind::Unavailable,
                cut(&cause).with_advice("look whether it is still held"),
            )),
        };
        Some(outcome.unwrap_or_else(|| {
            let cause = Cause::new("the server's reply is not Steadlock's");
            self.failed(ErrorKind::Misconfigured, cause)
        }))
    }
}

fn state_of(answer: Answer) -> LockState {
    match answer {
        Answer::Granted(_) => LockState::default(),
        Answer::Held {
            owner,
            ttl,
            permits,
            run,
            ..
        } => LockState {
            holder: Some(Holder {
                owner,
                remaining: ttl,
                client: run.and_then(|run| run.client),
            }),
            permits,
            ..LockState::default()
        },
    }
}

/// Whether the client is asking which program the holder is.
fn awaits_identity(io: &Io, state: &LockState) -> bool {
    let mut of_leadership = state.leadership.iter().flat_map(|of| of.owners());
    of_leadership.any(|owner| io.is_identity_asked(owner))
        || state
            .holder
            .as_ref()
            .is_some_and(|holder| holder.client.is_none() && io.is_identity_asked(&holder.owner))
}

/// Adds the programs of the holder, the leader and the candidates to a state, if they are known.
fn named(io: &Io, mut state: LockState) -> LockState {
    let program = |owner: &str| io.identity_of(owner);
    state.leadership = state.leadership.map(|leadership| Box::new(leadership.named(program)));
    if let Some(holder) = &mut state.holder {
        holder.client = holder.client.take().or_else(|| io.identity_of(&holder.owner));
    }
    state
}
