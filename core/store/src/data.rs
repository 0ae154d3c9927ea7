//! Everything that a command can access.

use std::time::Duration;

use crate::counts::Counts;
use crate::glob::Pattern;
use crate::keyspace::Keyspace;
use crate::limits::{Limits, OVERSHOOT_BYTES};
use crate::pubsub::PubSub;
use crate::random::Random;
use crate::reply::{ReplyBudget, StoreError};
use crate::time::ServerTime;

/// The keys, the subscriptions and the counters: everything except the script engine.
#[derive(Debug)]
pub(crate) struct Data {
    keys: Keyspace,
    pubsub: PubSub,
    now: ServerTime,
    started: Option<ServerTime>,
    run_id: String,
    counts: Counts,
    /// The generator for `HRANDFIELD` and `math.random`. Every store starts with the same seed.
    random: Random,
    /// The facts that the server in front of the store adds to `INFO`.
    port_info: PortInfo,
    limits: Limits,
    /// Whether the running script has written. If so, it may still add when the store is full (see `check_memory`).
    script_has_written: bool,
    /// Whether commands that add are refused regardless of the store's size, except in a script that has written.
    is_full: bool,
    slot_migration: SlotMigration,
}

/// The migration of the slot of a script's keys, as a node of a cluster sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlotMigration {
    /// All keys are here.
    #[default]
    None,
    /// The keys are moving to another node. In a script, a command must not access a missing key.
    Migrating,
    /// The keys are moving to this node. In a script, a command with several keys must not access a missing one.
    Importing,
}

/// The facts in `INFO` about the server in front of the store.
#[derive(Debug, Default, Clone)]
pub(crate) struct PortInfo {
    pub(crate) port: u16,
    /// The number of clients that are connected.
    pub(crate) clients: usize,
}

impl Data {
    /// Creates empty data. `commands` are the names of the commands whose calls are counted.
    pub(crate) fn new(limits: Limits, commands: impl Iterator<Item = &'static str>) -> Self {
        Self {
            keys: Keyspace::default(),
            pubsub: PubSub::default(),
            now: ServerTime::default(),
            started: None,
            run_id: "0".repeat(40),
            counts: Counts::new(commands),
            random: Random::default(),
            port_info: PortInfo::default(),
            limits,
            script_has_written: false,
            is_full: false,
            slot_migration: SlotMigration::None,
        }
    }

    pub(crate) const fn keys(&mut self) -> &mut Keyspace {
        &mut self.keys
    }

    /// Returns the number of keys, and the number of keys with a TTL.
    pub(crate) fn key_counts(&self) -> (usize, usize) {
        self.keys.counts()
    }

    pub(crate) const fn pubsub(&mut self) -> &mut PubSub {
        &mut self.pubsub
    }

    pub(crate) const fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    /// Returns the keys and the random generator, for a command that draws elements of a key.
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

    pub(crate) const fn port_info(&self) -> &PortInfo {
        &self.port_info
    }

    #[cfg(feature = "server")]
    pub(crate) const fn set_port_info(&mut self, port_info: PortInfo) {
        self.port_info = port_info;
    }

    pub(crate) const fn set_full(&mut self, is_full: bool) {
        self.is_full = is_full;
    }

    pub(crate) const fn set_slot_migration(&mut self, slot_migration: SlotMigration) {
        self.slot_migration = slot_migration;
    }

    /// Returns whether a command of a script may access these keys.
    pub(crate) fn can_access(&mut self, keys: &[&[u8]]) -> bool {
        let may_be_missing = match self.slot_migration {
            SlotMigration::None => true,
            SlotMigration::Migrating => keys.is_empty(),
            SlotMigration::Importing => keys.len() < 2,
        };
        may_be_missing || keys.iter().all(|key| self.keys.contains(key))
    }

    /// Notes that a script begins, which has not written yet.
    pub(crate) const fn begin_script(&mut self) {
        self.script_has_written = false;
    }

    pub(crate) const fn mark_written(&mut self) {
        self.script_has_written = true;
    }

    /// Returns whether the running script has written. If so, it should finish: otherwise its work stays half done.
    pub(crate) const fn script_has_written(&self) -> bool {
        self.script_has_written
    }

    pub(crate) const fn reply_budget(&self) -> ReplyBudget {
        ReplyBudget::new(&self.limits)
    }

    /// Returns a pattern with the budget of one command.
    pub(crate) fn pattern<'a>(&self, bytes: &'a [u8]) -> Pattern<'a> {
        Pattern::new(bytes, self.limits.glob_steps)
    }

    /// Returns an error if the store is full, or if a command that adds could exceed the limits of the store.
    pub(crate) fn check_memory(&self, args: &[&[u8]], script_has_written: bool) -> Result<(), StoreError> {
        if self.is_full && !script_has_written {
            return Err(StoreError::out_of_memory());
        }
        if self.limits.data_bytes == usize::MAX {
            return Ok(());
        }
        if args.iter().any(|arg| arg.len() > self.limits.value_bytes) {
            return Err(StoreError::value_too_large());
        }
        // A command adds no more than its arguments, and the table entries for them. Only `APPEND` can add more,
        // because a string that grows reserves memory in advance.
        let added: usize = args.iter().map(|arg| arg.len() + ADDED_BYTES).sum();
        let most = self.limits.data_bytes + if script_has_written { OVERSHOOT_BYTES } else { 0 };
        if self.keys.bytes().saturating_add(added) > most {
            return Err(StoreError::out_of_memory());
        }
        Ok(())
    }
}

/// The bytes that an argument can add in addition to its content.
const ADDED_BYTES: usize = 512;
