//! The client: options, connecting, closing.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use steadlock_protocol::{Error, OnUnavailable};

use super::convert::millis;
use super::kinds::{self, ReadWriteLock, Semaphore};
use super::leader::Leader;
use super::lock::{self, Lock};
use super::once::Once;
use crate::host::{AddressMap, Host, Kind, Op, Options};
use crate::observe::{GroupBy, Observer};
#[cfg(feature = "simulation")]
use crate::world::{Simulated, World};

/// A client of the servers that keep the locks. Cloning is cheap. The client closes in the background when all its
/// clones, locks and leases have been dropped.
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
    /// Connects with the default options. The URL names a server (`redis://`), the sentinels of a primary
    /// (`redis+sentinel://`) or nodes of a cluster (`redis+cluster://`), each also with TLS (`rediss…`). It can also
    /// name the socket of a server (`redis+unix://`), or `memory://`. `valkey` is accepted in place of `redis`.
    ///
    /// # Errors
    /// - `InvalidArgument`: the URL is malformed. The message does not repeat the URL.
    /// - `Unavailable`: the server cannot be reached within the connect timeout (5 s); the message names the server and
    ///   the cause. Also if the system gives the client no thread or no descriptors.
    /// - `Misconfigured`: the server refuses the password, is older than Redis 6.2 or Valkey 7.2, or is not what the
    ///   scheme says: for example, `redis://` leads to a replica, a sentinel or a node of a cluster. Also if one side
    ///   rejects the other's certificate, or if no sentinel that answers knows the service.
    ///
    /// Dropping the future cancels connecting.
    pub async fn connect(url: impl Into<String>) -> Result<Self, Error> {
        Self::builder().url(url).connect().await
    }

    /// Connects to several independent primaries, an odd number from 3 to 15. Every lock of this client is a RedLock: a
    /// majority of the primaries has its record, so the lock survives the failure of a minority. `lock` and `mutex`
    /// both return a RedLock; other kinds and composite locks are refused when they are used. A RedLock is not
    /// reentrant and has no token.
    ///
    /// A RedLock has at most one holder only if a primary that restarts without its data stays away for the longest
    /// lease length that any client asks for.
    ///
    /// # Errors
    /// As [`Client::connect`], but `Unavailable` only if no majority can be reached. `Misconfigured` also if a primary
    /// is listed twice, and `InvalidArgument` if the number of URLs is even or not from 3 to 15.
    pub async fn redlock(urls: impl IntoIterator<Item = impl Into<String>>) -> Result<Self, Error> {
        Self::builder().primaries(urls).connect().await
    }

    /// Returns a builder of a client; each option has a default.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Returns the lock of this name: 1 to 512 bytes, without NUL, with braces only around one non-empty part, and not
    /// beginning with `steadlock:` or `redisson_`. Makes no server call; an invalid name is refused when the lock is
    /// used.
    ///
    /// Two calls with one name return objects of the same lock.
    pub fn lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::new(self.host.clone(), Kind::Lock, name.as_ref())
    }

    /// Returns the mutex of this name. A mutex has the layout of most other lock libraries and excludes their locks of
    /// the same key, so a team can migrate one service at a time. It is not reentrant: a second acquisition by its
    /// holder is refused as `InvalidArgument` if it names the lease by [`Lock::within`], and otherwise waits for the
    /// holder itself.
    pub fn mutex(&self, name: impl AsRef<str>) -> Lock {
        Lock::new(self.host.clone(), Kind::Mutex, name.as_ref())
    }

    /// Returns the fair lock of this name. It is reentrant and serves waiters in order of arrival, across all
    /// processes. It and a `lock` of the same name exclude each other, but the waiters of the `lock` can overtake.
    pub fn fair_lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::new(self.host.clone(), Kind::Fair, name.as_ref())
    }

    /// Returns the read-write lock of this name.
    pub fn read_write_lock(&self, name: impl AsRef<str>) -> ReadWriteLock {
        ReadWriteLock::new(&self.host, name.as_ref())
    }

    /// Returns the semaphore of this name with `limit` permits. The limit is 1 to 1,000,000, and is checked when the
    /// semaphore is used.
    pub fn semaphore(&self, name: impl AsRef<str>, limit: u32) -> Semaphore {
        Semaphore::new(self.host.clone(), name.as_ref(), limit)
    }

    /// Returns the job of this name, of which at most one run goes on at a time in the whole fleet. A request never
    /// waits: it is granted a run or skipped.
    pub fn once(&self, name: impl AsRef<str>) -> Once {
        Once::new(self.host.clone(), name.as_ref())
    }

    /// Returns the leadership of this name: at most one process leads at a time, and the others wait in order.
    pub fn leader(&self, name: impl AsRef<str>) -> Leader {
        Leader::new(self.host.clone(), name.as_ref())
    }

    /// Returns the composite lock of `locks`, its members: a grant is for all of them. A composite lock acquires its
    /// members in the order of their keys, so that two composite locks never wait for each other in a circle. Kinds can
    /// be mixed. The lease has no token of its own.
    ///
    /// The settings of the composite lock apply; the settings of its members do not.
    pub fn multi_lock<'a>(&self, locks: impl IntoIterator<Item = &'a Lock>) -> Lock {
        Lock::composite(self.host.clone(), locks)
    }

    /// Removes the record of a lock's holder, and returns whether there was one; for a semaphore or a read side,
    /// removes the records of all holders. For operators: a holder goes on until its next renewal finds the loss, or
    /// with a fixed lease until its deadline.
    ///
    /// # Errors
    /// As [`Lock::is_locked`]. After `Unavailable`, check whether the lock is still held: the record may be removed
    /// although no answer came.
    pub async fn force_release(&self, lock: &Lock) -> Result<bool, Error> {
        lock::forced_result(self.host.start(lock.force_release_op()).await?)
    }

    /// Changes the limit of the semaphore of this name: 1 to 1,000,000. For operators. Held permits stay held; while
    /// more are held than the new limit allows, none is granted. After the change, callers that name the old limit get
    /// `Misconfigured`, until no permit is held any more.
    ///
    /// Returns whether the limit was changed: while no permit is held there is no limit to change, and the next
    /// caller's limit applies.
    ///
    /// # Errors
    /// As [`Lock::is_locked`]; `InvalidArgument` also for a limit out of its range, and for a client with several
    /// primaries. After `Unavailable`, call again: the call is idempotent.
    pub async fn set_limit(&self, name: impl AsRef<str>, limit: u32) -> Result<bool, Error> {
        lock::forced_result(self.host.start(kinds::set_limit(name.as_ref(), limit)).await?)
    }

    /// Returns the client's counts, of this process and since the client was made, in Prometheus' text format. Serve it
    /// with the content type `text/plain; version=0.0.4`. Makes no server call, and also works after the client was
    /// closed. See `docs/metrics.md` for the list.
    ///
    /// # Errors
    /// `InvalidArgument` if the client was made without [`Builder::metrics`].
    pub fn metrics(&self) -> Result<String, Error> {
        self.host.metrics()
    }

    /// Whether [`Client::close`] was called on this client or on a clone of it.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.host.is_closed()
    }

    /// Closes the client: waiters get `Closed`, and the leases are lost with the reason `Closed` and then released.
    /// Returns when all releases are answered, after 500 ms at the latest. A second call changes nothing.
    pub async fn close(&self) {
        // The client is closed, even if the close returned an error.
        let _ = self.host.start(Op::Close).await;
    }
}

/// The options of a client.
#[derive(Clone, Debug, Default)]
#[must_use = "call connect()"]
pub struct Builder {
    options: Options,
}

impl Builder {
    /// Sets the URL of the server. Default: the environment variable `STEADLOCK_URL`.
    pub fn url(mut self, url: impl Into<String>) -> Self {
        self.options.url = Some(url.into());
        self
    }

    /// Sets the URLs of several independent primaries, in place of [`Builder::url`]; see [`Client::redlock`].
    pub fn primaries(mut self, urls: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.options.primaries = Some(urls.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the lease length of locks that set none: 300 ms to 24 h, default 30 s. The watchdog renews such a lease at
    /// a third of its length. A lock can set its own length with [`Lock::lease`] and [`Lock::renewed`].
    pub fn lease(mut self, lease: Duration) -> Self {
        self.options.lease_ms = Some(millis(lease));
        self
    }

    /// Sets how long the client waits for an answer of the server: 1 ms to 24 h, default 3 s. In a round of a RedLock,
    /// each primary has less time.
    pub fn command_timeout(mut self, timeout: Duration) -> Self {
        self.options.command_timeout_ms = Some(millis(timeout));
        self
    }

    /// Sets how long connecting can take: 1 ms to 24 h, default 5 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.options.connect_timeout_ms = Some(millis(timeout));
        self
    }

    /// Sets how often a waiter asks again if no message wakes it: after a random time from `shortest` to `longest`.
    /// Default 500 ms to 750 ms.
    pub fn retry_interval(mut self, shortest: Duration, longest: Duration) -> Self {
        self.options.retry_interval_ms = Some((millis(shortest), millis(longest)));
        self
    }

    /// Sets a prefix for the name of every lock. The rules for names hold for the prefix and for the prefixed name. The
    /// prefix must not contain any of `*?[]\`, so that an access list can name it. End the prefix with a separator,
    /// because an access list for `acme*` also matches `acme2:`. Default: no prefix.
    pub fn key_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.options.key_prefix = Some(prefix.into());
        self
    }

    /// Sets a PEM file of the certificate authorities to trust for `rediss://`, instead of the system's.
    pub fn tls_ca_file(mut self, path: impl AsRef<Path>) -> Self {
        self.options.tls_ca_file = Some(path.as_ref().to_string_lossy().into_owned());
        self
    }

    /// Sets a PEM file of this client's certificate, for a server that demands one; intermediate certificates can
    /// follow in the file. Requires [`Builder::tls_key_file`] and `rediss://`.
    pub fn tls_cert_file(mut self, path: impl AsRef<Path>) -> Self {
        self.options.tls_cert_file = Some(path.as_ref().to_string_lossy().into_owned());
        self
    }

    /// Sets a PEM file of the private key of the certificate in [`Builder::tls_cert_file`]. The key must not be
    /// encrypted.
    pub fn tls_key_file(mut self, path: impl AsRef<Path>) -> Self {
        self.options.tls_key_file = Some(path.as_ref().to_string_lossy().into_owned());
        self
    }

    /// Sets the name that the certificate of every server must have, in place of the host that the client connects to.
    /// The servers in the URL are no exception. Use it for nodes and sentinels that announce IP addresses which no
    /// certificate names. The name is a host name, which is also sent as SNI, or an IP address, without a port.
    /// Requires `rediss://`. Default: each server's own host.
    pub fn tls_server_name(mut self, name: impl Into<String>) -> Self {
        self.options.tls_server_name = Some(name.into());
        self
    }

    /// Maps the addresses that cluster nodes and sentinels announce to addresses that this program can reach, for
    /// example across NAT or from outside a Kubernetes cluster. The map is a table such as `[("10.0.0.1:6379",
    /// "localhost:7001")]`, or a function, [`AddressMap::by`]. Addresses of the URL are not mapped. Default: addresses
    /// are used as announced.
    pub fn address_map(mut self, map: impl Into<AddressMap>) -> Self {
        self.options.address_map = Some(map.into());
        self
    }

    /// Connects at the first use, for a client that is made before its server is up: [`Builder::connect`] returns at
    /// once without a server call. Each operation waits for the connection as it would in an outage, within its own
    /// wait. If locks cannot work with the server, for example because the server refuses the password, that operation
    /// and each later one fail at once with `Misconfigured`.
    pub fn lazy(mut self) -> Self {
        self.options.lazy = Some(true);
        self
    }

    /// Sets how an acquisition ends while the circuit breaker considers its server unavailable; see [`OnUnavailable`].
    /// A lock can have its own setting, by [`Lock::on_unavailable`]. Default: the acquisition fails. Switches the
    /// circuit breaker on.
    ///
    /// `Local` works for `lock`, `mutex`, `fair_lock` and composite locks of these; acquisitions of other kinds fail as
    /// `Unavailable`. With several primaries `Local` is refused as `InvalidArgument`.
    pub fn on_unavailable(mut self, on_unavailable: OnUnavailable) -> Self {
        self.options.on_unavailable = Some(on_unavailable);
        self
    }

    /// Switches the circuit breakers on, one for each primary. A breaker opens after `failures` failures in a row: 1 to
    /// 1,000,000. These count as failures: a call without an answer in time, a connection that is lost or cannot be
    /// made, and an answer that says that the server cannot serve. While the breaker is open, an acquisition fails at
    /// once as `Unavailable`, or as [`Builder::on_unavailable`] says; releases and renewals go on. After each `pause`,
    /// and when a connection opens, the client asks the server whether it serves. Any answer that is not such a failure
    /// closes the breaker. Default: no circuit breaker; with [`Builder::on_unavailable`] alone, 5 failures and a pause
    /// of 10 s.
    pub fn breaker(mut self, failures: u32, pause: Duration) -> Self {
        self.options.breaker_failures = Some(failures.into());
        self.options.breaker_pause_ms = Some(millis(pause));
        self
    }

    /// Reports no identity of this client. Without this call the client tells its servers which program it is and on
    /// which machine (host, process id, program, language, version, start time, [`Builder::client_label`]), so that
    /// [`Holder::client`](crate::Holder::client), `LockTimeout` and the tools can name programs. The client also asks
    /// for the identities of other clients. Both together cost one call at the first use, one every 30 s while the
    /// client is in use, and one every 60 s for each other client that was found to hold a lock. The server keeps an
    /// identity for 90 s.
    pub fn without_client_info(mut self) -> Self {
        self.options.client_info = Some(false);
        self
    }

    /// Adds a label to the client's identity, such as `"blue"` or `"order-service eu-1"`: up to 200 characters on one
    /// line. Anybody who may read the server's keys can read it. Default: no label.
    pub fn client_label(mut self, label: impl Into<String>) -> Self {
        self.options.client_label = Some(label.into());
        self
    }

    /// Adds an observer, which receives this client's waits, grants, renewals, losses and connections. Can be called
    /// several times, for several observers. Default: none, and then nothing is computed for observers.
    pub fn observer(mut self, observer: impl Observer + 'static) -> Self {
        self.options.observers.push(Arc::new(observer));
        self
    }

    /// Counts acquisitions, waits, holds, renewals, losses and reconnects, for [`Client::metrics`]. Locks are counted
    /// by group, never by name. Default: off, and then nothing is computed.
    pub fn metrics(mut self) -> Self {
        self.options.metrics = Some(true);
        self
    }

    /// Sets the function that returns a lock's group. Its argument is the lock's name without the key prefix; for a
    /// composite lock, all names joined by `, `. Requires [`Builder::metrics`]. The first 128 bytes of the group count;
    /// an empty group is `none`. Default: the part of the name before the first `:`, or `none` without a `:`.
    ///
    /// The client calls the function at each acquisition and renewal, on the thread that drives the engine. The
    /// function must not block, because no lease is renewed meanwhile, nor call the client. If it panics, that
    /// acquisition or renewal counts as `other`.
    pub fn metrics_group(mut self, group: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        self.options.metrics_group = Some(GroupBy::new(group));
        self
    }

    /// Sets the maximum number of groups: 1 to 10,000. Further groups count as `other`; `none` and `other` do not count
    /// against the maximum. Requires [`Builder::metrics`]. Default 100.
    pub fn metrics_groups(mut self, most: u32) -> Self {
        self.options.metrics_groups = Some(most.into());
        self
    }

    /// Counts the waiters in the server's queues of these fair locks, of all clients together; the client asks for each
    /// every 15 s. Up to 100 names, without the key prefix; only for a client with one primary. Requires
    /// [`Builder::metrics`]. Default: none.
    pub fn metrics_queues(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.options.metrics_queues = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Connects; see [`Client::connect`]. After [`Builder::lazy`], returns at once.
    ///
    /// # Errors
    /// As [`Client::connect`]; `InvalidArgument` also for an option out of its range, and `Misconfigured` also without
    /// any URL and for a TLS file that cannot be used.
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

    #[cfg(feature = "admin")]
    pub(crate) fn into_options(self) -> Options {
        self.options
    }

    /// Whether the client connects at its first use.
    pub(super) const fn is_lazy(&self) -> bool {
        matches!(self.options.lazy, Some(true))
    }

    /// Opens the client's host, which begins to connect unless the client is lazy.
    pub(super) fn open(self) -> Result<Host, Error> {
        Host::open_undrained(self.options)
    }
}
