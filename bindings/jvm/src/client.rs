//! One client: the host, and what the JVM must be told about it.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockWriteGuard};
use std::time::{Duration, Instant};

use leasehold::host::{Acquire, Completion, Error, Event, Host, Lease, Op, Options};

use crate::wire;

/// A client and the queue of events that one Java thread takes from it.
pub(crate) struct Client {
    pub(crate) host: Host,
    bell: Arc<Bell>,
    state: Mutex<State>,
    /// Translated events that did not fit into the caller's last buffer.
    undelivered: Mutex<VecDeque<Vec<u8>>>,
}

#[derive(Default)]
struct State {
    /// The host's number of a request to what the JVM knows it by.
    requests: HashMap<u64, Request>,
    /// Leases that the JVM may ask about, and the contexts that took them.
    leases: HashMap<u64, (Arc<Lease>, Option<u64>)>,
    /// Leases that a context took and that nobody gives back by number, newest
    /// last, so that the one which `release_innermost` gave back is found.
    by_context: HashMap<u64, Vec<Taken>>,
}

/// A lease, and the address by which it was taken.
struct Taken {
    lock: Arc<str>,
    lease: Arc<Lease>,
}

/// A lock's address and the context that wants or holds it.
type Owner = (Arc<str>, u64);

struct Request {
    /// The JVM's number.
    tag: u64,
    subject: Subject,
}

/// What a request is about, as far as its answer needs it.
enum Subject {
    Acquire(Option<Owner>),
    Release(u64),
    ReleaseInnermost(Owner),
    Other,
}

impl Client {
    /// Opens a client and gives its handle.
    pub(crate) fn open(options: Options) -> Result<u64, Error> {
        let bell = Arc::new(Bell::default());
        let ring = Arc::clone(&bell);
        let host = Host::open(options, Box::new(move || ring.ring(RUNG)))?;
        let mut requests = HashMap::new();
        requests.insert(
            Host::CONNECT,
            Request {
                tag: Host::CONNECT,
                subject: Subject::Other,
            },
        );
        let client = Self {
            host,
            bell,
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

    /// The client of a handle, if it was not dropped.
    pub(crate) fn get(handle: u64) -> Option<Arc<Self>> {
        let clients = CLIENTS.read().unwrap_or_else(PoisonError::into_inner);
        clients.get(&handle).cloned()
    }

    /// Forgets a handle; the thread that waits for its events is sent home.
    pub(crate) fn drop_handle(handle: u64) {
        let client = clients_mut().remove(&handle);
        if let Some(client) = client {
            client.bell.ring(STOPPED);
        }
    }

    /// Starts an acquisition; gives the number that cancels it.
    pub(crate) fn acquire(&self, tag: u64, acquire: Acquire) -> u64 {
        let owner = acquire
            .context
            .map(|context| (Arc::from(acquire.lock.address().as_str()), context));
        self.submit(tag, Op::Acquire(acquire), Subject::Acquire(owner))
    }

    /// Starts to give a lease back.
    pub(crate) fn release(&self, tag: u64, lease: u64) -> u64 {
        self.state().leave_context(lease);
        self.submit(tag, Op::Release { lease }, Subject::Release(lease))
    }

    /// Starts to give back the innermost lease of a context.
    pub(crate) fn release_innermost(&self, tag: u64, lock: String, context: u64) -> u64 {
        let owner = (Arc::from(lock.as_str()), context);
        self.submit(
            tag,
            Op::ReleaseInnermost {
                lock: lock.into(),
                context,
            },
            Subject::ReleaseInnermost(owner),
        )
    }

    /// Starts any other operation.
    pub(crate) fn other(&self, tag: u64, op: Op) -> u64 {
        self.submit(tag, op, Subject::Other)
    }

    /// The caller of a request went away.
    pub(crate) fn cancel(&self, request: u64) {
        self.state().requests.remove(&request);
        self.host.cancel(request);
    }

    /// How long a lease may be relied on; zero if the JVM gave it back.
    pub(crate) fn remaining(&self, lease: u64) -> Duration {
        let state = self.state();
        state
            .leases
            .get(&lease)
            .map_or(Duration::ZERO, |(lease, _)| lease.remaining())
    }

    /// Waits for events, `timeout` at the most, and writes as many as fit into
    /// `buffer`. Gives the bytes written, or `None` if the handle was dropped.
    pub(crate) fn next(&self, timeout: Duration, buffer: &mut [u8]) -> Option<usize> {
        let deadline = Instant::now().checked_add(timeout);
        loop {
            let written = self.deliver(buffer);
            if written > 0 {
                return Some(written);
            }
            match self.bell.wait(deadline) {
                Ringing::Stopped => return None,
                Ringing::Silent => return Some(0),
                Ringing::Rung => self.translate(),
            }
        }
    }

    /// Submits under the lock, so that no event is translated before its
    /// request is known.
    fn submit(&self, tag: u64, op: Op, subject: Subject) -> u64 {
        let mut state = self.state();
        let request = self.host.submit(op);
        state.requests.insert(request, Request { tag, subject });
        request
    }

    fn deliver(&self, buffer: &mut [u8]) -> usize {
        let mut undelivered = self.undelivered.lock().unwrap_or_else(PoisonError::into_inner);
        let mut written = 0;
        while let Some(event) = undelivered.front() {
            let Some(room) = buffer.get_mut(written..).and_then(|free| free.get_mut(..event.len())) else {
                break;
            };
            room.copy_from_slice(event);
            written = written.saturating_add(event.len());
            undelivered.pop_front();
        }
        written
    }

    fn translate(&self) {
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
                    if is_forgotten {
                        state.leave_context(lease);
                        state.leases.remove(&lease);
                    }
                    undelivered.push_back(wire::lost(lease, reason, is_forgotten));
                }
                Event::Observed(line) => undelivered.push_back(wire::observed(&line)),
                Event::Completed { request, result } => match state.requests.remove(&request) {
                    Some(request) => undelivered.push_back(state.completed(request, result)),
                    None => self.give_back(result),
                },
            }
        }
    }

    /// A grant whose caller went away after it was queued.
    fn give_back(&self, result: Result<Completion, Error>) {
        if let Ok(Completion::Granted(lease)) = result {
            self.host.submit(Op::Release { lease: lease.id() });
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn completed(&mut self, request: Request, result: Result<Completion, Error>) -> Vec<u8> {
        let mut released = None;
        match (&result, request.subject) {
            (Ok(Completion::Granted(lease)), Subject::Acquire(owner)) => {
                let context = owner.as_ref().map(|(_, context)| *context);
                self.leases.insert(lease.id(), (Arc::clone(lease), context));
                if let Some((lock, context)) = owner {
                    let lease = Arc::clone(lease);
                    self.by_context.entry(context).or_default().push(Taken { lock, lease });
                }
            }
            (_, Subject::Release(lease)) => {
                released = Some(lease);
                if result.is_ok() {
                    self.leases.remove(&lease);
                }
            }
            (Ok(_), Subject::ReleaseInnermost(owner)) => released = self.forget_innermost(&owner),
            _ => {}
        }
        wire::completed(request.tag, &result, released)
    }

    /// Forgets the lease that `release_innermost` gave back. It may have been
    /// taken by another address, as one lock can have several. The core has
    /// marked it; one that was lost before bears no such mark.
    fn forget_innermost(&mut self, (lock, context): &Owner) -> Option<u64> {
        let taken = self.by_context.get(context)?;
        let released = taken.iter().rev().find(|taken| taken.lease.is_released());
        let innermost = || taken.iter().rev().find(|taken| taken.lock == *lock);
        let lease = released.or_else(innermost)?.lease.id();
        self.leave_context(lease);
        self.leases.remove(&lease);
        Some(lease)
    }

    fn leave_context(&mut self, lease: u64) {
        let Some((_, Some(context))) = self.leases.get(&lease) else {
            return;
        };
        if let Some(taken) = self.by_context.get_mut(context) {
            if let Some(newest) = taken.iter().rposition(|taken| taken.lease.id() == lease) {
                taken.remove(newest);
            }
            if taken.is_empty() {
                self.by_context.remove(context);
            }
        }
    }
}

/// Wakes the one thread that takes events.
#[derive(Default)]
struct Bell {
    state: Mutex<u8>,
    changed: Condvar,
}

const RUNG: u8 = 1;
const STOPPED: u8 = 2;

enum Ringing {
    Rung,
    Silent,
    Stopped,
}

impl Bell {
    fn ring(&self, how: u8) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state |= how;
        drop(state);
        self.changed.notify_one();
    }

    fn wait(&self, deadline: Option<Instant>) -> Ringing {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if *state & STOPPED != 0 {
                return Ringing::Stopped;
            }
            if *state & RUNG != 0 {
                *state = 0;
                return Ringing::Rung;
            }
            let left = match deadline {
                Some(deadline) => deadline.saturating_duration_since(Instant::now()),
                None => Duration::MAX,
            };
            if left.is_zero() {
                return Ringing::Silent;
            }
            state = self
                .changed
                .wait_timeout(state, left)
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
