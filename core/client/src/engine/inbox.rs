//! The engine's wait: for callers, for the server, and for the clock.

use std::future::poll_fn;
use std::task::{Context, Poll};

use steadlock_protocol::Instant;

use super::arrived::Awaited;
use super::spin::{Callers, News, Spin};
use super::timer::Timer;
use crate::world::World;

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
            false => std::thread::available_parallelism().map_or(1, Into::into),
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
            std::thread::yield_now();
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
