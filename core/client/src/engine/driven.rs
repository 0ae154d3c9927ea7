//! An engine that the program turns: for one without threads, as in a browser or a worker.

#[cfg(not(target_family = "wasm"))]
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use steadlock_protocol::{CallError, CallId, Error, ErrorKind, Lane, NodeId, Operation, Reply, Transmit};

use super::turn::Engine;
use crate::clock;
use crate::port::{Commands, Port};
use crate::settings::Settings;
use crate::target::{Scheme, Target};
use crate::transport::{self, First, Line};

/// An engine whose program opens the connections and turns it.
///
/// Call [`turn`](Self::turn) at first, after everything that was seen (the other methods with
/// `&mut self`), when its waker is woken, and when [`due`](Self::due) has come. After each turn send
/// all that [`poll_transmit`](Self::poll_transmit) gives. Until the first turn nothing that a
/// [`Host`](crate::host::Host) is told has an answer.
///
/// The driver contract of `steadlock_protocol` holds, but for what is done here: a call waits here
/// until its lane is open, is answered when that closes, and channels are subscribed to again.
pub struct Driven {
    /// `None` after its end.
    engine: Option<Box<Engine>>,
    lines: Vec<Line>,
    servers: Vec<Server>,
    connect_timeout: Duration,
}

/// A server to connect to. Node 0 is the first of several.
#[derive(Clone)]
pub struct Server {
    /// Where it is.
    pub place: Place,
    /// Whom to log in as; `None` for the server's default user.
    pub username: Option<String>,
    /// With what.
    pub password: Option<String>,
    /// The number of its database.
    pub database: i64,
}

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Behind a port.
    Tcp {
        /// A name, or an address without brackets.
        host: String,
        /// Its port.
        port: u16,
        /// Whether to speak TLS.
        tls: bool,
    },
    /// Behind a Unix socket.
    #[cfg(not(target_family = "wasm"))]
    Unix(PathBuf),
    /// Where a client of the program's own leads; its name.
    Host(String),
}

impl Driven {
    /// What to connect to.
    #[must_use]
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// How long connecting may take.
    #[must_use]
    pub const fn connect_timeout(&self) -> Duration {
        self.connect_timeout
    }

    /// Does all that there is to do. Ready when the engine has ended, which it does after
    /// its client was closed or could not be connected.
    pub fn turn(&mut self, waker: &Waker) -> Poll<()> {
        let context = &mut Context::from_waker(waker);
        while let Some(engine) = &mut self.engine {
            let now = clock::now();
            let mut awaited = engine.awaited();
            if !awaited.take(context, now) && awaited.due().is_none_or(|due| now < due) {
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

    /// When to turn it again though nothing was seen, by [`clock_micros`](crate::host::clock_micros).
    #[must_use]
    pub fn due(&mut self) -> Option<u64> {
        let due = self.engine.as_mut()?.awaited().due()?;
        Some(due.as_micros())
    }

    /// Whether nothing is to be connected before calls and renewals can go out.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.engine.as_ref().is_some_and(|engine| engine.outlook().0)
    }

    /// The next thing to send, in the order of its connection.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.lines.iter().find_map(Line::take)
    }

    /// A lane of a node has a connection that is logged in, to a primary.
    pub fn opened(&mut self, node: NodeId, lane: Lane) {
        self.with(node, |line| line.opened(lane));
    }

    /// It has none any more, or could not be given one; the cause in words.
    pub fn closed(&mut self, node: NodeId, lane: Lane, cause: &str) {
        self.with(node, |line| line.closed(lane, cause));
    }

    /// The node's subscriptions have a connection: what they are goes out on it.
    pub fn listening(&mut self, node: NodeId) {
        self.with(node, Line::listening);
    }

    /// They have none any more.
    pub fn deaf(&mut self, node: NodeId) {
        self.with(node, Line::deaf);
    }

    /// The first attempt to connect failed, and no other would do better: the client fails with this error.
    pub fn give_up(&mut self, node: NodeId, error: Error) {
        self.with(node, |line| line.give_up(error));
    }

    /// A call was answered.
    pub fn replied(&mut self, node: NodeId, call: CallId, reply: Result<Reply, CallError>) {
        self.with(node, |line| line.replied(call, reply));
    }

    /// The server confirmed a subscription.
    pub fn subscribed(&mut self, node: NodeId, channel: &[u8]) {
        self.with(node, |line| line.subscribed(channel));
    }

    /// A message came.
    pub fn heard(&mut self, node: NodeId, channel: &[u8], message: Vec<u8>) {
        self.with(node, |line| line.heard(channel, message));
    }

    fn with(&self, node: NodeId, tell: impl FnOnce(&Line)) {
        if let Some(line) = self.lines.get(usize::from(node.0)) {
            tell(line);
        }
    }
}

impl std::fmt::Debug for Driven {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let places: Vec<&Place> = self.servers.iter().map(|server| &server.place).collect();
        f.debug_struct("Driven")
            .field("servers", &places)
            .finish_non_exhaustive()
    }
}

/// Never with credentials.
impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

/// Where an engine that was started waits for the program to take it.
#[derive(Default)]
pub(super) struct Driver(Mutex<Option<Driven>>);

impl Driver {
    /// Does nothing: the command itself wakes the program that turns the engine.
    pub(super) const fn needs_engine(&self) {}

    /// The engine; once.
    pub(super) fn take(&self) -> Option<Driven> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Makes an engine ready to be turned.
pub(super) fn start(
    driver: &Arc<Driver>,
    settings: &Arc<Settings>,
    port: &Arc<Port>,
    commands: &mut Option<Commands>,
    first: First,
) -> Result<(), Error> {
    if first == First::WasMade {
        return Err(Error::new(
            ErrorKind::Forked,
            Operation::Connect,
            "this process is a fork, and nobody turns its engine; make a client of its own here",
        ));
    }
    let Some(commands) = commands.take() else { return Ok(()) };
    let (transport, lines) = transport::open(settings);
    let servers = settings.targets.iter().map(Server::of).collect();
    let engine = Engine::new(settings, port, commands, transport, first);
    *driver.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Driven {
        engine: Some(Box::new(engine)),
        lines,
        servers,
        connect_timeout: settings.connect_timeout,
    });
    Ok(())
}

impl Server {
    fn of(target: &Target) -> Self {
        Self {
            place: match &target.scheme {
                Scheme::Tcp { host, port, tls } => Place::Tcp {
                    host: host.clone(),
                    port: *port,
                    tls: tls.is_some(),
                },
                #[cfg(not(target_family = "wasm"))]
                Scheme::Unix { path } => Place::Unix(path.clone()),
                Scheme::Host { name } => Place::Host(name.clone()),
            },
            username: target.username.clone(),
            password: target.password.clone(),
            database: target.database,
        }
    }
}
