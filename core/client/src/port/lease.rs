//! The state of one lease, shared between its holder and the engine.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use steadlock_protocol::{Error, Instant, LostReason, Operation, ReleaseOutcome, Token, shown};
#[cfg(all(feature = "tracing", feature = "native"))]
use tracing::Span;

use super::Released;
use super::listeners::Listeners;
#[cfg(all(feature = "tracing", feature = "native"))]
use crate::observe::HoldSpan;
use crate::process::Process;
use crate::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use crate::world::World;

/// One lease. All methods are local and cheap, and no public method but `wait_lost` locks a mutex.
///
/// In a forked child the leases of the parent are not valid.
pub struct Lease {
    id: u64,
    name: Arc<str>,
    token: Option<Token>,
    /// Whether the lease excludes only other callers of this client.
    degraded: bool,
    /// The process that holds the lease.
    process: Process,
    /// The deadline in microseconds of the engine's clock.
    deadline: AtomicU64,
    status: AtomicU8,
    /// The tasks to wake when the status turns to lost.
    lost: Listeners,
    /// The source of the time.
    world: World,
    #[cfg(all(feature = "tracing", feature = "native"))]
    span: HoldSpan,
}

/// The loss of a lease.
#[derive(Clone, Copy)]
pub(crate) struct Loss {
    pub(crate) reason: LostReason,
    /// Whether the lease needs no release, because the engine has forgotten it.
    pub(crate) is_forgotten: bool,
}

const HELD: u8 = 0;
const RELEASED: u8 = 1;
/// The first code of a loss. The index of the reason in `LostReason::ALL` is added.
const LOST: u8 = 2;
/// Set in the code of a loss after which the engine has forgotten the lease.
const FORGOTTEN: u8 = 16;

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("id", &self.id)
            .field("name", &shown(&self.name))
            .field("token", &self.token)
            .field("degraded", &self.degraded)
            .field("lost_reason", &self.lost_reason())
            .finish_non_exhaustive()
    }
}

impl Lease {
    pub(crate) fn new(
        id: u64,
        process: Process,
        name: Arc<str>,
        token: Option<Token>,
        deadline: Instant,
        world: World,
    ) -> Self {
        Self {
            id,
            name,
            token,
            degraded: false,
            process,
            deadline: AtomicU64::new(deadline.as_micros()),
            status: AtomicU8::new(HELD),
            lost: Listeners::default(),
            world,
            #[cfg(all(feature = "tracing", feature = "native"))]
            span: HoldSpan::default(),
        }
    }

    /// Sets whether the client granted the lease without a server.
    pub(crate) const fn with_degraded(mut self, degraded: bool) -> Self {
        self.degraded = degraded;
        self
    }

    /// Whether the lease excludes only other callers of this client: its server was unavailable, and the client granted
    /// it alone ([`OnUnavailable::Local`](crate::host::OnUnavailable::Local)). Such a lease has no token. For a
    /// composite lock, whether this is so for any member.
    #[must_use]
    pub const fn is_degraded(&self) -> bool {
        self.degraded
    }

    /// Returns the lease's number, for `Release`, `Extend` and `within`.
    #[must_use]
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// Returns the lock's name without the client's `key_prefix`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the fencing token, below 2⁵³; `None` if none was drawn.
    #[must_use]
    pub fn token(&self) -> Option<u64> {
        self.token.map(Token::get)
    }

    /// Returns how much longer the holder can rely on the lease if it is not renewed. Returns zero if the lease is lost
    /// or released, past its deadline, or belongs to another process.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        if self.status.load(Ordering::Acquire) != HELD || self.is_inherited() {
            return Duration::ZERO;
        }
        Instant::from_micros(self.deadline.load(Ordering::Acquire)).saturating_since(self.world.now())
    }

    /// Whether the holder can rely on the lease now. Reads the clock, so the answer is right as soon as a stopped
    /// process or a sleeping machine continues.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// Returns the reason for the loss; `None` if the lease was not lost.
    #[must_use]
    pub fn lost_reason(&self) -> Option<LostReason> {
        let status = self.status.load(Ordering::Acquire) & !FORGOTTEN;
        let index = status.checked_sub(LOST)?;
        LostReason::ALL.get(usize::from(index)).copied()
    }

    /// Whether the lease was lost and needs no release, because the engine has forgotten it. The engine forgets a lost
    /// fixed lease, and each lease that is lost because the client was closed.
    #[must_use]
    pub fn is_forgotten(&self) -> bool {
        self.status.load(Ordering::Acquire) & FORGOTTEN != 0
    }

    /// Returns the result of a release with the outcome `answered`. For a lost lease that the session has forgotten,
    /// `answered` is a plain `Released`; the reason stored here then replaces it.
    pub(crate) fn released(&self, answered: ReleaseOutcome) -> Released {
        let lost = self.lost_reason();
        let outcome = match lost {
            Some(reason) if answered == ReleaseOutcome::Released => reason.outcome(),
            _ => answered,
        };
        #[cfg(all(feature = "tracing", feature = "native"))]
        self.span.released(outcome);
        Released::new(self.id, outcome, lost)
    }

    /// Returns the error of an operation on this lease, if the lease was lost. Used for a lease that the session has
    /// forgotten: the session's own error would say that the lease never existed.
    pub(crate) fn lost_error(&self, operation: Operation) -> Option<Error> {
        let reason = self.lost_reason()?;
        Some(Error::lost_and_forgotten(operation, Some(reason)).with_lock(self.name.as_ref()))
    }

    /// Whether a release of the lease was requested before any loss.
    #[must_use]
    pub fn is_released(&self) -> bool {
        self.status.load(Ordering::Acquire) == RELEASED
    }

    /// Whether the lease belongs to a parent from which this process was forked.
    pub(crate) fn is_inherited(&self) -> bool {
        !self.process.is_current()
    }

    /// Completes when the lease is lost; never if it is released first.
    pub async fn wait_lost(&self) -> LostReason {
        self.lost.until(|| self.lost_reason()).await
    }

    /// Sets the deadline after a renewal.
    pub(crate) fn renewed(&self, deadline: Instant) {
        self.deadline.store(deadline.as_micros(), Ordering::Release);
    }

    /// Marks the lease as lost. Returns whether it was held until now.
    pub(crate) fn mark_lost(&self, Loss { reason, is_forgotten }: Loss) -> bool {
        let code = LostReason::ALL
            .iter()
            .zip(LOST..)
            .find_map(|(known, code)| (*known == reason).then_some(code))
            .unwrap_or(LOST);
        let is_first = self.end_hold(code | if is_forgotten { FORGOTTEN } else { 0 });
        if is_first {
            #[cfg(all(feature = "tracing", feature = "native"))]
            self.span.lost(reason);
            self.lost.notify();
        }
        is_first
    }

    /// Attaches the span of the hold, which ends with the lease.
    #[cfg(all(feature = "tracing", feature = "native"))]
    pub(crate) fn attach_span(&self, span: Span) {
        self.span.begin(span);
        // If the lease was lost before this call, the span has to end here.
        if let Some(reason) = self.lost_reason() {
            self.span.lost(reason);
        }
    }

    /// Marks the lease as released, just before the engine releases it.
    pub(crate) fn mark_released(&self) {
        self.end_hold(RELEASED);
    }

    /// Changes the status from held. Lost and released are final: the first change wins.
    fn end_hold(&self, status: u8) -> bool {
        self.status
            .compare_exchange(HELD, status, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}

#[cfg(all(test, feature = "schedules"))]
mod schedules;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use crate::clock::tests::with_wall_clock;

    fn lease(deadline: Instant) -> Lease {
        Lease::new(1, Process::current(), "name".into(), None, deadline, World::default())
    }

    #[test]
    fn a_lease_is_valid_until_its_deadline() {
        assert!(lease(clock::now() + Duration::from_secs(10)).is_valid());
        assert!(!lease(clock::now()).is_valid());
    }

    #[test]
    fn a_lease_expires_in_a_pause_that_only_the_wall_clock_shows() {
        with_wall_clock(|wall| {
            let lease = lease(clock::now() + Duration::from_secs(30));
            wall.step(Duration::from_secs(12));
            assert!(lease.is_valid() && lease.remaining() <= Duration::from_secs(18));
            wall.step(Duration::from_secs(19));
            assert!(!lease.is_valid() && lease.remaining().is_zero());
        });
    }

    #[test]
    fn a_released_lease_is_never_lost() {
        let lease = lease(clock::now() + Duration::from_secs(10));
        lease.mark_released();
        lease.mark_lost(Loss {
            reason: LostReason::Stolen,
            is_forgotten: false,
        });
        assert_eq!(lease.lost_reason(), None);
        assert!(lease.is_released() && !lease.is_valid());
    }

    #[test]
    fn every_reason_is_read_as_it_was_stored() {
        for (reason, is_forgotten) in LostReason::ALL
            .into_iter()
            .flat_map(|lost| [(lost, false), (lost, true)])
        {
            let lease = lease(clock::now() + Duration::from_secs(10));
            lease.mark_lost(Loss { reason, is_forgotten });
            assert_eq!(lease.lost_reason(), Some(reason));
            assert_eq!(lease.is_forgotten(), is_forgotten);
            assert_eq!(lease.remaining(), Duration::ZERO);
            let released = lease.released(ReleaseOutcome::Released);
            assert_eq!(released.outcome, reason.outcome());
            assert_eq!(
                released.lost,
                Some(reason).filter(|reason| *reason != LostReason::Closed)
            );
            let reason_of_error = lease.lost_error(Operation::Extend).and_then(|error| error.reason());
            assert_eq!(reason_of_error, Some(reason));
        }
    }
}
