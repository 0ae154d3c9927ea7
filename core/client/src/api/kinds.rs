//! The lock objects with methods of their own: the read-write lock and the semaphore.

use std::time::Duration;

use steadlock_protocol::{Error, Operation};

use super::convert::unexpected;
use super::lease::Lease;
use super::lock::Lock;
use crate::host::{Completion, Host, Kind, LockRef, Op};

/// A read-write lock: many owners can hold its read side, or one its write side.
///
/// A waiting writer keeps new readers out for two seconds at a time, so neither side starves as long as reads take less
/// than that. A holder of the write side can acquire the read side [`Lock::within`] its lease, and keeps the read side
/// when it releases the write side. Acquiring the write side within a lease of the read side is refused as
/// `InvalidArgument`, because the caller would wait for itself.
///
/// ```
/// # fn main() -> Result<(), steadlock::Error> {
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// # let client = steadlock::Client::connect("memory://").await?;
/// let catalogue = client.read_write_lock("catalogue");
/// let (one, two) = (catalogue.read.acquire().await?, catalogue.read.acquire().await?);
/// assert!(catalogue.write.try_acquire().await?.is_none());
/// one.release().await?;
/// two.release().await?;
///
/// let writing = catalogue.write.acquire().await?;
/// let reading = catalogue.read.within(&writing).acquire().await?;
/// writing.release().await?;
/// assert!(reading.is_valid());
/// reading.release().await?;
/// # client.close().await;
/// # Ok(()) }) }
/// ```
#[derive(Clone, Debug)]
pub struct ReadWriteLock {
    /// The side that many owners can hold. Its leases have no token.
    pub read: Lock,
    /// The side that one owner holds alone.
    pub write: Lock,
}

impl ReadWriteLock {
    pub(crate) fn new(host: &Host, name: &str) -> Self {
        Self {
            read: Lock::new(host.clone(), Kind::Read, name),
            write: Lock::new(host.clone(), Kind::Write, name),
        }
    }

    /// Returns the lock's name without the client's key prefix.
    #[must_use]
    pub fn name(&self) -> &str {
        self.write.name()
    }
}

/// A semaphore: a limited number of permits, held by leases.
///
/// While any permit is held, the server keeps the limit, and a client that names a different limit gets
/// `Misconfigured`. An operator can change the kept limit with [`crate::Client::set_limit`]. The permits of a process
/// that died become free when their lease ends. Not reentrant; leases have no token.
///
/// ```
/// # fn main() -> Result<(), steadlock::Error> {
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// # let client = steadlock::Client::connect("memory://").await?;
/// let printers = client.semaphore("printers", 3);
/// let two = printers.acquire(2).await?;
/// assert!(printers.try_acquire(2).await?.is_none());
/// assert_eq!(printers.available().await?, 1);
/// two.release().await?;
/// # client.close().await;
/// # Ok(()) }) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a semaphore alone holds nothing; call acquire()"]
pub struct Semaphore {
    lock: Lock,
    limit: u32,
}

impl Semaphore {
    pub(crate) fn new(host: Host, name: &str, limit: u32) -> Self {
        Self {
            lock: Lock::of(host, name, LockRef::permits(1, limit, name)),
            limit,
        }
    }

    /// Returns the semaphore's name without the client's key prefix.
    #[must_use]
    pub fn name(&self) -> &str {
        self.lock.name()
    }

    /// Returns the limit that this object names: the number of all permits.
    #[must_use]
    pub const fn limit(&self) -> u32 {
        self.limit
    }

    /// See [`Lock::wait`].
    pub fn wait(mut self, wait: Duration) -> Self {
        self.lock = self.lock.wait(wait);
        self
    }

    /// See [`Lock::lease`].
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lock = self.lock.lease(lease);
        self
    }

    /// See [`Lock::renewed`].
    pub fn renewed(mut self) -> Self {
        self.lock = self.lock.renewed();
        self
    }

    /// See [`Lock::max_hold`].
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.lock = self.lock.max_hold(max_hold);
        self
    }

    /// Acquires `permits` permits by one lease, all or none: 1 to 1,000 permits, and no more than the limit.
    ///
    /// # Errors
    /// As [`Lock::acquire`], and `Misconfigured` while permits are held under another limit.
    pub async fn acquire(&self, permits: u32) -> Result<Lease, Error> {
        self.permits(permits).acquire().await
    }

    /// Acquires `permits` permits if they are free, or become free within [`Semaphore::wait`].
    ///
    /// # Errors
    /// As [`Semaphore::acquire`], without `LockTimeout`.
    pub async fn try_acquire(&self, permits: u32) -> Result<Option<Lease>, Error> {
        self.permits(permits).try_acquire().await
    }

    /// Asks the server for the number of free permits.
    ///
    /// # Errors
    /// As [`Lock::is_locked`].
    pub async fn available(&self) -> Result<u32, Error> {
        let completion = self.lock.host().start(self.lock.inspect_op()).await?;
        self.count(completion)
    }

    /// Returns the permits as a lock, for example as a member of a [`crate::Client::multi_lock`].
    pub fn permits(&self, permits: u32) -> Lock {
        self.lock
            .with_ref(LockRef::permits(permits, self.limit, self.lock.name()))
    }

    pub(crate) const fn lock(&self) -> &Lock {
        &self.lock
    }

    pub(crate) fn count(&self, completion: Completion) -> Result<u32, Error> {
        match completion {
            Completion::State(state) => Ok(state
                .permits
                .map_or(self.limit, |(held, limit)| limit.saturating_sub(held))),
            other => Err(unexpected(Operation::Inspect, &other)),
        }
    }
}

/// Returns the operation that changes the limit of the semaphore of this name.
pub(crate) fn set_limit(name: &str, limit: u32) -> Op {
    Op::SetLimit {
        lock: LockRef::permits(1, limit, name),
    }
}
