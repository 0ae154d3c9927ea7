//! Checks I15: no auto-renewed hold expires while the server answers and the client has at least one of its two
//! connections for calls (commands and renewals). Also, a client that holds or waits for a lock on a server leaves that
//! server soon after its demotion.

use std::collections::BTreeMap;

use steadlock_protocol::{LeaseId, Session};

use super::{Checked, broken};
use crate::client::{Client, LOOK};
use crate::node::Node;
use crate::route::{ConnectionKind, Route};
use crate::time::{MS, Micros};

/// The check of I15.
#[derive(Debug, Default)]
pub(crate) struct Following {
    /// For each connection, the time until which something other than the session held up its calls or replies.
    hindered: BTreeMap<(usize, usize, usize), Micros>,
    /// For each server, the time until which it did not serve.
    server: BTreeMap<usize, Micros>,
    granted: BTreeMap<(usize, LeaseId), Micros>,
    /// Since when each client has held or waited for a lock, at every look.
    in_use_since: BTreeMap<usize, Micros>,
}

impl Following {
    /// Notes that a connection is held up until `until`, or has just opened.
    pub(crate) fn hindered(&mut self, route: Route, until: Micros) {
        let at = (route.client, route.node, route.connection as usize);
        let before = self.hindered.entry(at).or_default();
        *before = until.max(*before);
    }

    /// Notes that a server did not serve until now.
    pub(crate) fn hindered_all(&mut self, node: usize, now: Micros) {
        self.server.insert(node, now);
    }

    pub(crate) fn granted(&mut self, client: usize, lease: LeaseId, now: Micros) {
        self.granted.insert((client, lease), now);
    }

    /// Returns whether nothing has held up a client's connections for commands since `since`, and they lead to
    /// primaries. A connection can lead to a demoted server even after the effects of all faults, until the client
    /// notices the demotion.
    pub(crate) fn reaches(&self, (number, client): (usize, &Client), since: Micros) -> bool {
        (0..client.wires.len()).all(|node| self.is_clear((number, client), node, ConnectionKind::Commands, since))
    }

    /// Returns since when a client could reach a working server and receive its answers; `None` if it cannot now.
    pub(crate) fn clear_since(
        &self,
        (number, client): (usize, &Client),
        (place, node): (usize, &Node),
        now: Micros,
    ) -> Option<Micros> {
        let serves = !node.stopped && !node.is_moving && node.refusal.is_none();
        let served = self.server.get(&place).copied().unwrap_or(0);
        let hindered = self.hindered.get(&(number, place, ConnectionKind::Commands as usize));
        let since = hindered.copied().unwrap_or(0).max(served).max(client.awake_since);
        let is_there = client.session.is_some() && !client.paused;
        let is_clear = is_there && serves && since <= now;
        (is_clear && self.is_clear((number, client), place, ConnectionKind::Commands, since)).then_some(since)
    }

    /// Returns whether a connection is open, leads to a primary, and has not been held up since `since`.
    fn is_clear(
        &self,
        (number, client): (usize, &Client),
        node: usize,
        connection: ConnectionKind,
        since: Micros,
    ) -> bool {
        let link = &client.wires[node].links[connection as usize];
        let hindered = self.hindered.get(&(number, node, connection as usize));
        link.open && !link.cut && link.stale_since.is_none() && hindered.is_none_or(|until| *until <= since)
    }

    /// Checks an auto-renewed lease of this length that expired, in a history with one server.
    pub(crate) fn expired(
        &self,
        (number, client): (usize, &Client),
        (id, length): (LeaseId, Micros),
        node: &Node,
        now: Micros,
    ) -> Checked {
        // The renewal was due after a third of the lease, and two thirds were left for it.
        let since = now.saturating_sub(length / 3 * 2);
        let granted = self.granted.get(&(number, id)).copied().unwrap_or(now);
        let server = self.server.get(&0).copied().unwrap_or(0);
        let serves = !node.stopped && node.refusal.is_none() && server <= since;
        if granted > since || client.awake_since > since || !serves {
            return Ok(());
        }
        for connection in [ConnectionKind::Commands, ConnectionKind::Renewals] {
            if self.is_clear((number, client), 0, connection, since) {
                let what =
                    format!("client {number}: {id:?} expired, though the connection for {connection:?} was open");
                return broken("I15", what);
            }
        }
        Ok(())
    }

    /// Checks that no client stays connected to a demoted server for long, while no fault has effects. A client looks
    /// only while it holds or waits for a lock, so the time since it began to counts.
    pub(crate) fn observed(&mut self, clients: &[Client], now: Micros) -> Checked {
        for (number, client) in clients.iter().enumerate() {
            if client.session.as_ref().is_none_or(Session::is_empty) {
                self.in_use_since.remove(&number);
                continue;
            }
            let in_use_since = *self.in_use_since.entry(number).or_insert(now);
            let links = client
                .wires
                .iter()
                .map(|wires| &wires.links[ConnectionKind::Commands as usize]);
            let stale = links.filter_map(|link| link.stale_since).min();
            let stale = stale.map(|since| since.max(in_use_since));
            if let Some(since) = stale.filter(|since| now > since + LOOK + 500 * MS) {
                let what = format!("client {number} is on a demoted server for {} ms", (now - since) / MS);
                return broken("I15", what);
            }
        }
        Ok(())
    }
}
