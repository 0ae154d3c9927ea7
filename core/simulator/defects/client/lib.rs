//! `steadlock` with known defects. `../copy.rs` made the copy; the defects are in `../patches`.

#![cfg(not(test))]
#![allow(warnings, clippy::all, reason = "the original is linted")]

pub(crate) use steadlock_protocol::defects;

include!(concat!(env!("OUT_DIR"), "/src/lib.rs"));
