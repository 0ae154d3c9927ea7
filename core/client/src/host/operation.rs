//! What a host may ask for.

use steadlock_protocol::{OnUnavailable, Operation};

use super::address::LockRef;

/// What a caller wants of a lock.
#[derive(Clone, Debug, Default)]
pub struct Acquire {
    /// Which lock, its name without the client's `key_prefix`.
    pub lock: LockRef,
    /// Who may re-enter without naming a lease; a number that is never used for another.
    pub context: Option<u64>,
    /// The id of the held lease to re-enter explicitly.
    pub within: Option<u64>,
    /// How long to wait; `None` waits as long as the server answers, 0 tries once.
    pub wait_ms: Option<f64>,
    /// A fixed lease, 100 ms to 24 h; `None` for the client's, renewed by the watchdog unless
    /// [`Options::renew`](super::Options::renew) is false.
    pub lease_ms: Option<f64>,
    /// The watchdog renews the lease of `lease_ms` too, which is then 300 ms to 24 h, or that of a
    /// client whose leases are not renewed. Else it says nothing new without `lease_ms`.
    pub renew: bool,
    /// The longest the hold may last, counted from its first grant; `None` for no bound.
    pub max_hold_ms: Option<f64>,
    /// What is left to the caller itself, 200 ms at least: neither its wait nor its hold lasts longer,
    /// nor both together, so that no lease outlives a caller that is stopped then. `None` for no bound.
    pub remaining_ms: Option<f64>,
    /// Draw no fencing token.
    pub no_fencing: bool,
    /// What becomes of it while the circuit breaker of its primary is open; `None` for what the
    /// client has. Needs a client with a breaker.
    pub on_unavailable: Option<OnUnavailable>,
    /// The contexts that cannot go on until this is answered, as the caller's thread is
    /// blocked: other tasks of its event loop. A wait that only they could end fails at once with
    /// `InvalidArgument`.
    pub blocked: Vec<u64>,
}

/// An operation.
#[derive(Clone, Debug)]
pub enum Op {
    /// Acquire a lock. Completes with `Granted` or `NotGranted`.
    Acquire(Acquire),
    /// Release one lease. Completes with `Released`; idempotent.
    Release {
        /// Its id.
        lease: u64,
    },
    /// Release the innermost lease of a context. Completes with `Released`, which says which
    /// lease that was; fails with `NotOwner` if the context has none.
    ReleaseInnermost {
        /// Which lock.
        lock: LockRef,
        /// Who holds it.
        context: u64,
    },
    /// Extend a lease from now. Completes with `Extended`; fails with `LockLost` for one
    /// that was lost, as long as anybody has its [`Lease`](crate::host::Lease), and with `NotOwner`
    /// for one that was released.
    Extend {
        /// Its id.
        lease: u64,
        /// How long; `None` for its own length.
        by_ms: Option<f64>,
    },
    /// Ask the server who holds a lock. Completes with `State`.
    Inspect {
        /// Which lock; not several.
        lock: LockRef,
    },
    /// Take a lock from its holder. Completes with `Forced`.
    ForceRelease {
        /// Which lock; not several.
        lock: LockRef,
    },
    /// Change the limit on which held permits of a semaphore agreed. Completes with
    /// `Forced`, false if none is held.
    SetLimit {
        /// The semaphore, with the new limit.
        lock: LockRef,
    },
    /// Look up, without the server, what a context holds. Completes with `Held`.
    Held {
        /// Which lock.
        lock: LockRef,
        /// Whose holds.
        context: u64,
    },
    /// Close the client. Completes with `Closed`, also the second time.
    Close,
}

impl Op {
    /// What errors of it name.
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
