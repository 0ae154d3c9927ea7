//! What goes into a session and what comes out of it, as plain data.

use std::sync::Arc;
use std::time::Duration;

use crate::breakers::Breaker;
use crate::ending::{LostReason, ReleaseOutcome};
use crate::error::{Error, Holder};
use crate::identities::Identity;
use crate::ids::{CallId, Context, LeaseId, NodeId, Ticket};
use crate::instant::Instant;
use crate::kinds::Kind;
use crate::lease::{LeaseDuration, LeaseTerms};
use crate::name::LockName;
use crate::owner::ClientId;
use crate::script::Script;
use crate::token::Token;

/// What one client is configured with.
#[derive(Clone, Debug)]
pub struct Config {
    /// This client's id, the first part of its owner ids.
    pub client: ClientId,
    /// The length of auto-renewed leases that were given none of their own.
    pub lease: LeaseDuration,
    /// How many primaries there are, nodes 0 and up. With more than one, every
    /// lock is a RedLock, held by a majority of them.
    pub primaries: u16,
    /// How long an answer may take.
    pub command_timeout: Duration,
    /// Whether servers run calls in the order in which they were sent, lane by lane. What a program's own client sends
    /// may overtake what it sent before.
    pub keeps_order: bool,
    /// A waiter asks again after a time between these two, drawn at random.
    pub retry_interval: (Duration, Duration),
    /// The circuit breaker of each primary; `None` for none.
    pub breaker: Option<Breaker>,
    /// What it says of itself to others, who say it to their users; `None` to say and to ask nothing.
    pub identity: Option<Identity>,
}

impl Config {
    /// How long an answer may take, unless somebody says otherwise.
    pub const COMMAND_TIMEOUT: Duration = Duration::from_secs(3);
    /// When a waiter asks again, unless somebody says otherwise.
    pub const RETRY_INTERVAL: (Duration, Duration) = (Duration::from_millis(500), Duration::from_millis(750));

    /// That of a client of one primary to which nobody says otherwise: without a circuit breaker, and saying nothing
    /// of itself.
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

/// What becomes of an acquisition while the circuit breaker of its primary is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnUnavailable {
    /// It fails at once, as `Unavailable`.
    #[default]
    Fail,
    /// It is granted a lease that excludes others of this client alone: *degraded*, without a
    /// token. Those of the lock's name that were granted by the server keep it waiting.
    Local,
    /// It is not granted, and its caller goes on without: [`Outcome::NotGranted`], with an error
    /// that says so.
    Skip,
}

impl OnUnavailable {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Fail, Self::Local, Self::Skip];

    /// The word that hosts give.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::Local => "local",
            Self::Skip => "skip",
        }
    }

    /// Of such a word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.as_str() == word)
    }
}

/// How much one call does at the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// So many waiters of the fair lock it speaks for, 1 to 128.
    pub waiters_per_poll: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { waiters_per_poll: 128 }
    }
}

/// Which of a node's connections a call takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// What callers wait for.
    Command,
    /// What the watchdog sends; not queued behind commands while this lane is open.
    Renewal,
}

impl Lane {
    /// The other one.
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
    /// Names the call in `on_sent` and `on_reply`.
    pub id: CallId,
    /// The server to ask.
    pub node: NodeId,
    /// The connection to use.
    pub lane: Lane,
    /// The script to run.
    pub script: Script,
    /// Its KEYS.
    pub keys: Vec<Arc<[u8]>>,
    /// Its ARGV.
    pub args: Vec<Arc<[u8]>>,
}

/// Something to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transmit {
    /// Run a script.
    Call(Call),
    /// Listen on a channel.
    Subscribe {
        /** The server. */
        node: NodeId,
        /** The channel. */
        channel: Arc<[u8]>,
    },
    /// Stop listening.
    Unsubscribe {
        /** The server. */
        node: NodeId,
        /** The channel. */
        channel: Arc<[u8]>,
    },
}

/// What a caller wants of a lock.
#[derive(Clone, Debug)]
pub struct AcquireRequest {
    /// The lock's kind.
    pub kind: Kind,
    /// Its name.
    pub name: LockName,
    /// Who may re-enter without naming a lease; `None` if nobody.
    pub context: Option<Context>,
    /// The held lease to re-enter explicitly.
    pub within: Option<LeaseId>,
    /// How long to wait; zero tries once; `None` waits as long as the server answers.
    pub wait: Option<Duration>,
    /// A fixed lease, or one that the watchdog renews: the client's, or of its own length.
    pub lease: LeaseTerms,
    /// The longest the hold may last, counted from its first grant.
    pub max_hold: Option<Duration>,
    /// Whether a fencing token is drawn.
    pub fencing: bool,
    /// What becomes of it while the circuit breaker of its primary is open.
    pub on_unavailable: OnUnavailable,
    /// Others of the caller's thread, which stand still until it is answered: a wait that only
    /// they could end is refused at once.
    pub blocked: Vec<Context>,
}

/// What a grant or re-entry gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The lease.
    pub lease: LeaseId,
    /// Its fencing token.
    pub token: Option<Token>,
    /// Until when it may be relied on if nothing renews it.
    pub deadline: Instant,
    /// How many levels the hold has now.
    pub levels: u32,
    /// It excludes others of this client alone; see [`OnUnavailable::Local`].
    pub degraded: bool,
}

/// A lock's state on the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockState {
    /// Who holds it; `None` if it is free. Of several, the one whose hold ends last.
    pub holder: Option<Holder>,
    /// A semaphore's permits: how many are held, of how many. `None` while none
    /// is, and for other kinds.
    pub permits: Option<(u32, u32)>,
    /// How many wait in the queue of a fair lock, of all clients; `None` if that was not asked.
    pub waiting: Option<u32>,
}

/// What a ticket came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The lock is held.
    Granted(Grant),
    /// The wait timed out; the error is the `LockTimeout` to raise where the caller wants one.
    /// Or it was skipped; then the error is `Unavailable`, and [`Error::is_skipped`].
    NotGranted(Error),
    /// A release is done.
    Released(ReleaseOutcome),
    /// A lease was extended, until this deadline.
    Extended(Instant),
    /// The state that was asked for.
    State(LockState),
    /// A forced release or a change of a limit is done; whether anybody held it.
    Forced(bool),
    /// It failed.
    Failed(Error),
}

/// Something that the driver passes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A ticket is done. Every ticket has exactly one, a cancelled one has none.
    Completed {
        /** Which. */
        ticket: Ticket,
        /** How. */
        outcome: Outcome,
    },
    /// A lease is lost, finally. Comes once for each lease, never after its release.
    Lost {
        /** Which. */
        lease: LeaseId,
        /** Why. */
        reason: LostReason,
    },
    /// A lease may be relied on for longer.
    Renewed {
        /** Which. */
        lease: LeaseId,
        /** Until when. */
        deadline: Instant,
    },
}
