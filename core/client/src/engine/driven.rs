//! An engine that the program turns, for platforms without threads such as a browser or a worker.

#[cfg(not(target_family = "wasm"))]
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use steadlock_protocol::{CallError, CallId, Error, ErrorKind, Lane, NodeId, Operation, Reply, Transmit};

use super::turn::Engine;
use crate::clock;
use crate::port::{CommandReceiver, Port};
use crate::settings::Settings;
use crate::target::{Scheme, Target};
use crate::transport::{self, FirstConnection, NodeLink};

/// An engine without a thread: the program opens its connections and turns it.
///
/// Call [`turn`](Self::turn) once at the start, after each report (`lane_opened` and the methods after it), when the
/// waker that `turn` got is woken, and at the time [`due`](Self::due). After each turn, send everything that
/// [`poll_transmit`](Self::poll_transmit) returns. Before the first turn no request to a [`Host`](crate::host::Host) is
/// answered.
///
/// The driver contract of `steadlock_protocol` applies, except for three duties that `Driven` performs itself: a call
/// waits until its lane (a connection for calls) is open, the calls of a lane that closes are answered, and a new
/// connection subscribes again to every channel.
pub struct Driven {
    /// `None` after the engine has ended.
    engine: Option<Box<Engine>>,
    links: Vec<NodeLink>,
    servers: Vec<Server>,
    connect_timeout: Duration,
}

/// A server to connect to. With several servers, node 0 is the first of them.
#[derive(Clone)]
pub struct Server {
    /// The address of the server.
    pub address: ServerAddress,
    /// The user to log in as; `None` for the server's default user.
    pub username: Option<String>,
    /// The password to log in with; `None` to log in without one.
    pub password: Option<String>,
    /// The number of the database.
    pub database: i64,
}

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerAddress {
    /// A TCP port.
    Tcp {
        /// A host name, or an IP address without brackets.
        host: String,
        /// The number of the port.
        port: u16,
        /// Whether the connection uses TLS.
        tls: bool,
    },
    /// A Unix socket.
    #[cfg(not(target_family = "wasm"))]
    Unix(PathBuf),
    /// A server that the program reaches by a Redis client of its own. The text is the name of the server in messages.
    Host(String),
}

impl Driven {
    /// Returns the servers to connect to.
    #[must_use]
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// Returns the longest time that an attempt to connect may take.
    #[must_use]
    pub const fn connect_timeout(&self) -> Duration {
        self.connect_timeout
    }

    /// Does all work that is due. Ready when the engine has ended: after its client was closed, or when its first
    /// connection failed.
    pub fn turn(&mut self, waker: &Waker) -> Poll<()> {
        let context = &mut Context::from_waker(waker);
        while let Some(engine) = &mut self.engine {
            let now = clock::now();
            let mut sources = engine.sources();
            if !sources.take(context, now) && sources.due().is_none_or(|due| now < due) {
                return Poll::Pending;
            }
            engine.work();
            engine.deliver();
            if engine.is_over() {
                self.engine = None;
            }
        }
        Poll::Ready(())
    }

    /// Returns the time of the next turn if nothing is reported before, as a time of
    /// [`clock_micros`](crate::host::clock_micros). `None` if only a report or the waker makes a turn necessary.
    #[must_use]
    pub fn due(&mut self) -> Option<u64> {
        let due = self.engine.as_mut()?.sources().due()?;
        Some(due.as_micros())
    }

    /// Whether every lane of every server is open, so that calls and renewals can be sent at once.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.engine.as_ref().is_some_and(|engine| engine.every_lane_is_open())
    }

    /// Returns the next item to send. Items of one connection come in the order in which they must be sent.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.links.iter().find_map(NodeLink::take)
    }

    /// Reports that a lane of a node has a connection, which is logged in to a primary.
    pub fn lane_opened(&mut self, node: NodeId, lane: Lane) {
        self.report(node, |link| link.lane_opened(lane));
    }

    /// Reports that a lane lost its connection, or that an attempt to open one failed. `cause` is a text for messages.
    pub fn lane_closed(&mut self, node: NodeId, lane: Lane, cause: &str) {
        self.report(node, |link| link.lane_closed(lane, cause));
    }

    /// Reports that the node has a new connection for subscriptions. The next items to send include a subscription to
    /// every channel in use.
    pub fn subscriptions_opened(&mut self, node: NodeId) {
        self.report(node, NodeLink::subscriptions_opened);
    }

    /// Reports that the node lost its connection for subscriptions.
    pub fn subscriptions_lost(&mut self, node: NodeId) {
        self.report(node, NodeLink::subscriptions_lost);
    }

    /// Reports that the first attempt to connect failed and that a retry cannot help. The client fails with this error.
    pub fn give_up(&mut self, node: NodeId, error: Error) {
        self.report(node, |link| link.give_up(error));
    }

    /// Reports the reply to a call.
    pub fn replied(&mut self, node: NodeId, call: CallId, reply: Result<Reply, CallError>) {
        self.report(node, |link| link.replied(call, reply));
    }

    /// Reports that the server confirmed a subscription.
    pub fn subscribed(&mut self, node: NodeId, channel: &[u8]) {
        self.report(node, |link| link.subscribed(channel));
    }

    /// Reports a message on a channel.
    pub fn message_received(&mut self, node: NodeId, channel: &[u8], message: Vec<u8>) {
        self.report(node, |link| link.message_received(channel, message));
    }

    fn report(&self, node: NodeId, report: impl FnOnce(&NodeLink)) {
        if let Some(link) = self.links.get(usize::from(node.0)) {
            report(link);
        }
    }
}

impl std::fmt::Debug for Driven {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let addresses: Vec<&ServerAddress> = self.servers.iter().map(|server| &server.address).collect();
        f.debug_struct("Driven")
            .field("servers", &addresses)
            .finish_non_exhaustive()
    }
}

/// Leaves out the credentials.
impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// The place where `start` leaves an engine until the program takes it.
#[derive(Default)]
pub(super) struct Driver(Mutex<Option<Driven>>);

impl Driver {
    /// Does nothing: the command itself wakes the program that turns the engine.
    pub(super) const fn request_engine(&self) {}

    /// Returns the engine at the first call, and `None` later.
    pub(super) fn take(&self) -> Option<Driven> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Creates an engine that the program can turn.
pub(super) fn start(
    driver: &Arc<Driver>,
    settings: &Arc<Settings>,
    port: &Arc<Port>,
    commands: &mut Option<CommandReceiver>,
    first: FirstConnection,
) -> Result<(), Error> {
    if first == FirstConnection::Inherited {
        return Err(Error::new(
            ErrorKind::Forked,
            Operation::Connect,
            "this process is a fork, and nobody turns its engine; make a client of its own here",
        ));
    }
    let Some(commands) = commands.take() else { return Ok(()) };
    let (transport, links) = transport::open(settings, first);
    let servers = settings.targets.iter().map(Server::of).collect();
    let engine = Engine::new(settings, port, commands, transport, first);
    *driver.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Driven {
        engine: Some(Box::new(engine)),
        links,
        servers,
        connect_timeout: settings.connect_timeout,
    });
    Ok(())
}

impl Server {
    fn of(target: &Target) -> Self {
        Self {
            address: match &target.scheme {
                Scheme::Tcp { host, port, tls } => ServerAddress::Tcp {
                    host: host.clone(),
                    port: *port,
                    tls: tls.is_some(),
                },
                #[cfg(not(target_family = "wasm"))]
                Scheme::Unix { path } => ServerAddress::Unix(path.clone()),
                Scheme::Host { name } => ServerAddress::Host(name.clone()),
            },
            username: target.username.clone(),
            password: target.password.clone(),
            database: target.database,
        }
    }
}
