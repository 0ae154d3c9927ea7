//! What was sent on a lane's connection and has no reply yet, oldest first.
//!
//! ```text
//!   call ─► Call ── reply ─► told ── NOSCRIPT ─► unknown ── all others are answered ─► Load, Call
//!   load ─► Load ── OK / refused: the calls behind it that find no script are told why
//!   look ─► Look ── a replica: the connection is of no use any more
//!   read ─► Read ── whatever it is ─► told to the connection that is being made
//!   a node of a cluster: call ─► Call ── MOVED, ASK, TRYAGAIN, CLUSTERDOWN ─► turned away
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem;

use steadlock_protocol::{Call, CallError, Cause, Instant, Reply, SHARDED, Script};
use tokio::sync::oneshot;

use super::failure::Failure;
use super::identity::Question;
use super::resp::{self, ServerError};
use super::{permission, role};
use crate::transport::interface::Seen;

#[derive(Default)]
pub(super) struct InFlight {
    entries: VecDeque<Entry>,
    /// Calls that were answered NOSCRIPT.
    unknown: Vec<Routed>,
    /// Of a node of a cluster: calls that it did not run.
    turned_away: Option<Vec<TurnedAway>>,
    /// Messages go by sharded channels.
    is_sharded: bool,
    /// Scripts whose text was sent to some server.
    loaded: BTreeSet<Script>,
    /// Scripts that the server did not take when they were sent last.
    refused: BTreeMap<Script, ServerError>,
}

/// A call, and how it goes.
pub(super) struct Routed {
    pub(super) call: Call,
    /// The node is to run it though the slot is still on its way there.
    pub(super) asking: bool,
}

/// A call that the node of a cluster did not run, and what it said.
pub(super) struct TurnedAway {
    pub(super) call: Call,
    pub(super) said: ServerError,
}

/// The codes with which a node of a cluster turns a call away, before it runs any of it.
pub(super) const NOT_HERE_NOT_NOW: [&str; 4] = ["MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN"];

/// What a node says that stopped a script in the midst of it: one of its own commands had removed a key, and a
/// node that is giving a slot away lets no command look for what it does not have.
const STOPPED_MIDWAY: [&str; 2] = [
    "attempted to access a non local key",
    // Redis 8.
    "undeclared keys were accessed during rehashing",
];

struct Entry {
    what: What,
    sent: Instant,
}

enum What {
    /// `is_repeated` says that its script was loaded just before it, so that it is not
    /// repeated once more.
    Call {
        routed: Routed,
        is_repeated: bool,
    },
    /// That the next call is to run though its slot is still on its way.
    Asking,
    Load(Script),
    /// The question whether the server is a primary.
    Look,
    /// A key that another connection wants to know of.
    Read(oneshot::Sender<Result<Reply, ServerError>>),
}

impl InFlight {
    /// Of a node of a cluster.
    pub(super) fn of_shard() -> Self {
        Self {
            turned_away: Some(Vec::new()),
            ..Self::default()
        }
    }

    /// Whether messages go by sharded channels on this connection.
    pub(super) const fn set_sharded(&mut self, is_sharded: bool) {
        self.is_sharded = is_sharded;
    }

    /// The calls that the node turned away since this was asked last.
    pub(super) fn take_turned_away(&mut self) -> Vec<TurnedAway> {
        self.turned_away.as_mut().map(mem::take).unwrap_or_default()
    }

    /// Since when the oldest waits.
    pub(super) fn since(&self) -> Option<Instant> {
        self.entries.front().map(|entry| entry.sent)
    }

    /// Whether calls wait for their script: no others may go before them.
    pub(super) fn is_repeating(&self) -> bool {
        !self.unknown.is_empty()
    }

    /// Writes a call; before the first one of a script its text.
    pub(super) fn call(&mut self, routed: Routed, now: Instant, out: &mut Vec<u8>) {
        if !self.loaded.contains(&routed.call.script) {
            self.load(routed.call.script, now, out);
        }
        self.push_call(routed, false, now, out);
    }

    fn push_call(&mut self, routed: Routed, is_repeated: bool, now: Instant, out: &mut Vec<u8>) {
        if routed.asking {
            resp::command(out, [b"ASKING".as_slice()].into_iter());
            self.push(What::Asking, now);
        }
        let call = &routed.call;
        let more = (self.is_sharded && call.script.publishes()).then_some(SHARDED);
        resp::begin(out, 3 + call.keys.len() + call.args.len() + usize::from(more.is_some()));
        resp::bulk(out, b"EVALSHA");
        resp::bulk(out, call.script.sha1().as_bytes());
        resp::bulk_number(out, call.keys.len());
        for part in call.keys.iter().chain(&call.args) {
            resp::bulk(out, part);
        }
        if let Some(more) = more {
            resp::bulk(out, more);
        }
        self.push(What::Call { routed, is_repeated }, now);
    }

    fn load(&mut self, script: Script, now: Instant, out: &mut Vec<u8>) {
        self.loaded.insert(script);
        let parts: [&[u8]; 3] = [b"SCRIPT", b"LOAD", script.text().as_bytes()];
        resp::command(out, parts.into_iter());
        self.push(What::Load(script), now);
    }

    /// Writes the question what the server is.
    pub(super) fn look(&mut self, now: Instant, out: &mut Vec<u8>) {
        resp::command(out, [role::QUESTION].into_iter());
        self.push(What::Look, now);
    }

    /// Reads a key for a connection that is being made.
    pub(super) fn read(&mut self, question: Question, now: Instant, out: &mut Vec<u8>) {
        resp::command(out, [b"GET".as_slice(), &question.key].into_iter());
        self.push(What::Read(question.answer), now);
    }

    /// Whether a connection that is being made waits.
    pub(super) fn is_asked(&self) -> bool {
        self.entries.iter().any(|entry| matches!(entry.what, What::Read(_)))
    }

    fn push(&mut self, what: What, now: Instant) {
        self.entries.push_back(Entry { what, sent: now });
    }

    /// Takes the reply to the oldest.
    ///
    /// # Errors
    /// The server is no primary any more, or answers what was not asked.
    pub(super) fn answered(&mut self, reply: Result<Reply, ServerError>, seen: &mut Vec<Seen>) -> Result<(), Failure> {
        let Some(entry) = self.entries.pop_front() else {
            return Err(Failure::unavailable("the server's replies do not match the calls"));
        };
        let (routed, is_repeated) = match entry.what {
            // What it is refused for, the call behind it is too.
            What::Asking => return Ok(()),
            What::Look => return role::still_primary(&reply),
            What::Read(answer) => {
                // Nobody is told who does not wait any more.
                let _ = answer.send(reply);
                return Ok(());
            }
            What::Load(script) => {
                if let Err(error) = reply {
                    self.loaded.remove(&script);
                    self.refused.insert(script, error);
                } else {
                    self.refused.remove(&script);
                }
                return Ok(());
            }
            What::Call { routed, is_repeated } => (routed, is_repeated),
        };
        let call = &routed.call;
        let error = match reply {
            Ok(reply) => {
                seen.push(Seen::Reply(call.id, Ok(reply)));
                return Ok(());
            }
            Err(error) => error,
        };
        if error.code == NO_SCRIPT {
            let refusal = self.refused.get(&call.script);
            if refusal.is_none() && !is_repeated {
                self.unknown.push(routed);
                return Ok(());
            }
            let error = refusal.unwrap_or(&error);
            seen.push(Seen::Reply(call.id, Err(permission::explained(error, call))));
            return Ok(());
        }
        if let Some(turned_away) = &mut self.turned_away {
            if NOT_HERE_NOT_NOW.contains(&error.code.as_str()) {
                let call = routed.call;
                turned_away.push(TurnedAway { call, said: error });
                return Ok(());
            }
            let message = error.message.to_ascii_lowercase();
            if STOPPED_MIDWAY.iter().any(|text| message.contains(text)) {
                // As if the connection had closed: it may have been done, and is to be asked again.
                let cause = Cause::new("the lock's slot is on its way to another node");
                seen.push(Seen::Reply(call.id, Err(CallError::Disconnected(cause))));
                return Ok(());
            }
        }
        seen.push(Seen::Reply(call.id, Err(permission::explained(&error, call))));
        role::no_primary(&error).map_or(Ok(()), |code| Err(Failure::demoted(code)))
    }

    /// Loads the scripts and repeats the calls that found none, once all replies are in.
    /// True if anything was written.
    pub(super) fn repeat(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        if self.unknown.is_empty() || !self.entries.is_empty() {
            return false;
        }
        let calls = mem::take(&mut self.unknown);
        let missing: BTreeSet<Script> = calls.iter().map(|routed| routed.call.script).collect();
        for script in missing {
            self.load(script, now, out);
        }
        for call in calls {
            self.push_call(call, true, now, out);
        }
        true
    }

    /// Takes the calls that will have no reply, oldest first.
    pub(super) fn take(&mut self) -> Vec<Call> {
        self.refused.clear();
        let unknown = mem::take(&mut self.unknown).into_iter();
        let mut calls: Vec<Call> = unknown.map(|routed| routed.call).collect();
        let sent = mem::take(&mut self.entries).into_iter();
        calls.extend(sent.filter_map(|entry| match entry.what {
            What::Call { routed, .. } => Some(routed.call),
            What::Asking | What::Load(_) | What::Look | What::Read(_) => None,
        }));
        calls
    }
}

/// The server does not know the script (any more).
const NO_SCRIPT: &str = "NOSCRIPT";
