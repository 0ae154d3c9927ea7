//! One event of a client, as plain data.

use std::sync::Arc;
use std::time::Duration;

use steadlock_protocol::{Attempted, Detail, ErrorKind, LostReason, ReleaseOutcome, SkipReason};

/// The importance of an event, as a log level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The ordinary course of events.
    Debug,
    /// Trouble is over, or the fixed lease of a single lock expired, as its holder had requested.
    Info,
    /// A failure that may pass before a lock is lost, or a hold that `max_hold` has ended.
    Warn,
    /// A lock is lost while its holder relies on it.
    Error,
}

impl Level {
    pub(crate) const ALL: [Self; 4] = [Self::Debug, Self::Info, Self::Warn, Self::Error];

    /// Returns the level of this name; `None` if there is no such level.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == name)
    }

    /// Returns the detail that a log of this level needs.
    pub(crate) const fn detail(self) -> Detail {
        match self {
            Self::Debug => Detail::Everything,
            Self::Info | Self::Warn | Self::Error => Detail::Trouble,
        }
    }

    /// Returns the name in lower case.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

/// A lock, as messages show it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObservedLock {
    /// The name of the lock's kind, or `multi_lock`.
    pub kind: &'static str,
    /// The lock's name without the client's `key_prefix`, and without the userinfo of a URL.
    pub name: Arc<str>,
}

impl ObservedLock {
    pub(crate) const fn new(kind: &'static str, name: Arc<str>) -> Self {
        Self { kind, name }
    }
}

/// One of a client's connections to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Link {
    /// The connection for all calls but renewals. Carries renewals too while the other connection is closed.
    Calls,
    /// The connection for renewals. Carries releases too while the other connection is closed.
    Renewals,
}

impl Link {
    /// Returns the word that hosts use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Calls => "calls",
            Self::Renewals => "renewals",
        }
    }
}

/// How a wait for a lock ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitOutcome {
    /// The lock was granted.
    Granted,
    /// The wait timed out while another owner held the lock.
    TimedOut,
    /// The acquisition was skipped for this reason. Only a job is skipped for another reason than that the server is
    /// unavailable.
    Skipped(SkipReason),
    /// The caller has gone.
    Cancelled,
    /// The request failed.
    Failed(ErrorKind),
}

impl WaitOutcome {
    /// Returns the word that hosts use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::TimedOut => "timed_out",
            Self::Skipped(_) => "skipped",
            Self::Cancelled => "cancelled",
            Self::Failed(_) => "failed",
        }
    }
}

/// An event of a client. Its text is one short sentence without secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Observation {
    /// A caller requested a lock. Each acquisition begins with this event, even if it does not wait.
    WaitBegan {
        /** The lock. */
        lock: ObservedLock,
    },
    /// A wait has ended.
    WaitEnded {
        /** The lock. */
        lock: ObservedLock,
        /** The outcome of the wait. */
        outcome: WaitOutcome,
        /** The length of the wait. */
        waited: Duration,
    },
    /// One call to a server to acquire a lock was answered or given up.
    Attempt {
        /** The lock. */
        lock: ObservedLock,
        /** The server. */
        server: Arc<str>,
        /** The outcome of the call. */
        outcome: Attempted,
        /** The time until the answer; `None` if the call was not sent. */
        took: Option<Duration>,
    },
    /// A lock was granted; also each time that its holder re-enters it.
    Granted {
        /** The lock. */
        lock: ObservedLock,
        /** The lease's number. */
        lease: u64,
        /** The fencing token. */
        token: Option<u64>,
        /** The length of the wait. */
        waited: Duration,
    },
    /// The server confirmed a renewal.
    Renewed {
        /** The lock. */
        lock: ObservedLock,
        /** The server. */
        server: Arc<str>,
        /** The time until the answer. */
        took: Duration,
        /** The number of renewals in a row that failed before. */
        failures: u32,
    },
    /// A renewal failed. The renewal is repeated until the deadline of the lease.
    RenewalFailing {
        /** The lock. */
        lock: ObservedLock,
        /** The server. */
        server: Arc<str>,
        /** The cause of the failure. */
        cause: String,
        /** The time for which the holder can still rely on the lease. */
        left: Duration,
        /** The number of renewals in a row that have failed. */
        failures: u32,
    },
    /// A lease was lost for good.
    Lost {
        /** The lock. */
        lock: ObservedLock,
        /** The lease's number. */
        lease: u64,
        /** The server; of a composite lock, the one where its last member was lost. */
        server: Arc<str>,
        /** The reason for the loss. */
        reason: LostReason,
        /** The cause of the failed renewals, if the lease expired although it was auto-renewed. */
        cause: Option<String>,
        /** The length of the hold; `None` for a composite lock. */
        held: Option<Duration>,
        /** The length of the lease; `None` for a composite lock. */
        length: Option<Duration>,
    },
    /// The release of a lease has ended.
    Released {
        /** The lock. */
        lock: ObservedLock,
        /** The lease's number. */
        lease: u64,
        /** The outcome of the release. */
        outcome: ReleaseOutcome,
        /** The length of the hold. */
        held: Duration,
    },
    /// A connection was opened.
    Connected {
        /** The server. */
        server: Arc<str>,
        /** The connection. */
        link: Link,
        /** The time for which the connection was missing; `None` for the first one. */
        missing: Option<Duration>,
    },
    /// A connection was lost; the client tries to open it again.
    Disconnected {
        /** The server. */
        server: Arc<str>,
        /** The connection. */
        link: Link,
        /** The cause of the loss. */
        cause: String,
    },
    /// The circuit breaker of a server opened: acquisitions do not wait for that server.
    BreakerOpened {
        /** The server. */
        server: Arc<str>,
        /** The last failure. */
        cause: String,
    },
    /// The circuit breaker of a server closed again.
    BreakerClosed {
        /** The server. */
        server: Arc<str>,
        /** The time for which the breaker was open. */
        open: Duration,
    },
    /// The clock of a server has jumped ahead, or a server with a faster clock has become the primary: older records
    /// end early. The client compares the tokens of two grants, and reports only a difference beyond the margin of its
    /// leases.
    ClockAhead {
        /** The server. */
        server: Arc<str>,
        /** The lower bound of the difference. */
        by: Duration,
    },
    /// An attempt to connect failed; the client makes another one.
    ConnectFailing {
        /** The server. */
        server: Arc<str>,
        /** The connection. */
        link: Link,
        /** The cause of the failure. */
        cause: String,
        /** The time for which the connection has been missing. */
        missing: Duration,
        /** The number of attempts in a row that have failed. */
        failures: u32,
    },
}

impl Observation {
    /// Returns the name of the event, in one word.
    #[must_use]
    pub const fn event(&self) -> &'static str {
        match self {
            Self::WaitBegan { .. } => "wait_began",
            Self::WaitEnded { .. } => "wait_ended",
            Self::Attempt { .. } => "attempt",
            Self::Granted { .. } => "granted",
            Self::Renewed { .. } => "renewed",
            Self::RenewalFailing { .. } => "renewal_failing",
            Self::Lost { .. } => "lost",
            Self::Released { .. } => "released",
            Self::Connected { .. } => "connected",
            Self::Disconnected { .. } => "disconnected",
            Self::BreakerOpened { .. } => "breaker_opened",
            Self::BreakerClosed { .. } => "breaker_closed",
            Self::ClockAhead { .. } => "clock_ahead",
            Self::ConnectFailing { .. } => "connect_failing",
        }
    }

    /// Returns the level of the event.
    #[must_use]
    pub const fn level(&self) -> Level {
        match self {
            // A fixed lease that expires ends as its holder requested.
            Self::Lost {
                reason: LostReason::Expired,
                cause: None,
                length: Some(_),
                ..
            } => Level::Info,
            Self::Lost { reason, .. } => match reason {
                LostReason::Expired | LostReason::Removed | LostReason::Stolen => Level::Error,
                LostReason::MaxHold => Level::Warn,
                LostReason::Closed => Level::Debug,
            },
            Self::RenewalFailing { .. }
            | Self::Disconnected { .. }
            | Self::BreakerOpened { .. }
            | Self::ClockAhead { .. }
            | Self::ConnectFailing { .. } => Level::Warn,
            Self::Renewed { failures: 1.., .. }
            | Self::Connected { missing: Some(_), .. }
            | Self::BreakerClosed { .. } => Level::Info,
            Self::WaitBegan { .. }
            | Self::WaitEnded { .. }
            | Self::Attempt { .. }
            | Self::Granted { .. }
            | Self::Renewed { .. }
            | Self::Released { .. }
            | Self::Connected { .. } => Level::Debug,
        }
    }

    /// Returns the lock that the event is about.
    #[must_use]
    pub const fn lock(&self) -> Option<&ObservedLock> {
        match self {
            Self::WaitBegan { lock }
            | Self::WaitEnded { lock, .. }
            | Self::Attempt { lock, .. }
            | Self::Granted { lock, .. }
            | Self::Renewed { lock, .. }
            | Self::RenewalFailing { lock, .. }
            | Self::Lost { lock, .. }
            | Self::Released { lock, .. } => Some(lock),
            Self::Connected { .. }
            | Self::Disconnected { .. }
            | Self::BreakerOpened { .. }
            | Self::BreakerClosed { .. }
            | Self::ClockAhead { .. }
            | Self::ConnectFailing { .. } => None,
        }
    }

    /// Returns the server that the event is about, as messages name it.
    #[must_use]
    pub fn server(&self) -> Option<&str> {
        match self {
            Self::Attempt { server, .. }
            | Self::Renewed { server, .. }
            | Self::RenewalFailing { server, .. }
            | Self::Lost { server, .. }
            | Self::Connected { server, .. }
            | Self::Disconnected { server, .. }
            | Self::BreakerOpened { server, .. }
            | Self::BreakerClosed { server, .. }
            | Self::ClockAhead { server, .. }
            | Self::ConnectFailing { server, .. } => Some(server),
            Self::WaitBegan { .. } | Self::WaitEnded { .. } | Self::Granted { .. } | Self::Released { .. } => None,
        }
    }
}
