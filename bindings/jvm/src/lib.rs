//! The native part of the JVM library: converts types, and nothing else.
//!
//! It has two doors, because a call that uniffi generates costs several
//! microseconds on the JVM and a plain C function a fraction of one:
//!
//! - [`cold`]: what is called now and then, as uniffi functions.
//! - [`hot`]: what each lock and unlock needs, as C functions of numbers and
//!   byte arrays.
//!
//! Nothing here calls into the JVM. One Java thread per client blocks in
//! [`hot::steadlock_next`], which gives it a batch of events (`wire.rs`).

#![warn(clippy::too_many_lines)]

mod client;
pub mod cold;
pub mod hot;
mod wire;

uniffi::setup_scaffolding!();
