//! For tools: finds the servers behind a URL, and runs any command on each of them.
//!
//! A program that only acquires locks does not need this module. It belongs to the feature `admin`, which is off by
//! default; the `steadlock` command is built with it. URL, TLS, credentials, sentinels, the nodes of a cluster and the
//! address map work as in [`Client`](crate::Client).
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
//! The futures of this module run where they are awaited, in a tokio runtime with I/O and time. Name lookups and
//! functions of the program can block, so they run on other threads.

use std::fmt;
use std::sync::Arc;

use steadlock_protocol::{ErrorKind, Operation};

pub use steadlock_protocol::{CallError, KeyPrefix, LockKey, LockName, OwnerId, Reply, Scratch, is_harmful};

use crate::Error;
use crate::api::Builder;
use crate::settings::Settings;
use crate::target::{Scheme, Target, TargetWithoutTls, host_and_required_port, split_urls};
use crate::transport::tools::{self, Arrangement, Found, Link};

/// All servers to which the options lead.
#[derive(Debug)]
pub struct Servers {
    settings: Arc<Settings>,
    deployments: Vec<Deployment>,
}

impl Servers {
    /// Finds the servers. Asks the nodes in a cluster's URL which nodes are primaries, and asks sentinels for the
    /// primary and for the other sentinels. Every other connection opens at its first command, so a server that is down
    /// does not hide the others. Nothing is refreshed later: after a failover, open the servers again.
    ///
    /// # Errors
    /// - `InvalidArgument`: the URL or an option is malformed, or the URL is `memory://`, which no other program can
    ///   reach.
    /// - `Unavailable`: no node of the cluster and no sentinel answers within the connect timeout (by default 5 s).
    /// - `Misconfigured`: there is no URL, and none in `STEADLOCK_URL`; or a TLS file cannot be used; or the servers
    ///   that were asked refuse the password, or are not of the sort that the scheme says.
    ///
    /// Dropping the future cancels the search.
    pub async fn open(builder: Builder) -> Result<Self, Error> {
        let settings = Arc::new(Settings::check(builder.into_options())?);
        let mut deployments = Vec::new();
        for target in &settings.targets {
            deployments.push(Deployment::find(&settings, target).await?);
        }
        Ok(Self { settings, deployments })
    }

    /// Whether the options name several `primaries`, a majority of which has to grant each lock.
    #[must_use]
    pub fn has_several_primaries(&self) -> bool {
        self.deployments.len() > 1
    }

    /// Returns one deployment for each URL: one for a `url`, 3 to 15 for `primaries`.
    #[must_use]
    pub fn deployments(&self) -> &[Deployment] {
        &self.deployments
    }

    /// Returns the deployments, to run commands on their servers.
    pub fn deployments_mut(&mut self) -> &mut [Deployment] {
        &mut self.deployments
    }

    /// Returns keys and channels for testing rights. They belong to no lock: they have the options' key prefix and an
    /// id that nobody else has. The second set comes from a name with a brace; it is `None` if the prefix has a brace.
    /// Each call returns new keys and channels.
    #[must_use]
    pub fn test_keys(&self) -> (Scratch, Option<Scratch>) {
        self.settings.test_keys()
    }

    /// Returns the full name of a lock: the key prefix, then the name.
    ///
    /// # Errors
    /// `InvalidArgument` if `name` is not a valid name.
    pub fn lock_name(&self, name: &str) -> Result<LockName, Error> {
        self.settings.lock_name(name)
    }

    /// Returns a full name without the key prefix, as programs with this prefix write it.
    #[must_use]
    pub fn name_without_prefix<'a>(&self, name: &'a LockName) -> &'a str {
        self.settings.without_prefix(name.as_str())
    }

    /// Returns the servers as messages name them, without user and password.
    #[must_use]
    pub fn name(&self) -> String {
        self.settings.server()
    }
}

/// The servers behind one URL.
#[derive(Debug)]
pub struct Deployment {
    name: String,
    settings: Arc<Settings>,
    target: Target,
    arrangement: Arrangement,
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
            arrangement,
            primaries,
            sentinels,
        } = tools::find(settings, target).await?;
        let servers = |links: Vec<Link>| links.into_iter().map(Server).collect();
        Ok(Self {
            name: target.to_string(),
            settings: Arc::clone(settings),
            target: target.clone(),
            arrangement,
            primaries: servers(primaries),
            sentinels: servers(sentinels),
        })
    }

    /// Returns the addresses and the service of the URL, as messages name them.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether the URL leads to one server, to sentinels or to a cluster.
    #[must_use]
    pub const fn topology(&self) -> Topology {
        match self.arrangement {
            Arrangement::Alone => Topology::Standalone,
            Arrangement::Service(_) => Topology::Sentinel,
            Arrangement::Cluster(_) => Topology::Cluster,
        }
    }

    /// Returns the service that the sentinels know; `None` without sentinels.
    #[must_use]
    pub fn service(&self) -> Option<&str> {
        match &self.arrangement {
            Arrangement::Service(service) => Some(service),
            Arrangement::Alone | Arrangement::Cluster(_) => None,
        }
    }

    /// Returns the server, the primary that sentinels name, or each node of a cluster that has slots, by address. The
    /// server of a `redis://` URL is a replica if the URL leads to no primary.
    #[must_use]
    pub fn primaries(&self) -> &[Server] {
        &self.primaries
    }

    /// Returns the primaries, to run commands on them.
    pub fn primaries_mut(&mut self) -> &mut [Server] {
        &mut self.primaries
    }

    /// Returns the server that another server announces as `host:port`, such as a replica in `INFO replication`; an
    /// IPv6 address stands in brackets. The address map applies, and so do the URL's user, password and TLS. Returns
    /// `None` if `address` is no such address.
    #[must_use]
    pub fn announced(&self, address: &str) -> Option<Server> {
        let (host, port) = host_and_required_port(address)?;
        Some(Server(tools::announced(&self.settings, &self.target, &host, port)))
    }

    /// Returns the sentinels of the URL, and the sentinels that these name.
    pub fn sentinels_mut(&mut self) -> &mut [Server] {
        &mut self.sentinels
    }

    /// Returns the primary that has a key.
    ///
    /// # Errors
    /// `Unavailable` if no node of the cluster has the key's slot.
    pub fn primary_of(&mut self, key: impl AsRef<[u8]>) -> Result<&mut Server, Error> {
        let index = match &self.arrangement {
            Arrangement::Cluster(map) => map.index_of(key.as_ref()),
            Arrangement::Alone | Arrangement::Service(_) => Some(0),
        };
        match index.and_then(|index| self.primaries.get_mut(index)) {
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
pub struct ServerUrl(TargetWithoutTls);

impl ServerUrl {
    /// Parses a URL.
    ///
    /// # Errors
    /// `InvalidArgument` if `url` is malformed, as in [`Servers::open`].
    pub fn parse(url: &str) -> Result<Self, Error> {
        Target::without_tls(url).map(Self)
    }

    /// Splits a text at whitespace into its URLs. An environment variable, for example, can hold several. If a piece is
    /// no URL, the text is returned whole.
    #[must_use]
    pub fn split(text: &str) -> Vec<String> {
        split_urls(text)
    }

    /// Whether connections use TLS.
    #[must_use]
    pub const fn has_tls(&self) -> bool {
        self.0.has_tls
    }

    /// Whether the URL has a password for the server. A sentinel's password does not count.
    #[must_use]
    pub const fn has_password(&self) -> bool {
        self.0.target.password.is_some()
    }

    /// Returns the number of the database.
    #[must_use]
    pub const fn database(&self) -> i64 {
        self.0.target.database
    }

    /// Whether the URL is `memory://`, which no other program can reach.
    #[must_use]
    pub const fn is_memory(&self) -> bool {
        matches!(self.0.target.scheme, Scheme::Memory { .. })
    }
}

/// The sort of servers behind a URL.
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
    /// Returns `standalone`, `sentinel` or `cluster`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Standalone => "standalone",
            Self::Sentinel => "sentinel",
            Self::Cluster => "cluster",
        }
    }
}

/// One server. The first command opens the connection. After a command without a reply, the next command opens a new
/// connection.
///
/// If a host name has several addresses, the connection goes to the server to which a [`Client`](crate::Client) would
/// connect. Two primaries behind one name are `Misconfigured`. Unlike a client, a `Server` accepts a replica if no
/// primary answers.
#[derive(Debug)]
pub struct Server(Link);

impl Server {
    /// Returns the address without user and password, as the URL writes it or as other servers announce it.
    #[must_use]
    pub fn address(&self) -> &str {
        self.0.address()
    }

    /// Accepts any server if the address leads to several, for a tool that looks at what is there. Call this before the
    /// first command.
    pub const fn accept_any(&mut self) {
        self.0.accept_any();
    }

    /// Returns why a client would refuse the address, if only [`Server::accept_any`] made the last connection possible.
    /// `None` in all other cases, and before the first command.
    #[must_use]
    pub fn ambiguity(&self) -> Option<&str> {
        self.0.ambiguity()
    }

    /// Runs one command, such as `&["INFO", "memory"]`, and returns its reply. A map arrives as an array that
    /// alternates keys and values.
    ///
    /// # Errors
    /// - `Unavailable`: the server cannot be reached within the connect timeout (by default 5 s), does not answer
    ///   within the command timeout (by default 3 s), or cannot serve for now.
    /// - `Misconfigured`: the server refuses the password or the command ([`Server::ask`] returns the code of the
    ///   refusal), or the address leads to several primaries.
    ///
    /// Dropping the future closes the connection; the command may have run.
    pub async fn call<P: AsRef<[u8]>>(&mut self, command: &[P]) -> Result<Reply, Error> {
        let answer = self.ask(command).await?;
        answer.map_err(|refused| refused.to_error(Operation::Inspect).with_node(self.address()))
    }

    /// Runs one command as [`Server::call`] does, but returns a refusal of the server as a reply, with its code (such
    /// as `NOPERM`) and the server's text without the user's name.
    ///
    /// The reply to `SUBSCRIBE`, `UNSUBSCRIBE` and their sharded forms is the confirmation for the first channel. Name
    /// one channel only, and unsubscribe from it before any other command, because its messages would be taken for
    /// replies.
    ///
    /// # Errors
    /// As [`Server::call`], if there is no reply.
    pub async fn ask<P: AsRef<[u8]>>(&mut self, command: &[P]) -> Result<Result<Reply, CallError>, Error> {
        let mut answers = self.ask_all(&[command]).await?;
        Ok(answers.pop().unwrap_or(Ok(Reply::Nil)))
    }

    /// Runs several commands in one batch, as [`Server::ask`] does. Returns one reply for each, in the order of the
    /// commands. The command timeout applies to each reply.
    ///
    /// # Errors
    /// As [`Server::call`], if a reply is missing.
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

impl fmt::Debug for Arrangement {
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

/// Returns a text that is safe on a terminal and in a log: escapes replace the characters that [are
/// harmful](is_harmful).
#[must_use]
pub fn readable(text: &str) -> String {
    steadlock_protocol::readable(text.as_bytes(), usize::MAX)
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
            let parsed = ServerUrl::parse(url).unwrap();
            assert_eq!(parsed.has_password(), has_password, "{url}");
            assert_eq!(parsed.has_tls(), has_tls, "{url}");
            assert_eq!(parsed.database(), database, "{url}");
            assert!(!parsed.is_memory(), "{url}");
        }
        for url in ["memory://", " MEMORY://shop"] {
            assert!(ServerUrl::parse(url).unwrap().is_memory(), "{url}");
        }
    }
}
