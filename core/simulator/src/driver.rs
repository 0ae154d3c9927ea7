//! The driver between a session and the servers. It keeps the driver contract of `steadlock-protocol` over slow
//! connections, which also close and lose data.

use std::sync::Arc;

use steadlock_protocol::{Call, CallError, CallId, Event as SessionEvent, Kind, LockName, Reply, Ticket, Transmit};

use crate::checks::Checked;
use crate::event::Event;
use crate::fault::Fault;
use crate::kinds::{self, Family, Role, role};
use crate::ledger::Lock;
use crate::links::READONLY;
use crate::records::Record;
use crate::route::{ConnectionKind, Route};
use crate::task::Task;
use crate::time::{MS, Micros};
use crate::trace;
use crate::world::World;

impl World {
    /// Keeps the driver contract: after any input, drain the calls and the events. There are no observations
    /// (`poll_observed`) to drain, because the sessions here are not asked for any.
    pub(crate) fn drain(&mut self, client: usize) -> Checked {
        loop {
            let Some(session) = &mut self.clients[client].session else {
                return Ok(());
            };
            let transmits: Vec<Transmit> = std::iter::from_fn(|| session.poll_transmit()).collect();
            let events: Vec<SessionEvent> = std::iter::from_fn(|| session.poll_event()).collect();
            for transmit in &transmits {
                self.calls.handed_out(self.now, client, transmit);
            }
            let is_done = transmits.is_empty() && events.is_empty();
            // Events come first. If an event ends the wait of one caller, a call can belong to the next waiter, and
            // `on_attempt` must find that this waiter is the first one now.
            for event in events {
                self.on_event(client, event)?;
            }
            for transmit in transmits {
                self.accept(client, transmit)?;
            }
            for node in 0..self.nodes.len() {
                for connection in [ConnectionKind::Commands, ConnectionKind::Renewals] {
                    self.flush(client, node, connection);
                }
            }
            if is_done {
                let of = &mut self.clients[client];
                let due = of.session.as_ref().and_then(|session| session.poll_timeout());
                of.due = due.map(|due| of.clock.when(due));
                return Ok(());
            }
        }
    }

    pub(crate) fn route(&self, client: usize, node: usize, connection: ConnectionKind) -> Route {
        let epoch = self.clients[client].wires[node].links[connection as usize].epoch;
        Route {
            client,
            node,
            connection,
            epoch,
        }
    }

    fn accept(&mut self, client: usize, transmit: Transmit) -> Checked {
        match transmit {
            Transmit::Call(call) => {
                if role(call.script).0 == Role::Poll {
                    for owner in kinds::callers(&call) {
                        let owner = self.owner(&owner);
                        self.renewal.handed_out(client, Role::Poll, owner)?;
                    }
                }
                if role(call.script).0 == Role::Force {
                    self.operators.sends(client)?;
                }
                if let Some(owner) = kinds::owner(&call) {
                    let owner = self.owner(owner);
                    let role = role(call.script).0;
                    self.renewal.handed_out(client, role, owner)?;
                    match role {
                        // With RedLock, an acquisition has another owner id on each server, so `Owners` does not follow
                        // it.
                        Role::Acquire if self.nodes.len() > 1 => {}
                        Role::Acquire if kinds::writer_around(&call).is_none() => {
                            self.on_attempt(client, owner, &call)?;
                        }
                        Role::Release => {
                            self.owned.on_release(owner, self.now);
                            self.runs.releases(&call)?;
                        }
                        _ => {}
                    }
                }
                if let (Role::Acquire | Role::Poll, Some(name)) = (role(call.script).0, self.name_of(&call))
                    && !self.is_bypassing_call(client, name, &call)
                {
                    self.wakes.on_attempt(client, name);
                }
                let route = self.route(client, usize::from(call.node.0), ConnectionKind::of(call.lane));
                let id = call.id;
                let link = self.clients[client].link(route);
                link.waiting.push_back(call);
                if !link.open {
                    self.schedule(self.plan.timeout(), Event::Overdue { route, call: id });
                }
            }
            Transmit::Subscribe { node, channel } => {
                self.clients[client].wires[usize::from(node.0)]
                    .channels
                    .insert(Arc::clone(&channel));
                self.listen(
                    self.route(client, usize::from(node.0), ConnectionKind::Messages),
                    channel,
                    true,
                );
            }
            Transmit::Unsubscribe { node, channel } => {
                self.clients[client].wires[usize::from(node.0)]
                    .channels
                    .remove(&channel);
                self.listen(
                    self.route(client, usize::from(node.0), ConnectionKind::Messages),
                    channel,
                    false,
                );
            }
        }
        Ok(())
    }

    /// Notes to which caller an attempt under an owner id belongs, if that is certain.
    fn on_attempt(&mut self, client: usize, owner: usize, call: &Call) -> Checked {
        let Some(name) = self.name_of(call) else { return Ok(()) };
        let waiting = self.waiting_for(client, call, |_| true);
        let bypassing = self.waiting_for(client, call, Task::bypasses_queue);
        let ticket = match waiting.as_slice() {
            // The caller of a composite lock can be behind callers with higher tickets when it requests its second
            // member, so the order of tickets proves nothing.
            [one] if self.plan.family == Family::Several => Some(*one),
            _ if self.plan.family == Family::Several => return Ok(()),
            all if kinds::is_fair(call.script) => match self.owned.ticket_of(client, name, owner, all) {
                Some(ticket) => Some(ticket),
                None => return Ok(()),
            },
            // The first waiter in the queue asks, and so does each single attempt that bypasses the queue.
            all if !bypassing.is_empty() => {
                let first = all.iter().filter(|ticket| !bypassing.contains(ticket)).min();
                let asking: Vec<Ticket> = first.into_iter().chain(&bypassing).copied().collect();
                match self.owned.ticket_of(client, name, owner, &asking) {
                    Some(ticket) => Some(ticket),
                    None => return Ok(()),
                }
            }
            all => all.iter().min().copied(),
        };
        self.owned.on_attempt(client, name, owner, ticket, self.now);
        match ticket.and_then(|ticket| self.terms_of(client, ticket)) {
            Some(terms) => self.runs.asks(name, call, terms),
            None => Ok(()),
        }
    }

    /// Returns the tickets of the callers that wait for the lock of a call and for which `is_so` is true.
    fn waiting_for(&self, client: usize, call: &Call, is_so: impl Fn(&Task) -> bool) -> Vec<Ticket> {
        let (name, record) = (self.name_of(call), role(call.script).1);
        let is_it = |(of, kind): &Lock| {
            let is_fair = *kind == Kind::Fair;
            Some(*of) == name && Record::of(*kind) == record && is_fair == kinds::is_fair(call.script)
        };
        let of = &self.clients[client];
        // A refused caller has left its queue, even if its answer still waits for the holder's name.
        let is_refused = |ticket| of.session.as_ref().is_some_and(|session| session.awaits_name(ticket));
        let tasks = of.tasks.iter().filter(|task| is_so(task));
        tasks
            .filter_map(Task::wants)
            .filter(|(ticket, wanted)| wanted.iter().any(is_it) && !is_refused(*ticket))
            .map(|(ticket, _)| ticket)
            .collect()
    }

    /// Returns whether a call belongs to a single attempt that bypasses the queue. Such a call is no attempt of the
    /// waiters in the queue.
    fn is_bypassing_call(&mut self, client: usize, name: usize, call: &Call) -> bool {
        let owner = kinds::owner(call).map(|owner| self.owner(owner));
        let bypassing = self.waiting_for(client, call, Task::bypasses_queue);
        owner.is_some()
            && bypassing
                .iter()
                .any(|ticket| self.owned.owner_of(client, *ticket, name) == owner)
    }

    /// Returns the name that a call is about.
    pub(crate) fn name_of(&self, call: &Call) -> Option<usize> {
        let (key, record) = (call.keys.first()?, role(call.script).1);
        let is_it = |name: &LockName| record.keys(name.as_str()).iter().any(|own| own.as_bytes() == &**key);
        self.names.iter().position(is_it)
    }

    /// Sends the calls that wait for a connection, if the connection is open.
    fn flush(&mut self, client: usize, node: usize, connection: ConnectionKind) {
        let route = self.route(client, node, connection);
        if !self.clients[client].link(route).open {
            return;
        }
        while let Some(call) = self.clients[client].link(route).waiting.pop_front() {
            let now = self.clients[client].clock.at(self.now);
            if let Some(session) = &mut self.clients[client].session {
                session.on_sent(call.id, now);
            }
            let link = self.clients[client].link(route);
            link.in_flight.push(call.id);
            let silence = link.silence;
            self.schedule(silence, Event::Silent { route, call: call.id });
            let owner = kinds::owner(&call).map_or(usize::MAX, |owner| self.owner(owner));
            self.note(trace::Line::Sends {
                client,
                node,
                call: call.id,
                script: call.script,
                owner,
            });
            let delay = self.delay(Fault::DelayedCall, self.plan.odds.delayed_call, route);
            let at = self.arrival_time(route, 0, delay);
            let call = Box::new(call);
            self.schedule_at(
                at,
                Event::Call {
                    route,
                    call,
                    survives: false,
                },
            );
        }
    }

    pub(crate) fn listen(&mut self, route: Route, channel: Arc<[u8]>, on: bool) {
        if self.clients[route.client].link(route).open {
            let at = self.arrival_time(route, 0, 0);
            self.schedule_at(at, Event::Listen { route, channel, on });
        }
    }

    /// Returns when something that is sent now arrives: after everything that was sent before it in the same direction.
    pub(crate) fn arrival_time(&mut self, route: Route, direction: usize, delay: Micros) -> Micros {
        let (least, most) = self.plan.latency;
        let at = self.now + self.choices.connection(route).between(least, most) + delay;
        let busy = &mut self.clients[route.client].link(route).busy_until[direction];
        *busy = at.max(*busy + 1);
        let at = *busy;
        if delay > 0 {
            self.following.hindered(route, at);
        }
        at
    }

    /// Returns the delay that a fault causes, or 0 if none strikes.
    pub(crate) fn delay(&mut self, fault: Fault, odds: u64, route: Route) -> Micros {
        if !self.is_rough || !self.choices.connection(route).chance(odds) {
            return 0;
        }
        self.struck(fault, route.client);
        self.choices.connection(route).between(10 * MS, 3 * self.plan.timeout())
    }

    pub(crate) fn publish(&mut self, client: usize, node: usize, channel: &Arc<[u8]>, payload: &Arc<[u8]>) {
        self.recorded_messages.push(channel, payload);
        let route = self.route(client, node, ConnectionKind::Messages);
        let odds = self.plan.odds.dropped_message;
        if self.plan.loses_all_messages || (self.is_rough && self.choices.connection(route).chance(odds)) {
            self.struck(Fault::DroppedMessage, client);
            return;
        }
        let at = self.arrival_time(route, 1, 0);
        let (channel, payload) = (Arc::clone(channel), Arc::clone(payload));
        self.schedule_at(
            at,
            Event::Message {
                route,
                channel,
                payload,
            },
        );
    }

    /// Returns whether the connection of this route is still alive.
    pub(crate) fn is_current(&mut self, route: Route) -> bool {
        let client = &mut self.clients[route.client];
        let is_alive = client.session.is_some();
        let link = client.link(route);
        is_alive && link.open && !link.cut && link.epoch == route.epoch
    }

    /// A subscribe or unsubscribe request reaches its server.
    pub(crate) fn listen_arrives(&mut self, route: Route, channel: Arc<[u8]>, on: bool) {
        if !self.is_current(route) {
            return;
        }
        if on {
            self.nodes[route.node].subscribe(route.client, &channel);
            let at = self.arrival_time(route, 1, 0);
            self.schedule_at(at, Event::Listening { route, channel });
        } else {
            self.nodes[route.node].unsubscribe(route.client, &channel);
        }
    }

    /// A reply reaches its client. `granted` is the owner to which the reply grants a lock, if any.
    pub(crate) fn reply_arrives(
        &mut self,
        route: Route,
        (call, granted): (CallId, Option<usize>),
        result: Result<Reply, CallError>,
    ) -> Checked {
        if !self.is_current(route) {
            self.struck(Fault::LostReply, route.client);
            return Ok(());
        }
        let client = &mut self.clients[route.client];
        client.link(route).in_flight.retain(|of| *of != call);
        let is_demoted = matches!(&result, Err(CallError::Server { code, .. }) if code == READONLY);
        let granted = granted.filter(|owner| self.owned.is_wanted(*owner));
        self.input(route.client, |session, now| session.on_reply(call, result, now))?;
        if let Some(owner) = granted {
            let is_released = self.renewal.was_released(owner);
            self.owned.check_grant(route.client, owner, is_released)?;
        }
        match is_demoted {
            true => self.leaves(route.client, route.node),
            false => Ok(()),
        }
    }

    /// Gives a session an input, and drains it.
    pub(crate) fn input(
        &mut self,
        client: usize,
        input: impl FnOnce(&mut steadlock_protocol::Session, steadlock_protocol::Instant),
    ) -> Checked {
        let now = self.clients[client].clock.at(self.now);
        if let Some(session) = &mut self.clients[client].session {
            input(session, now);
        }
        self.drain(client)
    }

    /// The confirmation of a subscription reaches its client.
    pub(crate) fn confirmation_arrives(&mut self, route: Route, channel: &Arc<[u8]>) -> Checked {
        let Route { client, node, .. } = route;
        if !self.is_current(route) || !self.clients[client].wires[node].channels.contains(channel) {
            return Ok(());
        }
        self.note(trace::Line::Subscribed { client, node });
        self.input(client, |session, now| {
            session.on_subscribed(Self::node_id(node), channel, now)
        })
    }

    /// A message reaches its client.
    pub(crate) fn message_arrives(&mut self, route: Route, channel: &[u8], payload: &[u8]) -> Checked {
        let Route { client, node, .. } = route;
        if !self.is_current(route) {
            return Ok(());
        }
        self.note(trace::Line::ReceivesMessage { client, node });
        self.on_notification(client, channel);
        self.input(client, |session, now| {
            session.on_message(Self::node_id(node), channel, payload, now);
        })
    }

    /// The network cuts a connection. Some of the calls on it may still arrive, in order.
    pub(crate) fn cut(&mut self, route: Route) {
        self.break_off(route);
        let after = self.choices.connection(route).between(0, 2 * MS);
        self.schedule(after, Event::Closed { route });
    }

    pub(crate) fn break_off(&mut self, route: Route) {
        self.clients[route.client].link(route).cut = true;
        if route.connection == ConnectionKind::Messages {
            self.nodes[route.node].forget_listener(route.client);
            return;
        }
        let on_it = self.take_queued(|event| matches!(event, Event::Call { route: of, .. } if *of == route));
        let random = self.choices.connection(route);
        let survivors = match random.between(0, 2) {
            0 => 0,
            1 => on_it.len(),
            _ => random.index(on_it.len() + 1),
        };
        // The surviving calls can be late, and arrive among the calls of the next connection.
        let linger = random.pick(&[0, self.plan.timeout() / 2]);
        let earliest = self.now + random.between(0, linger);
        let latest = self.now + self.plan.timeout() / 2;
        for (place, (at, event)) in on_it.into_iter().enumerate() {
            if let Event::Call { route, call, .. } = event {
                let survives = place < survivors;
                self.schedule_at(at.clamp(earliest, latest), Event::Call { route, call, survives });
            }
        }
        // Calls in the backlog of a paused server have already arrived.
        for event in &mut self.nodes[route.node].backlog {
            if let Event::Call {
                route: of, survives, ..
            } = event
                && *of == route
            {
                *survives = true;
            }
        }
    }
}
