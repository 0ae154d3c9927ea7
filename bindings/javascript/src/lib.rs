//! What the bindings for JavaScript have in common: one client as its JavaScript sees it, and the rows of numbers that
//! its events are. What crosses the border as an object is each binding's own.

#![forbid(unsafe_code)]

mod client;
mod rows;
mod spelling;

pub use client::Client;
pub use rows::{WIDTH, Words, reason_index};
pub use spelling::{camel_case, option, spelled};
