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

pub use steadlock_protocol::{Attempted, Detail};

pub use self::fields::Field;
#[cfg(all(feature = "tracing", feature = "native"))]
pub(crate) use self::hold::Hold;
pub(crate) use self::journal::Journal;
pub use self::journal::Line;
pub(crate) use self::log_level::LogLevel;
pub use self::metrics::GroupBy;
pub use self::observation::{Level, Link, Observation, ObservedLock, WaitOutcome};
#[cfg(feature = "tracing")]
pub use self::tracing::Tracing;

/// Somebody who watches a client.
///
/// It is called on the engine's thread, which keeps the locks: it must not block, nor call
/// the client, and should hand on what takes long. One that panics is not called again.
pub trait Observer: Send + Sync {
    /// Something happened.
    fn observe(&self, observation: &Observation);

    /// How much it wants to be told. What nobody wants is not computed.
    fn detail(&self) -> Detail {
        Detail::Everything
    }
}
