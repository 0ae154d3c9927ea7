//! Opening a connection: address, credentials, TLS, and whether the server will do.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leasehold_protocol::{Instant, Lane, Reply, Script};

use super::dial::{self, Tcp};
use super::failure::Failure;
use super::outage::{self, Limits, Outage};
use super::resp::{self, text};
use super::role::{self, Greeting};
use super::tls::{TlsDialer, TlsOutcome};
use super::wire::Wire;
use crate::settings::Settings;
use crate::target::{Scheme, Target};
#[cfg(feature = "simulation")]
use crate::world::Path;
use crate::world::World;

/// Something that is on its way.
pub(super) type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Opens connections to one server.
pub(super) struct Connector {
    dialer: Dialer,
    login: Login,
    /// What no message may repeat.
    secrets: Vec<String>,
    /// The server as messages name it.
    pub(super) node: String,
    pub(super) limits: Limits,
    peers: Option<Peers>,
    pub(super) world: World,
}

/// How connections begin.
enum Dialer {
    Tcp(Tcp),
    Unix(PathBuf),
    Tls(TlsDialer),
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Script calls, before any other connection for them was tried.
    FirstCalls(Lane),
    Calls(Lane),
    Subscriptions,
}

#[cfg(feature = "simulation")]
impl Purpose {
    const fn path(self) -> Path {
        match self {
            Self::FirstCalls(Lane::Command) | Self::Calls(Lane::Command) => Path::Commands,
            Self::FirstCalls(Lane::Renewal) | Self::Calls(Lane::Renewal) => Path::Renewals,
            Self::Subscriptions => Path::Subscriptions,
        }
    }
}

/// What makes sure that several primaries are several servers.
#[derive(Clone, Debug)]
pub(in crate::transport) struct Peers {
    /// The run id of each server, by its node.
    run_ids: Arc<Mutex<BTreeMap<usize, String>>>,
    node: usize,
}

impl Peers {
    /// One for each of `count` primaries.
    pub(in crate::transport) fn new(count: usize) -> Vec<Self> {
        let run_ids = Arc::default();
        let peer = |node| Self {
            run_ids: Arc::clone(&run_ids),
            node,
        };
        (0..count).map(peer).collect()
    }

    /// Notes who the server is, by what `INFO server` says.
    fn check(&self, info: &Reply) -> Result<(), Failure> {
        let run_id = text(info).and_then(|info| info.lines().find_map(|line| line.strip_prefix("run_id:")));
        let Some(run_id) = run_id else {
            return Err(Failure::misconfigured(
                "the server does not say its run id, by which primaries are told apart",
            ));
        };
        let mut run_ids = self.run_ids.lock().unwrap_or_else(PoisonError::into_inner);
        if run_ids
            .iter()
            .any(|(node, known)| *node != self.node && known == run_id)
        {
            return Err(
                Failure::misconfigured("it is the same server as another one of the primaries")
                    .advising("a majority needs independent ones"),
            );
        }
        run_ids.insert(self.node, run_id.to_owned());
        Ok(())
    }
}

/// Who this client is, as it says on each connection.
struct Login {
    username: Option<String>,
    password: Option<String>,
    database: i64,
}

/// The oldest server whose scripts may do what ours do.
const OLDEST: (u32, u32) = (6, 2);

impl Connector {
    pub(super) fn new(settings: &Settings, target: &Target, peers: Option<Peers>) -> Self {
        Self {
            dialer: dialer(settings, target),
            login: Login {
                username: target.username.clone(),
                password: target.password.clone(),
                database: target.database,
            },
            secrets: [&target.username, &target.password]
                .into_iter()
                .flatten()
                .cloned()
                .collect(),
            node: target.to_string(),
            limits: Limits::new(settings.connect_timeout, settings.lease.get()),
            peers,
            world: settings.world.clone(),
        }
    }

    /// Opens a connection.
    pub(super) fn open(
        self: &Arc<Self>,
        purpose: Purpose,
        outage: &Outage,
        now: Instant,
    ) -> Boxed<Result<Wire, Failure>> {
        let this = Arc::clone(self);
        let (pause, limit) = (outage.pause(&self.world), self.limits.of(outage, now));
        Box::pin(async move {
            outage::wait(pause).await;
            match tokio::time::timeout(limit, this.connect(purpose)).await {
                Ok(result) => result.map_err(|failure| failure.without(&this.secrets)),
                Err(_) => Err(Failure::unavailable(format!("no answer within {limit:?}"))),
            }
        })
    }

    async fn connect(&self, purpose: Purpose) -> Result<Wire, Failure> {
        let (mut wire, outcome) = self.dial(purpose).await?;
        match self.greet(&mut wire, purpose).await {
            Ok(()) => Ok(wire),
            Err(failure) => Err(match outcome {
                Some(outcome) => outcome.failure(failure),
                None => failure,
            }),
        }
    }

    async fn dial(&self, _purpose: Purpose) -> Result<(Wire, Option<Arc<TlsOutcome>>), Failure> {
        #[cfg(feature = "simulation")]
        if let Some(world) = self.world.given() {
            return Ok((Wire::new(world.dial(&self.node, _purpose.path()).await?), None));
        }
        Ok(match &self.dialer {
            Dialer::Tcp(tcp) => (Wire::new(tcp.connect().await?), None),
            Dialer::Unix(path) => (Wire::new(dial::unix(path).await?), None),
            Dialer::Tls(dialer) => {
                let (stream, outcome) = dialer.connect().await?;
                (Wire::new(stream), Some(outcome))
            }
        })
    }

    /// Says who this is, and makes sure that the server will do. The first time, also that
    /// its user may load scripts: else that would show when one is needed.
    async fn greet(&self, wire: &mut Wire, purpose: Purpose) -> Result<(), Failure> {
        self.login.write(wire.out());
        let is_for_calls = purpose != Purpose::Subscriptions;
        let peers = self.peers.as_ref().filter(|_| is_for_calls);
        if peers.is_some() {
            command(wire.out(), &[b"INFO", b"server"]);
        }
        let shortest = Script::ALL.iter().min_by_key(|script| script.text().len());
        let script = shortest.filter(|_| matches!(purpose, Purpose::FirstCalls(_)));
        if let Some(script) = script {
            command(wire.out(), &[b"SCRIPT", b"LOAD", script.text().as_bytes()]);
        }
        let greeting = wire.reply().await??;
        for _ in LIBRARY {
            // Servers before 7.2 do not know the command, and users may lack the right.
            let _ = wire.reply().await?;
        }
        if self.login.database != 0 {
            wire.reply().await??;
        }
        if is_for_calls {
            check_server(&greeting)?;
        }
        if let Some(peers) = peers {
            peers.check(&wire.reply().await??)?;
        }
        if script.is_some() {
            wire.reply().await??;
        }
        Ok(())
    }
}

/// What `CLIENT SETINFO` tells an operator who lists the server's clients.
const LIBRARY: [(&str, &str); 2] = [("LIB-NAME", "leasehold"), ("LIB-VER", env!("CARGO_PKG_VERSION"))];

impl Login {
    fn write(&self, out: &mut Vec<u8>) {
        // RESP3: a message cannot be taken for a reply.
        let mut hello: Vec<&[u8]> = vec![role::QUESTION, b"3"];
        if let Some(password) = &self.password {
            let username = self.username.as_deref().unwrap_or("default");
            hello.extend([b"AUTH", username.as_bytes(), password.as_bytes()]);
        }
        command(out, &hello);
        for (what, value) in LIBRARY {
            command(out, &[b"CLIENT", b"SETINFO", what.as_bytes(), value.as_bytes()]);
        }
        if self.database != 0 {
            command(out, &[b"SELECT", self.database.to_string().as_bytes()]);
        }
    }
}

fn command(out: &mut Vec<u8>, parts: &[&[u8]]) {
    resp::command(out, parts.iter().copied());
}

/// Whether locks can work with this server, by what it says of itself.
fn check_server(hello: &Reply) -> Result<(), Failure> {
    let greeting = Greeting::read(hello);
    let Some(version) = greeting.version else {
        return Err(Failure::misconfigured("the server's greeting has no version").advising("is it Redis or Valkey?"));
    };
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    if (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) < OLDEST {
        return Err(Failure::too_old(version));
    }
    match greeting.mode {
        Some("cluster") => {
            Err(Failure::misconfigured("the server is part of a cluster")
                .advising("clusters come with a later version"))
        }
        Some("sentinel") => Err(Failure::misconfigured("the server is a sentinel")
            .advising("connect to the primary, sentinels come with a later version")),
        _ if greeting.is_replica() => Err(Failure::replica()),
        _ => Ok(()),
    }
}

fn dialer(settings: &Settings, target: &Target) -> Dialer {
    // A peer that is gone without a word is noticed within a third of a lease.
    let third = settings.lease.get() / 3;
    let tcp = |host: &str, port| Tcp {
        host: host.to_owned(),
        port,
        silence: third.clamp(Duration::from_millis(500), Duration::from_secs(20)),
    };
    match &target.scheme {
        Scheme::Tcp { host, port, tls: None } => Dialer::Tcp(tcp(host, *port)),
        Scheme::Tcp {
            host,
            port,
            tls: Some(tls),
        } => Dialer::Tls(TlsDialer::new(tcp(host, *port), tls)),
        Scheme::Unix { path } => Dialer::Unix(path.clone()),
        Scheme::Memory { .. } => unreachable!("memory:// has no connections"),
    }
}

#[cfg(test)]
mod tests {
    use leasehold_protocol::{Error, ErrorKind};

    use super::*;

    fn hello(version: &str, mode: &str, role: &str) -> Reply {
        let parts = ["server", "redis", "version", version, "mode", mode, "role", role];
        Reply::Array(parts.map(|part| Reply::Bytes(part.into())).to_vec())
    }

    fn refusal(version: &str, mode: &str, role: &str) -> Error {
        check_server(&hello(version, mode, role)).unwrap_err().into_error("h:1")
    }

    #[test]
    fn a_primary_that_is_new_enough_will_do() {
        for version in ["6.2.0", "7.0.15", "8.1.0", "10.0"] {
            assert!(
                check_server(&hello(version, "standalone", "master")).is_ok(),
                "{version}"
            );
        }
    }

    #[test]
    fn an_old_server_a_replica_a_sentinel_and_a_cluster_are_misconfigured() {
        for error in [
            refusal("6.0.16", "standalone", "master"),
            refusal("5", "standalone", "master"),
            refusal("7.0.15", "standalone", "replica"),
            refusal("7.0.15", "sentinel", "master"),
            refusal("7.0.15", "cluster", "master"),
        ] {
            assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
            assert_eq!(error.node(), Some("h:1"), "{error}");
        }
    }
}
