//! The compiled scripts that EVALSHA finds.
//!
//! Those that came by EVAL make room for newer ones, those that came by SCRIPT
//! LOAD stay, and one more than there is room for is refused. Steadlock's own
//! are few and count for neither.

use std::collections::HashMap;

use mlua::{Function, Lua, Table};
use steadlock_protocol::Script;

use crate::limits::Limits;
use crate::reply::StoreError;

/// How a script came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Eval,
    Load,
}

struct Entry {
    bytes: usize,
    /// `None` for Steadlock's own.
    origin: Option<Origin>,
    last_used: u64,
}

/// Scripts by the hex SHA-1 of their text.
pub(super) struct Kept {
    /// A table of Lua's, for there may be many: each value that Rust holds takes one of some thousand places.
    functions: Table,
    entries: HashMap<String, Entry>,
    uses: u64,
    limits: Limits,
}

impl Kept {
    pub(super) fn new(lua: &Lua, limits: Limits) -> mlua::Result<Self> {
        Ok(Self {
            functions: lua.create_table()?,
            entries: HashMap::new(),
            uses: 0,
            limits,
        })
    }

    pub(super) fn find(&self, sha1: &str) -> Option<Function> {
        self.functions.raw_get(sha1).ok()
    }

    /// Whether it is one of Steadlock's.
    pub(super) fn is_own(&self, sha1: &str) -> bool {
        self.entries.get(sha1).is_some_and(|entry| entry.origin.is_none())
    }

    /// Whether the script is kept; if so, it has been used now, and stays if it was loaded.
    pub(super) fn touch(&mut self, sha1: &str, origin: Origin) -> Result<bool, StoreError> {
        self.uses += 1;
        let Some(entry) = self.entries.get_mut(sha1) else {
            return Ok(false);
        };
        entry.last_used = self.uses;
        let (bytes, stays) = (
            entry.bytes,
            entry.origin != Some(Origin::Eval) || origin == Origin::Eval,
        );
        if !stays {
            self.refuse_if_full(bytes)?;
            if let Some(entry) = self.entries.get_mut(sha1) {
                entry.origin = Some(Origin::Load);
            }
        }
        Ok(true)
    }

    /// Keeps one more, of so many bytes of Lua's memory.
    pub(super) fn keep(
        &mut self,
        sha1: &str,
        function: &Function,
        bytes: usize,
        origin: Origin,
    ) -> Result<(), StoreError> {
        let is_own = Script::ALL.iter().any(|script| script.sha1() == sha1);
        let origin = (!is_own).then_some(origin);
        match origin {
            Some(Origin::Load) => self.refuse_if_full(bytes)?,
            Some(Origin::Eval) => self.make_room(bytes)?,
            None => {}
        }
        self.functions.raw_set(sha1, function).map_err(problem)?;
        let entry = Entry {
            bytes,
            origin,
            last_used: self.uses,
        };
        self.entries.insert(sha1.into(), entry);
        Ok(())
    }

    /// How many there are, Steadlock's own too.
    #[cfg(feature = "server")]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn clear(&mut self) -> Result<(), StoreError> {
        self.entries.clear();
        self.functions.clear().map_err(problem)
    }

    /// How many came this way, and what they take.
    fn taken(&self, origin: Origin) -> (usize, usize) {
        let of_it = self.entries.values().filter(|entry| entry.origin == Some(origin));
        of_it.fold((0, 0), |(count, bytes), entry| (count + 1, bytes + entry.bytes))
    }

    fn refuse_if_full(&self, bytes: usize) -> Result<(), StoreError> {
        if self.limits.loaded_scripts == usize::MAX {
            return Ok(());
        }
        let (count, taken) = self.taken(Origin::Load);
        if count >= self.limits.loaded_scripts || taken + bytes > self.limits.kept_script_bytes {
            return Err(StoreError::parse(
                "OOM too many scripts are loaded; SCRIPT FLUSH makes room",
            ));
        }
        Ok(())
    }

    fn make_room(&mut self, bytes: usize) -> Result<(), StoreError> {
        if self.limits.eval_scripts == usize::MAX {
            return Ok(());
        }
        loop {
            let (count, taken) = self.taken(Origin::Eval);
            let has_room = count < self.limits.eval_scripts && taken + bytes <= self.limits.kept_script_bytes;
            // One that is larger than all the room is kept alone, for it is about to run.
            if has_room || count == 0 {
                return Ok(());
            }
            let oldest = self
                .entries
                .iter()
                .filter(|(_, entry)| entry.origin == Some(Origin::Eval))
                .min_by_key(|(_, entry)| entry.last_used)
                .map(|(sha1, _)| sha1.clone());
            if let Some(sha1) = oldest {
                self.entries.remove(&sha1);
                self.functions.raw_remove(sha1).map_err(problem)?;
            }
        }
    }
}

fn problem(error: mlua::Error) -> StoreError {
    StoreError::err(format!("Error compiling script (new function): {error}"))
}
