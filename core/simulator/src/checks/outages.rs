//! Checks I14: while their server is unavailable, callers are served as they requested for that case.

use steadlock_protocol::{Grant, OnUnavailable, Ticket};

use super::{Checked, broken};

/// Checks a grant. A degraded grant needs circuit breakers and a caller that requested it, and has no token.
pub(crate) fn check_degraded_grant(
    client: usize,
    ticket: Ticket,
    grant: &Grant,
    wanted: OnUnavailable,
    has_breakers: bool,
) -> Checked {
    if grant.degraded && !(has_breakers && wanted == OnUnavailable::Local) {
        return broken("I14", format!("client {client}: {ticket:?} wanted no degraded lease"));
    }
    if grant.degraded && grant.token.is_some() {
        return broken("I14", format!("client {client}: {ticket:?} has a token of no server"));
    }
    Ok(())
}

/// Checks an acquisition that was skipped.
pub(crate) fn check_skipped(client: usize, ticket: Ticket, wanted: OnUnavailable) -> Checked {
    if wanted == OnUnavailable::Skip {
        return Ok(());
    }
    broken(
        "I14",
        format!("client {client}: {ticket:?} was skipped, and wanted the lock"),
    )
}
