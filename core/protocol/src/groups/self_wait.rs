//! Waits that no other caller could end, because a caller would wait for itself or for tasks that it blocks. Such waits
//! are refused at once.
//!
//! A holder can re-enter a lock only if its kind is reentrant. A mutex and a RedLock are not reentrant, a reader cannot
//! become the writer, and a holder of permits can acquire more only up to the limit. If a thread or task holds such a
//! lock and waits for it, its wait ends only at the wait limit, or never.
//!
//! A composite lock belongs to the thread or task that acquired it, and its members are released only with it. Two
//! kinds of waits are therefore refused: a wait for a composite lock, if the caller holds a member that it cannot
//! re-enter; and a wait for a single lock that the caller holds as a member and cannot re-enter.
//!
//! A wait without a bound for a single mutex that the caller holds is refused too. With a bound, the wait for such a
//! mutex is not refused: another thread that has the lease may release it, and otherwise the wait ends by itself. A
//! wait for permits of a single semaphore is not refused, with or without a bound: several callers of one thread may
//! hold permits, and another one may release its own. A single attempt is not refused for these reasons, and neither is
//! a request that names no thread or task (its `context`).
//!
//! A call that blocks a thread also stops the other tasks of the event loop in this thread. The caller names these
//! tasks (`blocked`), and a wait for a lock that they hold is refused, because no other caller would end it. Two calls
//! cannot block one thread at the same time, so two blocking calls of one thread never wait for each other.

use super::members::Members;
use crate::error::{Error, ErrorKind, Operation};
use crate::ids::{Context, NodeId};
use crate::instant::Instant;
use crate::kinds::{Again, Gate, Inside, Keys, Kind, Permits};
use crate::machines::holds::Hold;
use crate::types::AcquireRequest;

impl Members<'_> {
    /// Returns the error of a request for one lock, if no other caller could end its wait.
    pub(crate) fn self_wait_error(&self, request: &AcquireRequest, now: Instant) -> Option<Error> {
        self.member_wait_error(request, now)
            .or_else(|| self.endless_mutex_wait_error(request, now))
            .or_else(|| self.blocked_holder_error(request, now))
    }

    /// Returns the error of requests for several locks as one, if no other caller could end their wait. Requests for
    /// both sides of one read-write lock are refused in any case.
    pub(crate) fn joint_self_wait_error(&self, requests: &[AcquireRequest], now: Instant) -> Option<Error> {
        let both_sides = requests.iter().find(|one| {
            let spec = one.kind.spec();
            let is_refused = |gate| matches!(spec.inside(gate), Some(Inside::Refused(_)));
            let mut same = requests.iter().filter(|other| other.name == one.name);
            same.any(|other| is_refused(other.kind.gate()))
        });
        if let Some(request) = both_sides {
            return Some(refusal(
                request,
                "both sides of one read-write lock are wanted together, and would wait for each other; name one",
            ));
        }
        let mut waiting = requests.iter().filter(|request| is_waiting(request));
        waiting.find_map(|request| {
            self.own_hold_error(request, |_| true, now)
                .or_else(|| self.blocked_holder_error(request, now))
        })
    }

    /// Returns an error if the caller waits for a lock that it holds as a member of a composite lock.
    fn member_wait_error(&self, request: &AcquireRequest, now: Instant) -> Option<Error> {
        if !is_waiting(request) || request.within.is_some() {
            return None;
        }
        let is_member = |hold: &Hold| hold.levels().iter().any(|lease| self.composite(*lease).is_some());
        self.own_hold_error(request, is_member, now)
    }

    /// Returns an error if the caller waits without a bound and the wait would last forever: the caller holds the lock
    /// itself, and the lock is not reentrant and has one holder at a time.
    fn endless_mutex_wait_error(&self, request: &AcquireRequest, now: Instant) -> Option<Error> {
        let is_endless = request.wait.is_none() && request.within.is_none();
        if !is_endless || request.kind.refusal_of_endless().is_none() {
            return None;
        }
        self.own_hold_error(request, |_| true, now)
    }

    /// Returns an error if the caller waits for a lock whose holders the wait would block.
    fn blocked_holder_error(&self, request: &AcquireRequest, now: Instant) -> Option<Error> {
        if request.blocked.is_empty() || !is_waiting(request) || request.within.is_some() {
            return None;
        }
        let keys = &Keys::new(request.kind, &request.name, NodeId::default());
        let held_by = |context: Context| {
            let gates = request.kind.spec().excludes.iter();
            gates.flat_map(move |gate| self.valid_holds(keys, *gate, context, now))
        };
        let blocked = request.blocked.iter().copied();
        let stops_it = blocked.clone().any(|context| held_by(context).next().is_some())
            && leave_too_little(request.kind, blocked.chain(request.context).flat_map(held_by));
        stops_it.then(|| refusal(request, BLOCKED))
    }

    /// Returns an error if the caller waits for itself: it holds the lock and cannot re-enter it. Only the holds that
    /// `these` accepts count.
    fn own_hold_error(&self, request: &AcquireRequest, these: impl Fn(&Hold) -> bool, now: Instant) -> Option<Error> {
        let context = request.context?;
        let spec = request.kind.spec();
        if let (Again::Enters, None | Some((_, Inside::LetIn))) = (spec.again, spec.inside) {
            return None;
        }
        let keys = Keys::new(request.kind, &request.name, NodeId::default());
        let own_at = |gate| self.valid_holds(&keys, gate, context, now);
        let holds_at = |gate| own_at(gate).filter(|hold| these(hold));
        let message = match (spec.again, spec.inside) {
            (Again::Waits(why), _) => leave_too_little(request.kind, holds_at(spec.gate)).then_some(why),
            // A writer can re-enter the write lock, even if it also reads.
            (Again::Enters, Some((other, Inside::Refused(why)))) if own_at(spec.gate).next().is_none() => {
                holds_at(other).next().map(|_| why)
            }
            (Again::Enters, _) => None,
        };
        message.map(|message| refusal(request, message))
    }

    /// Returns the valid holds of a thread or task on a lock. Only holds by kinds with this gate count.
    fn valid_holds(&self, keys: &Keys, gate: Gate, context: Context, now: Instant) -> impl Iterator<Item = &Hold> {
        let holds = self.locks().holds_at(keys, gate, context);
        holds.filter(move |hold| hold.is_valid(now))
    }
}

pub(super) const BLOCKED: &str = "it is held by another task of the calling thread, which could not go on to release it while \
    this wait blocks the thread; in an event loop use the client made for one (in Python, steadlock.aio)";

/// Whether these holds leave too little of a lock for a request of the kind `wanted`. Holds of permits may leave
/// enough; any other hold leaves nothing.
fn leave_too_little<'a>(wanted: Kind, mut holds: impl Iterator<Item = &'a Hold>) -> bool {
    let Some(permits) = wanted.permits() else {
        return holds.next().is_some();
    };
    let held = holds.filter_map(|hold| hold.keys().kind.permits()).map(Permits::wanted);
    let held = held.fold(0_u32, u32::saturating_add);
    held > 0 && held.saturating_add(permits.wanted()) > permits.limit()
}

pub(super) fn is_waiting(request: &AcquireRequest) -> bool {
    request.wait.is_none_or(|wait| !wait.is_zero())
}

pub(super) fn refusal(request: &AcquireRequest, message: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, Operation::Acquire, message).with_lock(request.name.as_str())
}
