//! The native part of the JVM library: converts types, and nothing else.
//!
//! The JVM calls two kinds of functions, because a call that uniffi generates costs several
//! microseconds, and a call of a plain C function less than one:
//!
//! - [`cold`]: rare calls, as uniffi functions.
//! - [`hot`]: the calls that each lock and unlock needs, as C functions that take numbers and byte
//!   arrays.
//!
//! Nothing here calls into the JVM. One Java thread per client blocks in [`hot::steadlock_next`],
//! which returns a batch of events (`wire.rs`).

#![warn(clippy::too_many_lines)]

mod client;
pub mod cold;
pub mod hot;
mod wire;

uniffi::setup_scaffolding!();
