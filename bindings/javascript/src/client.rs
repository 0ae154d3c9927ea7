//! A client, as JavaScript sees it.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use steadlock::host::{Completion, Error, Event, Holder, Host, Lease, Line, LostReason, Op};

use crate::rows::{self, WIDTH};

/// A client. Only the thread of its JavaScript uses it. Ids are numbers of JavaScript: the ids of requests and leases
/// are below 2^53.
pub struct Client {
    host: Host,
    /// Events that were taken from the host and are not in rows yet.
    events: RefCell<VecDeque<Event>>,
    /// The errors of rows, until JavaScript takes them.
    failures: RefCell<VecDeque<Error>>,
    /// The holders of rows, until JavaScript takes them.
    holders: RefCell<VecDeque<Holder>>,
    /// The observations of rows, until JavaScript takes them.
    lines: RefCell<VecDeque<Box<Line>>>,
    /// The leases about which JavaScript can ask: granted and not released. Lost leases stay until JavaScript forgets
    /// them, because it can still ask why they were lost.
    leases: RefCell<HashMap<u64, Arc<Lease>>>,
    /// The leases whose release has not been answered, by the number of the request.
    releasing: RefCell<HashMap<u64, Arc<Lease>>>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.host.fmt(f)
    }
}

impl Client {
    /// Makes the client of a host.
    #[must_use]
    pub fn new(host: Host) -> Self {
        Self {
            host,
            events: RefCell::default(),
            failures: RefCell::default(),
            holders: RefCell::default(),
            lines: RefCell::default(),
            leases: RefCell::default(),
            releasing: RefCell::default(),
        }
    }

    /// Returns the host of the client.
    #[must_use]
    pub const fn host(&self) -> &Host {
        &self.host
    }

    /// Starts an operation. Returns the request number.
    #[must_use]
    pub fn submit(&self, op: Op) -> f64 {
        self.host.submit(op) as f64
    }

    /// Releases a lease. Returns the request number. The lease counts as released at once.
    #[must_use]
    pub fn release(&self, lease: f64) -> f64 {
        let lease = lease as u64;
        let request = self.host.submit(Op::Release { lease });
        if let Some(held) = self.leases.borrow_mut().remove(&lease) {
            self.releasing.borrow_mut().insert(request, held);
        }
        request as f64
    }

    /// Forgets a lost lease, because JavaScript has no object of it any more.
    pub fn forget(&self, lease: f64) {
        self.leases.borrow_mut().remove(&(lease as u64));
    }

    /// Returns the time that is left of a lease, in milliseconds with microseconds as the fraction; 0 if the lease is
    /// not held.
    #[must_use]
    pub fn remaining_ms(&self, lease: f64) -> f64 {
        self.lease(lease, 0.0, |lease| lease.remaining().as_micros() as f64 / 1e3)
    }

    /// Whether a lease is valid at this moment.
    #[must_use]
    pub fn is_valid(&self, lease: f64) -> bool {
        self.lease(lease, false, Lease::is_valid)
    }

    /// Returns the index of the reason for the loss of a lease; −1 if it is not lost.
    #[must_use]
    pub fn lost_reason(&self, lease: f64) -> f64 {
        self.lease(lease, -1.0, |lease| {
            lease.lost_reason().map_or(-1.0, rows::reason_index)
        })
    }

    /// Writes queued events into `buffer` as rows, and returns their number. If the buffer is full, more events can be
    /// left: drain again.
    #[must_use]
    pub fn drain(&self, buffer: &mut [f64]) -> u32 {
        let mut events = self.events.borrow_mut();
        if events.is_empty() {
            let mut fresh = Vec::from(std::mem::take(&mut *events));
            self.host.drain(&mut fresh);
            *events = fresh.into();
        }
        let mut count = 0;
        for slot in buffer.chunks_exact_mut(WIDTH) {
            let Some(event) = events.pop_front() else { break };
            slot.copy_from_slice(&rows::row(&event));
            self.keep(event);
            count += 1;
        }
        count
    }

    /// Returns the error of the next refused or failed row.
    #[must_use]
    pub fn next_failure(&self) -> Option<Error> {
        self.failures.borrow_mut().pop_front()
    }

    /// Returns the holder for the next state row of a held lock.
    #[must_use]
    pub fn next_holder(&self) -> Option<Holder> {
        self.holders.borrow_mut().pop_front()
    }

    /// Returns the observation of the next observed row.
    #[must_use]
    pub fn next_observation(&self) -> Option<Box<Line>> {
        self.lines.borrow_mut().pop_front()
    }

    /// Keeps the parts of an event that do not fit into a row of numbers.
    fn keep(&self, event: Event) {
        if let Event::Completed { request, .. } = &event {
            let released = self.releasing.borrow_mut().remove(request);
            if let Some(lost) = released.filter(|lease| is_remembered(lease.lost_reason())) {
                self.leases.borrow_mut().insert(lost.id(), lost);
            }
        }
        match event {
            Event::Completed {
                result: Ok(Completion::Granted(lease)),
                ..
            } => {
                self.leases.borrow_mut().insert(lease.id(), lease);
            }
            Event::Completed {
                result: Ok(Completion::NotGranted(error)) | Err(error),
                ..
            } => {
                self.failures.borrow_mut().push_back(error);
            }
            Event::Completed {
                result: Ok(Completion::State(state)),
                ..
            } => {
                self.holders.borrow_mut().extend(state.holder);
            }
            Event::Lost { lease, reason, .. } if !is_remembered(Some(reason)) => {
                self.leases.borrow_mut().remove(&lease);
            }
            Event::Lost { .. } => {}
            Event::Observed(line) => self.lines.borrow_mut().push_back(line),
            Event::Completed { .. } => {}
        }
    }

    fn lease<T>(&self, id: f64, absent: T, read: impl FnOnce(&Lease) -> T) -> T {
        match self.leases.borrow().get(&(id as u64)) {
            Some(lease) => read(lease),
            None => absent,
        }
    }
}

/// Whether a lease must stay known after its end, for later questions of JavaScript. Only a lost lease must, and only
/// before a close, because a closed client answers without it.
fn is_remembered(lost: Option<LostReason>) -> bool {
    lost.is_some_and(|reason| reason != LostReason::Closed)
}
