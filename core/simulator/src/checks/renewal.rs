//! Checks I4: once the release of an owner was handed out, no later call renews its record or requests the lock under
//! that owner id.

use std::collections::BTreeSet;

use super::{Checked, broken};
use crate::kinds::Role;

/// The check of I4.
#[derive(Debug, Default)]
pub(crate) struct Renewal {
    released: BTreeSet<usize>,
}

impl Renewal {
    /// Returns whether a release of an owner was handed out.
    pub(crate) fn was_released(&self, owner: usize) -> bool {
        self.released.contains(&owner)
    }

    /// Checks a call for an owner that a session handed out.
    pub(crate) fn handed_out(&mut self, client: usize, role: Role, owner: usize) -> Checked {
        match role {
            Role::Release => {
                self.released.insert(owner);
            }
            Role::Acquire | Role::Renew | Role::Poll if self.released.contains(&owner) => {
                return broken(
                    "I4",
                    format!("client {client}: {role:?} of owner {owner} after its release"),
                );
            }
            Role::Acquire | Role::Renew | Role::Poll | Role::Inspect | Role::Force | Role::Limit | Role::History => {}
        }
        Ok(())
    }
}
