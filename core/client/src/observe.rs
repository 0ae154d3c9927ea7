//! What a client tells those who watch it, as plain data: for metrics, traces and logs.
//!
//! ```text
//!   engine ─┬─ Observation ──┬─► each Observer
//!           │                └─► Journal, which keeps storms short ── Line ──► a log
//!           └─ counts ─────────► Metrics, for Prometheus
//! ```
//!
//! Nothing is computed while nobody watches.

mod fields;
#[cfg(all(feature = "tracing", feature = "native"))]
mod hold;
mod journal;
mod log_level;
pub(crate) mod metrics;
mod observation;
#[cfg(feature = "tracing")]
mod tracing;
mod words;

use std::sync::Arc;

pub use steadlock_protocol::{Attempted, Detail};

pub use self::fields::Field;
#[cfg(all(feature = "tracing", feature = "native"))]
pub(crate) use self::hold::{Hold, end};
pub(crate) use self::journal::Journal;
pub use self::journal::Line;
pub(crate) use self::log_level::LogLevel;
pub use self::metrics::GroupBy;
pub use self::observation::{Level, Link, Observation, ObservedLock, WaitOutcome};
#[cfg(feature = "tracing")]
pub use self::tracing::Tracing;

use crate::unwind::{caught, quietly};

/// Somebody who watches a client.
///
/// It is called on the thread that drives the engine, which keeps the locks: it must not block, and should hand on what
/// takes long. It may drop leases and clients, and start a future; a call of [`blocking`](crate::blocking) is refused
/// there as `InvalidArgument`. One that panics is not called again.
pub trait Observer: Send + Sync {
    /// Something happened.
    fn observe(&self, observation: &Observation);

    /// How much it wants to be told, which is asked once, when the client is made. What nobody wants is not computed.
    fn detail(&self) -> Detail {
        Detail::Everything
    }
}

/// Those who watch one client.
#[derive(Clone, Default)]
pub(crate) struct Observers {
    all: Vec<Arc<dyn Observer>>,
    detail: Detail,
}

impl Observers {
    /// Asks each how much it wants, and leaves out one that panics.
    pub(crate) fn new(mut all: Vec<Arc<dyn Observer>>) -> Self {
        let mut most = Detail::default();
        all.retain(|observer| {
            let wanted = caught(|| observer.detail());
            most = most.max(wanted.unwrap_or_default());
            wanted.is_some()
        });
        Self { all, detail: most }
    }

    /// The most that any of them wants.
    pub(crate) const fn detail(&self) -> Detail {
        self.detail
    }

    /// A defect of one of them must not end the engine, which keeps the locks.
    pub(crate) fn tell(&mut self, observation: &Observation) {
        self.all.retain(|observer| quietly(|| observer.observe(observation)));
    }
}
