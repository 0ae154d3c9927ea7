//! Checks I8: the number of levels that a context holds is the number of its grants, less its releases.

use steadlock_protocol::LeaseId;

use super::{Checked, broken};

/// The levels that a context holds of a lock.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Levels {
    pub(crate) count: u32,
    pub(crate) innermost: Option<LeaseId>,
}

impl Levels {
    /// Returns the levels of a context with these leases, outermost first.
    fn of(leases: &[LeaseId]) -> Self {
        Self {
            count: u32::try_from(leases.len()).unwrap_or(u32::MAX),
            innermost: leases.last().copied(),
        }
    }
}

/// Compares what a session reports about a context with the leases of that context.
pub(crate) fn check_levels(client: usize, task: usize, reported: &Levels, leases: &[LeaseId]) -> Checked {
    let right = Levels::of(leases);
    if *reported == right {
        return Ok(());
    }
    broken(
        "I8",
        format!("client {client} task {task}: the session has {reported:?}, the task {right:?}"),
    )
}
