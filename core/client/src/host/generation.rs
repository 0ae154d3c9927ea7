//! One client in a process and in its forks.

use std::mem;
use std::sync::{Arc, OnceLock};

use super::core::Core;
use crate::port::Wake;
use crate::settings::Settings;

/// The cores of a host: the core of the process that made it, and in a forked child the child's.
///
/// A child must not touch its parent's core: a thread that does not exist in the child may have held its mutexes. The
/// child therefore appends a core of its own here, through atomics only, and leaks the parent's.
pub(super) struct Generation {
    core: Option<Arc<Core>>,
    child: OnceLock<Box<Self>>,
}

impl Generation {
    pub(super) fn first(settings: Arc<Settings>, wake: Option<Wake>) -> Self {
        Self::new(Arc::new(Core::new(settings, wake)))
    }

    const fn new(core: Arc<Core>) -> Self {
        Self {
            core: Some(core),
            child: OnceLock::new(),
        }
    }

    /// Returns the core of this process. Its engine starts with its first command.
    pub(super) fn current(&self) -> &Arc<Core> {
        let mut generation = self;
        loop {
            let core = generation.own();
            if !core.is_inherited() {
                return core;
            }
            generation = generation
                .child
                .get_or_init(|| Box::new(Self::new(Arc::new(core.for_child()))));
        }
    }

    pub(super) fn server(&self) -> String {
        self.own().server()
    }

    fn own(&self) -> &Arc<Core> {
        match &self.core {
            Some(core) => core,
            // Only `drop` takes `core`.
            None => unreachable!("a dropped generation is used"),
        }
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        let Some(core) = self.core.take() else { return };
        if core.is_inherited() {
            // Leaked: the engine, the sockets and the mutexes belong to the parent.
            mem::forget(core);
        } else {
            core.engine().shut_down();
        }
    }
}
