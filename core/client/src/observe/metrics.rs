//! The counts of a client, as rows of plain data and as text for Prometheus.
//!
//! ```text
//!   engine ── Groups ── counts ──► Series of a kind and group ◄── reads ── Metrics ──► rows ──► text
//! ```
//!
//! Only the engine writes, so counting needs no mutex. A reader sees the counts of the moment at which it reads.

mod all;
mod families;
mod groups;
mod links;
mod queues;
mod rows;
mod series;
mod text;

pub(crate) use self::all::Metrics;
pub use self::families::Family;
pub use self::groups::GroupBy;
pub(crate) use self::groups::{Grouping, Groups, MAX_GROUPS};
pub(crate) use self::queues::MAX_QUEUES;
pub use self::rows::{Metric, Row, Times};
pub(crate) use self::series::{Outcome, Series};

#[cfg(test)]
mod tests;
