//! The host's side of the engine: starts it and sends it commands.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use steadlock_protocol::Error;

#[cfg(not(feature = "native"))]
use super::driven::{Driven, Driver, start};
#[cfg(feature = "native")]
use super::driver::{Caller, Driver};
#[cfg(feature = "native")]
use super::thread::start;
use crate::errors::closed;
use crate::port::{Command, CommandReceiver, Port, RefusedCommand, Sink, Wake};
use crate::settings::Settings;
use crate::transport::FirstConnection;

/// The engine of one client in one process. Starts when it is first needed.
pub(crate) struct Handle {
    settings: Arc<Settings>,
    port: Arc<Port>,
    driver: Arc<Driver>,
    /// The receiver of the commands, until the engine takes it at its start. This lock is held during the start.
    commands: Mutex<Option<CommandReceiver>>,
    /// The result of the start. Not set while a later start can still succeed.
    started: OnceLock<Result<(), Error>>,
}

impl Handle {
    pub(crate) fn new(generation: u64, settings: Arc<Settings>, wake: Option<Wake>) -> Self {
        // A forked child gets metrics of its own, because each process counts for itself.
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

    /// Creates the handle for a forked child of the process that `self` belongs to.
    pub(crate) fn for_child(&self) -> Self {
        let (settings, wake) = (Arc::clone(&self.settings), self.port.wake());
        Self::new(self.port.generation() + 1, settings, wake)
    }

    pub(crate) fn port(&self) -> &Port {
        &self.port
    }

    /// Whether the start has a final result: success, a lasting failure, or a close before the start.
    pub(crate) fn is_started(&self) -> bool {
        self.started.get().is_some()
    }

    /// Tells the engine, if it has started, that nothing uses its client any more.
    pub(crate) fn shut_down(&self) {
        if self.started.get().is_some() {
            self.send(Command::Shutdown);
        }
    }

    /// Closes a client whose engine has not started: the engine then never starts. Has no effect after the start.
    pub(crate) fn close_unstarted(&self) {
        let _starting = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = self.started.set(Err(closed()));
    }

    /// Starts the engine unless it has started. After a failure that can pass, such as a thread limit of the system,
    /// the next call tries again.
    pub(crate) fn ensure_started(&self) -> Result<(), Error> {
        if let Some(result) = self.started.get() {
            return result.clone();
        }
        let mut commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(result) = self.started.get() {
            return result.clone();
        }
        let result = start(
            &self.driver,
            &self.settings,
            &self.port,
            &mut commands,
            self.first_connection(),
        );
        if result.is_err() && commands.is_some() {
            return result;
        }
        self.started.get_or_init(|| result).clone()
    }

    /// Sends a command to the engine, and starts the engine first if necessary.
    pub(crate) fn send(&self, command: Command) {
        // A caller that waits on a slot drives the engine itself (`driver.rs`), or makes the engine's thread drive.
        let has_driving_caller = matches!(
            &command,
            Command::Run {
                sink: Sink::Slot(_),
                ..
            }
        );
        let RefusedCommand { command, error } = match self.ensure_started() {
            Ok(()) => match self.port.send(command) {
                Ok(()) if has_driving_caller => return,
                Ok(()) => return self.driver.request_engine(),
                Err(refused) => *refused,
            },
            Err(error) => RefusedCommand { command, error },
        };
        let error = command.with_lock_name(error, |name| self.settings.without_prefix(name));
        self.port.answer_ended(command, error);
    }

    /// Marks the engine as started without starting it. Returns the receiver of the commands.
    #[cfg(all(test, feature = "schedules"))]
    pub(crate) fn start_without_engine(&self) -> Option<CommandReceiver> {
        let mut commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        self.started.set(Ok(())).ok()?;
        commands.take()
    }

    /// Makes the engine's thread drive again, unless it drives already. Needed for work whose caller does not drive the
    /// engine.
    pub(crate) fn request_engine(&self) {
        self.driver.request_engine();
    }

    /// Returns the engine, which the program then turns. Only the first call after the start returns it.
    #[cfg(not(feature = "native"))]
    pub(crate) fn take_driven(&self) -> Option<Driven> {
        self.driver.take()
    }

    /// Registers a thread that begins to wait for a result and that may drive the engine meanwhile.
    #[cfg(feature = "native")]
    pub(crate) fn enter(&self) -> Caller<'_> {
        self.driver.enter()
    }

    /// Returns how the callers depend on the first connection.
    fn first_connection(&self) -> FirstConnection {
        match self.port.generation() {
            0 if self.settings.lazy => FirstConnection::Lazy,
            0 => FirstConnection::Awaited,
            _ => FirstConnection::Inherited,
        }
    }
}
