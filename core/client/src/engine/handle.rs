//! How a host starts its engine and reaches it.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use steadlock_protocol::Error;

#[cfg(not(feature = "native"))]
use super::driven::{Driven, Driver, start};
#[cfg(feature = "native")]
use super::driver::{Caller, Driver};
#[cfg(feature = "native")]
use super::thread::start;
use crate::errors::closed;
use crate::port::{Command, Commands, Port, Sink, Wake};
use crate::settings::Settings;
use crate::transport::First;

/// One engine of one process, which starts when it is first needed.
pub(crate) struct Handle {
    settings: Arc<Settings>,
    port: Arc<Port>,
    driver: Arc<Driver>,
    /// Taken by the engine when it starts, which is done under this lock.
    commands: Mutex<Option<Commands>>,
    /// How that went. Not set while it may go better later.
    started: OnceLock<Result<(), Error>>,
}

impl Handle {
    pub(crate) fn new(generation: u64, settings: Arc<Settings>, wake: Option<Wake>) -> Self {
        // Each process counts for itself.
        let metrics = settings.metrics.as_ref().map(|_| Arc::default());
        let (port, commands) = Port::open(generation, wake, metrics);
        Self {
            settings,
            port: Arc::new(port),
            driver: Arc::default(),
            commands: Mutex::new(Some(commands)),
            started: OnceLock::new(),
        }
    }

    /// That of a forked child, whose parent's is `self`.
    pub(crate) fn for_child(&self) -> Self {
        let (settings, wake) = (Arc::clone(&self.settings), self.port.wake());
        Self::new(self.port.generation() + 1, settings, wake)
    }

    pub(crate) fn port(&self) -> &Port {
        &self.port
    }

    /// Whether it was started, with whatever result.
    pub(crate) fn is_started(&self) -> bool {
        self.started.get().is_some()
    }

    /// Nobody uses the client any more.
    pub(crate) fn shut_down(&self) {
        if self.started.get().is_some() {
            self.send(Command::Shutdown);
        }
    }

    /// Whether it was started, or could not be.
    pub(crate) fn has_started(&self) -> bool {
        self.started.get().is_some()
    }

    /// What was never used connects to nothing for its end.
    pub(crate) fn close_unstarted(&self) {
        let _starting = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = self.started.set(Err(closed()));
    }

    /// Starts the engine, if nobody did yet. What keeps it from starting now, as a thread that cannot be had, does
    /// not keep it from starting later.
    pub(crate) fn ensure_started(&self) -> Result<(), Error> {
        if let Some(result) = self.started.get() {
            return result.clone();
        }
        let mut commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(result) = self.started.get() {
            return result.clone();
        }
        let result = start(&self.driver, &self.settings, &self.port, &mut commands, self.first());
        if result.is_err() && commands.is_some() {
            return result;
        }
        self.started.get_or_init(|| result).clone()
    }

    /// Hands a command to the engine, which is started first if need be.
    pub(crate) fn send(&self, command: Command) {
        // A thread that waits for its answer drives the engine if need be.
        let is_waited_for = matches!(
            &command,
            Command::Run {
                sink: Sink::Slot(_),
                ..
            }
        );
        let (command, error) = match self.ensure_started() {
            Ok(()) => match self.port.send(command) {
                Ok(()) if is_waited_for => return,
                Ok(()) => return self.driver.needs_engine(),
                Err(refused) => *refused,
            },
            Err(error) => (command, error),
        };
        let error = command.naming_its_lock(error, |name| self.settings.without_prefix(name));
        self.port.answer_ended(command, error);
    }

    /// Starts nothing, and gives what an engine would take its commands from.
    #[cfg(all(test, feature = "schedules"))]
    pub(crate) fn start_without_engine(&self) -> Option<Commands> {
        let mut commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        self.started.set(Ok(())).ok()?;
        commands.take()
    }

    /// Something needs the engine that no waiting thread drives.
    pub(crate) fn is_needed(&self) {
        self.driver.needs_engine();
    }

    /// The engine, for the program that drives it; once.
    #[cfg(not(feature = "native"))]
    pub(crate) fn take_driven(&self) -> Option<Driven> {
        self.driver.take()
    }

    /// A thread begins to wait for a result, and may drive the engine meanwhile.
    #[cfg(feature = "native")]
    pub(crate) fn enter(&self) -> Caller<'_> {
        self.driver.enter()
    }

    /// What its first connection is to the callers.
    fn first(&self) -> First {
        match self.port.generation() {
            0 if self.settings.lazy => First::IsAtUse,
            0 => First::IsAwaited,
            _ => First::WasMade,
        }
    }
}
