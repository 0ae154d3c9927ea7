//! Steadlock for Node.js: converts types, and nothing else.
//!
//! Every rule, default and check is in `steadlock::host`; every promise, signal
//! and class that users see is in `packages/node/src`. What crosses between
//! them is flat: numbers in, and rows of numbers out (`steadlock_javascript`), so that a batch
//! of completions costs one JavaScript call however many promises it settles.

#![allow(unreachable_pub, reason = "the macro exports what is `pub`")]
#![warn(clippy::too_many_lines)]

mod addresses;
mod client;
mod failure;
mod metrics;
mod observation;
mod options;
mod until_closed;
mod vocabulary;
