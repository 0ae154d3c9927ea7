//! Waits that would wait for their own caller, which are refused at once.
//!
//! Who holds a lock is let in again, but not all kinds are reentrant: a mutex is not, nor
//! are permits beyond the limit, a write inside a read, or a RedLock. Who waits for one
//! that the same thread or task has would wait until its patience ends, or for ever.
//!
//! A composite lock belongs to the thread or task that has it, and its members are given
//! back with it. So a wait for a composite lock is refused if the caller has one of its
//! members that cannot be entered again, and a wait for one lock if the caller has that as
//! a member. A plain mutex or semaphore is given back by whoever has its lease, perhaps
//! another thread, and so the wait for one may end: it is not refused. Nor is a caller
//! that does not wait, or that has no context; it is told what the server says.

use crate::defects::Defect;
use crate::error::{Error, ErrorKind, Operation};
use crate::hold::Hold;
use crate::instant::Instant;
use crate::kinds::{Gate, Keys, Kind};
use crate::session::{AcquireRequest, NodeId, Session};

impl Session {
    /// Why a wait for all of these locks could not be ended by anybody else.
    pub(crate) fn waits_for_itself(&self, requests: &[AcquireRequest], now: Instant) -> Option<Error> {
        let both_sides = requests.iter().find(|one| {
            let is_read = |other: &AcquireRequest| other.kind == Kind::Read && other.name == one.name;
            one.kind == Kind::Write && requests.iter().any(is_read)
        });
        if let Some(request) = both_sides {
            return Some(refusal(
                request,
                "both sides of one read-write lock are wanted together, and would wait for each other; name one",
            ));
        }
        if self.has(Defect::CompositeWaitsForItself) {
            return None;
        }
        let mut waiting = requests.iter().filter(|request| is_waiting(request));
        waiting.find_map(|request| self.waits_for_own(request, |_| true, now))
    }

    /// Why a wait for this lock could not be ended by anybody else: the caller has it as a
    /// member of several.
    pub(crate) fn waits_inside_several(&self, request: &AcquireRequest, now: Instant) -> Option<Error> {
        if !is_waiting(request) || request.within.is_some() || self.has(Defect::CompositeWaitsForItself) {
            return None;
        }
        let is_member = |hold: &Hold| hold.levels.iter().any(|lease| self.composites.whole(*lease).is_some());
        self.waits_for_own(request, is_member, now)
    }

    /// The same of a lock of a majority.
    pub(crate) fn votes_for_itself(&self, request: &AcquireRequest, now: Instant) -> Option<Error> {
        let context = request.context.filter(|_| is_waiting(request))?;
        let mut own = self.votes_of(&request.name, context);
        let is_held = |vote: &crate::vote::Vote| vote.lost.is_none() && now < vote.deadline;
        let has_it = own.any(|lease| self.composites.votes.held.get(&lease).is_some_and(is_held));
        (has_it && !self.has(Defect::CompositeWaitsForItself)).then(|| {
            refusal(
                request,
                "a RedLock is not reentrant; the calling thread or task holds it and would wait for itself; release \
                 it first",
            )
        })
    }

    /// Why the caller would wait for itself: it has the lock, as one of `these` holds, and is
    /// not let in again.
    fn waits_for_own(&self, request: &AcquireRequest, these: impl Fn(&Hold) -> bool, now: Instant) -> Option<Error> {
        let context = request.context?;
        let keys = Keys::new(request.kind, &request.name, NodeId::default());
        let own_at = |gate| {
            let queue = self.queues.find_at(&keys, gate);
            let holds = queue.map_or(&[][..], |queue| self.reentrancy.all(queue, context));
            let holds = holds.iter().filter_map(|hold| self.holds.get(hold));
            holds.filter(|hold| hold.is_valid(now))
        };
        let holds_at = |gate| own_at(gate).filter(|hold| these(hold));
        let message = match request.kind {
            Kind::Mutex => holds_at(Gate::Mutex).next().map(|_| {
                "the calling thread or task holds it, and a mutex is not reentrant: it would wait for itself; release \
                 it first"
            }),
            Kind::Semaphore(permits) => {
                let own = holds_at(Gate::Semaphore).map(|hold| match hold.keys.kind {
                    Kind::Semaphore(permits) => permits.wanted(),
                    _ => 0,
                });
                let own = own.fold(0_u32, u32::saturating_add);
                (own > 0 && own.saturating_add(permits.wanted()) > permits.limit()).then_some(
                    "the calling thread or task holds so many permits that it would wait for itself; release some first",
                )
            }
            // Who writes is let in again, whatever else it has.
            Kind::Write if own_at(Gate::Write).next().is_none() => holds_at(Gate::Read).next().map(
                |_| "it is held for reading here, and waiting to write would wait for itself; release the read first",
            ),
            Kind::Lock | Kind::Fair | Kind::Read | Kind::Write => None,
        };
        message.map(|message| refusal(request, message))
    }
}

fn is_waiting(request: &AcquireRequest) -> bool {
    request.wait.is_none_or(|wait| !wait.is_zero())
}

fn refusal(request: &AcquireRequest, message: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, Operation::Acquire, message).with_lock(request.name.as_str())
}
