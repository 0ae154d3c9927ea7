//! The commands of those who look at locks, and of operators, on `steadlock serve` and on real servers as
//! `./ci/just servers` starts them.

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
