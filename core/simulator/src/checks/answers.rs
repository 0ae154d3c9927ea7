//! Checks I4 on the servers: the answer of a script about an owner's record must be true. A holder that repeats its
//! attempt is granted the lock. Only the holder can renew or release it.

use steadlock_protocol::{Call, CallError};

use super::{Checked, broken};
use crate::kinds::{self, Role};
use crate::node::FULL;
use crate::records::OnRecord;

/// Compares a script's answer with the owner's record before the script ran.
pub(crate) fn check_answer(role: Role, owner: usize, had_it: bool, is_yes: bool) -> Checked {
    let is_right = match role {
        Role::Acquire => is_yes || !had_it,
        Role::Renew | Role::Release => is_yes == had_it,
        Role::Poll | Role::Inspect | Role::Force | Role::Limit | Role::History => true,
    };
    if is_right {
        return Ok(());
    }
    let answer = if is_yes { "yes" } else { "no" };
    broken(
        "I4",
        format!("{role:?} of owner {owner} was answered {answer}; did it have the lock? {had_it}"),
    )
}

/// Checks that no script has shortened an owner's record. A record that is gone is no error here.
pub(crate) fn check_length(role: Role, owner: usize, before: i64, after: Option<i64>) -> Checked {
    match after {
        Some(after) if after < before => broken(
            "I4",
            format!("{role:?} of owner {owner} made its record shorter: from {before} to {after} ms"),
        ),
        _ => Ok(()),
    }
}

/// Checks that a server without free memory still names the holder of the lock, instead of answering that it is full.
/// `holders` are the owners that may exclude the caller.
pub(crate) fn check_full(call: &Call, holders: &[OnRecord], error: &CallError) -> Checked {
    let is_full = matches!(error, CallError::Server { code, .. } if code == FULL);
    // The owner's own hold, and the write hold around a read, exclude nothing.
    let is_its_own = |owner: &[u8]| kinds::owner(call) == Some(owner) || kinds::writer_around(call) == Some(owner);
    if !is_full || holders.is_empty() || holders.iter().any(|(owner, _)| is_its_own(owner)) {
        return Ok(());
    }
    broken(
        "I4",
        format!(
            "{} was answered that the server is full; {} others hold what it asks for",
            call.script.file(),
            holders.len()
        ),
    )
}
