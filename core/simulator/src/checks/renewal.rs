//! I4: once the release of an owner was handed out, nothing renews its record or
//! asks for it again.

use std::collections::BTreeSet;

use super::{Checked, broken};
use crate::kinds::Role;

/// The check of I4.
#[derive(Debug, Default)]
pub(crate) struct Renewal {
    released: BTreeSet<usize>,
}

impl Renewal {
    /// Whether a release of an owner was handed out.
    pub(crate) fn was_released(&self, owner: usize) -> bool {
        self.released.contains(&owner)
    }

    /// A session handed out a call for an owner.
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
            Role::Acquire | Role::Renew | Role::Poll | Role::Inspect | Role::Force | Role::Limit => {}
        }
        Ok(())
    }
}
