//! One client: its `Host`, the core's interface for bindings, and the events that the JVM has not
//! fetched yet.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockWriteGuard};
use std::time::{Duration, Instant};

use steadlock::host::{Completion, Error, Event, Host, Lease, LostReason, Op, Options, RunEnd};

use crate::wire;

/// A client, and the events that one Java thread fetches.
pub(crate) struct Client {
    pub(crate) host: Host,
    wake: Arc<WakeSignal>,
    state: Mutex<State>,
    /// Encoded events that the JVM has not fetched yet.
    undelivered: Mutex<VecDeque<Vec<u8>>>,
}

#[derive(Default)]
struct State {
    /// Maps the host's number of each open request to the JVM's number, its tag.
    requests: HashMap<u64, u64>,
    /// Leases that the JVM may ask about. A lost lease stays until [`Client::forget`], because the
    /// engine needs this object to answer calls about the lease.
    leases: HashMap<u64, Arc<Lease>>,
}

/// A client that closes releases its leases. The outcomes of these releases answer no request and have this tag.
const NO_REQUEST: u64 = u64::MAX;

impl Client {
    /// Opens a client and returns its handle.
    pub(crate) fn open(options: Options) -> Result<u64, Error> {
        let wake = Arc::new(WakeSignal::default());
        let host_wake = Arc::clone(&wake);
        let host = Host::open(options, Box::new(move || host_wake.set(HAS_EVENTS)))?;
        let mut requests = HashMap::new();
        requests.insert(Host::CONNECT, Host::CONNECT);
        let client = Self {
            host,
            wake,
            state: Mutex::new(State {
                requests,
                ..State::default()
            }),
            undelivered: Mutex::default(),
        };
        let handle = NEXT_HANDLE.fetch_add(1, Ordering::Relaxed);
        clients_mut().insert(handle, Arc::new(client));
        Ok(handle)
    }

    /// Returns the client of a handle, or `None` if it was dropped.
    pub(crate) fn get(handle: u64) -> Option<Arc<Self>> {
        let clients = CLIENTS.read().unwrap_or_else(PoisonError::into_inner);
        clients.get(&handle).cloned()
    }

    /// Forgets a handle. The thread that waits for the client's events returns.
    pub(crate) fn drop_handle(handle: u64) {
        let client = clients_mut().remove(&handle);
        if let Some(client) = client {
            client.wake.set(STOPPED);
        }
    }

    /// Starts an operation and returns the host's number of the request. Holds the mutex meanwhile,
    /// so that the answer is not encoded before the request is in the table.
    pub(crate) fn start(&self, tag: u64, op: Op) -> u64 {
        let mut state = self.state();
        let request = self.host.submit(op);
        state.requests.insert(request, tag);
        request
    }

    /// Cancels a request whose caller no longer waits for it.
    pub(crate) fn cancel(&self, request: u64) {
        self.state().requests.remove(&request);
        self.host.cancel(request);
    }

    /// Forgets a lost lease, because the JVM has no object of it any more.
    pub(crate) fn forget(&self, lease: u64) {
        self.state().leases.remove(&lease);
    }

    /// Returns how long the caller may rely on a lease if nothing renews it; zero if the lease is
    /// not valid.
    pub(crate) fn remaining(&self, lease: u64) -> Duration {
        let state = self.state();
        state
            .leases
            .get(&lease)
            .map_or(Duration::ZERO, |lease| lease.remaining())
    }

    /// Waits up to `timeout` for events and writes as many as fit into `buffer`. Returns the number
    /// of bytes written, 0 after the timeout, or `None` if the handle was dropped.
    pub(crate) fn next(&self, timeout: Duration, buffer: &mut [u8]) -> Option<usize> {
        let deadline = Instant::now().checked_add(timeout);
        loop {
            let written = self.deliver(buffer);
            if written > 0 {
                return Some(written);
            }
            match self.wake.wait(deadline) {
                WakeReason::Stopped => return None,
                WakeReason::Timeout => return Some(0),
                WakeReason::Events => self.encode_events(),
            }
        }
    }

    fn deliver(&self, buffer: &mut [u8]) -> usize {
        let mut undelivered = self.undelivered.lock().unwrap_or_else(PoisonError::into_inner);
        let mut written = 0;
        while let Some(event) = undelivered.front() {
            let Some(space) = buffer.get_mut(written..).and_then(|free| free.get_mut(..event.len())) else {
                break;
            };
            space.copy_from_slice(event);
            written = written.saturating_add(event.len());
            undelivered.pop_front();
        }
        written
    }

    fn encode_events(&self) {
        let mut events = Vec::new();
        self.host.drain(&mut events);
        let mut state = self.state();
        let mut undelivered = self.undelivered.lock().unwrap_or_else(PoisonError::into_inner);
        for event in events {
            match event {
                Event::Lost {
                    lease,
                    reason,
                    is_forgotten,
                } => {
                    // A closed client needs no `Lease` to answer calls about the lease.
                    if reason == LostReason::Closed {
                        state.leases.remove(&lease);
                    }
                    undelivered.push_back(wire::lost(lease, reason, is_forgotten));
                }
                Event::Observed(line) => undelivered.push_back(wire::observed(&line)),
                Event::Completed { request, result } => match state.requests.remove(&request) {
                    Some(tag) => {
                        if matches!(result, Ok(Completion::Closed)) {
                            // After this event, the JVM drops the client and answers releases
                            // itself, by these outcomes.
                            let outcomes = self.host.close_outcomes().into_iter().map(Completion::Released);
                            undelivered.extend(outcomes.map(|outcome| wire::completed(NO_REQUEST, &Ok(outcome))));
                        }
                        undelivered.push_back(state.completed(tag, &result));
                    }
                    None => self.release_unclaimed(result),
                },
            }
        }
    }

    /// If the result is a grant, releases its lease: the caller cancelled the request while the
    /// grant was queued.
    fn release_unclaimed(&self, result: Result<Completion, Error>) {
        if let Ok(Completion::Granted(lease)) = result {
            self.host.submit(Op::EndRun {
                lease: lease.id(),
                end: RunEnd::Unused,
                at_least_ms: None,
            });
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn completed(&mut self, tag: u64, result: &Result<Completion, Error>) -> Vec<u8> {
        match result {
            Ok(Completion::Granted(lease)) => {
                self.leases.insert(lease.id(), Arc::clone(lease));
            }
            Ok(Completion::Released(released)) => {
                let lease = self.leases.get(&released.lease);
                if lease.is_some_and(|lease| lease.lost_reason().is_none()) {
                    self.leases.remove(&released.lease);
                }
            }
            _ => {}
        }
        wire::completed(tag, result)
    }
}

/// Wakes the one thread that fetches events.
#[derive(Default)]
struct WakeSignal {
    /// The flags that are set. A wait that returns [`HAS_EVENTS`] clears it; [`STOPPED`] stays.
    flags: Mutex<u8>,
    changed: Condvar,
}

const HAS_EVENTS: u8 = 1;
const STOPPED: u8 = 2;

enum WakeReason {
    Events,
    Timeout,
    Stopped,
}

impl WakeSignal {
    /// Adds a flag, and wakes the thread.
    fn set(&self, flag: u8) {
        let mut flags = self.flags.lock().unwrap_or_else(PoisonError::into_inner);
        *flags |= flag;
        drop(flags);
        self.changed.notify_one();
    }

    fn wait(&self, deadline: Option<Instant>) -> WakeReason {
        let mut flags = self.flags.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if *flags & STOPPED != 0 {
                return WakeReason::Stopped;
            }
            if *flags & HAS_EVENTS != 0 {
                *flags = 0;
                return WakeReason::Events;
            }
            let left = match deadline {
                Some(deadline) => deadline.saturating_duration_since(Instant::now()),
                None => Duration::MAX,
            };
            if left.is_zero() {
                return WakeReason::Timeout;
            }
            flags = self
                .changed
                .wait_timeout(flags, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }
}

fn clients_mut() -> RwLockWriteGuard<'static, Clients> {
    CLIENTS.write().unwrap_or_else(PoisonError::into_inner)
}

type Clients = BTreeMap<u64, Arc<Client>>;

static NEXT_HANDLE: AtomicU64 = AtomicU64::new(1);
static CLIENTS: RwLock<Clients> = RwLock::new(BTreeMap::new());
