//! The binding for WebAssembly. It converts types and does nothing else.
//!
//! Every rule, default and check is in `steadlock::host`; every promise, signal and class that users see is in
//! `packages/javascript`. `packages/web` has the timers and the program's Redis client, and runs the turns of the
//! engine. The same data crosses the border as for Node, and in addition the items to send and the events of the
//! servers.

#![cfg(target_family = "wasm")]
#![allow(unreachable_pub, reason = "the macro exports what is `pub`")]
#![warn(clippy::too_many_lines)]

mod client;
mod environment;
mod failure;
mod lock_ref;
mod object;
mod observation;
mod options;
mod transmit;
mod vocabulary;
