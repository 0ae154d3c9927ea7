//! Everything that a command can touch.

use std::time::Duration;

use crate::counts::Counts;
use crate::glob::Pattern;
use crate::keyspace::Keyspace;
use crate::limits::{HALF_DONE_BYTES, Limits};
use crate::pubsub::PubSub;
use crate::random::Random;
use crate::reply::{Room, StoreError};
use crate::time::ServerTime;

/// The keys, the subscriptions and the counters: all but the script engine.
#[derive(Debug)]
pub(crate) struct Data {
    keys: Keyspace,
    pubsub: PubSub,
    now: ServerTime,
    started: Option<ServerTime>,
    run_id: String,
    counts: Counts,
    /// For `HRANDFIELD` and `math.random`; seeded alike in every store.
    random: Random,
    /// What the server in front of the store adds to `INFO`.
    front: Front,
    limits: Limits,
    /// The script that runs has written: it may finish although the store is full.
    has_written: bool,
    /// Commands that add are refused, whatever the store holds.
    is_full: bool,
    transit: Transit,
}

/// Where the keys are that a script was called with, as a node of a cluster sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transit {
    /// All here.
    #[default]
    None,
    /// On their way to another node: no command of a script may look for what is not here.
    Leaving,
    /// On their way here: none that names several keys may.
    Arriving,
}

/// What `INFO` says of the port in front of the store.
#[derive(Debug, Default, Clone)]
pub(crate) struct Front {
    pub(crate) port: u16,
    pub(crate) clients: usize,
}

impl Data {
    /// Nothing yet; `commands` are the names of the commands whose calls it counts.
    pub(crate) fn new(limits: Limits, commands: impl Iterator<Item = &'static str>) -> Self {
        Self {
            keys: Keyspace::default(),
            pubsub: PubSub::default(),
            now: ServerTime::default(),
            started: None,
            run_id: "0".repeat(40),
            counts: Counts::new(commands),
            random: Random::default(),
            front: Front::default(),
            limits,
            has_written: false,
            is_full: false,
            transit: Transit::None,
        }
    }

    pub(crate) const fn keys(&mut self) -> &mut Keyspace {
        &mut self.keys
    }

    /// How many keys there are, and how many of them have a TTL.
    pub(crate) fn key_counts(&self) -> (usize, usize) {
        self.keys.counts()
    }

    pub(crate) const fn pubsub(&mut self) -> &mut PubSub {
        &mut self.pubsub
    }

    pub(crate) const fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    /// For a command that draws from what a key holds.
    pub(crate) const fn keys_and_random(&mut self) -> (&mut Keyspace, &mut Random) {
        (&mut self.keys, &mut self.random)
    }

    pub(crate) const fn counts(&self) -> &Counts {
        &self.counts
    }

    pub(crate) const fn counts_mut(&mut self) -> &mut Counts {
        &mut self.counts
    }

    pub(crate) const fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) const fn now(&self) -> ServerTime {
        self.now
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

    pub(crate) fn run_id(&self) -> &str {
        &self.run_id
    }

    pub(crate) fn set_run_id(&mut self, run_id: String) {
        self.run_id = run_id;
    }

    pub(crate) const fn front(&self) -> &Front {
        &self.front
    }

    #[cfg(feature = "server")]
    pub(crate) const fn set_front(&mut self, front: Front) {
        self.front = front;
    }

    pub(crate) const fn set_full(&mut self, is_full: bool) {
        self.is_full = is_full;
    }

    pub(crate) const fn set_transit(&mut self, transit: Transit) {
        self.transit = transit;
    }

    /// Whether a command of a script may look for these keys.
    pub(crate) fn may_touch(&mut self, keys: &[&[u8]]) -> bool {
        let is_free = match self.transit {
            Transit::None => true,
            Transit::Leaving => keys.is_empty(),
            Transit::Arriving => keys.len() < 2,
        };
        is_free || keys.iter().all(|key| self.keys.contains(key))
    }

    /// A script begins.
    pub(crate) const fn begin_script(&mut self) {
        self.has_written = false;
    }

    /// The script that runs has written.
    pub(crate) const fn mark_written(&mut self) {
        self.has_written = true;
    }

    /// Whether the script that runs has written, and would be left half done.
    pub(crate) const fn has_written(&self) -> bool {
        self.has_written
    }

    /// Room for a reply.
    pub(crate) const fn room(&self) -> Room {
        Room::new(&self.limits)
    }

    /// A pattern of a command.
    pub(crate) fn pattern<'a>(&self, bytes: &'a [u8]) -> Pattern<'a> {
        Pattern::new(bytes, self.limits.glob_steps)
    }

    /// Refuses what adds to a full store.
    pub(crate) fn check_room(&self, args: &[&[u8]], is_half_done: bool) -> Result<(), StoreError> {
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
}

/// Bytes that an argument may add beside its content.
const ADDED_BYTES: usize = 512;
