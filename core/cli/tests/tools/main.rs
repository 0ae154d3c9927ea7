//! Commands that inspect locks and commands for operators, on `steadlock serve` and on real servers that `./ci/just
//! servers` starts.

#![allow(unreachable_pub, reason = "what the modules of this binary share")]

mod document;
mod listing;
mod looking;
mod many;
mod moving;
mod rights;
mod rules;
mod support;
mod watching;
