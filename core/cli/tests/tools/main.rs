//! Commands that inspect locks and commands for operators, on `steadlock serve` and on real servers that `./ci/just
//! servers` starts.

#![allow(unreachable_pub, reason = "what the modules of this binary share")]

mod acl;
mod document;
mod inspecting;
mod listing;
mod many_keys;
mod moving_slots;
mod rights;
mod support;
mod top;
