//! An engine on a thread of its own, with its runtime.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::Poll;

use steadlock_protocol::{Error, ErrorKind, Operation};
use tokio::runtime;

use super::driver::Driver;
use super::inbox::Inbox;
use super::turn::Engine;
use crate::port::{Commands, Port};
use crate::settings::Settings;
use crate::transport::{self, First};
use crate::world::World;

/// Starts an engine's thread.
pub(super) fn start(
    driver: &Arc<Driver>,
    settings: &Arc<Settings>,
    port: &Arc<Port>,
    commands: Commands,
    first: First,
) -> Result<(), Error> {
    let unavailable = |error: io::Error| {
        Error::new(
            ErrorKind::Unavailable,
            Operation::Connect,
            "the client's engine cannot start",
        )
        .with_cause(error.to_string())
    };
    // There, time stands still while a thread waits: nobody but the simulator drives.
    #[cfg(feature = "simulation")]
    if let Some(world) = settings.world.given() {
        let running = Running::new(driver, settings, port, commands, first)?;
        world.spawn(Box::pin(tokio::task::unconstrained(running.run())));
        return Ok(());
    }
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(unavailable)?;
    let running = Running::new(driver, settings, port, commands, first)?;
    let driver = Arc::clone(driver);
    std::thread::Builder::new()
        .name("steadlock-engine".into())
        .spawn(move || {
            let task = runtime.spawn(tokio::task::unconstrained(running.run()));
            // However it ends, its drop tells everybody.
            let _ = driver.run(runtime, task);
        })
        .map_err(unavailable)?;
    Ok(())
}

/// An engine, and how it waits.
struct Running {
    engine: Engine,
    inbox: Inbox,
    driver: Arc<Driver>,
    world: World,
}

impl Running {
    fn new(
        driver: &Arc<Driver>,
        settings: &Arc<Settings>,
        port: &Arc<Port>,
        commands: Commands,
        first: First,
    ) -> Result<Self, Error> {
        let transport = transport::open(settings, first)?;
        Ok(Self {
            engine: Engine::new(settings, port, commands, transport, first),
            inbox: Inbox::new(settings.world.clone()),
            driver: Arc::clone(driver),
            world: settings.world.clone(),
        })
    }

    async fn run(mut self) {
        loop {
            self.wait().await;
            self.engine.work();
            // Callers that wait in virtual time are tasks, and drive nothing.
            if !self.world.is_virtual() {
                let (lanes, renewal) = self.engine.outlook();
                self.driver.allow_callers(lanes, renewal);
            }
            self.engine.deliver();
            if self.engine.is_over() {
                return;
            }
            let_connections_run().await;
        }
    }

    /// Waits until there is something to do.
    async fn wait(&mut self) {
        let calls_in_flight = self.engine.calls_in_flight();
        self.inbox.wait(calls_in_flight, self.engine.awaited()).await;
    }
}

/// Lets every other task that is ready run once. Without it, callers that keep
/// the engine busy would keep it from sending.
async fn let_connections_run() {
    let mut has_run = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_run, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
