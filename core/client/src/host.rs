//! One client as a language binding sees it.
//!
//! Numbers are plain (milliseconds as `f64`, ids as `u64`) and options are plain data. This module checks everything;
//! bindings check nothing.
//!
//! A [`Host`] has two ways to run an operation:
//!
//! - [`Host::submit`] for event loops: the result arrives through the event queue. `wake` is called once when the queue
//!   turns from empty to non-empty, and [`Host::drain`] takes everything that is queued.
//! - [`Host::start`] for callers that block or await: the result arrives through the returned [`Pending`].
//!
//! All ids are below 2⁵³, so that a JavaScript number can hold them. They are never reused, not even in a forked child.
//!
//! `Core` is the part of a client that belongs to one process: a forked child has its own `Core`, with its own engine.

mod check;
mod pending;

use std::sync::Arc;
use std::time::Duration;

pub use steadlock_protocol::{
    Breaker, Candidate, ClientInfo, EndedRun, Error, ErrorKind, Holder, Kind, LastRun, Leadership, LeaseDuration,
    LockState, LostReason, OnFailure, OnUnavailable, Operation, Permits, ReleaseOutcome, RunEnd, RunOutcome, RunState,
    Skip, SkipReason, TermSeen, shown,
};
/// The calls and replies of a program that runs the engine itself.
#[cfg(not(feature = "native"))]
pub use steadlock_protocol::{Call, CallError, CallId, Lane, NodeId, Reply, SHARDED, Script, Transmit, shown_words};

use self::check::{Check, forked};
pub use self::check::{Count, LockRef};
pub use self::pending::Pending;
use crate::clock;
use crate::engine::Handle;
#[cfg(not(feature = "native"))]
pub use crate::engine::{Driven, Server, ServerAddress};
#[cfg(target_family = "wasm")]
pub use crate::environment::{Environment, provide};
use crate::observe::metrics::Metrics;
pub use crate::observe::metrics::{Family, Metric, Row, Times};
pub use crate::observe::{Field, Level, Line};
#[cfg(all(feature = "native", unix))]
pub use crate::own_file::OwnFile;
use crate::port::{CONNECT, CheckedOp, Command, NO_CALLER, Sink, Slot, Wake, generation_of, host_id};
pub use crate::port::{Completion, Event, Lease, Released};
pub use crate::process::{PerProcess, Process};
use crate::settings::Settings;
pub use crate::settings::{OptionKind, OptionSource, OptionValue, Options};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
pub use crate::target::AddressMap;
use crate::unwind::{catch_as_error, catch_panic};
#[cfg(feature = "simulation")]
use crate::world::World;

/// The longest time that a close takes, even if no server answers.
#[cfg(feature = "native")]
const CLOSE_LIMIT: Duration = Duration::from_millis(500);

/// One client. Cheap to clone; dropping the last clone closes it without waiting.
///
/// A forked child can use an inherited `Host`: its first operation there starts a new engine with a new client id, new
/// sockets and no holds. In the child, leases and pending calls of the parent return `Forked`, and so does every
/// operation but `Op::Close` of a private `memory://` client. While the parent holds the store of `memory://name`, a
/// client of that name fails in the child with `Misconfigured`, whether inherited or new. A client that was closed
/// before the fork stays closed. The parent is not affected.
#[derive(Clone)]
pub struct Host(Arc<PerProcess<ShutDownOnDrop>>);

impl Host {
    /// The request number of the event that reports the result of connecting.
    pub const CONNECT: u64 = CONNECT;

    /// Checks the options and begins to connect.
    ///
    /// The event `Completed { request: CONNECT, .. }` reports the result of connecting. If connecting fails, every
    /// operation but `Op::Close` fails with the same error. `wake` is called whenever the event queue turns from empty
    /// to non-empty: on the engine's thread, on a thread that blocks in [`Pending::wait`] and drives the engine
    /// meanwhile, or on a thread that uses the client after the engine's end. `wake` must not block.
    ///
    /// With [`Options::lazy`] no event reports the result of connecting. The engine starts with the first operation and
    /// connects then. The operation waits for the connection as it would in an outage. If locks cannot work with the
    /// server, this operation and every later one fail at once.
    ///
    /// # Errors
    /// `InvalidArgument` for an option out of its range or a malformed URL; `Misconfigured` without any URL, for a
    /// primary that is listed twice, for an unusable file of the TLS options, and for a `memory://name` whose store a
    /// parent of this process holds; `Unavailable` if the system gives the engine no thread or no descriptors.
    #[cfg(feature = "native")]
    pub fn open(options: Options, wake: Box<dyn Fn() + Send + Sync>) -> Result<Self, Error> {
        catch_as_error(Operation::Connect, || {
            let settings = Settings::check(options)?;
            Self::open_with(settings, Some(Arc::from(wake)))
        })
    }

    /// Returns the core of this process.
    fn core(&self) -> &Arc<Core> {
        &self.0.0
    }

    /// Opens a client whose owner never drains events: only `start` is used, and a loss shows only in the lease.
    #[cfg(feature = "native")]
    pub(crate) fn open_undrained(options: Options) -> Result<Self, Error> {
        Self::open_with(Settings::check(options)?, None)
    }

    /// Checks the options, and makes a client whose engine the program runs. The client begins to connect at once.
    /// `wake` is called whenever the event queue turns from empty to non-empty, in a turn of the engine or in a method
    /// of the client, and must not block.
    ///
    /// # Errors
    /// `InvalidArgument` for an option out of its range and for a malformed URL, on WebAssembly for each URL but
    /// `host://`; `Misconfigured` without any URL, for a scheme that is not part of this build, such as `memory://`,
    /// and for TLS options.
    #[cfg(not(feature = "native"))]
    pub fn open_driven(options: Options, wake: Box<dyn Fn() + Send + Sync>) -> Result<(Self, Driven), Error> {
        let wake: Wake = Arc::from(wake);
        let first = ShutDownOnDrop::per_process(Arc::new(Settings::check(options)?), Some(wake));
        let engine = first.0.engine();
        engine.ensure_started()?;
        let driven = engine.take_driven().ok_or_else(crate::errors::closed)?;
        Ok((Self(Arc::new(first)), driven))
    }

    /// Opens a client in a simulated world.
    #[cfg(feature = "simulation")]
    pub(crate) fn open_in(options: Options, world: World) -> Result<Self, Error> {
        let mut settings = Settings::check(options)?;
        settings.world = world;
        Self::open_with(settings, None)
    }

    #[cfg(feature = "native")]
    fn open_with(settings: Settings, wake: Option<Wake>) -> Result<Self, Error> {
        let is_lazy = settings.lazy;
        let first = ShutDownOnDrop::per_process(Arc::new(settings), wake);
        if !is_lazy {
            first.0.engine().ensure_started()?;
        }
        Ok(Self(Arc::new(first)))
    }

    /// Starts an operation, and returns its request number. Its event arrives later through `drain`. Never blocks.
    pub fn submit(&self, op: Op) -> u64 {
        let core = self.core();
        let request = core.next_request();
        core.run(request, op, Sink::Queue(request));
        request
    }

    /// Cancels a submitted operation whose caller has gone: a lock that is granted meanwhile is released, and the event
    /// of the operation is removed from the queue. If the binding drains the event before the engine learns of the
    /// cancel, the binding must release the lease that the event grants.
    pub fn cancel(&self, request: u64) {
        self.core().cancel_queued(request);
    }

    /// Whether a task that holds `held` and waits for `wanted` would wait for itself, unless it re-enters by its lease.
    /// A local check, for languages in which a scope knows the scopes around it.
    ///
    /// # Errors
    /// `InvalidArgument` for an invalid name or number.
    pub fn would_wait_for_itself(&self, held: LockRef, wanted: LockRef) -> Result<bool, Error> {
        catch_as_error(Operation::Acquire, || self.core().would_wait_for_itself(held, wanted))
    }

    /// Takes all queued events, in order.
    pub fn drain(&self, into: &mut Vec<Event>) {
        self.core().engine().port().drain(into);
    }

    /// Starts an operation whose result arrives through the returned [`Pending`], and not through the event queue.
    pub fn start(&self, op: Op) -> Pending {
        let core = self.core();
        let request = core.next_request();
        let (operation, slot) = (op.operation(), Arc::new(Slot::default()));
        core.run(request, op, Sink::Slot(Arc::clone(&slot)));
        Pending::new(Arc::clone(core), request, operation, slot)
    }

    /// Sets the lowest level of the log's lines, in place of [`Options::log`]. For a host whose logger can change its
    /// level. Applies to later events, in this process and in processes that are forked later.
    pub fn set_log(&self, level: Option<Level>) {
        self.core().settings.log.set(level);
    }

    /// Blocks until the client is connected or connecting has failed: about the connect timeout at most, but without
    /// bound if the client is lazy or this process is a fork, because connecting is then retried.
    ///
    /// # Errors
    /// The error of connecting.
    #[cfg(feature = "native")]
    pub fn wait_connected(&self) -> Result<(), Error> {
        let mut pending = self.connecting();
        loop {
            if let Some(result) = pending.wait(Duration::MAX) {
                return result.map(|_| ());
            }
        }
    }

    /// Returns a result that completes with `Connected` once the client is connected, or with the error of connecting.
    pub fn connecting(&self) -> Pending {
        let core = self.core();
        let request = core.next_request();
        let slot = Arc::new(Slot::default());
        core.engine()
            .send(Command::AwaitConnected(Sink::Slot(Arc::clone(&slot))));
        Pending::new(Arc::clone(core), request, Operation::Connect, slot)
    }

    #[cfg(feature = "native")]
    pub(crate) fn release_in_background(&self, lease: u64) {
        let core = self.core();
        let op = Op::EndRun {
            lease,
            end: RunEnd::Failed,
            at_least_ms: None,
        };
        core.run(core.next_request(), op, Sink::Discard);
    }

    /// Returns the client's counts in this process, in Prometheus' text format (version 0.0.4, content type
    /// `text/plain; version=0.0.4`). Makes no server call, and also works after the client was closed.
    ///
    /// # Errors
    /// `InvalidArgument` if the client was opened without [`Options::metrics`].
    pub fn metrics(&self) -> Result<String, Error> {
        catch_as_error(Operation::Inspect, || Ok(self.core().required_metrics()?.text()))
    }

    /// Returns the counts as plain data, for packages that pass them to another metrics library. There is a [`Metric`]
    /// for every metric, also for one that has no series yet.
    ///
    /// # Errors
    /// As [`metrics`](Self::metrics).
    pub fn metric_rows(&self) -> Result<Vec<Metric>, Error> {
        catch_as_error(Operation::Inspect, || Ok(self.core().required_metrics()?.rows()))
    }

    /// Returns the group of a lock of this name in [`metrics`](Self::metrics), for another metrics library that uses
    /// the same label. For a multi-lock, pass all names joined by `, `.
    ///
    /// # Errors
    /// As [`metrics`](Self::metrics).
    pub fn metrics_group(&self, name: &str) -> Result<Arc<str>, Error> {
        catch_as_error(Operation::Inspect, || self.core().metrics_group(name))
    }

    /// Returns the server as messages name it, without user and password; all servers if there are several.
    #[must_use]
    pub fn server(&self) -> String {
        self.0.original().0.server()
    }

    /// Whether the client has begun to connect in this process, or can no longer begin because it was closed or failed
    /// for good. A lazy client begins with its first operation.
    #[must_use]
    pub fn is_started(&self) -> bool {
        self.core().engine().is_started()
    }

    /// Whether the client was closed, in this process or in the one from which this one was forked.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.core().is_closed()
    }

    /// Closes the client: waiters get `Closed`, and the leases are lost with the reason `Closed` and then released.
    /// Returns when all releases are answered, after 500 ms at the latest; on a thread that drives an engine, at once.
    /// A second call changes nothing.
    #[cfg(feature = "native")]
    pub fn close_blocking(&self) {
        let mut pending = self.start(Op::Close);
        pending.wait(CLOSE_LIMIT);
        pending.detach();
    }

    /// Returns the outcomes of releases of a closed client's leases, where they are not `Released`. For a binding that
    /// drops the host of a closed client; other bindings can still run `Op::Release`.
    #[must_use]
    pub fn close_outcomes(&self) -> Vec<Released> {
        self.core().engine().port().close_outcomes()
    }

    /// Ends every wait for a lock, at the end of a process whose other threads will not run again. The waiters get no
    /// answer, and a grant that no caller took is released. Later requests are served, as the client is not closed. The
    /// result, `Closed`, comes when no release is owed to the server any more. Returns `None` if the client has not
    /// begun to connect in this process.
    #[must_use]
    pub fn end_waits(&self) -> Option<Pending> {
        let core = self.core();
        if !core.engine().is_started() {
            return None;
        }
        let slot = Arc::new(Slot::default());
        core.engine().send(Command::EndWaits(Sink::Slot(Arc::clone(&slot))));
        Some(Pending::new(
            Arc::clone(core),
            core.next_request(),
            Operation::Release,
            slot,
        ))
    }

    /// Releases these leases, at the end of a process whose other threads may go on. Returns when the server has
    /// answered, after `timeout` at the latest.
    #[cfg(feature = "native")]
    pub fn release_blocking(&self, leases: &[u64], timeout: Duration) {
        let start = std::time::Instant::now();
        let pending: Vec<Pending> = leases
            .iter()
            .map(|lease| {
                self.start(Op::EndRun {
                    lease: *lease,
                    end: RunEnd::Failed,
                    at_least_ms: None,
                })
            })
            .collect();
        for mut release in pending {
            release.wait(timeout.saturating_sub(start.elapsed()));
            // Detached instead of cancelled, because the release is owed even if no caller waits for it.
            release.detach();
        }
    }
}

/// Returns the error that a package reports for a lease that was lost for `reason`, a word of [`LostReason`].
/// `operation` is `Release` at the release or at the end of a scope, and `Hold` before that. `is_forgotten` means that
/// the lease needs no release, as in [`Lease::is_forgotten`].
#[must_use]
pub fn lost_error(name: &str, reason: &str, is_forgotten: bool, operation: Operation) -> Error {
    let reason = LostReason::parse(reason);
    let error = match is_forgotten {
        true => Error::lost_and_forgotten(operation, reason),
        false => Error::lost(operation, reason),
    };
    error.with_lock(name)
}

/// Returns how long a candidate waits before it campaigns again, after this many terms that it lost, or could not have,
/// one after another: 100 ms, doubled each time up to 5 s, and up to a half of that less, so that candidates do not
/// campaign together.
#[must_use]
pub fn campaign_pause(failures: u32) -> Duration {
    let longest = Duration::from_millis(100)
        .saturating_mul(1 << failures.min(10))
        .min(Duration::from_secs(5));
    let share = clock_micros() % 1_000;
    longest - longest.mul_f64(share as f64 / 2_000.0)
}

/// Returns the current time in microseconds of the clock that measures leases. The clock goes on while the machine
/// sleeps, never goes back, and leaps forward when it detects a pause of the machine. Its origin differs between
/// processes.
#[must_use]
pub fn clock_micros() -> u64 {
    clock::now().as_micros()
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host")
            .field("server", &self.0.original().0.server())
            .finish()
    }
}

#[cfg(all(test, feature = "native"))]
mod tests;

/// The state that all of a host's objects in one process share: the engine, and the request numbers.
pub(crate) struct Core {
    settings: Arc<Settings>,
    engine: Handle,
    requests: AtomicU64,
    /// Whether a close was requested.
    closed: AtomicBool,
}

impl Core {
    fn new(settings: Arc<Settings>, wake: Option<Wake>) -> Self {
        Self {
            engine: Handle::new(0, Arc::clone(&settings), wake),
            settings,
            requests: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        }
    }

    /// Makes the core of a forked child, from the parent's core.
    fn for_child(&self) -> Self {
        let child = Self {
            engine: self.engine.for_child(),
            settings: Arc::clone(&self.settings),
            requests: AtomicU64::new(0),
            closed: AtomicBool::new(self.is_closed()),
        };
        // A client that the parent closed before the fork is closed here, too.
        if child.is_closed() {
            child.engine.close_unstarted();
        }
        child
    }

    fn server(&self) -> String {
        self.settings.server()
    }

    /// Whether the core belongs to a parent from which this process was forked. Usually needs no system call: see
    /// [`Process::is_unforked`].
    fn is_forked(&self) -> bool {
        self.engine.port().is_forked()
    }

    const fn engine(&self) -> &Handle {
        &self.engine
    }

    fn next_request(&self) -> u64 {
        host_id(self.generation(), self.requests.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Checks an operation and hands it to the engine.
    fn run(&self, request: u64, op: Op, sink: Sink) {
        let failure_sink = sink.clone();
        let run = || {
            self.check_and_send(request, op, sink);
            Ok(())
        };
        if let Err(error) = catch_as_error(Operation::Acquire, run) {
            self.engine.port().answer(failure_sink, Err(error));
        }
    }

    fn check_and_send(&self, request: u64, op: Op, sink: Sink) {
        if matches!(op, Op::Close) {
            self.closed.store(true, Ordering::Relaxed);
            self.engine.close_unstarted();
        }
        let check = Check {
            settings: &self.settings,
            generation: self.generation(),
        };
        let op = check.operation(op).unwrap_or_else(CheckedOp::Refused);
        self.engine.send(Command::Run { request, op, sink });
    }

    /// Whether a caller that holds `held` and waits for `wanted` would wait for itself.
    fn would_wait_for_itself(&self, held: LockRef, wanted: LockRef) -> Result<bool, Error> {
        let parse = |lock: LockRef| lock.parse(|name| self.settings.lock_name(name));
        Ok(parse(held)?.keeps_out(&parse(wanted)?, self.settings.targets.len()))
    }

    fn metrics_group(&self, name: &str) -> Result<Arc<str>, Error> {
        let grouping = self.settings.metrics.clone().unwrap_or_default();
        Ok(grouping.label(self.required_metrics()?, name))
    }

    fn required_metrics(&self) -> Result<&Metrics, Error> {
        self.engine.port().metrics().map(|metrics| &**metrics).ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidArgument,
                Operation::Inspect,
                "this client counts no metrics; connect with the option `metrics`",
            )
        })
    }

    fn cancel(&self, request: u64) {
        catch_panic(|| self.engine.send(Command::Cancel { request }));
    }

    /// Cancels a request whose event may be queued already.
    fn cancel_queued(&self, request: u64) {
        if generation_of(request) != self.generation() {
            return;
        }
        match self.engine.port().take_event(request) {
            Some(result) => self.release_unclaimed(result),
            None => self.cancel(request),
        }
    }

    /// Releases a grant that no caller takes any more.
    fn release_unclaimed(&self, result: Result<Completion, Error>) {
        if let Ok(Completion::Granted(lease)) = result {
            let op = Op::EndRun {
                lease: lease.id(),
                end: RunEnd::Unused,
                at_least_ms: None,
            };
            self.run(NO_CALLER, op, Sink::Discard);
        }
    }

    /// Returns the error of a call that belongs to another process.
    fn forked(&self, operation: Operation) -> Error {
        forked(&self.settings, operation)
    }

    fn generation(&self) -> u64 {
        self.engine.port().generation()
    }
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core")
            .field("process", &self.engine.port().process())
            .field("server", &self.server())
            .finish_non_exhaustive()
    }
}

/// The core of a host in one process. Its drop shuts the engine down.
struct ShutDownOnDrop(Arc<Core>);

impl ShutDownOnDrop {
    /// Makes the host's core of this process now, and that of each forked child when the child first uses the host.
    fn per_process(settings: Arc<Settings>, wake: Option<Wake>) -> PerProcess<Self> {
        let first = Self(Arc::new(Core::new(settings, wake)));
        PerProcess::new(first, |parent| Self(Arc::new(parent.0.for_child())))
    }
}

impl Drop for ShutDownOnDrop {
    fn drop(&mut self) {
        self.0.engine().shut_down();
    }
}

/// The arguments of an acquisition.
#[derive(Clone, Debug, Default)]
pub struct Acquire {
    /// The lock; its name is without the client's `key_prefix`.
    pub lock: LockRef,
    /// The number of the caller, which can re-enter its own hold without naming a lease. A number must never be used
    /// for a second caller. `None` for a caller that re-enters only by `within`.
    pub context: Option<u64>,
    /// The id of the held lease to re-enter explicitly.
    pub within: Option<u64>,
    /// How long to wait; `None` waits as long as the server answers, 0 makes one attempt.
    pub wait_ms: Option<f64>,
    /// The length of the lease, 100 ms to 24 h; `None` for that of the client. A lease with a length of its own is
    /// fixed, unless `renew` is set.
    pub lease_ms: Option<f64>,
    /// Whether the watchdog renews the lease; `lease_ms` must then be 300 ms to 24 h. Without `lease_ms`, the lease is
    /// renewed anyway unless [`Options::renew`] is false.
    pub renew: bool,
    /// The longest hold, counted from its first grant; `None` for no bound.
    pub max_hold_ms: Option<f64>,
    /// The time that the caller itself has left, 200 ms at least. The wait and the hold together do not exceed it, so
    /// no lease outlives a caller that is stopped after that time. `None` for no bound.
    pub remaining_ms: Option<f64>,
    /// Whether to draw no fencing token.
    pub no_fencing: bool,
    /// How the acquisition ends while the circuit breaker of its primary is open; `None` for the client's setting.
    /// Requires a client with a breaker.
    pub on_unavailable: Option<OnUnavailable>,
    /// The contexts that cannot go on until this operation is answered, because the caller blocks their thread: other
    /// tasks of its event loop. A wait that only they could end fails at once with `InvalidArgument`.
    pub blocked: Vec<u64>,
    /// The terms of a run, for a lock of the kind `once`.
    pub run: Run,
}

/// The terms of a run.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// For how long after its start a run that ended well keeps others out, at most 24 h; `None` for no time.
    pub at_least_ms: Option<f64>,
    /// The key of the run: a run of this key that ended well is not repeated while the server remembers it. `None` for
    /// a run without a key.
    pub key: Option<String>,
    /// How long the server remembers that the key is done, 1 ms to 30 days; `None` for 24 h.
    pub keep_ms: Option<f64>,
    /// The effect of a failure: `retry`, so that the job may run again at once, or `keep`, so that it counts as done. `None`
    /// for `retry`.
    pub on_failure: Option<String>,
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
    /// Releases one lease, and says how its run ended; for a lease that is no run, as `Release`. A plain `Release` says
    /// that the run failed.
    EndRun {
        /// The lease's id.
        lease: u64,
        /// How the run ended.
        end: RunEnd,
        /// A new value for [`Run::at_least_ms`]; `None` for that of the request.
        at_least_ms: Option<f64>,
    },
    /// Ends a term. As `Release`, but the candidate with the owner id `to` leads next, if it still waits.
    Resign {
        /// The lease's id.
        lease: u64,
        /// The owner id of a candidate; `None` for the first one.
        to: Option<String>,
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
    /// Asks the server who leads. Completes with `State`.
    Leadership {
        /// The leader's lock.
        lock: LockRef,
        /// The number of the term that the caller has seen, or 0 if it has seen that nobody leads: the operation then
        /// completes as soon as this has changed, however long that takes. `None` to learn the present state.
        seen: Option<u64>,
    },
    /// Asks the server for the last runs of a job. Completes with `State`.
    LastRun {
        /// The job.
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
    const fn operation(&self) -> Operation {
        match self {
            Self::Acquire(_) => Operation::Acquire,
            Self::Release { .. }
            | Self::EndRun { .. }
            | Self::Resign { .. }
            | Self::ReleaseInnermost { .. }
            | Self::ForceRelease { .. }
            | Self::Close => Operation::Release,
            Self::Extend { .. } => Operation::Extend,
            Self::Inspect { .. } | Self::Leadership { .. } | Self::LastRun { .. } | Self::Held { .. } => {
                Operation::Inspect
            }
            Self::SetLimit { .. } => Operation::SetLimit,
        }
    }
}
