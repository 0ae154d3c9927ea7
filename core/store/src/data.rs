//! Everything that a command can touch.

use std::time::Duration;

use crate::commands::{self, Command, Effect, Run};
use crate::glob::Pattern;
use crate::keyspace::Keyspace;
use crate::limits::{HALF_DONE_BYTES, Limits};
use crate::pubsub::PubSub;
use crate::reply::{Reply, Room, StoreError};
use crate::time::ServerTime;

/// The keys, the subscriptions and the counters: all but the script engine.
#[derive(Debug)]
pub(crate) struct Data {
    pub(crate) keys: Keyspace,
    pub(crate) pubsub: PubSub,
    pub(crate) now: ServerTime,
    pub(crate) started: Option<ServerTime>,
    pub(crate) run_id: String,
    /// How often each command of the table was called and refused.
    pub(crate) stats: Vec<CommandStats>,
    /// For `HRANDFIELD` and `math.random`; seeded alike in every store.
    pub(crate) random: Random,
    /// What the server in front of the store adds to `INFO`.
    pub(crate) front: Front,
    pub(crate) limits: Limits,
    /// The script that runs has written: it may finish although the store is full.
    pub(crate) has_written: bool,
    /// Commands that add are refused, whatever the store holds.
    pub(crate) is_full: bool,
}

/// What `INFO` says of the port in front of the store.
#[derive(Debug, Default, Clone)]
pub(crate) struct Front {
    pub(crate) port: u16,
    pub(crate) clients: usize,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CommandStats {
    pub(crate) calls: u64,
    pub(crate) failed: u64,
    pub(crate) rejected: u64,
}

impl Data {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            keys: Keyspace::default(),
            pubsub: PubSub::default(),
            now: ServerTime::default(),
            started: None,
            run_id: "0".repeat(40),
            stats: vec![CommandStats::default(); commands::TABLE.len()],
            random: Random::default(),
            front: Front::default(),
            limits,
            has_written: false,
            is_full: false,
        }
    }

    pub(crate) fn set_now(&mut self, now: ServerTime) {
        self.now = now;
        self.started.get_or_insert(now);
        self.keys.set_now(now.as_millis());
    }

    pub(crate) fn uptime(&self) -> Duration {
        let started = self.started.unwrap_or(self.now);
        Duration::from_micros(self.now.as_micros().saturating_sub(started.as_micros()))
    }

    /// Room for a reply.
    pub(crate) const fn room(&self) -> Room {
        Room::new(&self.limits)
    }

    /// A pattern of a command.
    pub(crate) fn pattern<'a>(&self, bytes: &'a [u8]) -> Pattern<'a> {
        Pattern::new(bytes, self.limits.glob_steps)
    }

    /// Refuses a command that adds to a full store.
    fn has_room(&self, command: &Command, args: &[&[u8]], is_half_done: bool) -> Result<(), StoreError> {
        if command.effect != Effect::Adds {
            return Ok(());
        }
        if self.is_full && !is_half_done {
            return Err(StoreError::out_of_memory());
        }
        if self.limits.data_bytes == usize::MAX {
            return Ok(());
        }
        if args.iter().any(|arg| arg.len() > self.limits.value_bytes) {
            return Err(StoreError::value_too_large());
        }
        // No command adds more than what was sent with it, and the places for it.
        let added: usize = args.iter().map(|arg| arg.len() + ADDED_BYTES).sum();
        let most = self.limits.data_bytes + if is_half_done { HALF_DONE_BYTES } else { 0 };
        if self.keys.bytes().saturating_add(added) > most {
            return Err(StoreError::out_of_memory());
        }
        Ok(())
    }

    /// Executes a command of a script.
    pub(crate) fn execute_in_script(&mut self, args: &[&[u8]]) -> Reply {
        let Some(command) = args.first().and_then(|name| commands::find(name)) else {
            return Reply::Error(StoreError::err("Unknown Redis command called from script"));
        };
        if !command.accepts(args.len()) {
            self.stats[command.index()].rejected += 1;
            return Reply::Error(StoreError::err(
                "Wrong number of args calling Redis command from script",
            ));
        }
        match command.run {
            Run::Data(run) => {
                let reply = self.run_bounded(command, run, args, self.has_written);
                self.has_written |= command.effect != Effect::None && !matches!(reply, Reply::Error(_));
                reply
            }
            Run::Script(_) | Run::Connection => {
                self.stats[command.index()].rejected += 1;
                Reply::Error(StoreError::err("This Redis command is not allowed from script"))
            }
        }
    }

    pub(crate) fn run(&mut self, command: &'static Command, run: commands::RunData, args: &[&[u8]]) -> Reply {
        self.run_bounded(command, run, args, false)
    }

    fn run_bounded(
        &mut self,
        command: &'static Command,
        run: commands::RunData,
        args: &[&[u8]],
        is_half_done: bool,
    ) -> Reply {
        let room = self.has_room(command, args, is_half_done);
        let reply = room.and_then(|()| run(self, args)).unwrap_or_else(Reply::Error);
        self.count(command, &reply);
        reply
    }

    pub(crate) fn count(&mut self, command: &'static Command, reply: &Reply) {
        let stats = &mut self.stats[command.index()];
        stats.calls += 1;
        stats.failed += u64::from(matches!(reply, Reply::Error(_)));
    }
}

/// Bytes that an argument may add beside its content.
const ADDED_BYTES: usize = 512;

/// The generator of POSIX `lrand48`, with which Redis replaces Lua's own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Random(u64);

impl Default for Random {
    fn default() -> Self {
        Self(0x1234_ABCD_330E)
    }
}

impl Random {
    /// The largest number that `next` gives.
    pub(crate) const MAX: u32 = 0x7FFF_FFFF;

    pub(crate) fn seed(&mut self, seed: i32) {
        self.0 = (u64::from(seed.cast_unsigned()) << 16) | 0x330E;
    }

    /// 0 to 2^31 - 1.
    pub(crate) fn next(&mut self) -> u32 {
        self.0 = (self.0.wrapping_mul(0x5_DEEC_E66D).wrapping_add(0xB)) & 0xFFFF_FFFF_FFFF;
        u32::try_from(self.0 >> 17).unwrap_or(Self::MAX)
    }

    /// A number below `bound`, which must not be zero.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let drawn = (u64::from(self.next()) << 31) | u64::from(self.next());
        usize::try_from(drawn).unwrap_or(0) % bound
    }
}
