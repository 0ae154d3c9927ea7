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
mod check;
mod core;
mod generation;
mod operation;
mod pending;

use std::sync::Arc;
#[cfg(feature = "native")]
use std::time::Duration;

pub use steadlock_protocol::{
    ClientInfo, Error, ErrorKind, Holder, Kind, LockState, LostReason, OnUnavailable, Operation, Permits,
    ReleaseOutcome, shown,
};

pub use self::address::LockRef;
pub use self::operation::{Acquire, Op};
pub use self::pending::Pending;

#[cfg(not(feature = "native"))]
pub use crate::engine::{Driven, Place, Server};
#[cfg(target_family = "wasm")]
pub use crate::given::{Given, give};
pub use crate::observe::{Field, Level, Line};
#[cfg(all(feature = "native", unix))]
pub use crate::own_file::OwnFile;
pub use crate::port::{Completion, Event, Lease, Released};
pub use crate::process::Process;
pub use crate::settings::{OptionKind, OptionValue, Options};
pub use crate::target::AddressMap;
/// What goes out and comes in, for a program that turns the engine.
#[cfg(not(feature = "native"))]
pub use steadlock_protocol::{Call, CallError, CallId, Lane, NodeId, Reply, SHARDED, Script, Transmit, shown_words};

use self::generation::Generation;
use crate::clock;
use crate::port::{CONNECT, Command, Sink, Slot, Wake};
use crate::settings::Settings;
use crate::unwind::or_error;
#[cfg(feature = "simulation")]
use crate::world::World;

/// How long a close may take, whatever the server does.
#[cfg(feature = "native")]
const CLOSE_LIMIT: Duration = Duration::from_millis(500);

/// One client. Cheap to clone; dropping the last clone closes it without waiting.
///
/// In a forked child an inherited `Host` works again: its first operation there
/// starts a new engine with a new client id, new sockets and no holds. Leases
/// and pending calls of the parent give `Forked` in the child, and so does
/// everything of a private `memory://` client. A client of `memory://name` is
/// `Misconfigured` there, as a new one of that name is, while the parent holds that
/// store. A client that was closed before the fork stays closed. The parent notices nothing.
#[derive(Clone)]
pub struct Host(Arc<Generation>);

impl Host {
    /// The request number of the event that says how connecting went.
    pub const CONNECT: u64 = CONNECT;

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
    #[cfg(feature = "native")]
    pub fn open(options: Options, wake: Box<dyn Fn() + Send + Sync>) -> Result<Self, Error> {
        or_error(Operation::Connect, || {
            let settings = Settings::check(options)?;
            Self::start_generation(settings, Some(Arc::from(wake)))
        })
    }

    /// A client whose owner never drains: only `start` is used, and a lost lease
    /// shows in the lease alone.
    #[cfg(feature = "native")]
    pub(crate) fn open_quiet(options: Options) -> Result<Self, Error> {
        Self::start_generation(Settings::check(options)?, None)
    }

    /// Checks the options, and makes a client whose engine the program turns. It starts to
    /// connect at once; `wake` is as for a client with a thread of its own, and is called in a
    /// turn or in one of this client's methods.
    ///
    /// # Errors
    /// As of the options; `Misconfigured` for `memory://`, and for files of the TLS options.
    #[cfg(not(feature = "native"))]
    pub fn open_driven(options: Options, wake: Box<dyn Fn() + Send + Sync>) -> Result<(Self, Driven), Error> {
        let wake: Wake = Arc::from(wake);
        let first = Generation::first(Arc::new(Settings::check(options)?), Some(wake));
        let engine = first.current().engine();
        engine.ensure_started()?;
        let driven = engine.take_driven().ok_or_else(crate::errors::closed)?;
        Ok((Self(Arc::new(first)), driven))
    }

    /// The same, in a world that is not the machine's.
    #[cfg(feature = "simulation")]
    pub(crate) fn open_in(options: Options, world: World) -> Result<Self, Error> {
        let mut settings = Settings::check(options)?;
        settings.world = world;
        Self::start_generation(settings, None)
    }

    #[cfg(feature = "native")]
    fn start_generation(settings: Settings, wake: Option<Wake>) -> Result<Self, Error> {
        let is_lazy = settings.lazy;
        let first = Generation::first(Arc::new(settings), wake);
        if !is_lazy {
            first.current().engine().ensure_started()?;
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

    /// Whether a task that waits for `wanted` while it holds `held` would wait for itself, unless it enters by the
    /// lease that it has. A local question; for languages in which a scope knows those around it.
    ///
    /// # Errors
    /// `InvalidArgument` for what names no lock.
    pub fn keeps_out(&self, held: LockRef, wanted: LockRef) -> Result<bool, Error> {
        or_error(Operation::Acquire, || self.0.current().keeps_out(held, wanted))
    }

    /// Takes all queued events, in order.
    pub fn drain(&self, into: &mut Vec<Event>) {
        self.0.current().engine().port().drain(into);
    }

    /// Starts an operation whose result does not go through the event queue.
    pub fn start(&self, op: Op) -> Pending {
        let core = self.0.current();
        let request = core.next_request();
        let (operation, slot) = (op.operation(), Arc::new(Slot::default()));
        core.run(request, op, Sink::Slot(Arc::clone(&slot)));
        Pending::new(Arc::clone(core), request, operation, slot)
    }

    /// From now on its log has lines of this level and above, [`Options::log`] for another level: for a host whose
    /// logger changes. It counts for what happens next, here and in processes that are forked from now on.
    pub fn set_log(&self, level: Option<Level>) {
        self.0.current().set_log(level);
    }

    /// Blocks until connected or failed, at most about the connect timeout.
    ///
    /// # Errors
    /// What connecting failed with.
    #[cfg(feature = "native")]
    pub fn wait_connected(&self) -> Result<(), Error> {
        let mut pending = self.connecting();
        loop {
            if let Some(result) = pending.wait(Duration::MAX) {
                return result.map(|_| ());
            }
        }
    }

    /// Completes with `Connected` once connected.
    pub fn connecting(&self) -> Pending {
        let core = self.0.current();
        let request = core.next_request();
        let slot = Arc::new(Slot::default());
        core.engine()
            .send(Command::AwaitConnected(Sink::Slot(Arc::clone(&slot))));
        Pending::new(Arc::clone(core), request, Operation::Connect, slot)
    }

    /// Releases a lease without anybody waiting for it.
    #[cfg(feature = "native")]
    pub(crate) fn release_unattended(&self, lease: u64) {
        let core = self.0.current();
        core.run(core.next_request(), Op::Release { lease }, Sink::Discard);
    }

    /// What this client has counted in this process, in Prometheus' text format (version 0.0.4, content type
    /// `text/plain; version=0.0.4`). A local look; also of a client that was closed.
    ///
    /// # Errors
    /// `InvalidArgument` if the client was opened without [`Options::metrics`].
    pub fn metrics(&self) -> Result<String, Error> {
        or_error(Operation::Inspect, || self.0.current().metrics())
    }

    /// The label that a lock of this name has for its group in [`metrics`](Self::metrics), for other meters beside
    /// them; of a multi-lock, give all names with `, ` between them.
    ///
    /// # Errors
    /// As [`metrics`](Self::metrics).
    pub fn metrics_group(&self, name: &str) -> Result<Arc<str>, Error> {
        or_error(Operation::Inspect, || self.0.current().metrics_group(name))
    }

    /// The server as messages name it, without user and password; of several, all.
    #[must_use]
    pub fn server(&self) -> String {
        self.0.server()
    }

    /// Whether it has begun to connect in this process: a lazy one does with its first operation.
    #[must_use]
    pub fn is_started(&self) -> bool {
        self.0.current().engine().is_started()
    }

    /// Whether it was closed, here or in the process that this one was forked from.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.0.current().is_closed()
    }

    /// Closes: waiters get `Closed`, holds fire `Lost` with reason `Closed` and
    /// are released. Returns when that is done, after 500 ms at the most.
    /// The second time it does nothing.
    #[cfg(feature = "native")]
    pub fn close_blocking(&self) {
        let mut pending = self.start(Op::Close);
        pending.wait(CLOSE_LIMIT);
        pending.forget();
    }

    /// The outcomes of releases of a closed client's leases, where they are not `Released`. For a binding that keeps no
    /// host of a closed client; others may release at any time.
    #[must_use]
    pub fn endings(&self) -> Vec<Released> {
        self.0.current().engine().port().endings()
    }

    /// Ends every wait for a lock, for the end of a process whose other threads never go on: these
    /// waiters get no answer, and what was granted and not taken is released. Later requests are
    /// served. The result, `Closed`, comes when nothing is owed to the server any more; the client
    /// is not closed. `None` if it was never used.
    #[must_use]
    pub fn end_waits(&self) -> Option<Pending> {
        let core = self.0.current();
        if !core.engine().has_started() {
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

    /// Releases these leases, for the end of a process whose other threads may
    /// go on. Returns when the server has answered, after `timeout` at the most.
    #[cfg(feature = "native")]
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

/// What a package tells a caller whose lease was lost for `reason`, a word of [`LostReason`]: at the end of a scope and
/// by `lock.release()` (`Release`), or before it released it. `is_forgotten` says of the lease that nobody need release
/// it, as [`Lease::is_forgotten`] does.
#[must_use]
pub fn lost_error(name: &str, reason: &str, is_forgotten: bool, operation: Operation) -> Error {
    let reason = LostReason::parse(reason);
    let error = match is_forgotten {
        true => Error::lost_and_forgotten(operation, reason),
        false => Error::lost(operation, reason),
    };
    error.with_lock(name)
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

#[cfg(all(test, feature = "native"))]
mod tests;
