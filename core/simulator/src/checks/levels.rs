//! I8: how often a context holds a lock is how often it was let in, less how
//! often it went out.

use steadlock_protocol::LeaseId;

use super::{Checked, broken};

/// Compares what a session says of a context with what the context did.
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
