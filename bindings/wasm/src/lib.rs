//! Steadlock as WebAssembly: converts types, and nothing else.
//!
//! Every rule, default and check is in `steadlock::host`; every promise, signal and class that users see is in
//! `packages/javascript`, and the timers and the program's Redis client are in `packages/web`, which turns the engine.
//! What crosses between them is what crosses for Node, and what is to be sent and was seen.

#![cfg(target_family = "wasm")]
#![allow(unreachable_pub, reason = "the macro exports what is `pub`")]
#![warn(clippy::too_many_lines)]

mod client;
mod failure;
mod given;
mod object;
mod observation;
mod options;
mod transmit;
mod vocabulary;
