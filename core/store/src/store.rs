//! The store: executes commands and returns replies, with the time as an argument.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
#[cfg(feature = "server")]
use std::time::Duration;

use steadlock_protocol::Script;

use crate::commands::{self, Run, scripting};
#[cfg(feature = "server")]
use crate::counts::Count;
#[cfg(feature = "server")]
use crate::data::PortInfo;
use crate::data::{Data, SlotMigration};
use crate::dispatch;
use crate::limits::Limits;
use crate::lua::{Engine, TimeLimit};
use crate::pubsub::{Delivery, SubscriberId};
use crate::reply::{EXCERPT_BYTES, Reply, StoreError, excerpt};
use crate::time::ServerTime;

/// A store without clock, socket or entropy.
///
/// Every function that depends on time takes it as `now`, which should not go back. During a script time stands still:
/// nothing expires, and `TIME` returns `now`. The same calls with the same times give the same replies, except for the
/// `process_id` in `INFO`.
/// ```
/// use steadlock_store::{Reply, ServerTime, Store};
///
/// let mut store = Store::new();
/// let start = ServerTime::from_micros(1_700_000_000_000_000);
/// store.execute(&["SET", "stock", "3", "PX", "50"], start);
/// assert_eq!(store.execute(&["DECR", "stock"], start), Reply::Int(2));
///
/// let later = ServerTime::from_micros(start.as_micros() + 51_000);
/// assert_eq!(store.execute(&["GET", "stock"], later), Reply::Nil);
/// ```
pub struct Store {
    /// The data, shared with the functions that scripts call. While a script runs, only these functions lock it.
    data: Arc<Mutex<Data>>,
    engine: Engine,
}

/// The figures for metrics.
#[cfg(feature = "server")]
pub(crate) struct Stats {
    pub(crate) uptime: Duration,
    pub(crate) keys: usize,
    /// The number of keys with a TTL.
    pub(crate) expiring: usize,
    /// The memory of keys and values.
    pub(crate) bytes: usize,
    pub(crate) data_limit: usize,
    /// The number of scripts that are kept for EVALSHA.
    pub(crate) scripts: usize,
    /// The commands that were called, correctly or not.
    pub(crate) commands: Vec<(&'static str, Count)>,
}

impl Store {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::with_limits(Limits::NONE)
    }

    /// Creates an empty store with limits, for clients that may be hostile.
    #[must_use]
    pub fn with_limits(limits: Limits) -> Self {
        Self::with_time_limit(limits, None)
    }

    /// Creates a store with limits, and with a time limit that detects work that takes too long.
    pub(crate) fn with_time_limit(limits: Limits, time_limit: Option<Arc<dyn TimeLimit>>) -> Self {
        let data = Arc::new(Mutex::new(Data::new(limits, commands::names())));
        let engine = Engine::new(&data, limits, time_limit);
        Self { data, engine }
    }

    /// Executes a command, such as `["SET", "key", "value"]`.
    ///
    /// A refusal is a [`Reply::Error`], with the text of Redis 7 if Redis refuses the command for the same reason.
    pub fn execute<A: AsRef<[u8]>>(&mut self, args: &[A], now: ServerTime) -> Reply {
        let args: Vec<&[u8]> = args.iter().map(AsRef::as_ref).collect();
        let Some(name) = args.first() else {
            return Reply::Error(StoreError::err("empty command"));
        };
        let Some(command) = commands::find(name) else {
            return Reply::Error(unknown_command(&args));
        };
        let mut data = self.data();
        data.set_now(now);
        if !command.accepts(args.len()) {
            data.counts_mut().record_rejection(command.index());
            return Reply::Error(StoreError::arity(command.name));
        }
        match command.run {
            Run::Data(run) => dispatch::run(&mut data, command, run, &args),
            Run::Script(which) => {
                data.begin_script();
                drop(data);
                let reply = scripting::run(which, &mut self.engine, &args).unwrap_or_else(Reply::Error);
                dispatch::count(&mut self.data(), command, &reply);
                reply
            }
            Run::Connection => Reply::Error(StoreError::err(format!(
                "'{}' works on a connection only",
                command.name
            ))),
        }
    }

    /// Forgets everything except the limits and the compiled scripts, which `EVALSHA` still finds.
    pub fn clear_for_reuse(&mut self) {
        let mut data = self.data();
        let limits = *data.limits();
        *data = Data::new(limits, commands::names());
    }

    /// Sets whether the store refuses commands that add to it (OOM), like a server at its `maxmemory`. A script that
    /// has already written may finish.
    pub fn set_full(&mut self, is_full: bool) {
        self.data().set_full(is_full);
    }

    /// Sets whether the slot of the keys is migrating while the next scripts run. During a migration, a node of a
    /// cluster stops a script that accesses a missing key, because the key may be on the other node.
    pub fn set_slot_migration(&mut self, slot_migration: SlotMigration) {
        self.data().set_slot_migration(slot_migration);
    }

    /// Runs one of Steadlock's scripts. Each script is compiled only once.
    pub fn run_script<K, A>(&mut self, script: Script, keys: &[K], args: &[A], now: ServerTime) -> Reply
    where
        K: AsRef<[u8]>,
        A: AsRef<[u8]>,
    {
        let mut data = self.data();
        data.set_now(now);
        data.begin_script();
        drop(data);
        let reply = self.engine.run_own(script, keys, args);
        if let Some(command) = commands::find(b"evalsha") {
            dispatch::count(&mut self.data(), command, &reply);
        }
        reply
    }

    /// Subscribes to a channel. Returns whether the subscription is new.
    pub fn subscribe(&mut self, subscriber: SubscriberId, channel: &[u8]) -> bool {
        self.data().pubsub().subscribe(subscriber, channel, false)
    }

    /// Ends a subscription. Returns whether there was one.
    pub fn unsubscribe(&mut self, subscriber: SubscriberId, channel: &[u8]) -> bool {
        self.data().pubsub().unsubscribe(subscriber, channel, false)
    }

    /// Subscribes to a sharded channel. Returns whether the subscription is new.
    pub fn ssubscribe(&mut self, subscriber: SubscriberId, channel: &[u8]) -> bool {
        self.data().pubsub().subscribe(subscriber, channel, true)
    }

    /// Ends a subscription to a sharded channel. Returns whether there was one.
    pub fn sunsubscribe(&mut self, subscriber: SubscriberId, channel: &[u8]) -> bool {
        self.data().pubsub().unsubscribe(subscriber, channel, true)
    }

    /// Takes the messages that were published for subscribers since the last call, in order.
    pub fn take_deliveries(&mut self) -> Vec<Delivery> {
        self.data().pubsub().take_deliveries()
    }

    /// Sets the `run_id` of `INFO`, by which clients tell servers apart: 40 hex digits, all zero by default.
    pub fn set_run_id(&mut self, run_id: String) {
        self.data().set_run_id(run_id);
    }

    /// Sets the facts in `INFO` about the server in front of the store.
    #[cfg(feature = "server")]
    pub(crate) fn set_port_info(&mut self, port_info: PortInfo) {
        self.data().set_port_info(port_info);
    }

    #[cfg(feature = "server")]
    pub(crate) fn limits(&self) -> Limits {
        *self.data().limits()
    }

    /// Returns whether the current work has taken too long.
    #[cfg(feature = "server")]
    pub(crate) fn is_over_time(&self) -> bool {
        self.engine.is_over_time()
    }

    /// Counts a command that the server in front of the store executed. Without a reply it counts as a success.
    #[cfg(feature = "server")]
    pub(crate) fn count(&self, command: &'static commands::Command, reply: Option<&Reply>) {
        dispatch::count(&mut self.data(), command, reply.unwrap_or(&Reply::OK));
    }

    /// Returns the figures for metrics.
    #[cfg(feature = "server")]
    pub(crate) fn stats(&self, now: ServerTime) -> Stats {
        let mut data = self.data();
        data.set_now(now);
        let (keys, expiring) = data.key_counts();
        Stats {
            uptime: data.uptime(),
            keys,
            expiring,
            bytes: data.keys().bytes(),
            data_limit: data.limits().data_bytes,
            scripts: self.engine.scripts(),
            commands: data.counts().iter().filter(|(_, count)| count.is_used()).collect(),
        }
    }

    /// Locks the data. After a panic it is still consistent: every command has either finished or not begun.
    fn data(&self) -> MutexGuard<'_, Data> {
        self.data.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Store {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").finish_non_exhaustive()
    }
}

/// Returns Redis' error for an unknown command.
pub(crate) fn unknown_command(args: &[&[u8]]) -> StoreError {
    let name = excerpt(args.first().copied().unwrap_or_default(), EXCERPT_BYTES);
    let mut rest = String::new();
    for arg in args.iter().skip(1) {
        if rest.len() >= EXCERPT_BYTES {
            break;
        }
        rest += &format!("'{}' ", excerpt(arg, EXCERPT_BYTES - rest.len()));
    }
    StoreError::err(format!("unknown command '{name}', with args beginning with: {rest}"))
}
