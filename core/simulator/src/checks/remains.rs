//! Checks I3, I5 and I12: what remains on servers and in sessions, now and at the end.

use steadlock_protocol::Session;

use super::{Checked, broken};
use crate::node::Node;
use crate::time::Micros;

/// Checks I3: each of these keys has a TTL.
pub(crate) fn check_ttl<K: AsRef<[u8]>>(node: &mut Node, keys: &[K], now: Micros) -> Checked {
    for key in keys {
        if node.pttl(key.as_ref(), now) == -1 {
            let key = String::from_utf8_lossy(key.as_ref()).into_owned();
            return broken("I3", format!("key {key:?} has no TTL"));
        }
    }
    Ok(())
}

/// Checks I5: every owner on record belongs to a client that crashed.
pub(crate) fn check_only_crashed_remain(name: usize, owners: &[Vec<u8>], crashed: &[String]) -> Checked {
    let is_crashed = |owner: &&Vec<u8>| crashed.iter().any(|client| owner.starts_with(client.as_bytes()));
    match owners.iter().find(|owner| !is_crashed(owner)) {
        None => Ok(()),
        Some(owner) => {
            let owner = String::from_utf8_lossy(owner);
            broken(
                "I5",
                format!("everything was released, and name {name} still has owner {owner}"),
            )
        }
    }
}

/// Checks I5: when all TTLs have passed, a server has no key. `kept` lists keys that last longer.
pub(crate) fn check_nothing_remains(node: &mut Node, kept: &[Vec<u8>], now: Micros) -> Checked {
    let keys = node.keys(now);
    match keys.iter().find(|key| !kept.contains(key)) {
        None => Ok(()),
        Some(key) => {
            let (key, left) = (String::from_utf8_lossy(key).into_owned(), node.pttl(key, now));
            broken("I5", format!("key {key:?} outlived every TTL by {left} ms or more"))
        }
    }
}

/// Checks I12: a closed session keeps nothing and owes nothing.
pub(crate) fn check_session_is_empty(client: usize, session: &Session) -> Checked {
    if session.is_empty() && session.is_drained() {
        return Ok(());
    }
    broken(
        "I12",
        format!(
            "client {client} was closed and keeps {} entries; drained: {}",
            session.len(),
            session.is_drained()
        ),
    )
}
