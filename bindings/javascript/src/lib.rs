//! The common part of the bindings for Node and for WebAssembly: a client, as JavaScript sees it, and its events as
//! rows of numbers. Each binding converts objects itself.

#![forbid(unsafe_code)]

mod client;
mod rows;
mod spelling;

pub use client::Client;
pub use rows::{WIDTH, Words, reason_index};
pub use spelling::{camel_case, spelled};
