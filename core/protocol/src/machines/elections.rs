//! The observers of leaders: callers that ask who leads, and callers that wait until somebody else does.
//!
//! ```text
//!            asked                answered, and nothing is new
//!   new ───────────────► Asking ───────────────────────────────► Watching
//!                         │ ▲ ▲                                     │
//!                         │ │ └── message, poll, connected ─────────┘
//!                         │ └──── answered, but the answer may be stale
//!                         │
//!                         └── answered ──► completed, for each caller that has not seen this term
//!
//!   Asking, Watching ── the last caller has its answer ──► Idle ── a second without callers ──► gone
//!   Idle ── asked ──► Asking
//! ```
//!
//! An election is a leader's lock that callers of this client observe. The client subscribes to its channel, where the
//! server announces each new term and each resignation. A message can be lost, and the end of a lease has none, so the
//! client also polls. A caller names the term that it has seen, and is answered as soon as another one, or none, is
//! known: however many terms it misses between two questions, it learns of the last one.
//!
//! A call that was sent before a caller asked may have an older answer than the caller has seen, so it does not count
//! for this caller.

#[cfg(any(test, feature = "transitions"))]
mod drawing;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use steadlock_collections::SortedMap;

use crate::calls::Purpose;
use crate::error::{Cause, Error, ErrorKind, Operation};
use crate::ids::{ElectionId, Ticket};
use crate::instant::Instant;
use crate::io::Io;
use crate::kinds::{Keys, parse_leadership};
use crate::leadership::Leadership;
use crate::reply::{CallError, Refusal, Reply};
use crate::step::Step;
use crate::timers::Timer;
use crate::transitions;
use crate::types::{Lane, LockState, Outcome};
use crate::wording::explain;

pub(crate) use crate::step::ElectionInput as Input;

/// How long the client stays subscribed after the last caller has its answer. Most callers ask again at once.
const LINGER: Duration = Duration::from_secs(1);
/// The maximum number of programs that one answer asks for: those of the leader and of the first candidates.
pub(super) const MOST_NAMES: usize = 16;

/// The elections that this client observes.
#[derive(Debug, Default)]
pub(crate) struct Elections {
    last: ElectionId,
    by_id: SortedMap<ElectionId, Election>,
}

#[derive(Debug)]
struct Election {
    keys: Arc<Keys>,
    observers: Vec<Observer>,
    /// Whether a call is in flight.
    is_asking: bool,
    /// Whether something may have changed since the call in flight was sent.
    is_stale: bool,
    /// The last answer, kept while the client asks for the programs of the leader and the candidates.
    answer: Option<Leadership>,
}

#[derive(Clone, Copy, Debug)]
struct Observer {
    ticket: Ticket,
    /// The number of the term that the caller has seen.
    seen: u64,
    /// Whether the call in flight was sent before the caller asked.
    is_newer_than_call: bool,
}

impl Elections {
    pub(crate) fn input(&mut self, io: &mut Io, input: Input, now: Instant) {
        let before = transitions::before(self, io, &input);
        match input {
            Input::Asked { ticket, keys, seen } => self.asked(io, ticket, keys, seen, now),
            Input::MayHaveChanged(id) | Input::PollDue(id) => self.ask(io, id, now),
            Input::Answered(id, result) => self.answered(io, id, result, now),
            Input::Identified => {
                for id in self.by_id.keys().copied().collect::<Vec<_>>() {
                    self.tell(io, id, now);
                }
            }
            Input::Connected(node) => {
                let of_node = |(_, election): &(&ElectionId, &Election)| election.keys.node == node;
                let ids: Vec<ElectionId> = self.by_id.iter().filter(of_node).map(|(id, _)| *id).collect();
                for id in ids {
                    self.ask(io, id, now);
                }
            }
            Input::Cancelled(ticket) => {
                for id in self.by_id.keys().copied().collect::<Vec<_>>() {
                    self.remove(io, id, |observer| observer.ticket == ticket, now);
                }
            }
            Input::LingerOver(id) => {
                let is_idle = |election: &Election| election.observers.is_empty();
                if self.by_id.get(&id).is_some_and(is_idle)
                    && let Some(election) = self.by_id.remove(&id)
                {
                    io.step(Step::Unwatch(id, election.keys.node));
                }
            }
        }
        transitions::after(self, io, &before);
    }

    /// Returns the tickets of the callers that wait, oldest first.
    pub(crate) fn tickets(&self) -> Vec<Ticket> {
        let observers = self.by_id.values().flat_map(|election| &election.observers);
        observers.map(|observer| observer.ticket).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    fn asked(&mut self, io: &mut Io, ticket: Ticket, keys: Arc<Keys>, seen: u64, now: Instant) {
        let is_same = |election: &Election| election.keys.record == keys.record && election.keys.node == keys.node;
        let known = self.by_id.iter().find(|(_, election)| is_same(election));
        let id = known.map(|(id, _)| *id).unwrap_or_else(|| {
            self.last = self.last.next();
            let election = Election {
                keys: Arc::clone(&keys),
                observers: Vec::new(),
                is_asking: false,
                is_stale: false,
                answer: None,
            };
            self.by_id.insert(self.last, election);
            self.last
        });
        io.stop(Timer::Unwatch(id));
        io.note_lock(&keys);
        let Some(election) = self.by_id.get_mut(&id) else {
            return;
        };
        election.observers.push(Observer {
            ticket,
            seen,
            is_newer_than_call: election.is_asking || election.answer.is_some(),
        });
        if let Some(channel) = keys.channel() {
            io.step(Step::Watch(id, keys.node, channel));
        }
        self.ask(io, id, now);
    }

    /// Asks the server, or asks once more after the call in flight. Does nothing while nobody waits.
    fn ask(&mut self, io: &mut Io, id: ElectionId, now: Instant) {
        let Some(election) = self
            .by_id
            .get_mut(&id)
            .filter(|election| !election.observers.is_empty())
        else {
            return;
        };
        if election.is_asking || election.answer.is_some() {
            election.is_stale = true;
            return;
        }
        let poll = io.random_between(io.config().retry_interval.clone());
        io.set(Timer::Observe(id), now + poll);
        if io.is_connected(election.keys.node) {
            let invocation = election.keys.leadership();
            io.call(
                Purpose::Observe(id),
                election.keys.node,
                Lane::Command,
                invocation,
                None,
            );
            election.is_asking = true;
        }
    }

    fn answered(&mut self, io: &mut Io, id: ElectionId, result: Result<Reply, CallError>, now: Instant) {
        let Some(election) = self.by_id.get_mut(&id) else {
            return;
        };
        election.is_asking = false;
        let node = election.keys.node;
        match result.map(|reply| parse_leadership(&reply)) {
            Ok(Some(leadership)) => {
                for owner in leadership.owners().take(MOST_NAMES) {
                    io.ask_identity(node, owner, now);
                }
                if let Some(left) = leadership.term.as_ref().and_then(|term| term.holder.remaining) {
                    // The server publishes nothing when a lease ends.
                    let at = now + left.saturating_add(Duration::from_millis(1));
                    if io.due(Timer::Observe(id)).is_none_or(|due| at < due) {
                        io.set(Timer::Observe(id), at);
                    }
                }
                election.answer = Some(leadership);
                self.tell(io, id, now);
            }
            Ok(None) => {
                let cause = Cause::new("the server's reply is not Steadlock's");
                self.fail(io, id, &cause, now);
            }
            Err(CallError::Server { code, message }) if Refusal::of(&code) != Refusal::Temporary => {
                let cause = explain(&election.keys, &code, &message);
                self.fail(io, id, &cause, now);
            }
            // The next poll, or the next connection, asks again.
            Err(_) => {}
        }
    }

    /// Completes the callers that have not seen the last answer, unless a name in it is still being asked for.
    fn tell(&mut self, io: &mut Io, id: ElectionId, now: Instant) {
        let Some(election) = self.by_id.get_mut(&id) else {
            return;
        };
        let is_asked = |owner: &str| io.is_identity_asked(owner);
        let is_complete = |leadership: &mut Leadership| !leadership.owners().any(is_asked);
        let Some(leadership) = election.answer.take_if(is_complete) else {
            return;
        };
        let leadership = leadership.named(|owner| io.identity_of(owner));
        let number = leadership.number();
        let mut reported = Vec::new();
        election.observers.retain_mut(|observer| {
            let is_reported = !std::mem::take(&mut observer.is_newer_than_call) && observer.seen != number;
            reported.extend(is_reported.then_some(observer.ticket));
            !is_reported
        });
        let is_stale = std::mem::take(&mut election.is_stale);
        for ticket in reported {
            let state = LockState {
                leadership: Some(Box::new(leadership.clone())),
                ..LockState::default()
            };
            io.complete(ticket, Outcome::State(state));
        }
        self.remove(io, id, |_| false, now);
        if is_stale {
            self.ask(io, id, now);
        }
    }

    /// Fails all callers, because every later call would fail too.
    fn fail(&mut self, io: &mut Io, id: ElectionId, cause: &Cause, now: Instant) {
        let Some(election) = self.by_id.get_mut(&id) else {
            return;
        };
        election.is_stale = false;
        let name = election.keys.name.clone();
        for observer in std::mem::take(&mut election.observers) {
            let error = Error::caused(ErrorKind::Misconfigured, Operation::Inspect, cause.clone());
            io.complete(observer.ticket, Outcome::Failed(error.with_lock(name.as_str())));
        }
        self.remove(io, id, |_| false, now);
    }

    /// Removes some callers. Without callers, the client polls no more, and forgets the election after `LINGER`.
    fn remove(&mut self, io: &mut Io, id: ElectionId, is_gone: impl Fn(&Observer) -> bool, now: Instant) {
        let Some(election) = self.by_id.get_mut(&id) else {
            return;
        };
        election.observers.retain(|observer| !is_gone(observer));
        if election.observers.is_empty() {
            io.stop(Timer::Observe(id));
            if io.due(Timer::Unwatch(id)).is_none() {
                io.set(Timer::Unwatch(id), now + LINGER);
            }
        }
    }
}
