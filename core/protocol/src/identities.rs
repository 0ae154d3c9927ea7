//! Which program on which machine a client is: what this one says of itself on its servers, and what it knows of others.
//!
//! It is for people who read errors and lists. No lock depends on it. A refusal and the answer to a question wait for
//! it, the former not for long (`groups/unnamed.rs`), and what comes of it to nothing is not told.

use std::sync::Arc;
use std::time::Duration;

use crate::client_info::ClientInfo;
use crate::ids::{CallId, NodeId};
use crate::instant::Instant;
use crate::kinds::Invocation;
use crate::name::KeyPrefix;
use crate::owner::{ClientId, OwnerId};
use crate::reply::{CallError, Refusal, Reply};
use crate::script::Script;
use crate::sorted::{SortedMap, SortedSet};

/// How often a client that is in use says who it is.
pub(crate) const EVERY: Duration = Duration::from_secs(30);
/// How long the server keeps that: two may fail.
const TTL_MILLIS: &str = "90000";
/// How long what another client said is believed.
const BELIEVED: Duration = Duration::from_secs(60);
/// So many clients are known at the most.
const MOST: usize = 1_000;

/// How a client is called for those who read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// What it says of itself.
    pub info: Arc<ClientInfo>,
    /// What stands before the names of its locks.
    pub prefix: KeyPrefix,
}

/// What this client says, and what others said.
#[derive(Debug)]
pub(crate) struct Identities {
    own: Option<Own>,
    /// Where it was said since the last time that the timer ran out.
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

/// What is known of another client.
#[derive(Debug)]
enum Other {
    /// The server was asked.
    Asked,
    /// This, since then; `None` if it says nothing.
    Known(Option<Arc<ClientInfo>>, Instant),
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

    /// What is to be said at a node, unless that was done lately.
    pub(crate) fn say(&mut self, node: NodeId) -> Option<Invocation> {
        let own = self.own.as_ref()?;
        self.said.insert(node).then(|| Invocation {
            script: Script::ClientIdentify,
            keys: vec![Arc::clone(&own.key)],
            args: vec![Arc::clone(&own.text), TTL_MILLIS.as_bytes().into()],
        })
    }

    /// It is to be said anew where it was said: there.
    pub(crate) fn forget_what_was_said(&mut self) -> SortedSet<NodeId> {
        std::mem::take(&mut self.said)
    }

    /// It is to be said anew there, if it ever was: by now another server may be there.
    pub(crate) fn forget_what_was_said_at(&mut self, node: NodeId) -> bool {
        self.said.remove(&node)
    }

    /// Which program an owner id is of, if that is known.
    pub(crate) fn of_owner(&self, owner: &str) -> Option<Arc<ClientInfo>> {
        let own = self.own.as_ref()?;
        let (client, _) = OwnerId::parts(owner)?;
        if *client == *own.client {
            return Some(Arc::clone(&own.identity.info));
        }
        match self.others.get(client)? {
            Other::Known(info, _) => info.clone(),
            Other::Asked => None,
        }
    }

    /// The question of which program an owner id is of, unless that is known or asked already.
    pub(crate) fn question(&self, owner: &str, now: Instant) -> Option<(Box<str>, Invocation)> {
        let own = self.own.as_ref()?;
        let (client, _) = OwnerId::parts(owner)?;
        let is_known = match self.others.get(client) {
            Some(Other::Known(_, at)) => now.saturating_since(*at) < BELIEVED,
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

    /// Whether the answer about an owner id's client is under way.
    pub(crate) fn is_asked(&self, owner: &str) -> bool {
        let client = OwnerId::parts(owner).map(|(client, _)| client);
        client.is_some_and(|client| matches!(self.others.get(client), Some(Other::Asked)))
    }

    /// A client was asked about.
    pub(crate) fn asked(&mut self, call: CallId, client: Box<str>, now: Instant) {
        if self.others.len() >= MOST {
            let is_believed = |at: &Instant| now.saturating_since(*at) < BELIEVED;
            self.others.retain(|_, other| match other {
                Other::Asked => true,
                Other::Known(_, at) => is_believed(at),
            });
        }
        if self.others.len() >= MOST {
            self.others.retain(|_, other| matches!(other, Other::Asked));
        }
        // What was known of it is told no more: the program may have ended.
        self.others.insert(client.clone(), Other::Asked);
        self.asked.insert(call, client);
    }

    /// The answer came, or none will.
    pub(crate) fn answered(&mut self, call: CallId, result: &Result<Reply, CallError>, now: Instant) {
        let Some(client) = self.asked.remove(&call) else { return };
        match result {
            Ok(reply) => {
                self.others.insert(client, Other::Known(parse(reply), now));
            }
            // To this client it says nothing.
            Err(CallError::Server { code, .. }) if Refusal::of(code) != Refusal::Temporary => {
                self.others.insert(client, Other::Known(None, now));
            }
            // Asked again when somebody wants to know.
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
