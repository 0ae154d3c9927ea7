//! I4, on the server's side: what a script says of an owner's record is so. An
//! owner that has the lock gets it again when it asks again, and only who has it
//! can renew or release it.

use steadlock_protocol::{Call, CallError};

use super::{Checked, broken};
use crate::kinds::{self, Role};
use crate::node::FULL;
use crate::records::OnRecord;

/// Compares a script's answer with what was on record before it ran.
pub(crate) fn check_answer(role: Role, owner: usize, had_it: bool, is_yes: bool) -> Checked {
    let is_right = match role {
        Role::Acquire => is_yes || !had_it,
        Role::Renew | Role::Release => is_yes == had_it,
        Role::Poll | Role::Inspect | Role::Force | Role::Limit => true,
    };
    if is_right {
        return Ok(());
    }
    let answer = if is_yes { "yes" } else { "no" };
    broken(
        "I4",
        format!("{role:?} of owner {owner} was answered {answer}; had it the lock? {had_it}"),
    )
}

/// An owner that had `before` milliseconds of a record has no less of it now, unless it has
/// none and was told so.
pub(crate) fn check_length(role: Role, owner: usize, before: i64, after: Option<i64>) -> Checked {
    match after {
        Some(after) if after < before => broken(
            "I4",
            format!("{role:?} of owner {owner} made its record shorter: from {before} to {after} ms"),
        ),
        _ => Ok(()),
    }
}

/// Who asks a full server for what another holds is told so, not that it is full. `holders`
/// are those who may be in its way.
pub(crate) fn check_full(call: &Call, holders: &[OnRecord], error: &CallError) -> Checked {
    let is_full = matches!(error, CallError::Server { code, .. } if code == FULL);
    // What it has, or asks inside of, is in nobody's way.
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
