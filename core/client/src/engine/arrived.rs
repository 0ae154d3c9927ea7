//! The commands from callers and the events from the servers that the next turn of the engine handles.

use std::task::Context;

use steadlock_protocol::Instant;

#[cfg(feature = "native")]
use super::spin::Callers;
#[cfg(feature = "native")]
use crate::port::Sink;
use crate::port::{Command, Commands};
use crate::transport::{Seen, Transport};

/// The largest number of commands in one turn. With larger bursts, callers, engine and server would take turns: each
/// would work on its own burst while the other two wait.
const BURST: usize = 16;

/// The input of one turn.
#[derive(Default)]
pub(super) struct Arrived {
    pub(super) seen: Vec<Seen>,
    pub(super) commands: Vec<Command>,
}

/// The sources that one wait of the engine listens to.
pub(super) struct Awaited<'a> {
    transport: &'a mut dyn Transport,
    commands: &'a Commands,
    due: Option<Instant>,
    arrived: &'a mut Arrived,
}

impl<'a> Awaited<'a> {
    /// Creates the sources of one wait. `due` is the time at which the engine has work even if nothing arrives.
    pub(super) fn new(
        transport: &'a mut dyn Transport,
        commands: &'a Commands,
        due: Option<Instant>,
        arrived: &'a mut Arrived,
    ) -> Self {
        Self {
            transport,
            commands,
            due,
            arrived,
        }
    }

    /// Collects everything that has arrived. Returns whether anything has. If not, the task of `context` is woken at
    /// the next arrival.
    pub(super) fn take(&mut self, context: &mut Context<'_>, now: Instant) -> bool {
        self.transport.poll(context, now, &mut self.arrived.seen);
        let commands = self.commands.poll_many(context, &mut self.arrived.commands, BURST);
        !self.arrived.seen.is_empty() || commands.is_ready()
    }

    /// Returns the kind of caller that sent the last command; `None` if no command arrived.
    #[cfg(feature = "native")]
    pub(super) fn callers(&self) -> Option<Callers> {
        self.arrived.commands.last().map(|command| match command {
            Command::Run {
                sink: Sink::Queue(_), ..
            } => Callers::Loop,
            _ => Callers::Apart,
        })
    }

    /// Returns the time at which the engine or the transport has work even if nothing arrives.
    pub(super) fn due(&self) -> Option<Instant> {
        [self.due, self.transport.poll_timeout()].into_iter().flatten().min()
    }
}
