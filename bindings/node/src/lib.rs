//! The binding for Node.js. It converts types and does nothing else.
//!
//! Every rule, default and check is in `steadlock::host`; every promise, signal and class that users see is in
//! `packages/javascript` and `packages/node`. Results cross the border as rows of numbers (`steadlock_javascript`). A
//! batch of them therefore costs one call, however many promises it settles; only errors, holders and log lines are
//! fetched one by one.

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
