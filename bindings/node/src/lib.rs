//! The binding for Node.js. It converts types and does nothing else.
//!
//! Every rule, default and check is in `steadlock::host`; every promise, signal and class that users see is in
//! `packages/javascript` and `packages/node`. Only flat data crosses the border: numbers in, and rows of numbers out
//! (`steadlock_javascript`). A batch of results therefore costs one call of JavaScript, however many promises it
//! settles.

#![allow(unreachable_pub, reason = "the macro exports what is `pub`")]
#![warn(clippy::too_many_lines)]

mod addresses;
mod client;
mod failure;
mod lock_ref;
mod metrics;
mod observation;
mod options;
mod until_closed;
mod vocabulary;
