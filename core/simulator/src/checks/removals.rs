//! I1 of several locks together: none is granted of which one was lost before.

use std::collections::BTreeMap;

use super::{Checked, broken};
use crate::time::{MS, Micros};

/// When a stranger or an operator last removed the records of a name.
#[derive(Debug, Default)]
pub(crate) struct Removals {
    last: BTreeMap<usize, Micros>,
}

impl Removals {
    /// A record of a name was removed, by another than its owner.
    pub(crate) fn removed(&mut self, name: usize, now: Micros) {
        self.last.insert(name, now);
    }

    /// A client was granted several locks, while all is calm, and this name has no record of
    /// it. Only a removal since it was asked for the last time can be the reason.
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
