//! For tools: the servers behind a URL, and commands of one's own on each of them.
//!
//! A program that only takes locks needs none of this. It is the feature `admin`, which is off by default; the
//! `steadlock` command is made with it. URL, TLS, credentials, sentinels, the nodes of a cluster and the
//! address map are read and used as [`Client`](crate::Client) does it.
//!
//! ```no_run
//! # async fn example() -> Result<(), steadlock::Error> {
//! use steadlock::Client;
//! use steadlock::admin::Servers;
//!
//! let mut servers = Servers::open(Client::builder().url("redis+cluster://localhost:7001")).await?;
//! for deployment in servers.deployments_mut() {
//!     println!("{}", deployment.topology().as_str());
//!     for primary in deployment.primaries_mut() {
//!         let info = primary.call(&["INFO", "replication"]).await?;
//!         println!("{}: {info:?}", primary.address());
//!     }
//! }
//! # Ok(()) }
//! ```
//!
//! It has no thread: its futures run where they are awaited, in a tokio runtime with I/O and time.

use std::fmt;
use std::sync::Arc;

use steadlock_protocol::{ErrorKind, Operation};

pub use steadlock_protocol::{CallError, KeyPrefix, LockKey, LockName, OwnerId, Reply, Scratch, is_harmful, readable};

use crate::Error;
use crate::api::Builder;
use crate::settings::Settings;
use crate::target::{Scheme, Target, listed, named_host_and_port};
use crate::transport::tools::{self, Found, Link, Place};

/// All servers that the options lead to.
#[derive(Debug)]
pub struct Servers {
    settings: Arc<Settings>,
    deployments: Vec<Deployment>,
}

impl Servers {
    /// Finds the servers: asks the nodes of a cluster's URL which of them are primaries, and sentinels for the
    /// primary and for one another. Any other server is connected to by its first command, so that one which is
    /// down does not hide the others. Nothing is asked again later: open them anew to see a failover.
    ///
    /// # Errors
    /// - `InvalidArgument`: the URL or an option is malformed, or it is `memory://`, which no other program sees.
    /// - `Unavailable`: no node of the cluster and no sentinel answers within the connect timeout (5 s).
    /// - `Misconfigured`: there is no URL, and none in `STEADLOCK_URL`; or those that were asked refuse the
    ///   password, or are not what the scheme says.
    ///
    /// Dropping the future gives it up.
    pub async fn open(builder: Builder) -> Result<Self, Error> {
        let settings = Arc::new(Settings::check(builder.into_options())?);
        let mut deployments = Vec::new();
        for target in &settings.targets {
            deployments.push(Deployment::find(&settings, target).await?);
        }
        Ok(Self { settings, deployments })
    }

    /// Whether each lock is held by a majority of several primaries.
    #[must_use]
    pub fn are_several(&self) -> bool {
        self.deployments.len() > 1
    }

    /// What each URL leads to: one of a `url`, 3 to 15 of `primaries`.
    #[must_use]
    pub fn deployments(&self) -> &[Deployment] {
        &self.deployments
    }

    /// The same, to call them.
    pub fn deployments_mut(&mut self) -> &mut [Deployment] {
        &mut self.deployments
    }

    /// Keys and channels of no lock, with the options' key prefix and an id that nobody else has, to try rights on;
    /// the second of a name with a brace, `None` if the prefix has one. Each call gives others.
    #[must_use]
    pub fn scratch(&self) -> (Scratch, Option<Scratch>) {
        self.settings.scratch()
    }

    /// The full name of a lock: the key prefix, then the name.
    ///
    /// # Errors
    /// `InvalidArgument` if it is no name.
    pub fn lock_name(&self, name: &str) -> Result<LockName, Error> {
        self.settings.lock_name(name)
    }

    /// A full name as programs with this key prefix give it.
    #[must_use]
    pub fn given_name<'a>(&self, name: &'a LockName) -> &'a str {
        self.settings.without_prefix(name.as_str())
    }

    /// The servers as messages name them, without user and password.
    #[must_use]
    pub fn name(&self) -> String {
        self.settings.server()
    }
}

/// What one URL leads to.
#[derive(Debug)]
pub struct Deployment {
    name: String,
    settings: Arc<Settings>,
    target: Target,
    place: Place,
    primaries: Vec<Server>,
    sentinels: Vec<Server>,
}

impl Deployment {
    async fn find(settings: &Arc<Settings>, target: &Target) -> Result<Self, Error> {
        if matches!(target.scheme, Scheme::Memory { .. }) {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                Operation::Connect,
                "memory:// is inside one process; give the URL of a server, such as that of `steadlock serve`",
            ));
        }
        let Found {
            place,
            primaries,
            sentinels,
        } = tools::find(settings, target).await?;
        let servers = |links: Vec<Link>| links.into_iter().map(Server).collect();
        Ok(Self {
            name: target.to_string(),
            settings: Arc::clone(settings),
            target: target.clone(),
            place,
            primaries: servers(primaries),
            sentinels: servers(sentinels),
        })
    }

    /// The addresses and the service of its URL, as messages name them.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is.
    #[must_use]
    pub const fn topology(&self) -> Topology {
        match self.place {
            Place::Alone => Topology::Standalone,
            Place::Service(_) => Topology::Sentinel,
            Place::Cluster(_) => Topology::Cluster,
        }
    }

    /// The service that its sentinels know; `None` without sentinels.
    #[must_use]
    pub fn service(&self) -> Option<&str> {
        match &self.place {
            Place::Service(service) => Some(service),
            Place::Alone | Place::Cluster(_) => None,
        }
    }

    /// The server, or the primary that sentinels name, or each node of a cluster that has slots, by address. A
    /// server whose URL is `redis://` may be a replica: that is not looked at.
    #[must_use]
    pub fn primaries(&self) -> &[Server] {
        &self.primaries
    }

    /// The same, to call them.
    pub fn primaries_mut(&mut self) -> &mut [Server] {
        &mut self.primaries
    }

    /// A server that one of them announces as `host:port`, such as a replica in `INFO replication`; an IPv6 address
    /// in brackets. It is reached by the address map, and with the URL's user, password and TLS. `None` if it is no
    /// such address.
    #[must_use]
    pub fn announced(&self, address: &str) -> Option<Server> {
        let (host, port) = named_host_and_port(address)?;
        Some(Server(tools::announced(&self.settings, &self.target, &host, port)))
    }

    /// The sentinels of the URL, and those that they name.
    pub fn sentinels_mut(&mut self) -> &mut [Server] {
        &mut self.sentinels
    }

    /// The primary that has a key.
    ///
    /// # Errors
    /// `Unavailable` if no node of the cluster has the key's slot.
    pub fn primary_of(&mut self, key: impl AsRef<[u8]>) -> Result<&mut Server, Error> {
        let place = match &self.place {
            Place::Cluster(nodes) => nodes.place_of(key.as_ref()),
            Place::Alone | Place::Service(_) => Some(0),
        };
        match place.and_then(|place| self.primaries.get_mut(place)) {
            Some(server) => Ok(server),
            None => Err(Error::new(
                ErrorKind::Unavailable,
                Operation::Inspect,
                "no node of the cluster has the key's slot; its slots are not all served",
            )
            .with_node(&*self.name)),
        }
    }
}

/// The parts of a URL, without connecting.
#[derive(Clone, Debug)]
pub struct ServerUrl {
    target: Target,
    has_tls: bool,
}

impl ServerUrl {
    /// # Errors
    /// `InvalidArgument` if it is no URL of a server, as [`Servers::open`] has it.
    pub fn parse(url: &str) -> Result<Self, Error> {
        let (target, has_tls) = Target::without_tls(url)?;
        Ok(Self { target, has_tls })
    }

    /// The URLs in a text that may have several, with whitespace between them, such as an environment variable.
    #[must_use]
    pub fn split(text: &str) -> Vec<String> {
        listed(text)
    }

    /// Whether connections use TLS.
    #[must_use]
    pub const fn has_tls(&self) -> bool {
        self.has_tls
    }

    /// Whether it has a password of the server.
    #[must_use]
    pub const fn has_password(&self) -> bool {
        self.target.password.is_some()
    }

    /// The number of the database.
    #[must_use]
    pub const fn database(&self) -> i64 {
        self.target.database
    }

    /// Whether it is `memory://`, which no other program sees.
    #[must_use]
    pub const fn is_memory(&self) -> bool {
        matches!(self.target.scheme, Scheme::Memory { .. })
    }
}

/// What a URL leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Topology {
    /// `redis://`, `rediss://` or `redis+unix://`: one server.
    Standalone,
    /// `redis+sentinel://`: the primary that sentinels name.
    Sentinel,
    /// `redis+cluster://`: the primaries of a cluster.
    Cluster,
}

impl Topology {
    /// `standalone`, `sentinel` or `cluster`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Standalone => "standalone",
            Self::Sentinel => "sentinel",
            Self::Cluster => "cluster",
        }
    }
}

/// One server. It is connected to at the first command, and again at the next one after it did not answer.
#[derive(Debug)]
pub struct Server(Link);

impl Server {
    /// Its address without user and password: as the URL has it, or as others announce it.
    #[must_use]
    pub fn address(&self) -> &str {
        self.0.address()
    }

    /// One command, such as `&["INFO", "memory"]`, and its reply. Of a map the reply is an array of keys and
    /// values in turn.
    ///
    /// # Errors
    /// - `Unavailable`: the server cannot be reached within the connect timeout (5 s), does not answer within
    ///   the command timeout (3 s), or cannot serve for now.
    /// - `Misconfigured`: it refuses the password or the command. [`Server::ask`] tells with which code.
    ///
    /// Dropping the future gives up the connection; the command may have run.
    pub async fn call<P: AsRef<[u8]>>(&mut self, command: &[P]) -> Result<Reply, Error> {
        let answer = self.ask(command).await?;
        answer.map_err(|refused| refused.to_error(Operation::Inspect).with_node(self.address()))
    }

    /// As [`Server::call`], but what the server refuses is an answer too, with its code (such as `NOPERM`) and
    /// the server's words, without the user's name.
    ///
    /// `SUBSCRIBE`, `UNSUBSCRIBE` and their sharded twins are answered by what became of the first channel; give them
    /// one, and give it up again before anything else, as its messages would be taken for answers.
    ///
    /// # Errors
    /// As [`Server::call`], if there is no answer.
    pub async fn ask<P: AsRef<[u8]>>(&mut self, command: &[P]) -> Result<Result<Reply, CallError>, Error> {
        let mut answers = self.ask_all(&[command]).await?;
        Ok(answers.pop().unwrap_or(Ok(Reply::Nil)))
    }

    /// As [`Server::ask`], with several commands in one go: one answer for each, in their order. The command
    /// timeout is that of each answer.
    ///
    /// # Errors
    /// As [`Server::call`], if an answer did not come.
    pub async fn ask_all<C: AsRef<[P]>, P: AsRef<[u8]>>(
        &mut self,
        commands: &[C],
    ) -> Result<Vec<Result<Reply, CallError>>, Error> {
        self.0.send(commands).await
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Link({})", self.address())
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Alone => "Alone",
            Self::Service(_) => "Service",
            Self::Cluster(_) => "Cluster",
        })
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Settings({})", self.server())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_whether_there_is_a_password_tls_and_a_database() {
        for (url, has_password, has_tls, database) in [
            ("redis://h", false, false, 0),
            ("valkey://h:6379/3\n", false, false, 3),
            ("rediss://user:word@h:6379", true, true, 0),
            (" VALKEYS://user:word@h:6379?db=4", true, true, 4),
            ("rediss+cluster://:word@h,i", true, true, 0),
            (
                "redis+sentinel://h,i/main?sentinel_user=a&sentinel_password=@b",
                false,
                false,
                0,
            ),
            ("valkeys+sentinel://h,i/main/2", false, true, 2),
            ("redis+unix:///tmp/a@b.sock?db=4", false, false, 4),
        ] {
            let said = ServerUrl::parse(url).unwrap();
            assert_eq!(said.has_password(), has_password, "{url}");
            assert_eq!(said.has_tls(), has_tls, "{url}");
            assert_eq!(said.database(), database, "{url}");
            assert!(!said.is_memory(), "{url}");
        }
        for url in ["memory://", " MEMORY://shop"] {
            assert!(ServerUrl::parse(url).unwrap().is_memory(), "{url}");
        }
    }
}
