//! The connections of clients. Each opens and closes independently of the others. The session is told when a
//! connection for calls opens, and when any connection closes. Each can lead to a server that was demoted in place.
//!
//! A demoted server becomes a replica of its successor and keeps its connections. On these it answers calls that write
//! nothing, and refuses the rest. A new connection leads to the new primary as soon as the address does.

use steadlock_protocol::{Call, CallError, CallId, Lane};

use crate::checks::Checked;
use crate::client::LOOK;
use crate::event::Event;
use crate::fault::Fault;
use crate::kinds::{self, Role, is_fair, role};
use crate::random::Random;
use crate::records::{Record, Run};
use crate::route::{ConnectionKind, Route};
use crate::time::{MS, Micros, SECOND};
use crate::trace;
use crate::world::World;

/// The error of a replica for a write.
pub(crate) const READONLY: &str = "READONLY";
/// How long a due check of a server's role is put off while the client is idle or the server is paused.
const IDLE: Micros = 100 * MS;

impl World {
    /// A client notices that a connection is gone.
    pub(crate) fn closed(&mut self, route: Route) -> Checked {
        let Route {
            client,
            node,
            connection,
            ..
        } = route;
        let link = self.clients[client].link(route);
        if !link.open || link.epoch != route.epoch {
            return Ok(());
        }
        link.open = false;
        link.epoch += 1;
        let cut_off = std::mem::take(&mut link.in_flight);
        let is_reported = std::mem::take(&mut link.is_reported);
        self.note(trace::Line::Closed { client, node });
        let next = self.route(client, node, connection);
        let random = self.choices.connection(route);
        let longest = random.pick(&[3 * MS, 200 * MS]);
        let back_off = random.between(MS, longest);
        self.schedule(back_off, Event::Opened { route: next });
        if is_reported {
            self.input(client, |session, now| match connection.lane() {
                Some(lane) => session.on_lane_closed(Self::node_id(node), lane, "the connection closed", now),
                None => session.on_subscriptions_lost(Self::node_id(node)),
            })?;
        }
        for call in cut_off {
            let cause = CallError::Disconnected("the connection closed".into());
            self.input(client, |session, now| session.on_reply(call, Err(cause), now))?;
        }
        Ok(())
    }

    /// Opens a connection. Tries again later if the server is paused, if its address does not lead to its successor yet,
    /// or if a cut keeps the connection away.
    pub(crate) fn opened(&mut self, route: Route) -> Checked {
        let Route {
            client,
            node,
            connection,
            ..
        } = route;
        let now = self.now;
        let away_until = self.clients[client].link(route).away_until;
        if self.nodes[node].stopped || self.nodes[node].is_moving || away_until > now {
            let again = self.choices.connection(route).between(20 * MS, 100 * MS);
            self.schedule(again, Event::Opened { route });
            return Ok(());
        }
        let link = self.clients[client].link(route);
        if link.open || link.epoch != route.epoch {
            return Ok(());
        }
        link.open = true;
        link.cut = false;
        link.busy_until = [0; 2];
        link.stale_since = None;
        link.is_reported = true;
        self.following.hindered(route, now);
        let Some(lane) = connection.lane() else {
            self.note(trace::Line::OpenedForMessages { client, node });
            for channel in self.clients[client].wires[node].channels.clone() {
                self.listen(route, channel, true);
            }
            return Ok(());
        };
        self.note(trace::Line::Opened { client, node, lane });
        self.input(client, |session, now| {
            session.on_lane_opened(Self::node_id(node), lane, now)
        })?;
        // The new connection may lead to another server than the client's other connection for calls.
        self.check_role(client, node, lane.other())
    }

    /// A call has waited too long for a connection.
    pub(crate) fn overdue(&mut self, route: Route, call: CallId) -> Checked {
        let link = self.clients[route.client].link(route);
        let before = link.waiting.len();
        link.waiting.retain(|waiting| waiting.id != call);
        if link.waiting.len() == before {
            return Ok(());
        }
        let cause = CallError::Disconnected("not connected".into());
        self.input(route.client, |session, now| session.on_reply(call, Err(cause), now))
    }

    /// A call has waited too long for its reply, so the client closes the connection.
    pub(crate) fn silent(&mut self, route: Route, call: CallId) -> Checked {
        let link = self.clients[route.client].link(route);
        if link.epoch != route.epoch || !link.in_flight.contains(&call) {
            return Ok(());
        }
        if !link.cut {
            self.break_off(route);
        }
        self.closed(route)
    }

    /// Cuts one connection of a client, and lets no other replace it for a while.
    pub(crate) fn cut_one(&mut self, client: usize, node: usize, random: &mut Random) {
        let connection = random.pick(&ConnectionKind::ALL);
        let longest = random.pick(&[100 * MS, SECOND, 3 * SECOND]);
        let away = random.between(MS, longest);
        let route = self.route(client, node, connection);
        let until = self.now + away;
        let link = self.clients[client].link(route);
        if link.open && !link.cut {
            link.away_until = until;
            self.cut(route);
            self.struck(Fault::LaneCut, client);
        }
    }

    /// Demotes a server. Its address does not lead to its successor until the fault ends. Returns false if the server
    /// is already in that state.
    pub(crate) fn demote(&mut self, node: usize) -> bool {
        if std::mem::replace(&mut self.nodes[node].is_moving, true) {
            return false;
        }
        let now = self.now;
        for client in &mut self.clients {
            for link in client.wires[node].links.iter_mut().filter(|link| link.open) {
                link.stale_since.get_or_insert(now);
            }
        }
        true
    }

    /// Returns the error of a call that a demoted server refuses; `None` if the server answers the call. It answers
    /// only calls that write nothing, such as a question about the holder.
    pub(crate) fn refuses_as_replica(&mut self, node: usize, call: &Call) -> Option<&'static str> {
        let (role, record) = role(call.script);
        match (role, record) {
            (Role::Inspect | Role::History, _) => None,
            (Role::Acquire, Record::Run) => (!self.is_kept_out(node, call)).then_some(READONLY),
            (Role::Acquire, Record::Hash | Record::Text) if !is_fair(call.script) => {
                let holders = self.name_of(call).map(|name| self.holders_of(node, name, record));
                let mut holders = holders.into_iter().flatten();
                let is_held = holders.any(|(of, _)| Some(of.as_slice()) != kinds::owner(call));
                (!is_held).then_some(READONLY)
            }
            _ => Some(READONLY),
        }
    }

    /// Returns whether another run, or one that has ended, keeps out the request for a run that this call makes.
    fn is_kept_out(&mut self, node: usize, call: &Call) -> bool {
        let Some(state) = self.job_state(node, call) else {
            return false;
        };
        let is_own = |run: &Run| kinds::owner(call).is_some_and(|owner| run.is_of(owner));
        let by_run = state.run.as_ref().is_some_and(|run| !is_own(run));
        by_run || (state.run.is_none() && state.done.is_some())
    }

    /// A client's check of a server's role is due.
    pub(crate) fn look(&mut self, client: usize, node: usize) -> Checked {
        let has_something = |session: &steadlock_protocol::Session| !session.is_empty();
        let is_in_use = self.clients[client].session.as_ref().is_some_and(has_something);
        // The check is put off until the client holds or waits for a lock and the server can answer.
        let is_answered = is_in_use && !self.nodes[node].stopped;
        let next = if is_answered { LOOK } else { IDLE };
        self.schedule(next, Event::Look { client, node });
        match is_answered {
            true => self.check_role(client, node, Lane::Command),
            false => Ok(()),
        }
    }

    /// Lets a client leave a demoted server, if the client's connection for this lane still leads there.
    fn check_role(&mut self, client: usize, node: usize, lane: Lane) -> Checked {
        let route = self.route(client, node, ConnectionKind::of(lane));
        let link = self.clients[client].link(route);
        let is_seen = link.open && !link.cut && link.stale_since.is_some() && !self.nodes[node].stopped;
        if is_seen { self.leaves(client, node) } else { Ok(()) }
    }

    /// A client closes its connections to a server that is not a primary any more.
    pub(crate) fn leaves(&mut self, client: usize, node: usize) -> Checked {
        for connection in ConnectionKind::ALL {
            let route = self.route(client, node, connection);
            let link = self.clients[client].link(route);
            if !link.open {
                continue;
            }
            if !link.cut {
                self.break_off(route);
            }
            self.closed(route)?;
        }
        Ok(())
    }
}
