//! An engine on its own thread, with its runtime.
//!
//! By `Inbox` the engine waits for commands of callers, for events of the transport, and for the time of its next work.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use std::{io, thread};

use steadlock_protocol::{Cause, Error, ErrorKind, Instant, Operation};
use tokio::runtime;

use super::descriptor_monitor::{DescriptorMonitor, WakerCache};
use super::driver::{Driver, GuardedRuntime};
use super::spin::{Arrival, CallerKind, Spin};
use super::tables::Sources;
use super::turn::Engine;
use crate::port::{CommandReceiver, Port};
use crate::settings::Settings;
use crate::sleep::{Sleep, take_descriptor_closed};
use crate::target::{Scheme, Target};
use crate::transport::FirstConnection;
use crate::world::World;
use crate::{blocking_pool, transport};

/// Starts the engine's thread and moves `commands` to it. If an error leaves `commands` in place, a later start can
/// succeed.
pub(super) fn start(
    driver: &Arc<Driver>,
    settings: &Arc<Settings>,
    port: &Arc<Port>,
    commands: &mut Option<CommandReceiver>,
    first: FirstConnection,
) -> Result<(), Error> {
    // In virtual time the engine is a task of the simulator, because the clock stands still while a thread waits.
    #[cfg(feature = "simulation")]
    if let Some(world) = settings.world.simulation() {
        let Some(commands) = commands.take() else { return Ok(()) };
        let engine_loop = EngineLoop::new(driver, settings, port, commands, first)?;
        world.spawn(Box::pin(tokio::task::unconstrained(
            engine_loop.run(ReturnSlot::default()),
        )));
        return Ok(());
    }
    let start_error = |error: io::Error| {
        let advice = "allow this process more threads or open files, or free some, and try again";
        unavailable("the client's engine cannot start", &error, advice)
    };
    let runtime = build_runtime(settings).map_err(start_error)?;
    let (sender, receiver) = sync_channel::<EngineLoop>(1);
    let (driver_of_thread, settings_of_thread) = (Arc::clone(driver), Arc::clone(settings));
    thread::Builder::new()
        .name("steadlock-engine".into())
        .spawn(move || {
            if let Ok(engine_loop) = receiver.recv() {
                run(&driver_of_thread, &settings_of_thread, runtime, engine_loop);
            }
        })
        .map_err(start_error)?;
    let Some(commands) = commands.take() else { return Ok(()) };
    let engine_loop = EngineLoop::new(driver, settings, port, commands, first)?;
    // If the thread is gone, the drop of the engine answers every caller.
    let _ = sender.send(engine_loop);
    Ok(())
}

fn unavailable(what: &str, error: &io::Error, advice: &str) -> Error {
    let cause = Cause::new(format!("{what}: {error}")).with_advice(advice);
    Error::caused(ErrorKind::Unavailable, Operation::Connect, cause)
}

/// Builds a runtime for one thread. With `memory://` alone there are no connections, and the runtime has no
/// descriptors.
fn build_runtime(settings: &Settings) -> io::Result<GuardedRuntime> {
    let mut builder = runtime::Builder::new_current_thread();
    builder.enable_time();
    if !has_descriptors(settings) {
        return Ok(GuardedRuntime::new(builder.build()?, Arc::default()));
    }
    let monitor = Arc::new(DescriptorMonitor::new()?);
    let monitor_of_thread = Arc::clone(&monitor);
    let runtime = builder
        .enable_io()
        .on_thread_unpark(move || monitor_of_thread.on_wake())
        .build()?;
    monitor.complete()?;
    Ok(GuardedRuntime::new(runtime, monitor))
}

fn has_descriptors(settings: &Settings) -> bool {
    let is_memory = |target: &Target| matches!(target.scheme, Scheme::Memory { .. });
    !settings.targets.iter().all(is_memory)
}

/// Runs the engine until it ends. If the program closes the descriptors of the runtime, the engine continues on a new
/// runtime, if one can be built.
fn run(driver: &Driver, settings: &Settings, mut runtime: GuardedRuntime, mut engine_loop: EngineLoop) {
    let _keep_alive = blocking_pool::KeepAlive::new();
    loop {
        let return_slot = ReturnSlot::default();
        let task = EndableTask::of(engine_loop.run(Arc::clone(&return_slot)), runtime.monitor());
        let engine = tokio::task::unconstrained(task.clone().run());
        let take_back = || {
            task.end();
            lock(&return_slot).take()
        };
        let Some(remaining) = driver.run(runtime, engine, take_back) else {
            return;
        };
        engine_loop = remaining;
        runtime = match build_runtime(settings) {
            Ok(runtime) if engine_loop.restart() => runtime,
            Ok(_) => return engine_loop.fail(&io::Error::other("descriptors of its connections were closed")),
            Err(error) => return engine_loop.fail(&error),
        };
    }
}

/// An engine, and the means by which it waits.
struct EngineLoop {
    engine: Engine,
    inbox: Inbox,
    driver: Arc<Driver>,
    world: World,
}

impl EngineLoop {
    fn new(
        driver: &Arc<Driver>,
        settings: &Arc<Settings>,
        port: &Arc<Port>,
        commands: CommandReceiver,
        first: FirstConnection,
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
    /// is put into `return_slot`, except in a panic.
    fn run(self, return_slot: ReturnSlot) -> impl Future<Output = ()> + Send {
        let mut guard = ReturnOnDrop {
            engine_loop: Some(self),
            return_slot,
        };
        async move {
            while let Some(engine_loop) = &mut guard.engine_loop {
                engine_loop.turn().await;
                if engine_loop.engine.is_over() {
                    drop(guard.engine_loop.take());
                    return;
                }
                yield_to_connections().await;
            }
        }
    }

    async fn turn(&mut self) {
        self.wait().await;
        self.engine.work();
        // Callers in virtual time are tasks, and never drive the engine.
        if !self.world.is_virtual() {
            self.driver.allow_callers(self.engine.readiness());
        }
        self.engine.deliver();
    }

    /// Waits until the engine has work.
    async fn wait(&mut self) {
        let calls_in_flight = self.engine.calls_in_flight();
        self.inbox.wait(calls_in_flight, self.engine.sources()).await;
    }

    /// Replaces everything that belongs to the broken runtime. Returns false if that is impossible.
    fn restart(&mut self) -> bool {
        self.inbox = Inbox::new(self.world.clone(), true);
        self.engine.restart()
    }

    /// Ends the engine and reports the reason to every caller.
    fn fail(mut self, why: &io::Error) {
        let what = "the program closed the client's descriptors, and there is no going on";
        let advice = "close no descriptors that the program did not open, and make a new client";
        self.engine.fail(unavailable(what, why, advice));
    }
}

/// The place for an engine that outlives its runtime.
type ReturnSlot = Arc<Mutex<Option<EngineLoop>>>;

/// Puts the engine into `return_slot` when this guard is dropped.
struct ReturnOnDrop {
    /// `None` once the engine has ended.
    engine_loop: Option<EngineLoop>,
    return_slot: ReturnSlot,
}

impl Drop for ReturnOnDrop {
    fn drop(&mut self) {
        // An engine that panicked cannot continue. Its drop answers every caller.
        if !thread::panicking() {
            *lock(&self.return_slot) = self.engine_loop.take();
        }
    }
}

/// A task that can also be ended from outside its runtime, which may be broken.
#[derive(Clone)]
struct EndableTask {
    task: Arc<Mutex<Option<Task>>>,
    monitor: Arc<DescriptorMonitor>,
}

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

impl EndableTask {
    fn of(task: impl Future<Output = ()> + Send + 'static, monitor: &Arc<DescriptorMonitor>) -> Self {
        Self {
            task: Arc::new(Mutex::new(Some(Box::pin(task)))),
            monitor: Arc::clone(monitor),
        }
    }

    async fn run(self) {
        let mut waker_cache = WakerCache::default();
        poll_fn(|context| {
            let polled = match &mut *lock(&self.task) {
                Some(task) => waker_cache.with(&self.monitor, context, |context| task.as_mut().poll(context)),
                None => Poll::Ready(()),
            };
            if take_descriptor_closed() {
                self.monitor.report_lost();
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

/// Yields to the runtime once, so that it handles its sockets and runs its other tasks. Otherwise the runtime would do
/// neither while callers keep the engine busy.
async fn yield_to_connections() {
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

/// The means by which the engine waits: collects what arrives, and sleeps or spins until something does.
pub(super) struct Inbox {
    timer: Timer,
    spin: Spin,
    /// The kind of caller that sent the last command.
    caller_kind: CallerKind,
    /// Whether each sleep has a timer. A runtime whose descriptors were closed gets no other wake-up.
    always_has_timer: bool,
    world: World,
}

impl Inbox {
    pub(super) fn new(world: World, has_descriptors: bool) -> Self {
        // One processor turns spinning off. In virtual time a spin would never end, because the clock stands still.
        let processors = match world.is_virtual() {
            true => 1,
            false => thread::available_parallelism().map_or(1, Into::into),
        };
        Self {
            timer: Timer::default(),
            spin: Spin::on(processors),
            caller_kind: CallerKind::Threads,
            always_has_timer: has_descriptors && !world.is_virtual(),
            world,
        }
    }

    /// Waits until the engine has work. `calls_in_flight` is the number of calls without a reply.
    pub(super) async fn wait(&mut self, calls_in_flight: usize, mut sources: Sources<'_>) {
        let arrival = Arrival::of(calls_in_flight, self.caller_kind);
        let start = self.world.now();
        match self.spin.spin_until(arrival, start) {
            Some(until) => {
                let has_arrived = self.spin_until(until, &mut sources).await;
                self.spin.record_spin(arrival, has_arrived);
                if !has_arrived {
                    poll_fn(|context| self.poll_arrivals(&mut sources, context)).await;
                }
            }
            None => {
                poll_fn(|context| self.poll_arrivals(&mut sources, context)).await;
                self.spin.record_sleep(arrival, start, self.world.now());
            }
        }
        if let Some(caller_kind) = sources.caller_kind() {
            self.caller_kind = caller_kind;
            self.spin.on_command(self.world.now());
        }
    }

    /// Looks for arrivals repeatedly until `until`. Returns whether something arrived.
    async fn spin_until(&mut self, until: Instant, sources: &mut Sources<'_>) -> bool {
        if self.has_arrivals(sources).await {
            return true;
        }
        // Lets the runtime handle its sockets before the loop yields the processor to other threads.
        tokio::task::yield_now().await;
        while !self.has_arrivals(sources).await {
            if self.world.now() >= until {
                return false;
            }
            thread::yield_now();
            // The runtime checks its sockets here without sleeping.
            tokio::task::yield_now().await;
        }
        true
    }

    async fn has_arrivals(&mut self, sources: &mut Sources<'_>) -> bool {
        poll_fn(|context| Poll::Ready(self.poll_arrivals(sources, context).is_ready())).await
    }

    /// Collects everything that has arrived. Ready if anything has, or if the engine has work that is due.
    fn poll_arrivals(&mut self, sources: &mut Sources<'_>, context: &mut Context<'_>) -> Poll<()> {
        let now = self.world.now();
        if sources.take(context, now) {
            return Poll::Ready(());
        }
        let due = sources
            .due()
            .or_else(|| self.always_has_timer.then_some(Instant::FAR_FUTURE));
        self.timer.poll(due, now, context)
    }
}

/// The longest sleep. While the machine sleeps, the engine's clock continues but timers stand still: a longer timer
/// could fire much too late.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// A tokio timer that is reset only to fire earlier, or after it was due.
#[derive(Default)]
pub(super) struct Timer {
    sleep: Option<Sleep>,
    fires_at: Option<Instant>,
}

impl Timer {
    /// Ready when the engine's clock reaches `due`; never if `due` is `None`. Can also be ready earlier: the caller
    /// must then look at the clock again.
    pub(super) fn poll(&mut self, due: Option<Instant>, now: Instant, context: &mut Context<'_>) -> Poll<()> {
        let Some(due) = due else { return Poll::Pending };
        if now >= due {
            return Poll::Ready(());
        }
        if self.fires_at.is_none_or(|fires_at| due < fires_at || now >= fires_at) {
            let length = due.saturating_since(now).min(LONGEST_SLEEP);
            let at = tokio::time::Instant::now() + length;
            match &mut self.sleep {
                Some(sleep) => sleep.reset(at),
                None => self.sleep = Some(Sleep::until(at)),
            }
            self.fires_at = Some(now + length);
        }
        match &mut self.sleep {
            // A timer that fires early makes the engine look at the clock again.
            Some(sleep) => match Pin::new(sleep).poll(context) {
                Poll::Ready(()) => {
                    self.fires_at = None;
                    Poll::Ready(())
                }
                Poll::Pending => Poll::Pending,
            },
            None => Poll::Pending,
        }
    }
}
