//! Asking the server who holds a lock, and what an operator does to those who do.
//!
//! ```text
//!          asked, connected              answered
//!   Open ───────────────────► Asked ─────────────────► told
//!     ▲                         │ │                      ▲
//!     └── disconnected ─────────┘ │ answered             │ identified, overdue
//!         (a forced release       └───────► Unnamed ─────┘
//!         is told)                 it is not known yet which program the holder is
//!
//!   overdue ──────► told that nothing came
//!   cancelled ────► gone
//! ```

#[cfg(any(test, feature = "transitions"))]
mod drawing;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::calls::Purpose;
use crate::cause::Cause;
use crate::error::{Error, ErrorKind, Holder, Operation};
use crate::ids::Ticket;
use crate::instant::Instant;
use crate::io::Io;
use crate::kinds::{Answer, Keys, Record, parse_record};
use crate::reply::{CallError, Refusal, Reply};
use crate::sorted::SortedMap;
use crate::timers::Timer;
use crate::transitions;
use crate::types::{Lane, LockState, Outcome};
use crate::wording::{cut, explain};

/// What is asked of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// Who holds it?
    State,
    /// How many wait in the server's queue?
    Length,
    /// Remove it from its holder.
    Force,
    /// Let those who hold permits agree on this limit.
    Limit(u32),
}

/// What happens to questions.
#[derive(Debug)]
pub(crate) enum Input {
    /// A caller asks something of a lock.
    Asked(Ticket, Arc<Keys>, Question),
    /// There is a connection again.
    Connected,
    /// The answer came, or its connection closed.
    Answered(Ticket, Result<Reply, CallError>),
    /// The answer did not come in time.
    Overdue(Ticket),
    /// The caller went away.
    Cancelled(Ticket),
    /// Which program a holder is is known now, or will not be.
    Identified,
}

/// The questions of a client that wait for their answers.
#[derive(Debug, Default)]
pub(crate) struct Inspections {
    open: SortedMap<Ticket, Inspection>,
}

#[derive(Debug)]
struct Inspection {
    keys: Arc<Keys>,
    question: Question,
    /// It was asked, and no connection closed since.
    is_asked: bool,
    /// The answer, which is told when it is known which program the holder is.
    answer: Option<LockState>,
}

impl Inspections {
    pub(crate) fn input(&mut self, io: &mut Io, input: Input, now: Instant) {
        let before = transitions::before(self, io, &input);
        match input {
            Input::Asked(ticket, keys, question) => {
                let is_asked = false;
                let inspection = Inspection {
                    keys,
                    question,
                    is_asked,
                    answer: None,
                };
                io.note_lock(&inspection.keys);
                if let Some(outage) = io.outage(&inspection.keys).filter(|_| question == Question::State) {
                    let outcome = inspection.failed(ErrorKind::Unavailable, outage.told(now));
                    io.complete(ticket, outcome);
                    return transitions::after(self, io, &before);
                }
                self.open.insert(ticket, inspection);
                io.set(Timer::Answer(ticket), io.timeout(now));
                self.ask(io, ticket);
            }
            // Asking twice is idempotent, and so is setting a limit twice.
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

    /// Whose they are, oldest first.
    pub(crate) fn tickets(&self) -> Vec<Ticket> {
        self.open.keys().copied().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// Asks now, or when there is a connection.
    fn ask(&mut self, io: &mut Io, ticket: Ticket) {
        let Some(inspection) = self
            .open
            .get_mut(&ticket)
            .filter(|inspection| io.is_connected(inspection.keys.node) && !inspection.is_spent())
            .filter(|inspection| inspection.answer.is_none())
        else {
            return;
        };
        let keys = &inspection.keys;
        let invocation = match inspection.question {
            Question::State => keys.inspect(),
            Question::Length => keys.queue_length(),
            Question::Force => keys.force(),
            Question::Limit(limit) => keys.set_limit(limit),
        };
        io.call(Purpose::Inspect(ticket), (keys.node, Lane::Command), invocation, None);
        inspection.is_asked = true;
    }

    fn answered(&mut self, io: &mut Io, ticket: Ticket, result: Result<Reply, CallError>, now: Instant) {
        let Some(inspection) = self.open.get_mut(&ticket) else {
            return;
        };
        inspection.is_asked = false;
        match inspection.outcome(result) {
            Some(Outcome::State(state)) => {
                if let Some(holder) = &state.holder {
                    io.ask_identity(inspection.keys.node, &holder.owner, now);
                }
                inspection.answer = Some(state);
                self.identified(io);
            }
            Some(outcome) => self.tell(io, ticket, outcome),
            None => {}
        }
    }

    /// Tells all answers of which it is known who the holder is, or of which nobody will know.
    fn identified(&mut self, io: &mut Io) {
        let is_told = |inspection: &Inspection| inspection.answer.as_ref().is_some_and(|state| !is_asked(io, state));
        let told: Vec<Ticket> = self
            .open
            .iter()
            .filter(|(_, one)| is_told(one))
            .map(|(ticket, _)| *ticket)
            .collect();
        for ticket in told {
            if let Some(state) = self
                .open
                .get_mut(&ticket)
                .and_then(|inspection| inspection.answer.take())
            {
                self.tell(io, ticket, Outcome::State(named(io, state)));
            }
        }
    }

    fn tell(&mut self, io: &mut Io, ticket: Ticket, outcome: Outcome) {
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
    /// A forced release was sent: asking again might take it from the next holder.
    fn is_spent(&self) -> bool {
        self.is_asked && self.question == Question::Force
    }

    const fn operation(&self) -> Operation {
        match self.question {
            Question::State | Question::Length => Operation::Inspect,
            Question::Force => Operation::Release,
            Question::Limit(_) => Operation::SetLimit,
        }
    }

    fn failed(&self, kind: ErrorKind, cause: Cause) -> Outcome {
        Outcome::Failed(Error::caused(kind, self.operation(), cause).with_lock(self.keys.name.as_str()))
    }

    /// What an answer comes to; `None` if it is asked again on the next connection, while its caller waits.
    fn outcome(&self, result: Result<Reply, CallError>) -> Option<Outcome> {
        let told = match (result, self.question) {
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
            (Err(CallError::Disconnected(_)), Question::State | Question::Length | Question::Limit(_)) => return None,
            (Err(CallError::Disconnected(cause)), Question::Force) => Some(self.failed(
                ErrorKind::Unavailable,
                cut(&cause).with_advice("look whether it is still held"),
            )),
        };
        Some(told.unwrap_or_else(|| {
            let cause = Cause::new("the server's reply is not Steadlock's");
            self.failed(ErrorKind::Misconfigured, cause)
        }))
    }
}

fn state_of(answer: Answer) -> LockState {
    match answer {
        Answer::Granted(_) => LockState::default(),
        Answer::Held {
            owner, ttl, permits, ..
        } => LockState {
            holder: Some(Holder {
                owner,
                remaining: ttl,
                client: None,
            }),
            permits,
            waiting: None,
        },
    }
}

/// Whether the server is being asked which program the holder is.
fn is_asked(io: &Io, state: &LockState) -> bool {
    state
        .holder
        .as_ref()
        .is_some_and(|holder| io.is_identity_asked(&holder.owner))
}

/// The same state, with the holder's program if that is known.
fn named(io: &Io, mut state: LockState) -> LockState {
    if let Some(holder) = &mut state.holder {
        holder.client = io.identity_of(&holder.owner);
    }
    state
}
