//! The commands that were sent on a lane's connection and have no reply yet, oldest first.
//!
//! ```text
//!   call ─► Call ── reply ─► reported ── NOSCRIPT ─► unknown ── all others are answered ─► Load, Call
//!   load ─► Load ── OK / refused: the calls of this script behind it fail with the reason
//!   look ─► Look ── a replica: the connection is given up
//!   read ─► Read ── any reply ─► passed to the connection that is being made
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
    /// Calls with the reply NOSCRIPT.
    unknown: Vec<Routed>,
    /// Calls that the node did not run; only for a node of a cluster.
    turned_away: Option<Vec<TurnedAway>>,
    /// Whether messages use sharded channels.
    is_sharded: bool,
    /// Scripts whose text was sent on any connection of this lane.
    loaded: BTreeSet<Script>,
    /// Scripts that the server refused when they were last sent, with its error.
    refused: BTreeMap<Script, ServerError>,
}

/// A call and its routing.
pub(super) struct Routed {
    pub(super) call: Call,
    /// Whether to ask the node to run the call although the slot is still migrating to it.
    pub(super) asking: bool,
}

/// A call that a cluster node did not run, and the node's error.
pub(super) struct TurnedAway {
    pub(super) call: Call,
    pub(super) said: ServerError,
}

/// The error codes with which a cluster node turns a call away before it runs any part of it.
pub(super) const NOT_HERE_NOT_NOW: [&str; 4] = ["MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN"];

/// Parts of the errors with which a node stops a script midway. While a node gives a slot away, it refuses commands on
/// keys that it does not have. An earlier command of the script can have removed such a key.
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
    /// `is_repeated` is true if the script was loaded just before this call. Such a call is not repeated again.
    Call {
        routed: Routed,
        is_repeated: bool,
    },
    /// The request to run the next call although its slot is still migrating to the node.
    Asking,
    Load(Script),
    /// The question whether the server is a primary.
    Look,
    /// The value of a key, for another connection.
    Read(oneshot::Sender<Result<Reply, ServerError>>),
}

impl InFlight {
    /// Creates it for a node of a cluster.
    pub(super) fn of_shard() -> Self {
        Self {
            turned_away: Some(Vec::new()),
            ..Self::default()
        }
    }

    /// Sets whether messages use sharded channels on this connection.
    pub(super) const fn set_sharded(&mut self, is_sharded: bool) {
        self.is_sharded = is_sharded;
    }

    /// Removes and returns the calls that the node has turned away.
    pub(super) fn take_turned_away(&mut self) -> Vec<TurnedAway> {
        self.turned_away.as_mut().map(mem::take).unwrap_or_default()
    }

    /// Returns the time at which the oldest command was sent.
    pub(super) fn since(&self) -> Option<Instant> {
        self.entries.front().map(|entry| entry.sent)
    }

    /// Whether calls wait for their script to be loaded. No other call may be sent before them.
    pub(super) fn is_repeating(&self) -> bool {
        !self.unknown.is_empty()
    }

    /// Writes a call, preceded by the script's text if this is the script's first call.
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

    /// Writes the question whether the server is a primary.
    pub(super) fn look(&mut self, now: Instant, out: &mut Vec<u8>) {
        resp::command(out, [role::QUESTION].into_iter());
        self.push(What::Look, now);
    }

    /// Writes the question of a connection that is being made: the value of a key.
    pub(super) fn read(&mut self, question: Question, now: Instant, out: &mut Vec<u8>) {
        resp::command(out, [b"GET".as_slice(), &question.key].into_iter());
        self.push(What::Read(question.answer), now);
    }

    /// Whether a connection that is being made waits for an answer.
    pub(super) fn is_asked(&self) -> bool {
        self.entries.iter().any(|entry| matches!(entry.what, What::Read(_)))
    }

    fn push(&mut self, what: What, now: Instant) {
        self.entries.push_back(Entry { what, sent: now });
    }

    /// Handles the reply to the oldest command.
    ///
    /// # Errors
    /// The server is no longer a primary, or its reply matches no command.
    pub(super) fn answered(&mut self, reply: Result<Reply, ServerError>, seen: &mut Vec<Seen>) -> Result<(), Failure> {
        let Some(entry) = self.entries.pop_front() else {
            return Err(Failure::unavailable("the server's replies do not match the calls"));
        };
        let (routed, is_repeated) = match entry.what {
            // An error of `ASKING` also fails the call after it.
            What::Asking => return Ok(()),
            What::Look => return role::still_primary(&reply),
            What::Read(answer) => {
                // The other connection may no longer wait.
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
                // Reported like a closed connection: the script may have taken effect, so the call is unresolved.
                let cause = Cause::new("the lock's slot is on its way to another node");
                seen.push(Seen::Reply(call.id, Err(CallError::Disconnected(cause))));
                return Ok(());
            }
        }
        seen.push(Seen::Reply(call.id, Err(permission::explained(&error, call))));
        role::no_primary(&error).map_or(Ok(()), |code| Err(Failure::demoted(code)))
    }

    /// Loads the missing scripts and repeats their calls, once all replies have arrived. Returns whether it wrote
    /// anything.
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

    /// Removes and returns the calls that will get no reply, oldest first.
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

/// The error code of a server that does not know the script.
const NO_SCRIPT: &str = "NOSCRIPT";
