//! Which program this client is, and others are.

use std::sync::Arc;

use super::Io;
use crate::calls::Purpose;
use crate::client_info::ClientInfo;
use crate::error::Error;
use crate::identities::EVERY;
use crate::ids::{CallId, NodeId, Ticket};
use crate::instant::Instant;
use crate::reply::{CallError, Reply};
use crate::timers::Timer;
use crate::types::{Lane, Outcome};

impl Io {
    /// This client is about to use a node: it says which program it is, unless it did so lately.
    pub(crate) fn identify(&mut self, node: NodeId, now: Instant) {
        if let Some(invocation) = self.identities.say(node) {
            self.call(Purpose::Identify, (node, Lane::Command), invocation, None);
            if self.due(Timer::Identify).is_none() {
                self.set(Timer::Identify, now + EVERY);
            }
        }
    }

    /// Says it again where it was said, while this client is in use.
    pub(crate) fn identify_again(&mut self, is_in_use: bool, now: Instant) {
        let nodes = self.identities.forget_what_was_said();
        if is_in_use {
            for node in nodes {
                if self.is_connected(node) {
                    self.identify(node, now);
                }
            }
            self.set(Timer::Identify, now + EVERY);
        }
    }

    /// By now another server may be there. Whether anything was said.
    pub(crate) fn forget_identity(&mut self, node: NodeId) -> bool {
        self.identities.forget_what_was_said_at(node)
    }

    /// Which program an owner id is of, if that is known.
    pub(crate) fn identity_of(&self, owner: &str) -> Option<Arc<ClientInfo>> {
        self.identities.of_owner(owner)
    }

    /// Asks which program an owner id is of, unless that is known.
    pub(crate) fn ask_identity(&mut self, node: NodeId, owner: &str, now: Instant) {
        if let Some((client, invocation)) = self.identities.question(owner, now) {
            let call = self.call(Purpose::Identity, (node, Lane::Command), invocation, None);
            self.identities.asked(call, client, now);
        }
    }

    /// Whether the answer is under way.
    pub(crate) fn is_identity_asked(&self, owner: &str) -> bool {
        self.identities.is_asked(owner)
    }

    /// Whether an answer is under way that says which program the holder is that an error names.
    pub(crate) fn is_name_asked(&self, error: &Error) -> bool {
        error
            .holder()
            .is_some_and(|holder| self.is_identity_asked(&holder.owner))
    }

    /// A caller is refused whose wait ended before: if the name of the holder is under way, it has until then.
    pub(crate) fn name_by(&mut self, ticket: Ticket, outcome: &Outcome, until: Option<Instant>, now: Instant) {
        if let Outcome::NotGranted(error) = outcome
            && self.is_name_asked(error)
        {
            self.set(Timer::Name(ticket), until.unwrap_or(now));
        }
    }

    /// The answer came, or none will.
    pub(crate) fn identified(&mut self, call: CallId, result: &Result<Reply, CallError>, now: Instant) {
        self.identities.answered(call, result, now);
    }
}
