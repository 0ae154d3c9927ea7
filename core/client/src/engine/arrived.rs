//! What came: from callers, and from the servers.

use std::task::Context;

use steadlock_protocol::Instant;

#[cfg(feature = "native")]
use super::spin::Callers;
#[cfg(feature = "native")]
use crate::port::Sink;
use crate::port::{Command, Commands};
use crate::transport::{Seen, Transport};

/// How many commands are taken at once. With more, callers, engine and server
/// would all wait for one another: each works on a burst of its own.
const BURST: usize = 16;

/// What came.
#[derive(Default)]
pub(super) struct Arrived {
    pub(super) seen: Vec<Seen>,
    pub(super) commands: Vec<Command>,
}

/// What one wait is for.
pub(super) struct Awaited<'a> {
    transport: &'a mut dyn Transport,
    commands: &'a Commands,
    due: Option<Instant>,
    arrived: &'a mut Arrived,
}

impl<'a> Awaited<'a> {
    /// `due` is when there is something to do though nothing came.
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

    /// Takes what is there, and says whether that is anything. If not, the task of `context`
    /// is woken when there is.
    pub(super) fn take(&mut self, context: &mut Context<'_>, now: Instant) -> bool {
        self.transport.poll(context, now, &mut self.arrived.seen);
        let commands = self.commands.poll_many(context, &mut self.arrived.commands, BURST);
        !self.arrived.seen.is_empty() || commands.is_ready()
    }

    /// Whose the last command is, if any came.
    #[cfg(feature = "native")]
    pub(super) fn callers(&self) -> Option<Callers> {
        self.arrived.commands.last().map(|command| match command {
            Command::Run {
                sink: Sink::Queue(_), ..
            } => Callers::Loop,
            _ => Callers::Apart,
        })
    }

    /// When it is time to do something though nothing came.
    pub(super) fn due(&self) -> Option<Instant> {
        [self.due, self.transport.poll_timeout()].into_iter().flatten().min()
    }
}
