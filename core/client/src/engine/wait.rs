//! How the engine waits: for callers, for the server, and for the clock.

use std::future::poll_fn;
use std::task::{Context, Poll};

use leasehold_protocol::Instant;

use super::Engine;
use super::spin::News;
use crate::clock;

/// How many commands are taken at once. With more, callers, engine and server
/// would all wait for one another: each works on a burst of its own.
pub(super) const BURST: usize = 16;

impl Engine {
    /// Waits until there is something to do.
    pub(super) async fn wait(&mut self) {
        let news = if self.session.awaits_answers() {
            News::Answer
        } else {
            News::Command
        };
        let began = clock::now();
        match self.spin.until(news, began) {
            Some(until) => {
                let came = self.look_until(until).await;
                self.spin.spun(news, came);
                if !came {
                    poll_fn(|context| self.gather(clock::now(), context)).await;
                }
            }
            None => {
                poll_fn(|context| self.gather(clock::now(), context)).await;
                self.spin.slept(news, began, clock::now());
            }
        }
        if !self.taken.is_empty() {
            self.spin.command_came(clock::now());
        }
    }

    /// Looks again and again. Returns whether something came.
    async fn look_until(&mut self, until: Instant) -> bool {
        if self.is_there_anything().await {
            return true;
        }
        // What is to be sent is sent now, before others get the processor.
        tokio::task::yield_now().await;
        while !self.is_there_anything().await {
            if clock::now() >= until {
                return false;
            }
            std::thread::yield_now();
            // The runtime looks at the sockets, and does not sleep.
            tokio::task::yield_now().await;
        }
        true
    }

    async fn is_there_anything(&mut self) -> bool {
        poll_fn(|context| Poll::Ready(self.gather(clock::now(), context).is_ready())).await
    }

    /// Takes what is there. Ready if that is anything, or if it is time to do something.
    fn gather(&mut self, now: Instant, context: &mut Context<'_>) -> Poll<()> {
        self.transport.poll(context, now, &mut self.seen);
        let commands = self.commands.poll_recv_many(context, &mut self.taken, BURST);
        if !self.seen.is_empty() || commands.is_ready() {
            return Poll::Ready(());
        }
        let due = [
            self.session.poll_timeout(),
            self.transport.poll_timeout(),
            self.closing.as_ref().map(|closing| closing.until),
        ]
        .into_iter()
        .flatten()
        .min();
        self.timer.poll(due, now, context)
    }
}
