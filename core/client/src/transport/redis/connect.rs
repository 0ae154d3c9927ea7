//! Opens connections: dials, logs in, and checks that locks can work with the server.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[cfg(feature = "admin")]
use steadlock_protocol::CallError;
use steadlock_protocol::{Instant, KeyPrefix, Reply, Script};
use steadlock_resp::commands;
use steadlock_resp::replies::ServerError;
use tokio::sync::watch;

use super::address::Address;
use super::address_mapping::{self, AnnouncedServer};
use super::attempt::{Attempt, Connection, Dialer, Purpose};
use super::dial::{self, Tcp};
use super::failure::Failure;
use super::identity::{Identity, Mark};
use super::outage::{self, AttemptLimits, Deadline, LONGEST_PAUSE, Outage};
use super::peers::{self, Peers};
use super::primary::{PrimaryAddress, SentinelPrimary};
use super::probe::probe;
use super::role::{self, Greeting, Version};
use super::server_kind::ServerKind;
use super::tls::{TlsDialer, TlsOutcome};
use super::wire::Wire;
use crate::client_identity::connection_name;
use crate::settings::Settings;
use crate::target::{Mapping, Scheme, Target};
use crate::tls::Tls;
use crate::world::World;

/// A boxed future that can move between threads.
pub(super) type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Opens connections to one server.
pub(super) struct Connector {
    dialer: Dialer,
    /// The addresses at which announced servers are reached.
    mapping: Mapping,
    /// The time after which a peer that vanished without closing the connection is noticed.
    silence_timeout: Duration,
    login: Login,
    /// The texts that no message may repeat.
    secrets: Vec<String>,
    /// The name of the server in messages.
    pub(super) node: String,
    pub(super) limits: AttemptLimits,
    pub(super) peers: Option<Peers>,
    pub(super) server_kind: ServerKind,
    /// The server where the client is.
    pub(super) identity: Identity,
    /// The prefix of keys that belong to no lock.
    pub(super) key_prefix: KeyPrefix,
    /// Whether the user lacks the right to ask for the run id.
    may_not_ask: AtomicBool,
    /// Whether the user lacks the right to set a key that identifies the server.
    pub(super) may_not_write: AtomicBool,
    /// Whether the server is a cluster node with sharded channels, by its last greeting.
    is_sharded: AtomicBool,
    /// Whether a connection has ever succeeded.
    is_known: AtomicBool,
    /// The longest pause between two attempts.
    longest_pause: Duration,
    pub(super) world: World,
}

/// The identity of this client, sent on each connection.
struct Login {
    username: Option<String>,
    password: Option<String>,
    database: i64,
    /// The name of the connection in the server's client list.
    name: String,
}

/// The first version with sharded channels.
const SHARDED_SINCE: Version = Version { major: 7, minor: 0 };

impl Connector {
    pub(super) fn new(settings: &Settings, target: &Target, server_kind: ServerKind, peers: Option<Peers>) -> Self {
        Self::with(settings, target, dialer(settings, target), server_kind, peers)
    }

    /// Creates a connector to a server that others announce, such as a cluster node or a sentinel.
    pub(super) fn announced(settings: &Settings, target: &Target, server_kind: ServerKind) -> Self {
        let dialer = match &target.scheme {
            Scheme::Tcp { host, port, tls } if settings.address_map.is_given() => Dialer::Announced(AnnouncedServer {
                address: Address::new(host, *port),
                tls: tls.clone(),
            }),
            _ => dialer(settings, target),
        };
        Self::with(settings, target, dialer, server_kind, None)
    }

    /// Creates a connector to the primary that sentinels name.
    pub(super) fn for_sentinels(
        settings: &Settings,
        target: &Target,
        primary_address: watch::Sender<PrimaryAddress>,
        peers: Option<Peers>,
    ) -> Self {
        let tls = match &target.scheme {
            Scheme::Sentinel { tls, .. } => tls.clone(),
            _ => None,
        };
        let dialer = Dialer::SentinelPrimary(SentinelPrimary::new(primary_address, tls));
        Self::with(settings, target, dialer, ServerKind::Standalone, peers)
    }

    fn with(
        settings: &Settings,
        target: &Target,
        dialer: Dialer,
        server_kind: ServerKind,
        peers: Option<Peers>,
    ) -> Self {
        Self {
            silence_timeout: silence_timeout(settings),
            longest_pause: LONGEST_PAUSE,
            dialer,
            mapping: settings.address_map.clone(),
            login: Login {
                username: target.username.clone(),
                password: target.password.clone(),
                database: target.database,
                name: connection_name(settings.client_identity.as_ref(), &settings.world),
            },
            secrets: [&target.username, &target.password]
                .into_iter()
                .flatten()
                .cloned()
                .collect(),
            node: target.to_string(),
            limits: AttemptLimits::new(settings.connect_timeout, settings.lease.get()),
            peers,
            server_kind,
            identity: Identity::default(),
            key_prefix: settings.key_prefix().clone(),
            may_not_ask: AtomicBool::new(false),
            may_not_write: AtomicBool::new(false),
            is_sharded: AtomicBool::new(false),
            is_known: AtomicBool::new(false),
            world: settings.world.clone(),
        }
    }

    /// Sets the longest pause between two attempts.
    pub(super) const fn with_longest_pause(mut self, longest: Duration) -> Self {
        self.longest_pause = longest;
        self
    }

    /// Opens a connection after the pause that the outage requires.
    pub(super) fn open(
        self: &Arc<Self>,
        purpose: Purpose,
        outage: &Outage,
        now: Instant,
    ) -> Boxed<Result<Wire, Failure>> {
        if let (Dialer::SentinelPrimary(sentinel_primary), Purpose::Calls(_)) = (&self.dialer, purpose) {
            // `Calls` follows an earlier connection or attempt, and the primary may have changed since.
            sentinel_primary.invalidate();
        }
        let this = Arc::clone(self);
        let (pause, limit) = (
            outage.pause(&self.world, self.longest_pause),
            self.limits.limit(outage, now),
        );
        Box::pin(async move {
            outage::wait(pause).await;
            if let (Dialer::SentinelPrimary(sentinel_primary), Purpose::Calls(_)) = (&this.dialer, purpose) {
                sentinel_primary.retry();
            }
            let connected = this.connect(purpose, &Deadline::after(limit)).await;
            if connected.is_err() && !this.world.is_virtual() {
                probe().await;
            }
            connected.map_err(|failure| failure.without_secrets(&this.secrets))
        })
    }

    /// Whether messages use sharded channels.
    pub(super) fn is_sharded(&self) -> bool {
        self.is_sharded.load(Ordering::Relaxed)
    }

    /// Returns the failure for an error of an open connection, without secrets.
    pub(super) fn refusal(&self, error: ServerError) -> Failure {
        Failure::from(error).without_secrets(&self.secrets)
    }

    /// Returns the error of a tool's command, without secrets.
    #[cfg(feature = "admin")]
    pub(super) fn without_secrets(&self, error: &ServerError) -> CallError {
        let without_user = |message: String, user: &String| message.replace(&format!("User {user} has"), "it has");
        let message = self.secrets.iter().fold(error.message.clone(), without_user);
        let repeats = self
            .secrets
            .iter()
            .any(|secret| !secret.is_empty() && message.contains(secret));
        let hidden = "the rest repeats the user name or password, and is not shown".to_owned();
        CallError::server(&error.code, if repeats { &hidden } else { &message })
    }

    /// Sends a question to a cluster node on a connection of its own.
    pub(super) fn ask(
        self: &Arc<Self>,
        question: &'static [&'static [u8]],
        outage: &Outage,
        now: Instant,
    ) -> Boxed<Result<Reply, Failure>> {
        let this = Arc::clone(self);
        let limit = self.limits.limit(outage, now);
        Box::pin(async move {
            let deadline = Deadline::after(limit);
            let answer = async {
                let mut wire = this.connect(Purpose::Topology, &deadline).await?;
                command(wire.out(), question);
                deadline.wait(async { Ok(wire.reply().await??) }).await
            };
            answer.await.map_err(|failure| failure.without_secrets(&this.secrets))
        })
    }

    async fn connect(&self, purpose: Purpose, deadline: &Deadline) -> Result<Wire, Failure> {
        match &self.dialer {
            Dialer::SentinelPrimary(sentinel_primary) => {
                let address = deadline.wait(sentinel_primary.address()).await?;
                let connected = self.reach(&address, sentinel_primary.tls(), purpose, deadline).await;
                connected.map_err(|failure| failure.with_address(&address))
            }
            Dialer::Announced(AnnouncedServer { address, tls }) => {
                self.reach(address, tls.as_ref(), purpose, deadline).await
            }
            dialer => {
                deadline
                    .wait(self.connect_by(dialer, &self.node, purpose, deadline))
                    .await
            }
        }
    }

    /// Connects to an announced server, at the address that the `address_map` gives for it.
    async fn reach(
        &self,
        announced: &Address,
        tls: Option<&Tls>,
        purpose: Purpose,
        deadline: &Deadline,
    ) -> Result<Wire, Failure> {
        let reached = deadline
            .wait(address_mapping::map_address(&self.mapping, announced))
            .await?;
        let tcp = tcp(&reached.host, reached.port, self.silence_timeout);
        let dialer = match tls {
            None => Dialer::Tcp(tcp),
            Some(tls) => Dialer::Tls(TlsDialer::new(tcp, tls)),
        };
        let node = reached.to_string();
        let connected = deadline.wait(self.connect_by(&dialer, &node, purpose, deadline)).await;
        connected.map_err(|failure| {
            if reached == *announced {
                failure
            } else {
                failure.with_mapped_address(&reached)
            }
        })
    }

    async fn connect_by(
        &self,
        dialer: &Dialer,
        node: &str,
        purpose: Purpose,
        deadline: &Deadline,
    ) -> Result<Wire, Failure> {
        let attempt = Attempt {
            dialer,
            node,
            purpose,
            deadline,
        };
        match self.find(&attempt).await {
            Ok(wire) => {
                self.is_known.store(true, Ordering::Relaxed);
                Ok(wire)
            }
            Err(failure) if self.is_known.load(Ordering::Relaxed) => Err(failure.of_known_server()),
            Err(failure) => Err(failure),
        }
    }

    /// Connects to one address, logs in, and checks the server's greeting.
    pub(super) async fn connect_and_greet(
        &self,
        attempt: &Attempt<'_>,
        address: Option<SocketAddr>,
    ) -> Result<Connection, Failure> {
        let (wire, outcome) = self.dial(attempt, address).await?;
        let mark = Mark { run_id: None, address };
        let mut connection = Connection {
            wire,
            mark,
            is_replica: false,
            outcome,
        };
        let asks_run_id =
            attempt.purpose.is_at_server() && (self.peers.is_some() || !self.may_not_ask.load(Ordering::Relaxed));
        self.send_hello(&mut connection.wire, attempt.purpose, asks_run_id);
        let greeted = match connection.wire.reply().await {
            Ok(answer) => {
                self.read_hello(answer, &mut connection, attempt.purpose, asks_run_id)
                    .await
            }
            Err(failure) if matches!(attempt.dialer, Dialer::Tcp(_)) => Err(failure.before_an_answer()),
            Err(failure) => Err(failure),
        };
        greeted.map_err(|failure| connection.explain(failure))?;
        connection.wire.login_accepted();
        Ok(connection)
    }

    async fn dial(
        &self,
        attempt: &Attempt<'_>,
        address: Option<SocketAddr>,
    ) -> Result<(Wire, Option<Arc<TlsOutcome>>), Failure> {
        #[cfg(feature = "simulation")]
        if let (Some(world), Some(address)) = (self.world.simulation(), address) {
            return Ok((Wire::new(world.dial(address, attempt.purpose.path()).await?), None));
        }
        Ok(match (attempt.dialer, address) {
            (Dialer::Tcp(tcp), Some(address)) => (Wire::new(tcp.connect(address).await?), None),
            (Dialer::Tls(dialer), Some(address)) => {
                let (stream, outcome) = dialer.connect(address, attempt.deadline).await?;
                (Wire::new(stream), Some(outcome))
            }
            (Dialer::Unix(path), _) => (Wire::new(dial::unix(path).await?), None),
            _ => unreachable!("the address is known by now"),
        })
    }

    /// Writes the login and the questions that show the kind and the identity of the server. The first connection of a
    /// lane also loads a script: if the user lacks that right, the client fails at once and not when it first needs a
    /// script.
    fn send_hello(&self, wire: &mut Wire, purpose: Purpose, asks_run_id: bool) {
        self.login.write(wire.out());
        if asks_run_id {
            command(wire.out(), peers::QUESTION);
        }
        if matches!(purpose, Purpose::FirstCalls(_)) {
            command(wire.out(), &[b"SCRIPT", b"LOAD", shortest_script().text().as_bytes()]);
        }
    }

    /// Checks the server by its answers to the login and the questions.
    async fn read_hello(
        &self,
        answer: Result<Reply, ServerError>,
        connection: &mut Connection,
        purpose: Purpose,
        asks_run_id: bool,
    ) -> Result<(), Failure> {
        let wire = &mut connection.wire;
        let greeting = answer.map_err(|error| match self.server_kind {
            ServerKind::Sentinel => Failure::of_sentinel(error),
            ServerKind::Standalone | ServerKind::ClusterNode => error.into(),
        })?;
        for _ in LIBRARY_INFO {
            // Errors are ignored: servers before 7.2 do not know the command, and the user may lack the right.
            let _ = wire.reply().await?;
        }
        if self.login.database != 0 {
            wire.reply().await??;
        }
        let greeting = Greeting::read(&greeting);
        connection.is_replica = greeting.is_replica();
        let has_sharded_channels = greeting
            .version_numbers()
            .is_some_and(|version| version >= SHARDED_SINCE);
        self.is_sharded.store(
            self.server_kind == ServerKind::ClusterNode && has_sharded_channels,
            Ordering::Relaxed,
        );
        if purpose != Purpose::Subscriptions {
            self.server_kind.check(&greeting)?;
            if purpose.is_for_calls() && connection.is_replica {
                return Err(match self.dialer {
                    Dialer::SentinelPrimary(_) => Failure::unavailable("the server that sentinels name is a replica"),
                    _ => Failure::replica(),
                });
            }
        }
        if asks_run_id {
            let reply = wire.reply().await?;
            self.may_not_ask.store(is_forbidden(&reply), Ordering::Relaxed);
            connection.mark.run_id = peers::run_id(reply)?;
        }
        if matches!(purpose, Purpose::FirstCalls(_)) {
            wire.reply().await??;
        }
        Ok(())
    }

    /// Returns the number of the database in the URL.
    pub(super) const fn database(&self) -> i64 {
        self.login.database
    }

    /// Whether sentinels or cluster nodes announce the server's address, or the server is one of them.
    pub(super) const fn has_named_address(&self) -> bool {
        matches!(self.dialer, Dialer::SentinelPrimary(_) | Dialer::Announced(_))
            || !matches!(self.server_kind, ServerKind::Standalone)
    }
}

/// The library name and version that `CLIENT SETINFO` shows to an operator who lists the server's clients.
const LIBRARY_INFO: [(&str, &str); 2] = [("LIB-NAME", "steadlock"), ("LIB-VER", env!("CARGO_PKG_VERSION"))];

impl Login {
    fn write(&self, out: &mut Vec<u8>) {
        // RESP3, because it separates messages from replies.
        let mut hello: Vec<&[u8]> = vec![role::QUESTION, b"3"];
        if let Some(password) = &self.password {
            let username = self.username.as_deref().unwrap_or("default");
            hello.extend([b"AUTH", username.as_bytes(), password.as_bytes()]);
        }
        // As a part of `HELLO`, `SETNAME` needs no right of its own, unlike `CLIENT SETNAME`.
        hello.extend([b"SETNAME", self.name.as_bytes()]);
        command(out, &hello);
        for (what, value) in LIBRARY_INFO {
            command(out, &[b"CLIENT", b"SETINFO", what.as_bytes(), value.as_bytes()]);
        }
        if self.database != 0 {
            command(out, &[b"SELECT", self.database.to_string().as_bytes()]);
        }
    }
}

/// Whether the reply says that the user lacks the right to the command. Where possible the command is not sent again,
/// because the server logs each refusal.
pub(super) fn is_forbidden(reply: &Result<Reply, ServerError>) -> bool {
    reply.as_ref().is_err_and(|error| error.code == "NOPERM")
}

/// Returns a script whose loading shows whether the user may load scripts.
fn shortest_script() -> Script {
    let shortest = Script::ALL.iter().copied().min_by_key(|script| script.text().len());
    shortest.expect("there are scripts")
}

fn command(out: &mut Vec<u8>, parts: &[&[u8]]) {
    commands::write(out, parts.iter().copied());
}

/// Returns the time after which a vanished peer is noticed: a third of the lease, within limits.
fn silence_timeout(settings: &Settings) -> Duration {
    (settings.lease.get() / 3).clamp(Duration::from_millis(500), Duration::from_secs(20))
}

fn tcp(host: &str, port: u16, silence_timeout: Duration) -> Tcp {
    Tcp {
        host: host.to_owned(),
        port,
        silence_timeout,
    }
}

fn dialer(settings: &Settings, target: &Target) -> Dialer {
    let silence_timeout = silence_timeout(settings);
    match &target.scheme {
        Scheme::Tcp { host, port, tls: None } => Dialer::Tcp(tcp(host, *port, silence_timeout)),
        Scheme::Tcp {
            host,
            port,
            tls: Some(tls),
        } => Dialer::Tls(TlsDialer::new(tcp(host, *port, silence_timeout), tls)),
        Scheme::Unix { path } => Dialer::Unix(path.clone()),
        Scheme::Cluster { .. } => unreachable!("each node of a cluster has a target of its own"),
        Scheme::Sentinel { .. } => unreachable!("each sentinel has a target of its own"),
        Scheme::Memory { .. } => unreachable!("memory:// has no connections"),
    }
}
