//! The inputs and outputs of a session, as plain data.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use crate::breakers::Breaker;
use crate::ending::{LostReason, ReleaseOutcome};
use crate::error::{Error, Holder};
use crate::identities::Identity;
use crate::ids::{CallId, Context, LeaseId, NodeId, Ticket};
use crate::instant::Instant;
use crate::kinds::Kind;
use crate::leadership::Leadership;
use crate::lease::{LeaseDuration, LeaseTerms};
use crate::name::LockName;
use crate::owner::ClientId;
use crate::run::{LastRun, RunTerms};
use crate::script::Script;
use crate::token::Token;

/// The configuration of one client.
#[derive(Clone, Debug)]
pub struct Config {
    /// The id of this client: the first part of its owner ids.
    pub client: ClientId,
    /// The length of auto-renewed leases whose requests name none.
    pub lease: LeaseDuration,
    /// The number of nodes, which are numbered from 0; a cluster is one node. If there are several, every lock is a
    /// RedLock, which a majority of the nodes grants.
    pub primaries: u16,
    /// How long an answer may take.
    pub command_timeout: Duration,
    /// Whether servers run the calls of one lane in the order in which they were sent. If the calls go through the
    /// program's own Redis client, a later call can overtake an earlier one.
    pub keeps_order: bool,
    /// The bounds of the random time after which a waiter asks again if nothing makes it ask earlier.
    pub retry_interval: RangeInclusive<Duration>,
    /// The circuit breaker of each primary; `None` for none.
    pub breaker: Option<Breaker>,
    /// The information that this client gives about itself, for people who read the errors of other clients. With
    /// `None` the client neither gives nor requests any.
    pub identity: Option<Identity>,
}

impl Config {
    /// The default of `command_timeout`.
    pub const COMMAND_TIMEOUT: Duration = Duration::from_secs(3);
    /// The default of `retry_interval`.
    pub const RETRY_INTERVAL: RangeInclusive<Duration> = Duration::from_millis(500)..=Duration::from_millis(750);

    /// Makes the default configuration of a client with one primary: without a circuit breaker, and without an
    /// identity.
    #[must_use]
    pub const fn new(client: ClientId) -> Self {
        Self {
            client,
            lease: LeaseDuration::DEFAULT,
            primaries: 1,
            command_timeout: Self::COMMAND_TIMEOUT,
            keeps_order: true,
            retry_interval: Self::RETRY_INTERVAL,
            breaker: None,
            identity: None,
        }
    }
}

/// The policy for acquisitions while the circuit breaker of their primary is open. For a RedLock, the policy applies
/// while so many breakers are open that no majority is left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnUnavailable {
    /// The acquisition fails at once, as `Unavailable`.
    #[default]
    Fail,
    /// The acquisition is granted a *degraded* lease: it has no token, and excludes only other callers of this client.
    /// While another caller of this client holds the lock, the caller waits. A read-write lock, a semaphore or a
    /// RedLock fails instead.
    Local,
    /// The acquisition is not granted, so that the caller skips its work: [`Outcome::NotGranted`], with an error that
    /// says why.
    Skip,
}

impl OnUnavailable {
    /// All values.
    pub const ALL: [Self; 3] = [Self::Fail, Self::Local, Self::Skip];

    /// Returns the text that all languages use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::Local => "local",
            Self::Skip => "skip",
        }
    }

    /// Parses the text that all languages use.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.as_str() == word)
    }
}

/// The limits on the size of a server call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The maximum number of waiters of a fair lock in one poll, 1 to 128.
    pub waiters_per_poll: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { waiters_per_poll: 128 }
    }
}

/// The connection of a node on which a call is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// For all calls except renewals. Also for a renewal, if the renewal lane is closed or the last renewal on it
    /// failed.
    Command,
    /// For the renewals of the watchdog, so that they do not wait behind commands. Also for some releases while the
    /// command lane is closed.
    Renewal,
}

impl Lane {
    /// Returns the other lane.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Command => Self::Renewal,
            Self::Renewal => Self::Command,
        }
    }
}

/// A script call to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The id of the call in `on_sent` and `on_reply`.
    pub id: CallId,
    /// The server to ask.
    pub node: NodeId,
    /// The connection to use.
    pub lane: Lane,
    /// The script to run.
    pub script: Script,
    /// The KEYS of the script.
    pub keys: Vec<Arc<[u8]>>,
    /// The ARGV of the script.
    pub args: Vec<Arc<[u8]>>,
}

/// Something to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transmit {
    /// Run a script.
    Call(Call),
    /// Subscribe to a channel.
    Subscribe {
        /** The server. */
        node: NodeId,
        /** The channel. */
        channel: Arc<[u8]>,
    },
    /// Unsubscribe from a channel.
    Unsubscribe {
        /** The server. */
        node: NodeId,
        /** The channel. */
        channel: Arc<[u8]>,
    },
}

/// The request of a caller for a lock.
#[derive(Clone, Debug)]
pub struct AcquireRequest {
    /// The lock's kind.
    pub kind: Kind,
    /// The name of the lock.
    pub name: LockName,
    /// The caller's context, by which the caller re-enters a lock without naming a lease; `None` for none.
    pub context: Option<Context>,
    /// A held lease of the same lock, which the request re-enters; `None` if only the context can re-enter. A request
    /// to read can also name a lease of the write lock, and then reads inside it.
    pub within: Option<LeaseId>,
    /// How long to wait: zero for a single attempt; `None` to wait as long as the server answers.
    pub wait: Option<Duration>,
    /// A fixed lease, or an auto-renewed lease of the client's length or of its own.
    pub lease: LeaseTerms,
    /// The maximum length of the hold, counted from its first grant; `None` for no limit.
    pub max_hold: Option<Duration>,
    /// Whether the lease gets a fencing token. Only a lock that has one holder at a time, and is no composite lock, has
    /// tokens.
    pub fencing: bool,
    /// The policy for this request while its primary is unavailable.
    pub on_unavailable: OnUnavailable,
    /// Other contexts of the caller's thread, which cannot run until the request is answered. A wait that only these
    /// contexts could end is refused at once.
    pub blocked: Vec<Context>,
    /// The terms of a run; `None` for other kinds, and for the default terms.
    pub run: Option<Arc<RunTerms>>,
}

/// The result of a grant or re-entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The lease.
    pub lease: LeaseId,
    /// The fencing token of the lease, if it has one.
    pub token: Option<Token>,
    /// The end of the lease if nothing renews it.
    pub deadline: Instant,
    /// How many levels the hold has now.
    pub levels: u32,
    /// Whether this client granted the lock, or at least one lock of a multi-lock, without a server; see
    /// [`OnUnavailable::Local`].
    pub degraded: bool,
}

/// A lock's state on the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockState {
    /// The holder; `None` if the lock is free, or if the caller asked only for `waiting`. If there are several holders,
    /// the one whose hold ends last.
    pub holder: Option<Holder>,
    /// The permits of a semaphore: how many are held, and how many there are. `None` while no permit is held, and for
    /// other kinds.
    pub permits: Option<(u32, u32)>,
    /// The number of waiters in the queue of a fair lock, of all clients; `None` if the caller did not ask for it.
    pub waiting: Option<u32>,
    /// The last runs of a job; `None` if the caller did not ask for them, or if the server has no history of the job.
    pub last_run: Option<Box<LastRun>>,
    /// The leader and the candidates; `None` if the caller did not ask for it.
    pub leadership: Option<Box<Leadership>>,
}

/// The result of a ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The lock is held.
    Granted(Grant),
    /// The wait is over, and another owner holds the lock or comes first. The error is the `LockTimeout` for callers
    /// that want to raise one. If the acquisition was skipped, the error is `Unavailable`, and [`Error::is_skipped`] is
    /// true.
    NotGranted(Error),
    /// The release is done.
    Released(ReleaseOutcome),
    /// The lease was extended until this deadline.
    Extended(Instant),
    /// The state that the caller asked for.
    State(LockState),
    /// A forced release or a change of a limit is done. The flag says whether the lock was held.
    Forced(bool),
    /// The request failed.
    Failed(Error),
}

/// Something that the driver passes on to callers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A ticket is done. Every ticket has exactly one such event, but a cancelled ticket has none.
    Completed {
        /** The ticket. */
        ticket: Ticket,
        /** The outcome. */
        outcome: Outcome,
    },
    /// A lease is lost for good. A lease has at most one such event, which never follows its release.
    Lost {
        /** The lease. */
        lease: LeaseId,
        /** The reason. */
        reason: LostReason,
    },
    /// The deadline of the lease is now this one. For a RedLock it can be earlier than before.
    Renewed {
        /** The lease. */
        lease: LeaseId,
        /** The new deadline. */
        deadline: Instant,
    },
}
