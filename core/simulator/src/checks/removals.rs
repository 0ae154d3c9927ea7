//! Checks I1 for composite locks: none is granted if a member was lost before.

use std::collections::BTreeMap;

use super::{Checked, broken};
use crate::time::{MS, Micros};

/// The time at which an external client or an operator last removed the records of a name.
#[derive(Debug, Default)]
pub(crate) struct Removals {
    last: BTreeMap<usize, Micros>,
}

impl Removals {
    /// Notes that a record of a name was removed, and not by its owner.
    pub(crate) fn removed(&mut self, name: usize, now: Micros) {
        self.last.insert(name, now);
    }

    /// Checks a composite lock that was granted although this name has no record of the client, while no fault has
    /// effects. The record must have been removed after the client last asked for the name, which is at most
    /// `round_trips` ago.
    pub(crate) fn check(&self, client: usize, name: usize, round_trips: Micros, now: Micros) -> Checked {
        match self.last.get(&name).map(|last| now - last) {
            Some(since) if since > round_trips => broken(
                "I1",
                format!(
                    "client {client} was granted several locks; its record of name {name} was removed {} ms before",
                    since / MS
                ),
            ),
            _ => Ok(()),
        }
    }
}
