//! The compiled scripts that EVALSHA can run.
//!
//! Scripts from EVAL are evicted for newer ones. Scripts from SCRIPT LOAD stay, and are refused above the limit.
//! Steadlock's own scripts are few and count towards neither limit.

use std::collections::HashMap;

use mlua::{Function, Lua, Table};
use steadlock_protocol::Script;

use crate::limits::Limits;
use crate::reply::StoreError;

/// The command with which a script arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Eval,
    Load,
}

struct Entry {
    bytes: usize,
    /// The origin; `None` for Steadlock's own scripts.
    origin: Option<Origin>,
    last_used: u64,
}

/// Returns whether one of Steadlock's scripts has this hex SHA-1.
pub(super) fn is_own_script(sha1: &str) -> bool {
    Script::ALL.iter().any(|script| script.sha1() == sha1)
}

/// Scripts by the hex SHA-1 of their text.
pub(super) struct ScriptCache {
    /// The compiled scripts. They are in a Lua table, because each Lua value that Rust holds takes one of a few
    /// thousand slots, and there can be more scripts than slots.
    functions: Table,
    entries: HashMap<String, Entry>,
    uses: u64,
    limits: Limits,
}

impl ScriptCache {
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

    /// Returns whether this is one of Steadlock's scripts.
    pub(super) fn is_own(&self, sha1: &str) -> bool {
        self.entries.get(sha1).is_some_and(|entry| entry.origin.is_none())
    }

    /// Returns whether the script is kept. If so, marks the script as used. From SCRIPT LOAD on, it is not evicted any
    /// more.
    pub(super) fn touch(&mut self, sha1: &str, origin: Origin) -> Result<bool, StoreError> {
        self.uses += 1;
        let Some(entry) = self.entries.get_mut(sha1) else {
            return Ok(false);
        };
        entry.last_used = self.uses;
        let bytes = entry.bytes;
        if entry.origin == Some(Origin::Eval) && origin == Origin::Load {
            self.check_loaded_limits(bytes)?;
            if let Some(entry) = self.entries.get_mut(sha1) {
                entry.origin = Some(Origin::Load);
            }
        }
        Ok(true)
    }

    /// Keeps a script that takes this many bytes of Lua's memory.
    pub(super) fn insert(
        &mut self,
        sha1: &str,
        function: &Function,
        bytes: usize,
        origin: Origin,
    ) -> Result<(), StoreError> {
        let origin = (!is_own_script(sha1)).then_some(origin);
        match origin {
            Some(Origin::Load) => self.check_loaded_limits(bytes)?,
            Some(Origin::Eval) => self.evict_for(bytes)?,
            None => {}
        }
        self.functions.raw_set(sha1, function).map_err(compile_error)?;
        let entry = Entry {
            bytes,
            origin,
            last_used: self.uses,
        };
        self.entries.insert(sha1.into(), entry);
        Ok(())
    }

    /// Returns the number of scripts, including Steadlock's own.
    #[cfg(feature = "server")]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn clear(&mut self) -> Result<(), StoreError> {
        self.entries.clear();
        self.functions.clear().map_err(compile_error)
    }

    /// Returns the number of scripts with this origin, and their memory.
    fn usage(&self, origin: Origin) -> (usize, usize) {
        let entries = self.entries.values().filter(|entry| entry.origin == Some(origin));
        entries.fold((0, 0), |(count, bytes), entry| (count + 1, bytes + entry.bytes))
    }

    fn check_loaded_limits(&self, bytes: usize) -> Result<(), StoreError> {
        if self.limits.loaded_scripts == usize::MAX {
            return Ok(());
        }
        let (count, taken) = self.usage(Origin::Load);
        if count >= self.limits.loaded_scripts || taken + bytes > self.limits.kept_script_bytes {
            return Err(StoreError::parse(
                "OOM too many scripts are loaded; SCRIPT FLUSH makes room",
            ));
        }
        Ok(())
    }

    fn evict_for(&mut self, bytes: usize) -> Result<(), StoreError> {
        if self.limits.eval_scripts == usize::MAX {
            return Ok(());
        }
        loop {
            let (count, taken) = self.usage(Origin::Eval);
            let has_room = count < self.limits.eval_scripts && taken + bytes <= self.limits.kept_script_bytes;
            // A script that exceeds the limit alone is still kept, because it is about to run.
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
                self.functions.raw_remove(sha1).map_err(compile_error)?;
            }
        }
    }
}

fn compile_error(error: mlua::Error) -> StoreError {
    StoreError::err(format!("Error compiling script (new function): {error}"))
}
