//! The budget of a script, and what happens when it is used up.
//!
//! ```text
//!  every STEPS_PER_CHECK instructions ─┐
//!  every command, SHA-1, reply element ┴► charge ─► exceeded? ─► fail, from now on always
//! ```
//!
//! A script cannot continue after this failure, even if it catches the error by `pcall`: from then
//! on every instruction fails, and so does every command.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mlua::{HookTriggers, Lua, VmState};

use crate::limits::STEPS_PER_CHECK;

/// A time limit for work on the store. The store itself reads no clock, so its owner provides the limit.
pub(crate) trait TimeLimit: Send + Sync {
    /// Notes that work begins.
    fn start(&self);
    /// Returns whether the work has taken too long.
    fn is_over_time(&self) -> bool;
}

/// The budget of the running script.
pub(crate) struct ScriptBudget {
    most_steps: u64,
    time_limit: Option<Arc<dyn TimeLimit>>,
    steps: AtomicU64,
    is_exceeded: AtomicBool,
}

impl ScriptBudget {
    pub(crate) fn new(most_steps: u64, time_limit: Option<Arc<dyn TimeLimit>>) -> Arc<Self> {
        Arc::new(Self {
            most_steps,
            time_limit,
            steps: AtomicU64::new(0),
            is_exceeded: AtomicBool::new(false),
        })
    }

    /// Returns whether there is a limit on the steps or the time.
    pub(crate) fn is_limited(&self) -> bool {
        self.most_steps < u64::MAX || self.time_limit.is_some()
    }

    /// Begins a script. Returns whether the last one used up its budget.
    pub(crate) fn restart(&self) -> bool {
        self.steps.store(0, Ordering::Relaxed);
        self.is_exceeded.swap(false, Ordering::Relaxed)
    }

    /// Takes steps from the budget.
    pub(crate) fn charge(&self, steps: u64) -> mlua::Result<()> {
        if !self.is_limited() {
            return Ok(());
        }
        let taken = self.steps.load(Ordering::Relaxed).saturating_add(steps);
        self.steps.store(taken, Ordering::Relaxed);
        if self.is_exceeded() || taken > self.most_steps || self.is_over_time() {
            self.is_exceeded.store(true, Ordering::Relaxed);
            return Err(mlua::Error::external(BudgetExceeded));
        }
        Ok(())
    }

    pub(crate) fn is_exceeded(&self) -> bool {
        self.is_exceeded.load(Ordering::Relaxed)
    }

    /// Returns whether the work that the script belongs to has taken too long.
    pub(crate) fn is_over_time(&self) -> bool {
        self.time_limit
            .as_ref()
            .is_some_and(|time_limit| time_limit.is_over_time())
    }

    /// Installs the check of the budget, which also runs in coroutines: these inherit the hook of their creator.
    pub(crate) fn install(self: &Arc<Self>, lua: &Lua) -> mlua::Result<()> {
        if !self.is_limited() {
            return Ok(());
        }
        let budget = Arc::clone(self);
        let triggers = HookTriggers::new().every_nth_instruction(STEPS_PER_CHECK);
        lua.set_global_hook(triggers, move |lua, _| {
            let Err(exceeded) = budget.charge(u64::from(STEPS_PER_CHECK)) else {
                return Ok(VmState::Continue);
            };
            // A `pcall` may catch the error, so from now on every instruction is checked, and fails.
            let budget = Arc::clone(&budget);
            lua.set_global_hook(HookTriggers::new().every_nth_instruction(1), move |_, _| {
                budget.charge(1).map(|()| VmState::Continue)
            })?;
            Err(exceeded)
        })
    }
}

/// The error of a script whose budget is used up.
#[derive(Debug)]
pub(crate) struct BudgetExceeded;

impl fmt::Display for BudgetExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BUSY the script took too long and was ended")
    }
}

impl std::error::Error for BudgetExceeded {}
