//! One client.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use steadlock::host::{Completion, Error, Event, Holder, Host, Lease, Line, LostReason, Op};

use crate::rows::{self, WIDTH};

/// One client. Everything in it belongs to the thread of its JavaScript. Numbers are JavaScript's: ids of requests and
/// leases are below 2^53.
pub struct Client {
    host: Host,
    /// Taken from the host, and not yet put into rows.
    events: RefCell<VecDeque<Event>>,
    /// The errors of rows, until JavaScript takes them.
    failures: RefCell<VecDeque<Error>>,
    /// The holders of rows, until JavaScript takes them.
    holders: RefCell<VecDeque<Holder>>,
    /// What was observed, until JavaScript takes it.
    lines: RefCell<VecDeque<Box<Line>>>,
    /// Leases that JavaScript may ask about: granted and not released. Those that were lost stay
    /// until JavaScript has forgotten them, as the engine answers by them.
    leases: RefCell<HashMap<u64, Arc<Lease>>>,
    /// Leases whose release is under way, by its request.
    releasing: RefCell<HashMap<u64, Arc<Lease>>>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.host.fmt(f)
    }
}

impl Client {
    /// The client of a host.
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

    /// Its host.
    #[must_use]
    pub const fn host(&self) -> &Host {
        &self.host
    }

    /// Starts an operation; returns the request's number.
    #[must_use]
    pub fn submit(&self, op: Op) -> f64 {
        self.host.submit(op) as f64
    }

    /// Releases a lease; returns the request's number. The lease counts as released at once.
    #[must_use]
    pub fn release(&self, lease: f64) -> f64 {
        let lease = lease as u64;
        let request = self.host.submit(Op::Release { lease });
        if let Some(held) = self.leases.borrow_mut().remove(&lease) {
            self.releasing.borrow_mut().insert(request, held);
        }
        request as f64
    }

    /// JavaScript has nothing any more of a lease that was lost.
    pub fn forget(&self, lease: f64) {
        self.leases.borrow_mut().remove(&(lease as u64));
    }

    /// What is left of a lease in milliseconds, to the microsecond; 0 if it is not held.
    #[must_use]
    pub fn remaining_ms(&self, lease: f64) -> f64 {
        self.lease(lease, 0.0, |lease| lease.remaining().as_micros() as f64 / 1e3)
    }

    /// Whether a lease is held, by the clock of now.
    #[must_use]
    pub fn is_valid(&self, lease: f64) -> bool {
        self.lease(lease, false, Lease::is_valid)
    }

    /// The index of the reason for which a lease is lost; −1 if it is not.
    #[must_use]
    pub fn lost_reason(&self, lease: f64) -> f64 {
        self.lease(lease, -1.0, |lease| {
            lease.lost_reason().map_or(-1.0, rows::reason_index)
        })
    }

    /// Puts queued events into `buffer` as rows, and returns how many. A full
    /// buffer may leave some: drain again.
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

    /// The error of the next refused or failed row.
    #[must_use]
    pub fn next_failure(&self) -> Option<Error> {
        self.failures.borrow_mut().pop_front()
    }

    /// Who holds the lock of the next row that says it is held.
    #[must_use]
    pub fn next_holder(&self) -> Option<Holder> {
        self.holders.borrow_mut().pop_front()
    }

    /// What the next row says that something was observed.
    #[must_use]
    pub fn next_observation(&self) -> Option<Box<Line>> {
        self.lines.borrow_mut().pop_front()
    }

    /// Keeps what a row has no room for.
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

/// Whether a lease that was lost so, or was not, is asked about later. A closed client answers all the same.
fn is_remembered(lost: Option<LostReason>) -> bool {
    lost.is_some_and(|reason| reason != LostReason::Closed)
}
