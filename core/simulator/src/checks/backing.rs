//! Checks I1 on the servers: a valid lease has a record that lasts at least as long. Also checks I9 for refusals: a
//! request is refused as invalid exactly if it can never be granted.

use steadlock_protocol::{ErrorKind, LeaseId, Ticket};

use super::{Checked, broken};
use crate::time::Micros;

/// Checks the records of a lease that is valid for `wanted` longer. `left` says how long each record lasts: on a
/// majority of the servers it must be at least `wanted`. Both are in true time.
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

/// Checks the kind of error with which an acquisition failed. `is_wrong` means that the request can never be granted,
/// and `may_disagree` that it may collide with another kind or another limit.
pub(crate) fn check_refusal(
    client: usize,
    ticket: Ticket,
    kind: ErrorKind,
    is_wrong: bool,
    may_disagree: bool,
) -> Checked {
    let is_right = match kind {
        ErrorKind::InvalidArgument => is_wrong,
        // The request named another kind than the record has, or another limit than the one that applies.
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
