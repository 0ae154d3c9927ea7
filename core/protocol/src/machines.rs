//! The state machines of a client's locks. Each machine owns its state and takes inputs. By `Io` it sends calls, sets
//! timers, and adds steps: requests to other machines, and events for callers.

mod abandoned_owners;
#[cfg(test)]
mod bench;
pub(crate) mod channels;
#[cfg(test)]
mod check;
pub(crate) mod elections;
pub(crate) mod fair_queue;
mod grant_message;
pub(crate) mod holds;
pub(crate) mod inspections;
pub(crate) mod releases;
pub(crate) mod waiters;
