//! An engine on its own thread, with its runtime.
//!
//! `Inbox` is the engine's wait: for callers, for the server, and for the clock.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use std::{io, thread};

use steadlock_protocol::{Cause, Error, ErrorKind, Instant, Operation};
use tokio::runtime;

use super::driver::{Driver, Watched};
use super::sentry::{Sentry, Wakers};
use super::spin::{Callers, News, Spin};
use super::tables::Awaited;
use super::turn::Engine;
use crate::port::{Commands, Port};
use crate::settings::Settings;
use crate::sleep::{Sleep, has_lost};
use crate::target::{Scheme, Target};
use crate::transport::First;
use crate::world::World;
use crate::{blocking_pool, transport};

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

/// The engine's means to wait: collects what arrives, and sleeps or spins until something does.
pub(super) struct Inbox {
    timer: Timer,
    spin: Spin,
    /// The kind of caller that sent the last command.
    callers: Callers,
    /// Whether each sleep has a timer. A runtime whose descriptors were closed gets no other wake-up.
    ticks: bool,
    world: World,
}

impl Inbox {
    pub(super) fn new(world: World, has_descriptors: bool) -> Self {
        // A single processor turns spinning off. In virtual time a spin would never end, because the clock stands
        // still.
        let processors = match world.is_virtual() {
            true => 1,
            false => thread::available_parallelism().map_or(1, Into::into),
        };
        Self {
            timer: Timer::default(),
            spin: Spin::on(processors),
            callers: Callers::Apart,
            ticks: has_descriptors && !world.is_virtual(),
            world,
        }
    }

    /// Waits until the engine has work. `calls_in_flight` is the number of calls without a reply.
    pub(super) async fn wait(&mut self, calls_in_flight: usize, mut awaited: Awaited<'_>) {
        let news = News::of(calls_in_flight, self.callers);
        let began = self.world.now();
        match self.spin.until(news, began) {
            Some(until) => {
                let came = self.look_until(until, &mut awaited).await;
                self.spin.spun(news, came);
                if !came {
                    poll_fn(|context| self.gather(&mut awaited, context)).await;
                }
            }
            None => {
                poll_fn(|context| self.gather(&mut awaited, context)).await;
                self.spin.slept(news, began, self.world.now());
            }
        }
        if let Some(callers) = awaited.callers() {
            self.callers = callers;
            self.spin.command_came(self.world.now());
        }
    }

    /// Looks for arrivals repeatedly until `until`. Returns whether something arrived.
    async fn look_until(&mut self, until: Instant, awaited: &mut Awaited<'_>) -> bool {
        if self.is_there_anything(awaited).await {
            return true;
        }
        // Lets the runtime handle its sockets before the loop yields the processor to other threads.
        tokio::task::yield_now().await;
        while !self.is_there_anything(awaited).await {
            if self.world.now() >= until {
                return false;
            }
            thread::yield_now();
            // The runtime checks its sockets here without sleeping.
            tokio::task::yield_now().await;
        }
        true
    }

    async fn is_there_anything(&mut self, awaited: &mut Awaited<'_>) -> bool {
        poll_fn(|context| Poll::Ready(self.gather(awaited, context).is_ready())).await
    }

    /// Collects everything that has arrived. Ready if anything has, or if the engine has work that is due.
    fn gather(&mut self, awaited: &mut Awaited<'_>, context: &mut Context<'_>) -> Poll<()> {
        let now = self.world.now();
        if awaited.take(context, now) {
            return Poll::Ready(());
        }
        let due = awaited.due().or_else(|| self.ticks.then_some(Instant::FAR_FUTURE));
        self.timer.poll(due, now, context)
    }
}

/// The longest sleep. Timers stand still while the machine sleeps but the engine's clock does not, so a longer timer
/// could fire much too late.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// A tokio timer that is reset only to fire earlier.
#[derive(Default)]
pub(super) struct Timer {
    sleep: Option<Sleep>,
    rings: Option<Instant>,
}

impl Timer {
    /// Ready when the engine's clock reaches `due`. Can also be ready earlier: the caller compares the clock again.
    pub(super) fn poll(&mut self, due: Option<Instant>, now: Instant, context: &mut Context<'_>) -> Poll<()> {
        let Some(due) = due else { return Poll::Pending };
        if now >= due {
            return Poll::Ready(());
        }
        if self.rings.is_none_or(|rings| due < rings || now >= rings) {
            let length = due.saturating_since(now).min(LONGEST_SLEEP);
            let at = tokio::time::Instant::now() + length;
            match &mut self.sleep {
                Some(sleep) => sleep.reset(at),
                None => self.sleep = Some(Sleep::until(at)),
            }
            self.rings = Some(now + length);
        }
        match &mut self.sleep {
            // A timer that fires early makes the engine look at the clock again.
            Some(sleep) => match Pin::new(sleep).poll(context) {
                Poll::Ready(()) => {
                    self.rings = None;
                    Poll::Ready(())
                }
                Poll::Pending => Poll::Pending,
            },
            None => Poll::Pending,
        }
    }
}
