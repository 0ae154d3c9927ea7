//! One thing that happened, as plain data.

use std::sync::Arc;
use std::time::Duration;

use steadlock_protocol::{Attempted, Detail, ErrorKind, LostReason, ReleaseOutcome};

/// How much it matters, as a log has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The ordinary course of things.
    Debug,
    /// Trouble is over, or something ended as its holder had asked for.
    Info,
    /// Something fails, and may be well again before anything is lost.
    Warn,
    /// A lock is lost while its holder relies on it.
    Error,
}

impl Level {
    pub(crate) const ALL: [Self; 4] = [Self::Debug, Self::Info, Self::Warn, Self::Error];

    /// The level of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == name)
    }

    /// What a log of this level has to be told.
    pub(crate) const fn detail(self) -> Detail {
        match self {
            Self::Debug => Detail::Everything,
            Self::Info | Self::Warn | Self::Error => Detail::Trouble,
        }
    }

    /// Its name in lower case.
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
    /// Its kind: one of the names of all kinds, or `multi_lock`.
    pub kind: &'static str,
    /// Its name without the client's `key_prefix`, and without the userinfo of a URL.
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
    /// The one that carries what callers wait for.
    Calls,
    /// The watchdog's own.
    Renewals,
}

impl Link {
    /// The word that hosts see.
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
    /// Another owner held it for as long as the caller was ready to wait.
    TimedOut,
    /// Its server is unavailable, and its caller goes on without.
    Skipped,
    /// The caller went away.
    Cancelled,
    /// It failed.
    Failed(ErrorKind),
}

impl WaitOutcome {
    /// The word that hosts see.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::TimedOut => "timed_out",
            Self::Skipped => "skipped",
            Self::Cancelled => "cancelled",
            Self::Failed(_) => "failed",
        }
    }
}

/// Something that happened. Its text is one short sentence without secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Observation {
    /// A caller asked for a lock, and waits.
    WaitBegan {
        /** Which. */
        lock: ObservedLock,
    },
    /// A caller waits no longer.
    WaitEnded {
        /** For which lock. */
        lock: ObservedLock,
        /** How it ended. */
        outcome: WaitOutcome,
        /** How long it took. */
        waited: Duration,
    },
    /// One call to a server to acquire a lock was answered, or is given up.
    Attempt {
        /** Which lock. */
        lock: ObservedLock,
        /** Which server. */
        server: Arc<str>,
        /** How it ended. */
        outcome: Attempted,
        /** How long the answer took; `None` if the call was not sent. */
        took: Option<Duration>,
    },
    /// A lock is held; also each time that its holder enters it again.
    Granted {
        /** Which. */
        lock: ObservedLock,
        /** Its lease's number. */
        lease: u64,
        /** The fencing token. */
        token: Option<u64>,
        /** How long its caller waited. */
        waited: Duration,
    },
    /// The server confirmed a renewal.
    Renewed {
        /** Of which lock. */
        lock: ObservedLock,
        /** Which server. */
        server: Arc<str>,
        /** How long the answer took. */
        took: Duration,
        /** How many in a row had failed before. */
        failures: u32,
    },
    /// A renewal came to nothing, and is repeated.
    RenewalFailing {
        /** Of which lock. */
        lock: ObservedLock,
        /** Which server. */
        server: Arc<str>,
        /** Why. */
        cause: String,
        /** How long the lease may still be relied on. */
        left: Duration,
        /** How many in a row have failed. */
        failures: u32,
    },
    /// A lease is lost, finally.
    Lost {
        /** Which lock. */
        lock: ObservedLock,
        /** The lease's number. */
        lease: u64,
        /** On which server; of a composite lock, the one where its last member was lost. */
        server: Arc<str>,
        /** Why. */
        reason: LostReason,
        /** Why no renewal was confirmed, if it expired though it was to be renewed. */
        cause: Option<String>,
        /** How long it was held; `None` of a composite lock. */
        held: Option<Duration>,
        /** How long one lease of it was; `None` of a composite lock. */
        length: Option<Duration>,
    },
    /// A lease was released.
    Released {
        /** Which lock. */
        lock: ObservedLock,
        /** The lease's number. */
        lease: u64,
        /** How that ended. */
        outcome: ReleaseOutcome,
        /** How long it was held. */
        held: Duration,
    },
    /// A connection is open.
    Connected {
        /** To which server. */
        server: Arc<str>,
        /** Which one. */
        link: Link,
        /** How long it was missing; `None` of the first one. */
        missing: Option<Duration>,
    },
    /// A connection is lost, and is tried for again.
    Disconnected {
        /** To which server. */
        server: Arc<str>,
        /** Which one. */
        link: Link,
        /** Why. */
        cause: String,
    },
    /// The circuit breaker of a server is open: nobody waits for that server.
    BreakerOpened {
        /** Which server. */
        server: Arc<str>,
        /** What failed last. */
        cause: String,
    },
    /// It is closed again.
    BreakerClosed {
        /** Which server. */
        server: Arc<str>,
        /** How long it was open. */
        open: Duration,
    },
    /// The clock of a server is ahead of what it was, or of that of the server before it: records that it took over
    /// end early, by as much. It is seen by the tokens of two grants, if it is more than leases allow for.
    ClockAhead {
        /** Which server. */
        server: Arc<str>,
        /** By how much, at the least. */
        by: Duration,
    },
    /// An attempt to connect failed; the client makes another one.
    ConnectFailing {
        /** To which server. */
        server: Arc<str>,
        /** Which connection. */
        link: Link,
        /** Why. */
        cause: String,
        /** How long it is missing. */
        missing: Duration,
        /** How many attempts in a row have failed. */
        failures: u32,
    },
}

impl Observation {
    /// What happened, in one word.
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

    /// How much it matters.
    #[must_use]
    pub const fn level(&self) -> Level {
        match self {
            // A fixed lease ends as its holder asked for.
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

    /// The lock that it is about.
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

    /// The server that it is about, as messages name it.
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
