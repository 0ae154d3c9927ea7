//! Identities: which program on which machine each client is. A client with an identity stores it on its servers, and
//! reads the identities of other clients there.
//!
//! Identities are for people who read errors and lists. No lock depends on them. A refusal waits briefly for the
//! identity of the holder (`client.rs`). The answer to a question about a lock waits for it no longer than the command
//! timeout. A failure to get an identity is not reported.

use std::sync::Arc;
use std::time::Duration;

use steadlock_collections::{SortedMap, SortedSet};

use crate::client_info::ClientInfo;
use crate::ids::{CallId, NodeId};
use crate::instant::Instant;
use crate::kinds::Invocation;
use crate::name::KeyPrefix;
use crate::owner::{ClientId, OwnerId};
use crate::reply::{CallError, Refusal, Reply};
use crate::script::Script;

/// How often a client that is in use repeats its identity.
pub(crate) const EVERY: Duration = Duration::from_secs(30);
/// How long the server keeps an identity: two repetitions may fail.
const TTL_MILLIS: &str = "90000";
/// How long the identity of another client is used before this client asks again.
const BELIEVED: Duration = Duration::from_secs(60);
/// How long another client counts as without an identity. The call that stores the identity may still be on its way,
/// for example to another node of a cluster than the lock.
const ABSENCE_BELIEVED: Duration = Duration::from_secs(1);
/// The maximum number of other clients that are known.
const MOST: usize = 1_000;

/// The identity of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The information that the client gives about itself.
    pub info: Arc<ClientInfo>,
    /// The prefix of its keys on the server.
    pub prefix: KeyPrefix,
}

/// The identity of this client, and those of others.
#[derive(Debug)]
pub(crate) struct Identities {
    own: Option<Own>,
    /// The nodes that have received this client's identity since the timer last fired.
    said: SortedSet<NodeId>,
    others: SortedMap<Box<str>, Other>,
    asked: SortedMap<CallId, Box<str>>,
}

#[derive(Debug)]
struct Own {
    identity: Identity,
    client: Box<str>,
    key: Arc<[u8]>,
    text: Arc<[u8]>,
}

/// The knowledge of this client about another client.
#[derive(Debug)]
enum Other {
    /// The question is in flight.
    Asked,
    /// The answer came; `info` is `None` if the other client says nothing about itself. It is used until then.
    Known {
        info: Option<Arc<ClientInfo>>,
        until: Instant,
    },
}

impl Identities {
    pub(crate) fn new(client: ClientId, identity: Option<Identity>) -> Self {
        let own = identity.map(|identity| Own {
            client: client.to_string().into(),
            key: identity.prefix.client_key(client),
            text: identity.info.text().into_bytes().into(),
            identity,
        });
        Self {
            own,
            said: SortedSet::new(),
            others: SortedMap::new(),
            asked: SortedMap::new(),
        }
    }

    /// Returns the call that stores this client's identity on a node, unless the node has received it since the timer
    /// last fired.
    pub(crate) fn say(&mut self, node: NodeId) -> Option<Invocation> {
        let own = self.own.as_ref()?;
        self.said.insert(node).then(|| Invocation {
            script: Script::ClientIdentify,
            keys: vec![Arc::clone(&own.key)],
            args: vec![Arc::clone(&own.text), TTL_MILLIS.as_bytes().into()],
        })
    }

    /// Forgets which nodes have received this client's identity, and returns them.
    pub(crate) fn forget_what_was_said(&mut self) -> SortedSet<NodeId> {
        std::mem::take(&mut self.said)
    }

    /// Forgets that a node has received this client's identity, because another server may be there by now. Returns
    /// whether the node had received the identity.
    pub(crate) fn forget_what_was_said_at(&mut self, node: NodeId) -> bool {
        self.said.remove(&node)
    }

    /// Returns the information that this client gives about itself, as text; `None` if it gives none.
    pub(crate) fn own_info(&self) -> Option<&Arc<[u8]>> {
        self.own.as_ref().map(|own| &own.text)
    }

    /// Returns the program of an owner id, if it is known.
    pub(crate) fn of_owner(&self, owner: &str) -> Option<Arc<ClientInfo>> {
        let own = self.own.as_ref()?;
        let (client, _) = OwnerId::parts(owner)?;
        if *client == *own.client {
            return Some(Arc::clone(&own.identity.info));
        }
        match self.others.get(client)? {
            Other::Known { info, .. } => info.clone(),
            Other::Asked => None,
        }
    }

    /// Returns the question about the program of an owner id. `None` if the answer is known, if the question is in
    /// flight, or if this client has no identity itself.
    pub(crate) fn question(&self, owner: &str, now: Instant) -> Option<(Box<str>, Invocation)> {
        let own = self.own.as_ref()?;
        let (client, _) = OwnerId::parts(owner)?;
        let is_known = match self.others.get(client) {
            Some(Other::Known { until, .. }) => now < *until,
            Some(Other::Asked) => true,
            None => *client == *own.client,
        };
        (!is_known).then(|| {
            let invocation = Invocation {
                script: Script::ClientInspect,
                keys: vec![own.identity.prefix.key_of_client(client)],
                args: Vec::new(),
            };
            (client.into(), invocation)
        })
    }

    /// Whether the question about the client of an owner id is in flight.
    pub(crate) fn is_asked(&self, owner: &str) -> bool {
        let client = OwnerId::parts(owner).map(|(client, _)| client);
        client.is_some_and(|client| matches!(self.others.get(client), Some(Other::Asked)))
    }

    /// Notes that a question about a client was sent.
    pub(crate) fn asked(&mut self, call: CallId, client: Box<str>, now: Instant) {
        if self.others.len() >= MOST {
            self.others.retain(|_, other| match other {
                Other::Asked => true,
                Other::Known { until, .. } => now < *until,
            });
        }
        if self.others.len() >= MOST {
            self.others.retain(|_, other| matches!(other, Other::Asked));
        }
        // The old answer is not used any more, because the program may have ended.
        self.others.insert(client.clone(), Other::Asked);
        self.asked.insert(call, client);
    }

    /// Handles the answer to a question, or its failure.
    pub(crate) fn answered(&mut self, call: CallId, result: &Result<Reply, CallError>, now: Instant) {
        let Some(client) = self.asked.remove(&call) else { return };
        match result {
            Ok(reply) => {
                let info = parse(reply);
                let until = now + if info.is_some() { BELIEVED } else { ABSENCE_BELIEVED };
                self.others.insert(client, Other::Known { info, until });
            }
            // The same question would fail again, for example because this user may not read identities.
            Err(CallError::Server { code, .. }) if Refusal::of(code) != Refusal::Temporary => {
                let until = now + BELIEVED;
                self.others.insert(client, Other::Known { info: None, until });
            }
            // This client asks again when another refusal names that client.
            Err(_) => {
                self.others.remove(&client);
            }
        }
    }
}

fn parse(reply: &Reply) -> Option<Arc<ClientInfo>> {
    let Reply::Array(parts) = reply else { return None };
    let [Reply::Int(1), Reply::Bytes(text)] = parts.as_slice() else {
        return None;
    };
    ClientInfo::parse(text).map(Arc::new)
}
