//! How the engine waits: for callers, for the server, and for the clock.

use std::future::poll_fn;
use std::task::{Context, Poll};

use steadlock_protocol::Instant;

use super::arrived::Awaited;
use super::spin::{Callers, News, Spin};
use super::timer::Timer;
use crate::world::World;

/// Takes what comes, and sleeps until it does.
pub(super) struct Inbox {
    timer: Timer,
    spin: Spin,
    /// Who asked last.
    callers: Callers,
    /// Whether it never sleeps without a timer: nothing wakes a runtime whose descriptors were closed.
    ticks: bool,
    world: World,
}

impl Inbox {
    pub(super) fn new(world: World, has_descriptors: bool) -> Self {
        // To look again in virtual time would be to look at the same moment for ever.
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

    /// Waits until there is something to do, with so many calls sent that are not answered.
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

    /// Looks again and again. Returns whether something came.
    async fn look_until(&mut self, until: Instant, awaited: &mut Awaited<'_>) -> bool {
        if self.is_there_anything(awaited).await {
            return true;
        }
        // What is to be sent is sent now, before others get the processor.
        tokio::task::yield_now().await;
        while !self.is_there_anything(awaited).await {
            if self.world.now() >= until {
                return false;
            }
            std::thread::yield_now();
            // The runtime looks at the sockets, and does not sleep.
            tokio::task::yield_now().await;
        }
        true
    }

    async fn is_there_anything(&mut self, awaited: &mut Awaited<'_>) -> bool {
        poll_fn(|context| Poll::Ready(self.gather(awaited, context).is_ready())).await
    }

    /// Takes what is there. Ready if that is anything, or if it is time to do something.
    fn gather(&mut self, awaited: &mut Awaited<'_>, context: &mut Context<'_>) -> Poll<()> {
        let now = self.world.now();
        if awaited.take(context, now) {
            return Poll::Ready(());
        }
        let due = awaited.due().or_else(|| self.ticks.then_some(Instant::FAR_FUTURE));
        self.timer.poll(due, now, context)
    }
}
