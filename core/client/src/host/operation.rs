//! The operations that a host can request.

use steadlock_protocol::{OnUnavailable, Operation};

use super::address::LockRef;

/// The arguments of an acquisition.
#[derive(Clone, Debug, Default)]
pub struct Acquire {
    /// The lock; its name is without the client's `key_prefix`.
    pub lock: LockRef,
    /// The caller, which can re-enter its own hold without naming a lease. A number must never be used for another
    /// caller.
    pub context: Option<u64>,
    /// The id of the held lease to re-enter explicitly.
    pub within: Option<u64>,
    /// How long to wait; `None` waits as long as the server answers, 0 makes one attempt.
    pub wait_ms: Option<f64>,
    /// The length of a fixed lease, 100 ms to 24 h. `None` means the client's lease, renewed by the watchdog unless
    /// [`Options::renew`](super::Options::renew) is false.
    pub lease_ms: Option<f64>,
    /// Whether the watchdog renews the lease. Needed for a length of `lease_ms`, which must then be 300 ms to 24 h, and
    /// for a client whose leases are not renewed by default. Otherwise the lease is renewed anyway.
    pub renew: bool,
    /// The longest hold, counted from its first grant; `None` for no bound.
    pub max_hold_ms: Option<f64>,
    /// The time that the caller itself has left, 200 ms at least. The wait and the hold together do not exceed it, so
    /// no lease outlives a caller that is stopped then. `None` for no bound.
    pub remaining_ms: Option<f64>,
    /// Whether to draw no fencing token.
    pub no_fencing: bool,
    /// How the acquisition ends while the circuit breaker of its primary is open; `None` for the client's setting.
    /// Requires a client with a breaker.
    pub on_unavailable: Option<OnUnavailable>,
    /// The contexts that cannot go on until this operation is answered, because the caller blocks their thread: other
    /// tasks of its event loop. A wait that only they could end fails at once with `InvalidArgument`.
    pub blocked: Vec<u64>,
}

/// An operation.
#[derive(Clone, Debug)]
pub enum Op {
    /// Acquires a lock. Completes with `Granted` or `NotGranted`.
    Acquire(Acquire),
    /// Releases one lease. Completes with `Released`; idempotent.
    Release {
        /// The lease's id.
        lease: u64,
    },
    /// Releases the innermost lease of a context. Completes with `Released`, which names the lease; fails with
    /// `NotOwner` if the context has none.
    ReleaseInnermost {
        /// The lock.
        lock: LockRef,
        /// The context that holds it.
        context: u64,
    },
    /// Extends a lease, counted from now. Completes with `Extended`. For a lost lease it fails with `LockLost`, as long
    /// as its [`Lease`](crate::host::Lease) exists; for a released lease with `NotOwner`.
    Extend {
        /// The lease's id.
        lease: u64,
        /// The length; `None` for the lease's own.
        by_ms: Option<f64>,
    },
    /// Asks the server for the holder of a lock. Completes with `State`.
    Inspect {
        /// The lock, which must not be a composite one.
        lock: LockRef,
    },
    /// Removes the record of a lock's holder. Completes with `Forced`.
    ForceRelease {
        /// The lock, which must not be a composite one.
        lock: LockRef,
    },
    /// Changes the limit that applies while permits of a semaphore are held. Completes with `Forced`, false if none is
    /// held.
    SetLimit {
        /// The semaphore, with the new limit.
        lock: LockRef,
    },
    /// Looks up, without a server call, the lease that a context holds. Completes with `Held`.
    Held {
        /// The lock.
        lock: LockRef,
        /// The context.
        context: u64,
    },
    /// Closes the client. Completes with `Closed`, also a second time.
    Close,
}

impl Op {
    /// Returns the operation that errors name.
    pub(super) const fn operation(&self) -> Operation {
        match self {
            Self::Acquire(_) => Operation::Acquire,
            Self::Release { .. } | Self::ReleaseInnermost { .. } | Self::ForceRelease { .. } | Self::Close => {
                Operation::Release
            }
            Self::Extend { .. } => Operation::Extend,
            Self::Inspect { .. } | Self::Held { .. } => Operation::Inspect,
            Self::SetLimit { .. } => Operation::SetLimit,
        }
    }
}
