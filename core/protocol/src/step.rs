//! Steps: the requests of one state machine (`machines/`) to another. The router (`locks.rs`) gives each step to the
//! machine that must act on it. The inputs of the waiters and of the fair queue are defined here, because steps carry
//! most of them.

use std::sync::Arc;
use std::time::Duration;

use crate::calls::{Answered, Resolved, Unresolved};
use crate::error::Cause;
use crate::ids::{CallId, Context, ElectionId, HoldId, LockId, NodeId, Primary, Ticket};
use crate::instant::Instant;
use crate::kinds::{Keys, QueueEntry};
use crate::lease::LeasePlan;
use crate::owner::OwnerId;
use crate::reply::{CallError, Reply};
use crate::run::Ending;
use crate::token::Token;
use crate::types::{AcquireRequest, Event};

/// One consequence of an input.
#[derive(Debug)]
pub(crate) enum Step {
    /// An event for a caller. For a member of a composite lock, the event goes to the composite lock.
    Emit(Event),
    /// A release is owed.
    Owes(Owed),
    /// The lock may no longer be in use here.
    ForgetIfUnused(LockId),
    /// An input of the waiters.
    Waiter(WaiterInput),
    /// An input of the fair queue.
    Fair(FairInput),
    /// A request is granted.
    Granted(Ticket, NewHold),
    /// A caller re-entered a hold.
    Entered(Reentry),
    /// A waiter needs the messages of a channel.
    Listen(Listen),
    /// An election needs the messages of a channel of this node.
    Watch(ElectionId, NodeId, Arc<[u8]>),
    /// An election of this node needs no messages any more.
    Unwatch(ElectionId, NodeId),
    /// An input of the elections.
    Election(ElectionInput),
    /// `listeners` connections received the message about a release.
    Published { lock: LockId, listeners: u32 },
    /// The reply to a release has a grant message for a waiter of this client.
    GrantReplied { keys: Arc<Keys>, payload: Vec<u8> },
    /// A reply or a message says that an owner id of this client holds a lock.
    OwnerSeen(OwnerSeen),
}

/// The events that concern waiters.
#[derive(Debug)]
pub(crate) enum WaiterInput {
    /// A caller requests a lock.
    Wanted(Wanted),
    /// An attempt of this request was answered, or its connection closed.
    Answered {
        ticket: Ticket,
        /// The TTL that the attempt asked for.
        ttl: Duration,
        attempt: Answered,
    },
    /// The answer to an attempt is overdue.
    Overdue(Ticket, CallId),
    /// The time for the next attempt of a waiter has come.
    Woken(Ticket),
    /// The wait of a caller is over.
    WaitOver(Ticket),
    /// A wait without a bound ends now if the server has been silent for too long.
    Silence(Ticket),
    /// A caller no longer waits.
    Cancelled(Ticket),
    /// An attempt was refused. If the attempt put the waiter into the server's queue, the fair queue has noted that.
    Refused(Refused),
    /// A refused waiter goes to sleep, now that the client has subscribed to the channel of the lock.
    Sleep {
        ticket: Ticket,
        /// The time that is left of the other hold; `None` for a record without TTL.
        remaining: Option<Duration>,
    },
    /// A waiter sends an attempt under a new owner id. The release for its former owner id is sent first.
    Ask(Ticket),
    /// The answer to the current attempt of a waiter may be stale: the client may have missed a message before it
    /// subscribed, or a grant message for the waiter arrived during the attempt.
    AnswerMayBeStale(Ticket),
    /// The first waiter of the local queue may send an attempt, if no caller of this client holds the lock.
    Advance(LockId),
    /// A caller of this client was granted a lock that has one holder at a time.
    Held(LockId, HoldId),
    /// A hold no longer blocks the waiters of this client.
    Freed(LockId, HoldId),
    /// The lock may be free.
    MayBeFree(LockId),
    /// A message says that the lock may be free. A grant message that is not plausible counts as such a message.
    ReleaseMessage(LockId),
    /// `others` connections of other clients received the message about a release by this client.
    Published { lock: LockId, others: u32 },
    /// The command lane of a node has opened.
    Connected(NodeId),
    /// The command lane of a node has closed or could not be opened, for this reason.
    Disconnected(NodeId, Cause),
    /// The circuit breaker of a primary is open, so no request may wait for the primary.
    Outage(Primary),
    /// The circuit breaker of a primary has closed.
    OutageOver(Primary),
    /// The lock is no longer in use.
    Forget(LockId),
    /// A poll that names these waiters was sent.
    Polled { poll: CallId, waiters: Vec<Ticket> },
    /// A poll that names these waiters was answered, or its connection closed.
    PollAnswered { poll: Resolved, waiters: Vec<Ticket> },
    /// A poll that names these waiters failed.
    PollFailed {
        lock: LockId,
        waiters: Vec<Ticket>,
        failure: CallError,
    },
    /// The answer to a poll names the holder of a lock.
    HolderSeen(LockId, HolderSeen),
    /// The server granted the lock to a waiter in its queue.
    GrantedInQueue(Ticket, Granted),
    /// The server granted the lock to a waiter in its queue, but too little of the grant is left, or its token is
    /// missing. The waiter asks again.
    AskAgain(Ticket),
}

/// The events that concern waiters in the server's queue.
#[derive(Debug)]
pub(crate) enum FairInput {
    /// A waiter is about to ask for the first time, or under a new owner id.
    WillJoin {
        lock: LockId,
        ticket: Ticket,
        entry: QueueEntry,
    },
    /// A waiter no longer waits.
    Left(LockId, Ticket),
    /// The reply to an attempt says that the waiter is in the server's queue.
    HasJoined {
        lock: LockId,
        ticket: Ticket,
        keys: Arc<Keys>,
        /// The reading of the server's clock in that reply.
        found: ClockReading,
    },
    /// The lock may be free: poll now, or as soon as `MIN_GAP` has passed since the last poll.
    PollSoon(LockId),
    /// Poll no later than at this instant.
    PollBy(LockId, Instant),
    /// A poll is due.
    PollDue(LockId),
    /// A poll was answered, or its connection closed.
    Answered(LockId, Answered),
    /// A grant message arrived, by the channel or in the reply to a release.
    GrantMessage { lock: LockId, payload: Vec<u8> },
    /// A grant message named an owner id that this client no longer uses, and the client releases the lock.
    AbandonedOwnerReleased(LockId),
    /// The lock is no longer in use.
    Forget(LockId),
}

/// The events that concern elections.
#[derive(Debug)]
pub(crate) enum ElectionInput {
    /// A caller wants to know as soon as another term than this one is known, or that nobody leads
    /// (`Leadership::NOBODY`).
    Asked { ticket: Ticket, keys: Arc<Keys>, seen: u64 },
    /// A message arrived on the channel of the election, or messages may have been lost until now.
    MayHaveChanged(ElectionId),
    /// The client must ask again, because messages can be lost.
    PollDue(ElectionId),
    /// A call was answered, or its connection closed.
    Answered(ElectionId, Result<Reply, CallError>),
    /// The program of another client is known now, or will stay unknown.
    Identified,
    /// The command lane of a node has opened.
    Connected(NodeId),
    /// A caller no longer waits.
    Cancelled(Ticket),
    /// Nobody has observed the election for a while.
    LingerOver(ElectionId),
}

/// The request of a caller that does not re-enter a hold.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) ticket: Ticket,
    pub(crate) request: AcquireRequest,
    pub(crate) keys: Arc<Keys>,
    /// The owner id of the write hold inside which the caller reads, if any.
    pub(crate) inside: Option<OwnerId>,
    pub(crate) plan: LeasePlan,
}

/// The re-entry of a hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reentry {
    pub(crate) ticket: Ticket,
    pub(crate) hold: HoldId,
    /// The plan of the new level.
    pub(crate) plan: LeasePlan,
}

/// The refusal of an attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused {
    pub(crate) ticket: Ticket,
    /// The time that is left of the other hold; `None` for a record without TTL.
    pub(crate) remaining: Option<Duration>,
    /// Whether the lock is free, but waiters whose clients stopped polling come first.
    pub(crate) is_free: bool,
}

/// The holder of a lock, as the answer to a call names it.
#[derive(Debug)]
pub(crate) struct HolderSeen {
    pub(crate) owner: String,
    /// The time that is left of the hold; `None` for a record without TTL.
    pub(crate) remaining: Option<Duration>,
    /// When the call was sent.
    pub(crate) sent: Instant,
}

/// A report that an owner id of this client holds a lock. The report matters only for a fair lock.
#[derive(Debug)]
pub(crate) struct OwnerSeen {
    pub(crate) lock: LockId,
    pub(crate) owner: OwnerId,
    pub(crate) report: Report,
}

/// The way in which a report arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// In the reply to a call of this client.
    Reply,
    /// In a message, which any user that may publish can forge.
    Message,
}

/// A reading of a server's clock by a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockReading {
    /// When the call was sent.
    pub(crate) sent: Instant,
    /// The server's time when the call ran, in µs.
    pub(crate) clock: u64,
}

/// The channel that the waiters for a lock need.
#[derive(Debug)]
pub(crate) struct Listen {
    pub(crate) lock: LockId,
    pub(crate) node: NodeId,
    pub(crate) channel: Arc<[u8]>,
    pub(crate) topic: Topic,
}

/// The topic of the messages of a channel.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Topic {
    /// Releases of the lock.
    Releases(Listener),
    /// Grants to waiters of this client in the server's queue.
    Grants,
}

/// The waiters that need the messages about releases, and how they ask the server when a message may have been lost.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Listener {
    /// This waiter. It asks by an attempt.
    Waiter(Ticket),
    /// The waiters in the server's queue. The client asks for all of them by a poll.
    ServerQueue,
}

/// A grant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Granted {
    pub(crate) token: Option<Token>,
    /// When the client sent the call from which the lease counts; for a degraded lease, when the client granted it. The
    /// grant cannot have begun earlier.
    pub(crate) sent: Instant,
    /// The TTL of the grant, counted from `sent`.
    pub(crate) ttl: Duration,
    pub(crate) kind: GrantKind,
}

/// The kind of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GrantKind {
    /// The server granted the lock for the TTL that an attempt asked for.
    Full,
    /// The server granted the lock for a short time, to a waiter in its queue.
    Provisional,
    /// No server granted the lock, so only this client knows the hold.
    Degraded,
}

impl Granted {
    /// Returns a grant to a waiter in the server's queue.
    pub(crate) const fn provisional(token: Option<Token>, sent: Instant, ttl: Duration) -> Self {
        Self {
            token,
            sent,
            ttl,
            kind: GrantKind::Provisional,
        }
    }
}

/// The data of a request that becomes a hold.
#[derive(Debug)]
pub(crate) struct NewHold {
    pub(crate) lock: LockId,
    pub(crate) keys: Arc<Keys>,
    pub(crate) owner: OwnerId,
    pub(crate) context: Option<Context>,
    pub(crate) plan: LeasePlan,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) granted: Granted,
    /// Whether the request had to wait: the server granted it in its queue, or by a call that was sent more than
    /// `MIN_GAP` after the request began.
    pub(crate) waited: bool,
    /// The unresolved attempts of the same owner.
    pub(crate) unresolved: Unresolved,
}

/// A release that is owed to the server.
#[derive(Debug)]
pub(crate) struct Owed {
    pub(crate) lock: LockId,
    pub(crate) keys: Arc<Keys>,
    pub(crate) owner: OwnerId,
    /// The caller that waits for the release, if any.
    pub(crate) ticket: Option<Ticket>,
    /// The hold that ends; `None` for a compensating release.
    pub(crate) hold: Option<Ended>,
    /// How the run ended; means nothing for other kinds than jobs.
    pub(crate) end: Ending,
    /// The unresolved attempts of the same owner.
    pub(crate) unresolved: Unresolved,
}

/// The times of a hold that ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    /// The deadline of the hold.
    pub(crate) deadline: Instant,
    /// When the TTL of the record has certainly passed.
    pub(crate) until: Instant,
    /// The earliest time to send the release, if the TTL of an expired lease must pass first.
    pub(crate) not_before: Option<Instant>,
}
