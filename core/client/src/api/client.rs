//! The client: options, connecting, closing.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use steadlock_protocol::{Error, OnUnavailable};

use super::convert::millis;
use super::kinds::{self, ReadWriteLock, Semaphore};
use super::lock::{self, Lock};
use crate::host::{AddressMap, Host, Kind, Op, Options};
use crate::observe::{GroupBy, Observer};
#[cfg(feature = "simulation")]
use crate::world::{Simulated, World};

/// A connection to the server that keeps the locks. Cheap to clone; the last
/// clone to go closes it in the background, once its leases are gone too.
///
/// ```
/// # fn main() -> Result<(), steadlock::Error> {
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use std::time::Duration;
/// use steadlock::Client;
///
/// let client = Client::builder()
///     .url("memory://")
///     .lease(Duration::from_secs(10))
///     .key_prefix("shop:")
///     .connect()
///     .await?;
/// assert!(!client.lock("stock").is_locked().await?);
/// client.close().await;
/// # Ok(()) }) }
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    host: Host,
}

impl Client {
    /// Connects with the defaults to `redis://` or `redis+unix://`, to the primary
    /// that the sentinels of `redis+sentinel://` name, to a `redis+cluster://`, each
    /// also with TLS (`rediss…`), or to `memory://`; `valkey` may stand for `redis`.
    ///
    /// # Errors
    /// - `InvalidArgument`: the URL is malformed. The message does not repeat it.
    /// - `Unavailable`: the server cannot be reached within the connect timeout
    ///   (5 s); the message names it and the cause.
    /// - `Misconfigured`: it refuses the password, is older than Redis 6.2, or is
    ///   not what the scheme says: a replica, a sentinel, part of a cluster; or its
    ///   certificate is not acceptable here, or that of this client there. With
    ///   sentinels, if none of those that answer knows the service.
    ///
    /// Dropping the future gives the connection up.
    pub async fn connect(url: impl Into<String>) -> Result<Self, Error> {
        Self::builder().url(url).connect().await
    }

    /// Connects to several independent primaries, an odd number from 3 to 15. Every
    /// lock of this client is a RedLock: it is held by a majority of them, and goes
    /// on while a minority fails. `lock` and `mutex` give it, other kinds are
    /// refused; it is not reentrant and has no token.
    ///
    /// The promise holds while a primary that restarts without its data stays away
    /// for as long as the longest lease.
    ///
    /// # Errors
    /// As [`Client::connect`]; `Unavailable` if no majority can be reached, and
    /// `Misconfigured` if a primary is listed twice.
    pub async fn redlock(urls: impl IntoIterator<Item = impl Into<String>>) -> Result<Self, Error> {
        Self::builder().primaries(urls).connect().await
    }

    /// Options, each with its default.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The lock of this name: 1 to 512 bytes, without NUL, and with braces only
    /// around one non-empty part. Says nothing to the server; a name that is not
    /// allowed is refused when the lock is used.
    ///
    /// Two calls with one name give the same lock.
    pub fn lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::new(self.host.clone(), Kind::Lock, name.as_ref())
    }

    /// The simple lock of this name, in the layout of most other lock libraries:
    /// it excludes those of the same key, so that a team can move one service at a
    /// time. Not reentrant: a call that names its lease by [`Lock::within`] is refused
    /// as `InvalidArgument`, and one that does not waits for itself.
    pub fn mutex(&self, name: impl AsRef<str>) -> Lock {
        Lock::new(self.host.clone(), Kind::Mutex, name.as_ref())
    }

    /// The reentrant lock of this name whose waiters are served in order of
    /// arrival, whatever their process. It excludes `lock(name)`, whose waiters
    /// may overtake.
    pub fn fair_lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::new(self.host.clone(), Kind::Fair, name.as_ref())
    }

    /// The read-write lock of this name.
    pub fn read_write_lock(&self, name: impl AsRef<str>) -> ReadWriteLock {
        ReadWriteLock::new(&self.host, name.as_ref())
    }

    /// The semaphore of this name, of which there are `limit` permits: 1 to
    /// 1,000,000, checked when it is used.
    pub fn semaphore(&self, name: impl AsRef<str>, limit: u32) -> Semaphore {
        Semaphore::new(self.host.clone(), name.as_ref(), limit)
    }

    /// Several locks as one, all or none. They are taken in the order of their
    /// keys, so that two clients never wait for each other; kinds may be mixed.
    /// The lease has no token of its own.
    ///
    /// The locks' own settings do not count; those of the whole do.
    pub fn multi_lock<'a>(&self, locks: impl IntoIterator<Item = &'a Lock>) -> Lock {
        Lock::all(self.host.clone(), locks)
    }

    /// Takes a lock from its holder; says whether there was one. For
    /// operators: the holder goes on until its next renewal tells it of the loss.
    ///
    /// # Errors
    /// As [`Lock::is_locked`]; `Unavailable` if the answer did not come: then look
    /// whether it is still held.
    pub async fn force_release(&self, lock: &Lock) -> Result<bool, Error> {
        lock::forced(self.host.start(lock.force()).await?)
    }

    /// Changes the limit of the semaphore of this name: 1 to 1,000,000. For operators.
    /// Who holds permits keeps them; while more are held than the new limit allows,
    /// none is granted. From then on who asks with the old limit gets `Misconfigured`.
    ///
    /// Returns whether it was changed: while nobody holds a permit there is no limit
    /// to change, and the next one to take some brings its own.
    ///
    /// # Errors
    /// As [`Lock::is_locked`]; `InvalidArgument` for a limit out of its range;
    /// `Unavailable` if the answer did not come: then ask again, it is idempotent.
    pub async fn set_limit(&self, name: impl AsRef<str>, limit: u32) -> Result<bool, Error> {
        lock::forced(self.host.start(kinds::set_limit(name.as_ref(), limit)).await?)
    }

    /// What this client has counted in this process since it was made, in Prometheus' text format, to be served with
    /// the content type `text/plain; version=0.0.4`. A local look that asks no server; also of a client that was
    /// closed. What there is says `docs/metrics.md`.
    ///
    /// # Errors
    /// `InvalidArgument` if the client was made without [`Builder::metrics`].
    pub fn metrics(&self) -> Result<String, Error> {
        self.host.metrics()
    }

    /// Whether [`Client::close`] was called.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.host.is_closed()
    }

    /// Closes the client: waiters get `Closed`, its leases are lost with
    /// the reason `Closed` and then released. Returns when the server has
    /// answered, after 500 ms at the most. The second time it does nothing.
    pub async fn close(&self) {
        // Whatever the answer, the client is closed.
        let _ = self.host.start(Op::Close).await;
    }
}

/// What a client is configured with.
#[derive(Clone, Debug, Default)]
#[must_use = "call connect()"]
pub struct Builder {
    options: Options,
}

impl Builder {
    /// Where the server is. Default: the environment variable `STEADLOCK_URL`.
    pub fn url(mut self, url: impl Into<String>) -> Self {
        self.options.url = Some(url.into());
        self
    }

    /// Where several independent primaries are, in place of [`Builder::url`]; see
    /// [`Client::redlock`].
    pub fn primaries(mut self, urls: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.options.primaries = Some(urls.into_iter().map(Into::into).collect());
        self
    }

    /// The lease of locks that were given none, which the watchdog renews at a
    /// third of it: 300 ms to 24 h. Default 30 s. A lock may have a length of its own, by
    /// [`Lock::lease`] and [`Lock::renewed`].
    pub fn lease(mut self, lease: Duration) -> Self {
        self.options.lease_ms = Some(millis(lease));
        self
    }

    /// How long an answer of the server may take. Default 3 s.
    pub fn command_timeout(mut self, timeout: Duration) -> Self {
        self.options.command_timeout_ms = Some(millis(timeout));
        self
    }

    /// How long connecting may take. Default 5 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.options.connect_timeout_ms = Some(millis(timeout));
        self
    }

    /// How often a waiter asks again when nothing wakes it: a time between these
    /// two, drawn at random. Default 500 ms to 750 ms.
    pub fn retry_interval(mut self, shortest: Duration, longest: Duration) -> Self {
        self.options.retry_interval_ms = Some((millis(shortest), millis(longest)));
        self
    }

    /// Put before the name of every lock, as it stands. The rules for names hold
    /// for the prefix and for both together, and it has none of `*?[]\`, so that an
    /// access list can name it. Let it end in a separator: `acme` is also the start of
    /// `acme2:`. Default: nothing.
    pub fn key_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.options.key_prefix = Some(prefix.into());
        self
    }

    /// A PEM file of the certificate authorities to trust for `rediss://`,
    /// instead of the system's.
    pub fn tls_ca_file(mut self, path: impl AsRef<Path>) -> Self {
        self.options.tls_ca_file = Some(path.as_ref().to_string_lossy().into_owned());
        self
    }

    /// A PEM file of this client's certificate, for a server that demands one; the
    /// certificates that lead to its authority may follow. Together with
    /// [`Builder::tls_key_file`], and with `rediss://`.
    pub fn tls_cert_file(mut self, path: impl AsRef<Path>) -> Self {
        self.options.tls_cert_file = Some(path.as_ref().to_string_lossy().into_owned());
        self
    }

    /// A PEM file of the private key of that certificate, not encrypted.
    pub fn tls_key_file(mut self, path: impl AsRef<Path>) -> Self {
        self.options.tls_key_file = Some(path.as_ref().to_string_lossy().into_owned());
        self
    }

    /// What the certificates of all servers are to be for, those of the URL too, instead of the
    /// host that is connected to: for nodes and sentinels that announce IP addresses which no
    /// certificate names. A host's name, which is also sent as SNI, or an IP address, without a
    /// port; with `rediss://`. Default: each server's own host.
    pub fn tls_server_name(mut self, name: impl Into<String>) -> Self {
        self.options.tls_server_name = Some(name.into());
        self
    }

    /// Where the servers are reached that a cluster's nodes and sentinels announce, if that is
    /// elsewhere, as behind NAT or out of a Kubernetes cluster: a table such as
    /// `[("10.0.0.1:6379", "localhost:7001")]`, or a function, [`AddressMap::by`]. The
    /// addresses of the URL are reached as they stand there. Default: as they are announced.
    pub fn address_map(mut self, map: impl Into<AddressMap>) -> Self {
        self.options.address_map = Some(map.into());
        self
    }

    /// Connects at the first use, for a client that is made before its server is up:
    /// `connect` gives it at once, without asking any server. A use waits for the connection
    /// as it does in an outage, within its own wait. It fails at once with `Misconfigured`, and
    /// then every later one does, if the server refuses the password or is one that locks
    /// cannot work with.
    pub fn lazy(mut self) -> Self {
        self.options.lazy = Some(true);
        self
    }

    /// What becomes of an acquisition while its server is unavailable, as the circuit breaker of that
    /// server says; see [`OnUnavailable`]. A lock may have it otherwise, by
    /// [`Lock::on_unavailable`]. Default: it fails. Switches the circuit breaker on.
    ///
    /// `Local` is for `lock`, `mutex`, `fair_lock` and several of these as one; acquisitions of the
    /// others fail. With several primaries it is `InvalidArgument`.
    pub fn on_unavailable(mut self, on_unavailable: OnUnavailable) -> Self {
        self.options.on_unavailable = Some(on_unavailable);
        self
    }

    /// Switches the circuit breakers on, one for each primary. One opens after so many `failures` in
    /// a row: 1 to 1,000,000, by default 5. Calls without an answer in time count, connections that
    /// are lost or cannot be made, and errors that say that the server cannot serve. While it is
    /// open an acquisition is not attempted, but fails at once as `Unavailable`, or as
    /// [`Builder::on_unavailable`] says; releases and renewals go on. After `pause`, by default
    /// 10 s, and when a connection opens, the server is asked whether it serves, and any answer of
    /// it closes the breaker. Default: no circuit breaker.
    pub fn breaker(mut self, failures: u32, pause: Duration) -> Self {
        self.options.breaker_failures = Some(failures.into());
        self.options.breaker_pause_ms = Some(millis(pause));
        self
    }

    /// Says nothing of this client to others. Without this it tells its servers which program on which machine it
    /// is (host, process id, program, language, version, since when, [`Builder::client_label`]), so that
    /// [`Holder::client`](crate::Holder::client), `LockTimeout` and the tools name programs, and asks them the same of
    /// others: one call at the first use and one in 30 s while it is in use, and one in 60 s about each other client
    /// that was found to hold a lock. What it said is gone 90 s later.
    pub fn without_client_info(mut self) -> Self {
        self.options.client_info = Some(false);
        self
    }

    /// What else the client says of itself, as `"blue"` or `"order-service eu-1"`: up to 200 characters of one line.
    /// Anybody who may read the server's keys can read it. Default: nothing.
    pub fn client_label(mut self, label: impl Into<String>) -> Self {
        self.options.client_label = Some(label.into());
        self
    }

    /// Tells `observer` what happens to this client: waits, grants, renewals, losses,
    /// connections. May be called several times, for several observers. Default: nobody,
    /// and then nothing is computed.
    pub fn observer(mut self, observer: impl Observer + 'static) -> Self {
        self.options.observers.push(Arc::new(observer));
        self
    }

    /// Counts acquisitions, waits, holds, renewals, losses and reconnects, for [`Client::metrics`]. By group of
    /// locks, never by name. Default: off, and then nothing is computed.
    pub fn metrics(mut self) -> Self {
        self.options.metrics = Some(true);
        self
    }

    /// Says which group a lock counts for, by its name without the key prefix; of a multi-lock, by all its names
    /// with `, ` between them. With [`Builder::metrics`]. The group's first 128 bytes count; an empty one is `none`.
    /// Default: what stands before the first `:` of the name, `none` if there is no `:`.
    ///
    /// It is called at each acquisition and renewal on the thread that keeps the locks: it must not block, nor
    /// call the client. If it panics, that one counts as `other`.
    pub fn metrics_group(mut self, group: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        self.options.metrics_group = Some(GroupBy::new(group));
        self
    }

    /// How many groups are told apart: 1 to 10,000; further ones count as `other`, and `none` and `other` are not
    /// counted. With [`Builder::metrics`]. Default 100.
    pub fn metrics_groups(mut self, most: u32) -> Self {
        self.options.metrics_groups = Some(most.into());
        self
    }

    /// Counts how many wait in the server's queues of these fair locks, callers of all clients together: each is
    /// asked for every 15 s. Up to 100 names, as locks are named; of clients with one primary. With
    /// [`Builder::metrics`]. Default: none.
    pub fn metrics_queues(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.options.metrics_queues = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Connects; see [`Client::connect`].
    ///
    /// # Errors
    /// As [`Client::connect`], and `InvalidArgument` for an option out of its range.
    pub async fn connect(self) -> Result<Client, Error> {
        let is_lazy = self.is_lazy();
        let host = self.open()?;
        if !is_lazy {
            host.connecting().await?;
        }
        Ok(Client { host })
    }

    /// Connects in a simulator's world.
    #[cfg(feature = "simulation")]
    pub(crate) async fn connect_in(self, world: Arc<dyn Simulated>) -> Result<Client, Error> {
        let is_lazy = self.is_lazy();
        let host = Host::open_in(self.options, World::simulated(world))?;
        if !is_lazy {
            host.connecting().await?;
        }
        Ok(Client { host })
    }

    /// The options that were given.
    #[cfg(feature = "admin")]
    pub(crate) fn into_options(self) -> Options {
        self.options
    }

    /// Whether to connect at the first use.
    pub(super) const fn is_lazy(&self) -> bool {
        matches!(self.options.lazy, Some(true))
    }

    /// The client's host, which has begun to connect unless it is lazy.
    pub(super) fn open(self) -> Result<Host, Error> {
        Host::open_quiet(self.options)
    }
}
