//! The events of a client as plain data, for metrics, traces and logs.
//!
//! ```text
//!   engine ─┬─ Observation ──┬─► each Observer
//!           │                └─► Journal, which limits repeats ── Line ──► a log
//!           └─ counts ─────────► Metrics, for Prometheus
//! ```
//!
//! For a call, the client computes only what an observer, the log or the metrics need.

mod fields;
#[cfg(all(feature = "tracing", feature = "native"))]
mod hold_span;
mod journal;
mod log_level;
pub(crate) mod metrics;
mod observation;
mod sentences;
#[cfg(feature = "tracing")]
mod tracing;

use std::sync::Arc;

pub use steadlock_protocol::{Attempted, Detail};

pub use self::fields::Field;
#[cfg(all(feature = "tracing", feature = "native"))]
pub(crate) use self::hold_span::{HoldSpan, end_span};
pub(crate) use self::journal::Journal;
pub use self::journal::Line;
pub(crate) use self::log_level::LogLevel;
pub use self::metrics::GroupBy;
pub use self::observation::{Level, Link, Observation, ObservedLock, WaitOutcome};
#[cfg(feature = "tracing")]
pub use self::tracing::Tracing;

use crate::unwind::{catch, catch_panic};

/// An observer of one client's events.
///
/// The client calls it on the thread that drives the engine. An observer must not block there, because no lease is
/// renewed meanwhile; it should hand over slow work to another thread. It can drop leases and clients, and start a
/// future. A call of [`blocking`](crate::blocking) that would have to wait fails there as `InvalidArgument`. An
/// observer that panics is not called again.
pub trait Observer: Send + Sync {
    /// Receives an event.
    fn observe(&self, observation: &Observation);

    /// Returns how much detail the observer wants. The client asks once, when it is made, and reports at least the
    /// highest detail that any of its observers wants.
    fn detail(&self) -> Detail {
        Detail::Everything
    }
}

/// The observers of one client.
#[derive(Clone, Default)]
pub(crate) struct Observers {
    all: Vec<Arc<dyn Observer>>,
    detail: Detail,
}

impl Observers {
    /// Asks each observer for the detail that it wants, and leaves out an observer that panics.
    pub(crate) fn new(mut all: Vec<Arc<dyn Observer>>) -> Self {
        let mut highest = Detail::default();
        all.retain(|observer| {
            let detail = catch(|| observer.detail());
            highest = highest.max(detail.unwrap_or_default());
            detail.is_some()
        });
        Self { all, detail: highest }
    }

    /// Returns the highest detail that any observer wants.
    pub(crate) const fn detail(&self) -> Detail {
        self.detail
    }

    /// Reports an event to each observer, and drops an observer that panics. A defect of an observer must not end the
    /// engine, which keeps the locks.
    pub(crate) fn notify(&mut self, observation: &Observation) {
        self.all
            .retain(|observer| catch_panic(|| observer.observe(observation)));
    }
}
