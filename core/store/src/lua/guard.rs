//! What a script has left of its budget, and what happens when that is nothing.
//!
//! ```text
//!  every STEPS_PER_LOOK instructions ─┐
//!  every command, pattern, repetition ┴► charge ─► over? ─► fail, from now on always
//! ```
//!
//! A script cannot catch the end: once over, every instruction fails, the ones
//! after a `pcall` too, and so does every function of the store.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mlua::{HookTriggers, Lua, VmState};

use crate::limits::STEPS_PER_LOOK;

/// Tells when a piece of work has taken too long. The store reads no clock; who has one may lend it.
pub(crate) trait Watch: Send + Sync {
    /// A piece of work begins.
    fn start(&self);
    /// Whether it has taken too long.
    fn is_late(&self) -> bool;
}

/// The budget of the script that runs.
pub(crate) struct Guard {
    most_steps: u64,
    watch: Option<Arc<dyn Watch>>,
    steps: AtomicU64,
    is_over: AtomicBool,
}

impl Guard {
    pub(crate) fn new(most_steps: u64, watch: Option<Arc<dyn Watch>>) -> Arc<Self> {
        Arc::new(Self {
            most_steps,
            watch,
            steps: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        })
    }

    /// Whether there is anything to guard.
    pub(crate) fn is_on(&self) -> bool {
        self.most_steps < u64::MAX || self.watch.is_some()
    }

    /// A script begins. Says whether the last one ended over its budget.
    pub(crate) fn restart(&self) -> bool {
        self.steps.store(0, Ordering::Relaxed);
        self.is_over.swap(false, Ordering::Relaxed)
    }

    /// Takes so many steps off the budget.
    pub(crate) fn charge(&self, steps: u64) -> mlua::Result<()> {
        if !self.is_on() {
            return Ok(());
        }
        let taken = self.steps.load(Ordering::Relaxed).saturating_add(steps);
        self.steps.store(taken, Ordering::Relaxed);
        if self.is_over() || taken > self.most_steps || self.is_late() {
            self.is_over.store(true, Ordering::Relaxed);
            return Err(mlua::Error::external(Over));
        }
        Ok(())
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Whether the piece of work that the script belongs to has taken too long.
    pub(crate) fn is_late(&self) -> bool {
        self.watch.as_ref().is_some_and(|watch| watch.is_late())
    }

    /// Looks at the budget while scripts run, in coroutines too: those take over the hook of who makes them.
    pub(crate) fn install(self: &Arc<Self>, lua: &Lua) -> mlua::Result<()> {
        if !self.is_on() {
            return Ok(());
        }
        let guard = Arc::clone(self);
        let triggers = HookTriggers::new().every_nth_instruction(STEPS_PER_LOOK);
        lua.set_global_hook(triggers, move |lua, _| {
            let Err(over) = guard.charge(u64::from(STEPS_PER_LOOK)) else {
                return Ok(VmState::Continue);
            };
            // A `pcall` may stand around this instruction. It is none of the script's that gets far after it.
            let guard = Arc::clone(&guard);
            lua.set_global_hook(HookTriggers::new().every_nth_instruction(1), move |_, _| {
                guard.charge(1).map(|()| VmState::Continue)
            })?;
            Err(over)
        })
    }
}

/// The script's budget is used up.
#[derive(Debug)]
pub(crate) struct Over;

impl fmt::Display for Over {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BUSY the script took too long and was ended")
    }
}

impl std::error::Error for Over {}
