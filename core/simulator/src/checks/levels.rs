//! Checks I8: the number of levels that a context holds is the number of its grants, less its releases.

use steadlock_protocol::LeaseId;

use super::{Checked, broken};

/// Compares what a session reports about a context with what the context did.
pub(crate) fn check_levels(client: usize, task: usize, said: (u32, Option<LeaseId>), leases: &[LeaseId]) -> Checked {
    let right = (u32::try_from(leases.len()).unwrap_or(u32::MAX), leases.last().copied());
    if said == right {
        return Ok(());
    }
    broken(
        "I8",
        format!("client {client} task {task}: the session has levels {said:?}, the task {right:?}"),
    )
}
