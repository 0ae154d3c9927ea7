//! The native part of the JVM library: converts types, and nothing else.
//!
//! The JVM calls two kinds of functions, because a call through uniffi, which generates the Kotlin
//! code, costs several microseconds, and a call of a plain C function less than one:
//!
//! - [`cold`]: rare calls, as uniffi functions.
//! - [`hot`]: frequent calls, as C functions that take numbers and byte arrays.
//!
//! Nothing here calls into the JVM. One Java thread per client blocks in [`hot::steadlock_next`],
//! which returns a batch of events (`wire.rs`).

#![warn(clippy::too_many_lines)]

mod client;
pub mod cold;
pub mod hot;
mod wire;

uniffi::setup_scaffolding!();
