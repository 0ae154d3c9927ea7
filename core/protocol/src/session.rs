//! stub
use std::sync::Arc;
use std::time::Duration;

use crate::*;

/// What one client is configured with.
#[derive(Clone, Debug)]
pub struct Config {
    /// This client's id, the first part of its owner ids.
    pub client: ClientId,
    /// The watchdog's lease, for holds that were given none.
    pub lease: LeaseDuration,
    /// How long an answer may take.
    pub command_timeout: Duration,
    /// A waiter asks again after a time between these two, drawn at random.
    pub poll: (Duration, Duration),
}

macro_rules! ids { ($($(#[$d:meta])* $n:ident,)*) => {$(
    $(#[$d])* #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)] pub struct $n(u64);
    impl $n {
        /// As a number.
        #[must_use] pub const fn get(self) -> u64 { self.0 }
        /// From a number that `get` gave.
        #[must_use] pub const fn from_u64(id: u64) -> Self { Self(id) }
    })*} }
ids! {
    /// One verb of a caller, to be completed by exactly one event.
    Ticket,
    /// One script call on its way to a server.
    CallId,
    /// One grant or re-entry.
    LeaseId,
    /// Who may re-enter: a thread or task, by a number that is never used for another.
    Context,
}

/// Which server. Node 0 is the only one unless several primaries vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NodeId(pub u16);

/// Which of a node's connections a call takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// What callers wait for.
    Command,
    /// What the watchdog sends; never queued behind commands.
    Renewal,
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
    Subscribe { /** The server. */ node: NodeId, /** The channel. */ channel: Arc<[u8]> },
    /// Stop listening.
    Unsubscribe { /** The server. */ node: NodeId, /** The channel. */ channel: Arc<[u8]> },
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
    /// A fixed lease; `None` for the client's, renewed by the watchdog.
    pub lease: Option<LeaseDuration>,
    /// The longest the hold may last, counted from its first grant.
    pub max_hold: Option<Duration>,
    /// Whether a fencing token is drawn.
    pub fencing: bool,
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
}

/// How a release ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseOutcome {
    /// The record is gone by our hand, or an outer level still holds it.
    Released,
    /// The record was gone already.
    Expired,
    /// The record is another owner's.
    Stolen,
    /// The server did not answer in time; the release is tried on until the record's TTL has passed.
    Unknown,
}

/// Why a hold was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostReason {
    /// Its deadline came without a renewal that the server confirmed.
    Expired,
    /// The server has no record of it: DEL, FLUSHALL, eviction, failover.
    Removed,
    /// The server's record is another owner's.
    Stolen,
    /// `max_hold` has passed.
    MaxHold,
    /// The client was closed.
    Closed,
}

/// A lock's state on the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockState {
    /// Who holds it; `None` if it is free.
    pub holder: Option<Holder>,
}

/// What a ticket came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The lock is held.
    Granted(Grant),
    /// Waited as long as asked; the error is the `LockTimeout` to raise where the caller wants one.
    NotGranted(Error),
    /// A release is done.
    Released(ReleaseOutcome),
    /// A lease was extended, until this deadline.
    Extended(Instant),
    /// The state that was asked for.
    State(LockState),
    /// It failed.
    Failed(Error),
}

/// Something that the driver passes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A ticket is done. Every ticket has exactly one, a cancelled one has none.
    Completed { /** Which. */ ticket: Ticket, /** How. */ outcome: Outcome },
    /// A lease is lost, finally. Comes once for each lease, never after its release.
    Lost { /** Which. */ lease: LeaseId, /** Why. */ reason: LostReason },
    /// A lease may be relied on for longer.
    Renewed { /** Which. */ lease: LeaseId, /** Until when. */ deadline: Instant },
}

/// stub
pub struct Session {}

impl Session {
    /// A session that holds nothing.
    pub fn new(_config: Config, _entropy: Box<dyn Entropy>) -> Self { Self {} }
    /// Wants a lock.
    pub fn acquire(&mut self, _request: AcquireRequest, _now: Instant) -> Ticket { Ticket(0) }
    /// Gives one lease back. Twice is harmless: the second completes as the first did.
    pub fn release(&mut self, _lease: LeaseId, _now: Instant) -> Ticket { Ticket(0) }
    /// Gives back the innermost lease of `context`; `NotOwner` if it has none.
    pub fn release_innermost(&mut self, _kind: Kind, _name: &LockName, _context: Context, _now: Instant) -> Ticket { Ticket(0) }
    /// Makes a lease last `by` from now, if that is later than it lasts already; `None` for its own length.
    pub fn extend(&mut self, _lease: LeaseId, _by: Option<LeaseDuration>, _now: Instant) -> Ticket { Ticket(0) }
    /// Asks the server who holds a lock.
    pub fn inspect(&mut self, _kind: Kind, _name: &LockName, _now: Instant) -> Ticket { Ticket(0) }
    /// The caller of an `acquire` went away: no event follows, and nothing of it stays behind. For other tickets only the event is dropped.
    pub fn cancel(&mut self, _ticket: Ticket, _now: Instant) {}
    /// Fails what waits, loses and then releases what is held. Later verbs complete with `Closed`.
    pub fn close(&mut self, _now: Instant) {}
    /// Whether everything that `close` owes the server has been answered.
    #[must_use] pub fn is_drained(&self) -> bool { true }
    /// How often `context` holds the lock.
    #[must_use] pub fn levels(&self, _kind: Kind, _name: &LockName, _context: Context) -> u32 { 0 }
    /// The innermost unreleased lease of `context` on the lock.
    #[must_use] pub fn innermost(&self, _kind: Kind, _name: &LockName, _context: Context) -> Option<LeaseId> { None }
    /// The node has its connections.
    pub fn on_connected(&mut self, _node: NodeId, _now: Instant) {}
    /// A connection of the node closed; the calls on it are answered one by one with `on_reply`.
    pub fn on_disconnected(&mut self, _node: NodeId, _now: Instant) {}
    /// The call's bytes are about to go to the socket.
    pub fn on_sent(&mut self, _call: CallId, _now: Instant) {}
    /// The call's answer.
    pub fn on_reply(&mut self, _call: CallId, _result: Result<Reply, CallError>, _now: Instant) {}
    /// The server confirmed a subscription.
    pub fn on_subscribed(&mut self, _node: NodeId, _channel: &[u8], _now: Instant) {}
    /// A message came.
    pub fn on_message(&mut self, _node: NodeId, _channel: &[u8], _payload: &[u8], _now: Instant) {}
    /// Time passed. Spurious calls are harmless.
    pub fn on_timeout(&mut self, _now: Instant) {}
    /// The next thing to send.
    #[must_use] pub fn poll_transmit(&mut self) -> Option<Transmit> { None }
    /// The next thing to tell.
    #[must_use] pub fn poll_event(&mut self) -> Option<Event> { None }
    /// When to call `on_timeout`, if nothing else happens before. May change after any input.
    #[must_use] pub fn poll_timeout(&self) -> Option<Instant> { None }
}
