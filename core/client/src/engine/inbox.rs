//! How the engine waits: for callers, for the server, and for the clock.

use std::future::poll_fn;
use std::task::{Context, Poll};

use leasehold_protocol::Instant;

use super::spin::{News, Spin};
use super::timer::Timer;
use crate::port::{Command, Commands};
use crate::transport::{Seen, Transport};
use crate::world::World;

/// How many commands are taken at once. With more, callers, engine and server
/// would all wait for one another: each works on a burst of its own.
const BURST: usize = 16;

/// Takes what comes, and sleeps until it does.
pub(super) struct Inbox {
    commands: Commands,
    timer: Timer,
    spin: Spin,
    world: World,
}

/// What came.
#[derive(Default)]
pub(super) struct Arrived {
    pub(super) seen: Vec<Seen>,
    pub(super) commands: Vec<Command>,
}

/// What one wait is for.
pub(super) struct Awaited<'a> {
    pub(super) transport: &'a mut dyn Transport,
    /// What comes first, an answer or a command.
    pub(super) news: News,
    /// When to do something though nothing came.
    pub(super) due: Option<Instant>,
    pub(super) arrived: &'a mut Arrived,
}

impl Inbox {
    pub(super) fn new(commands: Commands, world: World) -> Self {
        // To look again in virtual time would be to look at the same moment for ever.
        let processors = match world.is_virtual() {
            true => 1,
            false => std::thread::available_parallelism().map_or(1, Into::into),
        };
        Self {
            commands,
            timer: Timer::default(),
            spin: Spin::on(processors),
            world,
        }
    }

    /// Waits until there is something to do.
    pub(super) async fn wait(&mut self, mut awaited: Awaited<'_>) {
        let news = awaited.news;
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
        if !awaited.arrived.commands.is_empty() {
            self.spin.command_came(self.world.now());
        }
    }

    /// Nothing is taken any more; what was sent before can be taken still.
    pub(super) fn close(&mut self) {
        self.commands.close();
    }

    /// A command that was left.
    pub(super) fn take_left(&mut self) -> Option<Command> {
        self.commands.try_recv().ok()
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
        let Awaited { transport, arrived, .. } = awaited;
        transport.poll(context, now, &mut arrived.seen);
        let commands = self.commands.poll_recv_many(context, &mut arrived.commands, BURST);
        if !arrived.seen.is_empty() || commands.is_ready() {
            return Poll::Ready(());
        }
        let due = [awaited.due, awaited.transport.poll_timeout()]
            .into_iter()
            .flatten()
            .min();
        self.timer.poll(due, now, context)
    }
}
