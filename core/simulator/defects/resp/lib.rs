//! `steadlock-resp` on the protocol with known defects. `../copy.rs` made the copy.

#![cfg(not(test))]
#![allow(warnings, clippy::all, reason = "the original is linted")]

include!(concat!(env!("OUT_DIR"), "/src/lib.rs"));
