//! The state of one lease, shared between its holder and the engine.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use steadlock_protocol::{Error, Instant, LostReason, Operation, ReleaseOutcome, Token, shown};
#[cfg(all(feature = "tracing", feature = "native"))]
use tracing::Span;

use super::listeners::Listeners;
use super::released::Released;
#[cfg(all(feature = "tracing", feature = "native"))]
use crate::observe::Hold;
use crate::process::Process;
use crate::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use crate::world::World;

/// One lease. All methods are local and cheap, and all but `wait_lost` are lock-free.
///
/// In a forked child the leases of the parent are not valid.
pub struct Lease {
    id: u64,
    name: Arc<str>,
    token: Option<Token>,
    /// It excludes others of this client alone.
    degraded: bool,
    /// The process that holds it.
    process: Process,
    /// Microseconds of the engine's clock.
    deadline: AtomicU64,
    status: AtomicU8,
    /// Told when the status turns to lost.
    lost: Listeners,
    /// Whose time it is measured by.
    world: World,
    #[cfg(all(feature = "tracing", feature = "native"))]
    span: Hold,
}

const HELD: u8 = 0;
const RELEASED: u8 = 1;
/// Added to how it was lost.
const FORGOTTEN: u8 = 16;
/// Added to the place of the reason in `LostReason::ALL`.
const LOST: u8 = 2;

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
            span: Hold::default(),
        }
    }

    /// One that no server granted.
    pub(crate) const fn degraded(mut self, degraded: bool) -> Self {
        self.degraded = degraded;
        self
    }

    /// Whether it excludes others of this client alone, and nobody else: its server was
    /// unavailable, and it was granted without ([`OnUnavailable::Local`](crate::host::OnUnavailable::Local)). It
    /// has no token. Of several locks as one, whether any of them does.
    #[must_use]
    pub const fn is_degraded(&self) -> bool {
        self.degraded
    }

    /// Its number, for `Release`, `Extend` and `within`.
    #[must_use]
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// The lock's name, without the client's `key_prefix`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The fencing token, below 2⁵³; `None` if none was drawn.
    #[must_use]
    pub fn token(&self) -> Option<u64> {
        self.token.map(Token::get)
    }

    /// How long it may be relied on if nothing renews it. Zero when it is lost
    /// or released, past its deadline, or another process's.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        if self.status.load(Ordering::Acquire) != HELD || self.is_inherited() {
            return Duration::ZERO;
        }
        Instant::from_micros(self.deadline.load(Ordering::Acquire)).saturating_since(self.world.now())
    }

    /// Whether it may be relied on at this moment. Reads the clock, so that it
    /// is right at once after the process was stopped or the machine slept.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// Why it was lost; `None` if it was not.
    #[must_use]
    pub fn lost_reason(&self) -> Option<LostReason> {
        let status = self.status.load(Ordering::Acquire) & !FORGOTTEN;
        let place = status.checked_sub(LOST)?;
        LostReason::ALL.get(usize::from(place)).copied()
    }

    /// Whether it was lost and nobody need release it: the engine knows it no more.
    /// So it is with a fixed lease, and with all leases of a client that was closed.
    #[must_use]
    pub fn is_forgotten(&self) -> bool {
        self.status.load(Ordering::Acquire) & FORGOTTEN != 0
    }

    /// What its release came to, which the session answered so: that does not know any more
    /// how a lease was lost that it has forgotten.
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

    /// What an operation gets that relied on it, if it was lost and the session has it no more: to
    /// that it is like one that was never taken.
    pub(crate) fn lost_error(&self, operation: Operation) -> Option<Error> {
        let reason = self.lost_reason()?;
        Some(Error::lost_and_forgotten(operation, Some(reason)).with_lock(self.name.as_ref()))
    }

    /// Whether it was released before it was lost.
    #[must_use]
    pub fn is_released(&self) -> bool {
        self.status.load(Ordering::Acquire) == RELEASED
    }

    /// Whether another process took it, of which this one is a fork.
    pub(crate) fn is_inherited(&self) -> bool {
        !self.process.is_current()
    }

    /// Completes when the lease is lost; never if it is released first.
    pub async fn wait_lost(&self) -> LostReason {
        self.lost.until(|| self.lost_reason()).await
    }

    /// The engine learned that it lasts until `deadline`.
    pub(crate) fn renewed(&self, deadline: Instant) {
        self.deadline.store(deadline.as_micros(), Ordering::Release);
    }

    /// The engine learned that it is lost, and perhaps forgets it. Returns whether it was held until now.
    pub(crate) fn mark_lost(&self, reason: LostReason, is_forgotten: bool) -> bool {
        let code = LostReason::ALL
            .iter()
            .zip(LOST..)
            .find_map(|(known, code)| (*known == reason).then_some(code))
            .unwrap_or(LOST);
        let is_news = self.leave_held(code | if is_forgotten { FORGOTTEN } else { 0 });
        if is_news {
            #[cfg(all(feature = "tracing", feature = "native"))]
            self.span.lost(reason);
            self.lost.tell();
        }
        is_news
    }

    /// Gives the span of its hold, which ends with it.
    #[cfg(all(feature = "tracing", feature = "native"))]
    pub(crate) fn traced(&self, span: Span) {
        self.span.begin(span);
        // It may be lost already, and then nobody else ends it.
        if let Some(reason) = self.lost_reason() {
            self.span.lost(reason);
        }
    }

    /// The engine is about to release it.
    pub(crate) fn mark_released(&self) {
        self.leave_held(RELEASED);
    }

    /// Lost and released are final; the first of them stands.
    fn leave_held(&self, status: u8) -> bool {
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
    fn a_lease_ends_in_a_pause_that_only_the_wall_clock_knows_of() {
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
        lease.mark_lost(LostReason::Stolen, false);
        assert_eq!(lease.lost_reason(), None);
        assert!(lease.is_released() && !lease.is_valid());
    }

    #[test]
    fn every_reason_comes_back_as_it_went_in() {
        for (reason, is_forgotten) in LostReason::ALL
            .into_iter()
            .flat_map(|lost| [(lost, false), (lost, true)])
        {
            let lease = lease(clock::now() + Duration::from_secs(10));
            lease.mark_lost(reason, is_forgotten);
            assert_eq!(lease.lost_reason(), Some(reason));
            assert_eq!(lease.is_forgotten(), is_forgotten);
            assert_eq!(lease.remaining(), Duration::ZERO);
            let released = lease.released(ReleaseOutcome::Released);
            assert_eq!(released.outcome, reason.outcome());
            assert_eq!(
                released.lost,
                Some(reason).filter(|reason| *reason != LostReason::Closed)
            );
            let told = lease.lost_error(Operation::Extend).and_then(|error| error.reason());
            assert_eq!(told, Some(reason));
        }
    }
}
