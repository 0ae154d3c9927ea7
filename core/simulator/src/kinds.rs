//! What the simulator has to know of each kind of lock: who may hold it beside
//! whom, what its calls and replies look like, and where its records are. A new
//! kind of lock joins here, by a line in [`FAMILIES`] and an arm in each function.

use leasehold_protocol::{Call, Kind, Reply, Script, Token};
use leasehold_store::{Reply as StoreReply, ServerTime, Store};

use crate::node::Node;
use crate::time::{MS, Micros};

/// Locks of one name that exclude one another, for a history to contend for.
#[derive(Debug)]
pub(crate) struct Family {
    /// How the table calls it.
    pub(crate) title: &'static str,
    /// The kinds that callers choose from.
    pub(crate) kinds: &'static [Kind],
    /// How many servers it lives on.
    pub(crate) nodes: usize,
    /// Whether a grant can have a fencing token.
    pub(crate) has_tokens: bool,
}

/// What the histories go through in turn.
pub(crate) const FAMILIES: &[Family] = &[Family {
    title: "lock",
    kinds: &[Kind::Lock],
    nodes: 1,
    has_tokens: true,
}];

/// Whether `newcomer` may hold beside `others`, all of one name.
pub(crate) fn admits(newcomer: Kind, others: &[Kind]) -> bool {
    match newcomer {
        Kind::Lock => others.is_empty(),
        other => unreachable!("no rule for {other:?}"),
    }
}

/// What a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Acquire,
    Renew,
    Release,
    Inspect,
}

/// What a script is for, and which of its ARGV is the owner id.
pub(crate) fn role(script: Script) -> (Role, Option<usize>) {
    match script {
        Script::LockAcquire => (Role::Acquire, Some(1)),
        Script::LockRenew => (Role::Renew, Some(1)),
        Script::LockRelease => (Role::Release, Some(0)),
        Script::LockInspect => (Role::Inspect, None),
        other => unreachable!("no role for {other:?}"),
    }
}

/// The owner that a call is made for.
pub(crate) fn owner(call: &Call) -> Option<&[u8]> {
    let (_, position) = role(call.script);
    call.args.get(position?).map(|owner| &**owner)
}

/// Whether a call had its way: granted, renewed, released.
pub(crate) fn is_yes(reply: &Reply) -> bool {
    matches!(reply, Reply::Array(parts) if parts.first() == Some(&Reply::Int(1)))
}

/// The token of a granted attempt; `None` if it was refused or has none.
pub(crate) fn granted_token(reply: &Reply) -> Option<Token> {
    match reply {
        Reply::Array(parts) => match parts.as_slice() {
            [Reply::Int(1), Reply::Bytes(token)] => Token::parse(token),
            _ => None,
        },
        _ => None,
    }
}

/// How long a record lasts from now.
pub(crate) fn lasts(node: &mut Node, record: &[u8], now: Micros) -> Micros {
    // A key lives through the millisecond in which it expires.
    let left = node.pttl(record, now);
    u64::try_from(left).map_or(0, |left| (left + 1) * MS)
}

/// The owners that a server has on record for a name.
pub(crate) fn holders(store: &mut Store, family: &Family, name: &str, now: ServerTime) -> Vec<Vec<u8>> {
    let reply = match family.kinds {
        [Kind::Lock, ..] => store.execute(&["HKEYS", name], now),
        other => unreachable!("no record for {other:?}"),
    };
    match reply {
        StoreReply::Array(owners) | StoreReply::Set(owners) => owners
            .into_iter()
            .filter_map(|owner| match owner {
                StoreReply::Bytes(owner) => Some(owner),
                _ => None,
            })
            .collect(),
        _ => Vec::new(),
    }
}
