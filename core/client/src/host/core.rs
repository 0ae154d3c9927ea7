//! One client in one process.

use std::sync::Arc;

use steadlock_protocol::{Error, ErrorKind, Operation};

use super::address::LockRef;
use super::check::{Check, forked};
use super::operation::Op;
use crate::engine::Handle;
use crate::observe::Level;
use crate::observe::metrics::{Metric, Metrics};
use crate::port::{Checked, Command, Completion, Sink, Wake, generation_of, host_id};
use crate::settings::Settings;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::unwind::{or_error, quietly};

/// The state that all of a host's objects in one process share: the engine, and the request numbers.
pub(crate) struct Core {
    settings: Arc<Settings>,
    engine: Handle,
    requests: AtomicU64,
    /// Whether a close was requested.
    closed: AtomicBool,
}

impl Core {
    pub(super) fn new(settings: Arc<Settings>, wake: Option<Wake>) -> Self {
        Self {
            engine: Handle::new(0, Arc::clone(&settings), wake),
            settings,
            requests: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        }
    }

    /// Makes the core of a forked child, from the parent's core.
    pub(super) fn for_child(&self) -> Self {
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

    pub(super) fn server(&self) -> String {
        self.settings.server()
    }

    /// Whether the core belongs to a parent from which this process was forked.
    pub(super) fn is_inherited(&self) -> bool {
        self.engine.port().is_inherited()
    }

    /// As `is_inherited`, but without a system call, for an operation in progress.
    pub(super) fn is_forked(&self) -> bool {
        self.engine.port().is_forked()
    }

    pub(super) const fn engine(&self) -> &Handle {
        &self.engine
    }

    pub(super) fn next_request(&self) -> u64 {
        host_id(self.generation(), self.requests.fetch_add(1, Ordering::Relaxed) + 1)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Checks an operation and hands it to the engine.
    pub(super) fn run(&self, request: u64, op: Op, sink: Sink) {
        let of_failure = sink.clone();
        let run = || {
            self.check_and_send(request, op, sink);
            Ok(())
        };
        if let Err(error) = or_error(Operation::Acquire, run) {
            self.engine.port().answer(of_failure, Err(error));
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
        let op = check.operation(op).unwrap_or_else(Checked::Refused);
        self.engine.send(Command::Run { request, op, sink });
    }

    /// Whether a caller that holds `held` and waits for `wanted` would wait for itself.
    pub(super) fn keeps_out(&self, held: LockRef, wanted: LockRef) -> Result<bool, Error> {
        let read = |lock: LockRef| lock.parse(|name| self.settings.lock_name(name));
        Ok(read(held)?.keeps_out(&read(wanted)?, self.settings.targets.len() > 1))
    }

    pub(super) fn set_log(&self, level: Option<Level>) {
        self.settings.log.set(level);
    }

    pub(super) fn metrics(&self) -> Result<String, Error> {
        Ok(self.counted()?.text())
    }

    pub(super) fn metric_rows(&self) -> Result<Vec<Metric>, Error> {
        Ok(self.counted()?.rows())
    }

    pub(super) fn metrics_group(&self, name: &str) -> Result<Arc<str>, Error> {
        let grouping = self.settings.metrics.clone().unwrap_or_default();
        Ok(grouping.label(self.counted()?, name))
    }

    fn counted(&self) -> Result<&Metrics, Error> {
        self.engine.port().metrics().map(|metrics| &**metrics).ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidArgument,
                Operation::Inspect,
                "this client counts no metrics; connect with the option `metrics`",
            )
        })
    }

    pub(super) fn cancel(&self, request: u64) {
        quietly(|| self.engine.send(Command::Cancel { request }));
    }

    /// Cancels a request whose event may be queued already.
    pub(super) fn cancel_queued(&self, request: u64) {
        if generation_of(request) != self.generation() {
            return;
        }
        match self.engine.port().take_event(request) {
            Some(result) => self.give_back(result),
            None => self.cancel(request),
        }
    }

    /// Releases a grant that no caller takes any more.
    pub(super) fn give_back(&self, result: Result<Completion, Error>) {
        if let Ok(Completion::Granted(lease)) = result {
            self.run(0, Op::Release { lease: lease.id() }, Sink::Discard);
        }
    }

    /// Returns the error of a call that belongs to another process.
    pub(super) fn forked(&self, operation: Operation) -> Error {
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
