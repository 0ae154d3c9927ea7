//! The store: commands in, replies out, time as an argument.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
#[cfg(feature = "server")]
use std::time::Duration;

use steadlock_protocol::Script;

use crate::commands::{self, Run, scripting};
#[cfg(feature = "server")]
use crate::counts::Count;
#[cfg(feature = "server")]
use crate::data::Front;
use crate::data::{Data, Transit};
use crate::dispatch;
use crate::limits::Limits;
use crate::lua::{Engine, Watch};
use crate::pubsub::{Delivery, SubscriberId};
use crate::reply::{Reply, SHOWN_BYTES, StoreError, shown};
use crate::time::ServerTime;

/// A store without clock, socket or entropy.
///
/// Every entry that can see the time takes it as `now`; it should not go back.
/// While a script runs, time stands still: nothing expires in it, and its
/// `TIME` is `now`. The same calls with the same times give the same replies.
///
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
    /// Shared with the functions that scripts call; never locked while a script runs, but by those.
    data: Arc<Mutex<Data>>,
    engine: Engine,
}

/// What a store counts.
#[cfg(feature = "server")]
pub(crate) struct Numbers {
    pub(crate) uptime: Duration,
    pub(crate) keys: usize,
    /// How many of them have a TTL.
    pub(crate) expiring: usize,
    /// What keys and values take.
    pub(crate) bytes: usize,
    pub(crate) most_bytes: usize,
    /// Those that are kept for EVALSHA.
    pub(crate) scripts: usize,
    /// Those that were called, or called wrongly.
    pub(crate) commands: Vec<(&'static str, Count)>,
}

impl Store {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::with_limits(Limits::NONE)
    }

    /// An empty store that clients may be hostile to.
    #[must_use]
    pub fn with_limits(limits: Limits) -> Self {
        Self::watched(limits, None)
    }

    /// The same, with somebody who can tell that a script takes too long.
    pub(crate) fn watched(limits: Limits, watch: Option<Arc<dyn Watch>>) -> Self {
        let data = Arc::new(Mutex::new(Data::new(limits, commands::names())));
        let engine = Engine::new(&data, limits, watch);
        Self { data, engine }
    }

    /// Executes a command, such as `["SET", "key", "value"]`.
    ///
    /// A refusal is a [`Reply::Error`] with the text that Redis 7 gives.
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
            data.counts_mut().rejected(command.index());
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

    /// Forgets everything but the scripts that were compiled: the store is as empty as a
    /// new one, which would compile them again.
    pub fn start_over(&mut self) {
        let mut data = self.data();
        let limits = *data.limits();
        *data = Data::new(limits, commands::names());
    }

    /// Makes the store refuse what adds to it (OOM), as a server that has reached its
    /// `maxmemory`; or takes that back. A script that has written may finish.
    pub fn set_full(&mut self, is_full: bool) {
        self.data().set_full(is_full);
    }

    /// Says where the keys of the next scripts are: a cluster's node stops a script in the midst of it
    /// that looks for a key which has gone.
    pub fn set_transit(&mut self, transit: Transit) {
        self.data().set_transit(transit);
    }

    /// Runs one of Steadlock's scripts, which is compiled once.
    pub fn run_script<K, A>(&mut self, script: Script, keys: &[K], args: &[A], now: ServerTime) -> Reply
    where
        K: AsRef<[u8]>,
        A: AsRef<[u8]>,
    {
        let mut data = self.data();
        data.set_now(now);
        data.begin_script();
        drop(data);
        let reply = self.engine.run_known(script, keys, args);
        if let Some(command) = commands::find(b"evalsha") {
            dispatch::count(&mut self.data(), command, &reply);
        }
        reply
    }

    /// Lets a subscriber hear a channel. Says whether it did not before.
    pub fn subscribe(&mut self, subscriber: SubscriberId, channel: &[u8]) -> bool {
        self.data().pubsub().subscribe(subscriber, channel, false)
    }

    /// Ends a subscription. Says whether there was one.
    pub fn unsubscribe(&mut self, subscriber: SubscriberId, channel: &[u8]) -> bool {
        self.data().pubsub().unsubscribe(subscriber, channel, false)
    }

    /// Lets a subscriber hear a sharded channel. Says whether it did not before.
    pub fn ssubscribe(&mut self, subscriber: SubscriberId, channel: &[u8]) -> bool {
        self.data().pubsub().subscribe(subscriber, channel, true)
    }

    /// Ends a subscription to a sharded channel. Says whether there was one.
    pub fn sunsubscribe(&mut self, subscriber: SubscriberId, channel: &[u8]) -> bool {
        self.data().pubsub().unsubscribe(subscriber, channel, true)
    }

    /// Takes what was published for subscribers since the last call, in order.
    pub fn take_deliveries(&mut self) -> Vec<Delivery> {
        self.data().pubsub().take_deliveries()
    }

    /// Sets the `run_id` of `INFO`, by which clients tell two servers apart: 40
    /// hex digits, all zero unless set.
    pub fn set_run_id(&mut self, run_id: String) {
        self.data().set_run_id(run_id);
    }

    /// Says in `INFO` what stands before the store.
    #[cfg(feature = "server")]
    pub(crate) fn set_front(&mut self, front: Front) {
        self.data().set_front(front);
    }

    #[cfg(feature = "server")]
    pub(crate) fn limits(&self) -> Limits {
        *self.data().limits()
    }

    /// Whether the piece of work at hand has taken too long.
    #[cfg(feature = "server")]
    pub(crate) fn is_late(&self) -> bool {
        self.engine.is_late()
    }

    /// Counts a command that the server in front carried out.
    #[cfg(feature = "server")]
    pub(crate) fn count(&self, command: &'static commands::Command, reply: Option<&Reply>) {
        dispatch::count(&mut self.data(), command, reply.unwrap_or(&Reply::OK));
    }

    /// What there is to count.
    #[cfg(feature = "server")]
    pub(crate) fn numbers(&self, now: ServerTime) -> Numbers {
        let mut data = self.data();
        data.set_now(now);
        let (keys, expiring) = data.key_counts();
        Numbers {
            uptime: data.uptime(),
            keys,
            expiring,
            bytes: data.keys().bytes(),
            most_bytes: data.limits().data_bytes,
            scripts: self.engine.scripts(),
            commands: data.counts().iter().filter(|(_, count)| count.is_used()).collect(),
        }
    }

    /// Commands are finished or not begun, so what a panic left is whole.
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

/// The text that Redis gives for a command it does not know.
pub(crate) fn unknown_command(args: &[&[u8]]) -> StoreError {
    let name = shown(args.first().copied().unwrap_or_default(), SHOWN_BYTES);
    let mut rest = String::new();
    for arg in args.iter().skip(1) {
        if rest.len() >= SHOWN_BYTES {
            break;
        }
        rest += &format!("'{}' ", shown(arg, SHOWN_BYTES - rest.len()));
    }
    StoreError::err(format!("unknown command '{name}', with args beginning with: {rest}"))
}
