//! I1, on the servers' side: what a holder relies on is on record, and for no
//! shorter than it relies on it. And I9 of refusals: who asks for something that
//! can never be is told so, and nobody else is.

use steadlock_protocol::{ErrorKind, LeaseId, Ticket};

use super::{Checked, broken};
use crate::time::Micros;

/// A lease is relied on for another `wanted` of true time. The servers that have a record
/// of it keep it for so long; a majority has to.
pub(crate) fn check_backing(
    (client, lease, name): (usize, LeaseId, usize),
    wanted: Micros,
    mut left: Vec<Micros>,
    servers: usize,
) -> Checked {
    left.sort_unstable_by(|a, b| b.cmp(a));
    let kept = left.get(servers / 2).copied().unwrap_or(0);
    if wanted <= kept {
        return Ok(());
    }
    broken(
        "I1",
        format!(
            "client {client} relies on {lease:?} of name {name} for {wanted} µs; the servers have {left:?} µs of it"
        ),
    )
}

/// An acquisition failed with an error of this kind.
pub(crate) fn check_refusal(
    client: usize,
    ticket: Ticket,
    kind: ErrorKind,
    is_wrong: bool,
    may_disagree: bool,
) -> Checked {
    let is_right = match kind {
        ErrorKind::InvalidArgument => is_wrong,
        // Another limit than the one that was agreed on.
        ErrorKind::Misconfigured => may_disagree && !is_wrong,
        ErrorKind::Closed => true,
        _ => !is_wrong,
    };
    if is_right {
        return Ok(());
    }
    broken(
        "I9",
        format!("client {client}: {ticket:?} failed with {kind:?}; can it never be granted? {is_wrong}"),
    )
}
