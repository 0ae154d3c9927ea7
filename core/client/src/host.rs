//! One client as a language binding sees it.
//!
//! Numbers are the host's own (milliseconds as `f64`, ids as `u64`), options are
//! plain data, and everything is checked here, never in a binding.
//!
//! A [`Host`] has two ways to run an operation:
//!
//! - [`Host::submit`] for event loops: the result comes through the event queue.
//!   `wake` is called once when the queue turns from empty to non-empty, and
//!   [`Host::drain`] takes everything that is queued.
//! - [`Host::start`] for callers that block: the result comes through the
//!   [`Pending`] it returns.
//!
//! All ids are below 2⁵³ and are never reused, also not in a forked child.

mod address;
mod core;
mod lease;
mod options;
mod pending;

use std::sync::Arc;
use std::time::Duration;

pub use leasehold_protocol::{
    Error, ErrorKind, Holder, Kind, LockState, LostReason, Operation, Permits, ReleaseOutcome, shown,
};

pub use self::address::LockRef;
pub use self::lease::Lease;
pub use self::options::Options;
pub use self::pending::Pending;

pub use crate::process::Process;

pub(crate) use self::core::{Checked, Command, Core, Named, Sink, closed, retold};
pub(crate) use self::lease::{host_id, session_id};
pub(crate) use self::options::Settings;
pub(crate) use self::pending::{Slot, park_on};

use self::core::Generation;
use crate::clock;

/// How long a close may take, whatever the server does.
const CLOSE_LIMIT: Duration = Duration::from_millis(500);

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
    /// A fixed lease, 100 ms to 24 h; `None` for the client's, renewed by the watchdog.
    pub lease_ms: Option<f64>,
    /// The watchdog renews the lease of `lease_ms` too, which is then 300 ms to 24 h.
    /// Says nothing new without `lease_ms`.
    pub renew: bool,
    /// The longest the hold may last, counted from its first grant; `None` for no bound.
    pub max_hold_ms: Option<f64>,
    /// Draw no fencing token.
    pub no_fencing: bool,
    /// The contexts that cannot go on until this is answered, as the caller's thread is
    /// blocked: other tasks of its event loop. A wait that only they could end fails at once with
    /// `InvalidArgument`.
    pub blocked: Vec<u64>,
}

/// An operation.
#[derive(Clone, Debug)]
pub enum Op {
    /// Take a lock. Completes with `Granted` or `NotGranted`.
    Acquire(Acquire),
    /// Give one lease back. Completes with `Released`; twice is harmless. Of a lease that
    /// was forgotten the object says what it came to: [`Lease::outcome`].
    Release {
        /// Its id.
        lease: u64,
    },
    /// Give back the innermost lease of a context. Fails with `NotOwner` if it has none.
    ReleaseInnermost {
        /// Which lock.
        lock: LockRef,
        /// Who holds it.
        context: u64,
    },
    /// Make a lease last longer from now. Completes with `Extended`; fails with `NotOwner`
    /// for one that was released, or forgotten: then [`Lease::explain`] says why.
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
    /// Take a lock from whoever holds it. Completes with `Forced`.
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

/// How an operation ended well.
#[derive(Clone, Debug)]
pub enum Completion {
    /// The server was reached, and is one that locks can work with.
    Connected,
    /// The lock is held.
    Granted(Arc<Lease>),
    /// Waited as long as asked. The error is the `LockTimeout` for callers that want one.
    NotGranted(Error),
    /// A release is done.
    Released(ReleaseOutcome),
    /// The lease lasts longer; its `remaining()` says how long.
    Extended,
    /// The lock's state on the server.
    State(LockState),
    /// A forced release or a change of a limit is done; whether anybody held it.
    Forced(bool),
    /// What the context holds.
    Held {
        /// How many levels; 0 if nothing.
        levels: u32,
        /// Its innermost lease.
        lease: Option<Arc<Lease>>,
    },
    /// The client is closed.
    Closed,
}

/// Something for the host.
#[derive(Clone, Debug)]
pub enum Event {
    /// A submitted operation is done.
    Completed {
        /// The number that `submit` gave, or [`Host::CONNECT`].
        request: u64,
        /// How it ended.
        result: Result<Completion, Error>,
    },
    /// A lease is lost, finally. Comes once for each lease, never after its release.
    Lost {
        /// Its id.
        lease: u64,
        /// Why.
        reason: LostReason,
        /// Nobody need release it: see [`Lease::is_forgotten`].
        is_forgotten: bool,
    },
}

/// One client. Cheap to clone; dropping the last clone closes it without waiting.
///
/// In a forked child an inherited `Host` works again: its first operation there
/// starts a new engine with a new client id, new sockets and no holds. Leases
/// and pending calls of the parent give `Forked` in the child, and so does
/// everything of a private `memory://` client. A client that was closed before
/// the fork stays closed. The parent notices nothing.
#[derive(Clone)]
pub struct Host(Arc<Generation>);

impl Host {
    /// The request number of the event that says how connecting went.
    pub const CONNECT: u64 = 0;

    /// Checks the options and starts to connect.
    ///
    /// The first event is `Completed { request: CONNECT, .. }`. If connecting
    /// fails, every operation fails with the same error. `wake` is called
    /// whenever the event queue turns from empty to non-empty: from the engine's
    /// thread, or from one that blocks in [`Pending::wait`] and drives the engine
    /// meanwhile, or from one that calls a closed client. It must not block.
    ///
    /// With [`Options::lazy`] no such event comes. The engine starts with the first operation,
    /// and connects then: an operation waits for the connection as it does in an outage, but
    /// fails at once, as every later one does, if the server is one that locks cannot work with.
    ///
    /// # Errors
    /// `InvalidArgument` for an option out of its range or a malformed URL;
    /// `Misconfigured` for no URL at all, a scheme that this version does not
    /// know, or a file of the TLS options that is not what it should be.
    pub fn open(options: Options, wake: Box<dyn Fn() + Send + Sync>) -> Result<Self, Error> {
        let settings = Settings::check(options)?;
        Self::start_generation(settings, Some(Arc::from(wake)))
    }

    /// A client whose owner never drains: only `start` is used, and a lost lease
    /// shows in the lease alone.
    pub(crate) fn open_quiet(options: Options) -> Result<Self, Error> {
        Self::start_generation(Settings::check(options)?, None)
    }

    fn start_generation(settings: Settings, wake: Option<Arc<dyn Fn() + Send + Sync>>) -> Result<Self, Error> {
        let is_lazy = settings.lazy;
        let first = Generation::first(Arc::new(settings), wake);
        if !is_lazy {
            first.current().ensure_started()?;
        }
        Ok(Self(Arc::new(first)))
    }

    /// Starts an operation; its event comes later through `drain`. Never blocks.
    pub fn submit(&self, op: Op) -> u64 {
        let core = self.0.current();
        let request = core.next_request();
        core.run(request, op, Sink::Queue(request));
        request
    }

    /// The caller of a submitted operation went away: a lock granted meanwhile is
    /// released, and no event follows. But an event that is drained before the
    /// engine has heard of the cancel stays, and a grant in it is the caller's to
    /// release.
    pub fn cancel(&self, request: u64) {
        self.0.current().cancel_queued(request);
    }

    /// Takes all queued events, in order.
    pub fn drain(&self, into: &mut Vec<Event>) {
        self.0.current().drain(into);
    }

    /// Starts an operation whose result does not go through the event queue.
    pub fn start(&self, op: Op) -> Pending {
        let core = self.0.current();
        let request = core.next_request();
        let slot = Arc::new(Slot::default());
        core.run(request, op, Sink::Slot(Arc::clone(&slot)));
        Pending::new(Arc::clone(core), request, slot)
    }

    /// Blocks until connected or failed, at most about the connect timeout.
    ///
    /// # Errors
    /// What connecting failed with.
    pub fn wait_connected(&self) -> Result<(), Error> {
        let mut pending = self.connecting();
        loop {
            if let Some(result) = pending.wait(Duration::MAX) {
                return result.map(|_| ());
            }
        }
    }

    /// Completes with `Connected` once connected.
    pub(crate) fn connecting(&self) -> Pending {
        let core = self.0.current();
        let request = core.next_request();
        let slot = Arc::new(Slot::default());
        core.send(Command::AwaitConnected(Sink::Slot(Arc::clone(&slot))));
        Pending::new(Arc::clone(core), request, slot)
    }

    /// Releases a lease without anybody waiting for it.
    pub(crate) fn release_unattended(&self, lease: u64) {
        let core = self.0.current();
        core.run(core.next_request(), Op::Release { lease }, Sink::Discard);
    }

    /// Whether it was closed, here or in the process that this one was forked from.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.0.current().is_closed()
    }

    /// Closes: waiters get `Closed`, holds fire `Lost` with reason `Closed` and
    /// are released. Returns when that is done, after 500 ms at the most.
    /// The second time it does nothing.
    pub fn close_blocking(&self) {
        let mut pending = self.start(Op::Close);
        pending.wait(CLOSE_LIMIT);
        pending.forget();
    }

    /// Releases these leases, for the end of a process whose other threads may
    /// go on. Returns when the server has answered, after `timeout` at the most.
    pub fn release_blocking(&self, leases: &[u64], timeout: Duration) {
        let start = std::time::Instant::now();
        let pending: Vec<Pending> = leases
            .iter()
            .map(|lease| self.start(Op::Release { lease: *lease }))
            .collect();
        for mut release in pending {
            release.wait(timeout.saturating_sub(start.elapsed()));
            // Not cancelled: the release is owed also if nobody waits for it.
            release.forget();
        }
    }
}

/// Now, in microseconds of the clock that leases are measured by: it goes on while the
/// machine sleeps, never goes back, and leaps when a pause of the machine is found out.
/// Its origin is this process's own.
#[must_use]
pub fn clock_micros() -> u64 {
    clock::now().as_micros()
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("server", &self.0.server()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::tests::{in_a_process_of_its_own, step_wall_clock};
    use crate::process::tests::{as_child, as_child_of_the_same_id};

    fn open(url: &str) -> Host {
        Host::open_quiet(Options {
            url: Some(url.into()),
            ..Options::default()
        })
        .unwrap()
    }

    fn a() -> LockRef {
        LockRef::One(Kind::Lock, "a".into())
    }

    fn acquire(host: &Host) -> Result<Completion, Error> {
        run(
            host,
            Op::Acquire(Acquire {
                lock: a(),
                wait_ms: Some(0.0),
                ..Acquire::default()
            }),
        )
    }

    fn run(host: &Host, op: Op) -> Result<Completion, Error> {
        host.start(op).wait(Duration::from_secs(10)).expect("a result")
    }

    fn granted(result: Result<Completion, Error>) -> Arc<Lease> {
        match result {
            Ok(Completion::Granted(lease)) => lease,
            other => panic!("not granted: {other:?}"),
        }
    }

    /// Waits for what the engine does on its own.
    fn until(what: &str, mut holds: impl FnMut() -> bool) {
        let start = std::time::Instant::now();
        while !holds() {
            assert!(start.elapsed() < Duration::from_secs(20), "not in time: {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_machine_that_was_paused_and_resumed_has_lost_its_leases() {
        const TEST: &str = "host::tests::a_machine_that_was_paused_and_resumed_has_lost_its_leases";
        in_a_process_of_its_own(TEST, || {
            let (host, other) = (open("memory://paused"), open("memory://paused"));
            let lease = granted(acquire(&host));
            // A short one: the watchdog makes up for it.
            step_wall_clock(Duration::from_secs(15));
            assert!(lease.is_valid());
            until("the renewal", || lease.remaining() > Duration::from_secs(25));
            // A longer one than the lease: told at the first look, and by the engine.
            step_wall_clock(Duration::from_secs(60));
            assert!(!lease.is_valid());
            until("the loss", || lease.lost_reason() == Some(LostReason::Expired));
            // The store's own clock went on as ever: its record would stand for long.
            assert!(matches!(acquire(&other), Ok(Completion::NotGranted(_))));
            run(&host, Op::Release { lease: lease.id() }).unwrap();
            until("the release", || matches!(acquire(&other), Ok(Completion::Granted(_))));
        });
    }

    #[test]
    fn the_child_of_a_fork_owns_nothing() {
        let host = open("memory://the_child_owns_nothing");
        let lease = granted(acquire(&host));
        as_child(1, || {
            assert!(!lease.is_valid() && lease.remaining().is_zero());
            for op in [
                Op::Release { lease: lease.id() },
                Op::Extend {
                    lease: lease.id(),
                    by_ms: None,
                },
                Op::Acquire(Acquire {
                    lock: a(),
                    within: Some(lease.id()),
                    ..Acquire::default()
                }),
            ] {
                assert_eq!(run(&host, op).unwrap_err().kind(), ErrorKind::Forked);
            }
        });
        assert!(lease.is_valid(), "the parent is undisturbed");
    }

    #[test]
    fn the_child_of_a_fork_owns_nothing_though_its_id_is_its_parents() {
        let host = open("memory://the_same_id");
        let lease = granted(acquire(&host));
        let childs = as_child_of_the_same_id(1, || {
            assert!(!lease.is_valid() && lease.remaining().is_zero());
            let release = Op::Release { lease: lease.id() };
            assert_eq!(run(&host, release).unwrap_err().kind(), ErrorKind::Forked);
            granted(acquire(&host))
        });
        assert!(lease.is_valid() && !childs.is_valid());
        as_child_of_the_same_id(1, || {
            assert!(childs.is_valid());
            host.close_blocking();
        });
    }

    #[test]
    fn an_inherited_host_works_in_the_child_and_its_child() {
        let host = open("memory://an_inherited_host_works");
        let parents = granted(acquire(&host));
        let childs = as_child(1, || {
            let lease = granted(acquire(&host));
            assert!(lease.is_valid());
            lease
        });
        let grandchilds = as_child(2, || granted(acquire(&host)));
        assert!(parents.id() != childs.id() && childs.id() != grandchilds.id());
        as_child(2, || {
            assert!(!childs.is_valid() && grandchilds.is_valid());
            host.close_blocking();
        });
        as_child(1, || {
            assert!(childs.is_valid());
            host.close_blocking();
        });
        assert!(parents.is_valid());
    }

    #[test]
    fn a_pending_call_of_the_parent_is_forked_in_the_child() {
        let host = open("memory://a_pending_call");
        let _held = granted(acquire(&host));
        let mut pending = host.start(Op::Acquire(Acquire {
            lock: a(),
            ..Acquire::default()
        }));
        as_child(1, || {
            let result = pending.wait(Duration::ZERO).expect("an answer at once");
            assert_eq!(result.unwrap_err().kind(), ErrorKind::Forked);
        });
    }

    #[test]
    fn a_private_memory_client_stays_with_its_parent() {
        let host = open("memory://");
        let lease = granted(acquire(&host));
        as_child(1, || {
            assert_eq!(acquire(&host).unwrap_err().kind(), ErrorKind::Forked);
        });
        assert!(lease.is_valid());
        granted_again(&host, &lease);
    }

    fn granted_again(host: &Host, lease: &Lease) {
        run(host, Op::Release { lease: lease.id() }).unwrap();
        granted(acquire(host));
    }

    #[test]
    fn what_the_parent_closed_is_closed_in_the_child_and_its_child() {
        let host = open("memory://what_the_parent_closed");
        drop(host.start(Op::Close));
        for child in [1, 2] {
            as_child(child, || {
                assert_eq!(acquire(&host).unwrap_err().kind(), ErrorKind::Closed);
                assert!(matches!(run(&host, Op::Close), Ok(Completion::Closed)));
            });
        }
    }

    #[test]
    fn an_inherited_host_is_dropped_without_touching_the_parents_engine() {
        let host = open("memory://an_inherited_host_is_dropped");
        let lease = granted(acquire(&host));
        // In a real child this is the child's own copy of the memory.
        let state = Arc::clone(&lease);
        as_child(1, move || drop((host, state)));
        assert!(lease.is_valid(), "no shutdown was sent");
    }
}
