//! An engine on its own thread, with its runtime.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::thread;

use steadlock_protocol::{Cause, Error, ErrorKind, Operation};
use tokio::runtime;

use super::driver::{Driver, Watched};
use super::inbox::Inbox;
use super::sentry::{Sentry, Wakers};
use super::turn::Engine;
use crate::blocking_pool;
use crate::port::{Commands, Port};
use crate::settings::Settings;
use crate::sleep::has_lost;
use crate::target::{Scheme, Target};
use crate::transport::{self, First};
use crate::world::World;

/// Starts the engine's thread and moves `commands` to it. If an error leaves `commands` in place, a later start can
/// succeed.
pub(super) fn start(
    driver: &Arc<Driver>,
    settings: &Arc<Settings>,
    port: &Arc<Port>,
    commands: &mut Option<Commands>,
    first: First,
) -> Result<(), Error> {
    // Virtual time stands still while a thread waits, so only the simulator drives.
    #[cfg(feature = "simulation")]
    if let Some(world) = settings.world.given() {
        let Some(commands) = commands.take() else { return Ok(()) };
        let running = Running::new(driver, settings, port, commands, first)?;
        world.spawn(Box::pin(tokio::task::unconstrained(running.run(HandedBack::default()))));
        return Ok(());
    }
    let cannot = |error: io::Error| {
        let advice = "allow this process more threads or open files, or free some, and try again";
        unavailable("the client's engine cannot start", &error, advice)
    };
    let runtime = build(settings).map_err(cannot)?;
    let (hand_over, handed_over) = sync_channel::<Running>(1);
    let (driver_of_thread, settings_of_thread) = (Arc::clone(driver), Arc::clone(settings));
    thread::Builder::new()
        .name("steadlock-engine".into())
        .spawn(move || {
            if let Ok(running) = handed_over.recv() {
                run(&driver_of_thread, &settings_of_thread, runtime, running);
            }
        })
        .map_err(cannot)?;
    let Some(commands) = commands.take() else { return Ok(()) };
    let running = Running::new(driver, settings, port, commands, first)?;
    // If the thread is gone, the drop of the engine answers every caller.
    let _ = hand_over.send(running);
    Ok(())
}

fn unavailable(what: &str, error: &io::Error, advice: &str) -> Error {
    let cause = Cause::new(format!("{what}: {error}")).with_advice(advice);
    Error::caused(ErrorKind::Unavailable, Operation::Connect, cause)
}

/// Builds a runtime for one thread. Without connections the runtime has no descriptors.
fn build(settings: &Settings) -> io::Result<Watched> {
    let mut builder = runtime::Builder::new_current_thread();
    builder.enable_time();
    if !has_descriptors(settings) {
        return Ok(Watched::new(builder.build()?, Arc::default()));
    }
    let sentry = Arc::new(Sentry::new()?);
    let looks = Arc::clone(&sentry);
    let runtime = builder.enable_io().on_thread_unpark(move || looks.woke()).build()?;
    sentry.built()?;
    Ok(Watched::new(runtime, sentry))
}

fn has_descriptors(settings: &Settings) -> bool {
    let is_memory = |target: &Target| matches!(target.scheme, Scheme::Memory { .. });
    !settings.targets.iter().all(is_memory)
}

/// Runs the engine until it ends. If the program closes the descriptors of the runtime, the engine continues on a new
/// runtime, if one can be built.
fn run(driver: &Driver, settings: &Settings, mut runtime: Watched, mut running: Running) {
    let _open = blocking_pool::Open::new();
    loop {
        let handed_back = HandedBack::default();
        let turns = Turns::of(running.run(Arc::clone(&handed_back)), runtime.sentry());
        let engine = tokio::task::unconstrained(turns.clone().run());
        let take_back = || {
            turns.end();
            lock(&handed_back).take()
        };
        let Some(left) = driver.run(runtime, engine, take_back) else {
            return;
        };
        running = left;
        runtime = match build(settings) {
            Ok(runtime) if running.starts_again() => runtime,
            Ok(_) => return running.fail(&io::Error::other("descriptors of its connections were closed")),
            Err(error) => return running.fail(&error),
        };
    }
}

/// An engine, and its means to wait.
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
            inbox: Inbox::new(settings.world.clone(), has_descriptors(settings)),
            driver: Arc::clone(driver),
            world: settings.world.clone(),
        })
    }

    /// Runs until the engine has ended. If this future is dropped before that, even if it was never polled, the engine
    /// is put into `handed_back`.
    fn run(self, handed_back: HandedBack) -> impl Future<Output = ()> + Send {
        let mut kept = Kept {
            running: Some(self),
            handed_back,
        };
        async move {
            while let Some(running) = &mut kept.running {
                running.turn().await;
                if running.engine.is_over() {
                    drop(kept.running.take());
                    return;
                }
                let_connections_run().await;
            }
        }
    }

    async fn turn(&mut self) {
        self.wait().await;
        self.engine.work();
        // Callers in virtual time are tasks, and never drive the engine.
        if !self.world.is_virtual() {
            let (lanes, renewal) = self.engine.outlook();
            self.driver.allow_callers(lanes, renewal);
        }
        self.engine.deliver();
    }

    /// Waits until the engine has work.
    async fn wait(&mut self) {
        let calls_in_flight = self.engine.calls_in_flight();
        self.inbox.wait(calls_in_flight, self.engine.awaited()).await;
    }

    /// Replaces everything that belongs to the broken runtime. Returns false if that is impossible.
    fn starts_again(&mut self) -> bool {
        self.inbox = Inbox::new(self.world.clone(), true);
        self.engine.start_again()
    }

    /// Ends the engine and reports the reason to every caller.
    fn fail(mut self, why: &io::Error) {
        let what = "the program closed the client's descriptors, and there is no going on";
        let advice = "close no descriptors that the program did not open, and make a new client";
        self.engine.fail(unavailable(what, why, advice));
    }
}

/// The place for an engine whose runtime ended before it.
type HandedBack = Arc<Mutex<Option<Running>>>;

struct Kept {
    /// `None` once the engine has ended.
    running: Option<Running>,
    handed_back: HandedBack,
}

impl Drop for Kept {
    fn drop(&mut self) {
        // An engine that panicked cannot continue. Its drop answers every caller.
        if !thread::panicking() {
            *lock(&self.handed_back) = self.running.take();
        }
    }
}

/// A task that can also be ended from outside its runtime, which may be broken.
#[derive(Clone)]
struct Turns {
    task: Arc<Mutex<Option<Task>>>,
    sentry: Arc<Sentry>,
}

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Turns {
    fn of(task: impl Future<Output = ()> + Send + 'static, sentry: &Arc<Sentry>) -> Self {
        Self {
            task: Arc::new(Mutex::new(Some(Box::pin(task)))),
            sentry: Arc::clone(sentry),
        }
    }

    async fn run(self) {
        let mut wakers = Wakers::default();
        poll_fn(|context| {
            let polled = match &mut *lock(&self.task) {
                Some(task) => wakers.with(&self.sentry, context, |context| task.as_mut().poll(context)),
                None => Poll::Ready(()),
            };
            if has_lost() {
                self.sentry.lost();
            }
            polled
        })
        .await;
    }

    fn end(&self) {
        let task = lock(&self.task).take();
        drop(task);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Yields to the runtime once, so that it handles its sockets and runs its other tasks. Otherwise callers that keep the
/// engine busy would stop both.
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
