//! A store that the threads of one process share. `memory://` and `steadlock serve` use it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use once_cell::race::OnceBox;
use steadlock_protocol::Script;

use crate::limits::Limits;
use crate::lua::TimeLimit;
use crate::pubsub::{Delivery, SubscriberId};
use crate::reply::{Reply, StoreError};
use crate::store::Store;
use crate::time::{ServerClock, ServerTime};

/// A shared store with its own clock. Cloning is cheap, and all clones are the same store.
///
/// The clock is set once from the wall clock and then follows the monotonic clock, so it never jumps. Calls run one at
/// a time, on the calling thread. Most take microseconds.
#[derive(Clone)]
pub struct Embedded {
    inner: Arc<Inner>,
}

impl Embedded {
    /// Creates a store that no other caller shares.
    #[must_use]
    pub fn new() -> Self {
        Self::with_time_limit(Limits::NONE, None)
    }

    /// Creates a store with limits, and with a time limit that detects work that takes too long.
    pub(crate) fn with_time_limit(limits: Limits, time_limit: Option<Arc<dyn TimeLimit>>) -> Self {
        let clock = ServerClock::start();
        let mut store = Store::with_time_limit(limits, time_limit.clone());
        store.set_run_id(random_run_id(clock.now()));
        Self {
            inner: Arc::new(Inner {
                clock,
                time_limit,
                store: Mutex::new(store),
                outbox: Mutex::new(Outbox::default()),
                subscribers: Mutex::new(HashMap::new()),
                next_subscriber: AtomicU64::new(1),
            }),
        }
    }

    /// Returns the store with this name. The whole process shares it.
    ///
    /// The store lives as long as an [`Embedded`] or a [`Subscriber`] of it. After that, the next caller gets an empty
    /// store.
    #[must_use]
    pub fn named(name: &str) -> Self {
        let named = NAMED.get_or_init(Box::default);
        let known = |named: &Named| named.get(name).and_then(Weak::upgrade).map(|inner| Self { inner });
        if let Some(store) = known(&lock(named)) {
            return store;
        }
        // Creating a store takes long, so the mutex is not locked meanwhile: if another thread forked, a locked mutex
        // would stay locked in the child.
        let store = Self::new();
        let mut named = lock(named);
        if let Some(store) = known(&named) {
            return store;
        }
        named.retain(|_, inner| inner.strong_count() > 0);
        named.insert(name.into(), Arc::downgrade(&store.inner));
        store
    }

    /// Returns whether a store with this name exists.
    #[must_use]
    pub fn is_in_use(name: &str) -> bool {
        let named = lock(NAMED.get_or_init(Box::default));
        named.get(name).is_some_and(|inner| inner.strong_count() > 0)
    }

    /// Runs one of Steadlock's scripts.
    ///
    /// # Errors
    /// Returns the error of the script, or of a command in it.
    pub fn run_script<K, A>(&self, script: Script, keys: &[K], args: &[A]) -> Result<Reply, StoreError>
    where
        K: AsRef<[u8]>,
        A: AsRef<[u8]>,
    {
        self.with_store(|store, now| store.run_script(script, keys, args, now))
            .into_result()
    }

    /// Executes a command, such as `["SET", "key", "value"]`.
    ///
    /// # Errors
    /// Returns the store's error; for unknown commands `ERR unknown command …`.
    pub fn execute<A: AsRef<[u8]>>(&self, args: &[A]) -> Result<Reply, StoreError> {
        self.with_store(|store, now| store.execute(args, now)).into_result()
    }

    /// Creates a listener. `on_message` receives the channel and the payload of each message, one message at a time, in
    /// the order of publication. `on_message` runs without any lock of the store, on the thread of some publisher, not
    /// always that of the message. It should only pass messages on, because this publisher waits meanwhile.
    #[must_use]
    pub fn connect(&self, on_message: OnMessage) -> Subscriber {
        let id = SubscriberId(self.inner.next_subscriber.fetch_add(1, Ordering::Relaxed));
        lock(&self.inner.subscribers).insert(id, Arc::from(on_message));
        Subscriber {
            store: self.clone(),
            id,
            channels: Mutex::new(HashSet::new()),
        }
    }

    /// Returns the store's current time.
    #[must_use]
    pub fn now(&self) -> ServerTime {
        self.inner.clock.now()
    }

    /// Runs `work` on the store, and delivers the messages that it published.
    pub(crate) fn with_store<T>(&self, work: impl FnOnce(&mut Store, ServerTime) -> T) -> T {
        let (result, has_deliveries) = {
            let mut store = lock(&self.inner.store);
            if let Some(time_limit) = &self.inner.time_limit {
                time_limit.start();
            }
            // The clock is read under the lock, so that time never goes back between two calls.
            let result = work(&mut store, self.inner.clock.now());
            let deliveries = store.take_deliveries();
            let has_deliveries = !deliveries.is_empty();
            if has_deliveries {
                // Messages are queued before the store is unlocked, so that they are delivered in the order of
                // publication.
                lock(&self.inner.outbox).queue.extend(deliveries);
            }
            (result, has_deliveries)
        };
        if has_deliveries {
            self.deliver();
        }
        result
    }

    /// Calls the listeners of the queued messages. If another thread is delivering, that thread also calls these.
    fn deliver(&self) {
        if std::mem::replace(&mut lock(&self.inner.outbox).is_being_delivered, true) {
            return;
        }
        let _done = DeliveryDone(&self.inner.outbox);
        loop {
            let delivery = {
                let mut outbox = lock(&self.inner.outbox);
                let Some(delivery) = outbox.queue.pop_front() else {
                    // The flag changes while the queue is locked, so that no message stays in the queue.
                    outbox.is_being_delivered = false;
                    return;
                };
                delivery
            };
            let on_message = lock(&self.inner.subscribers).get(&delivery.subscriber).cloned();
            if let Some(on_message) = on_message {
                on_message(&delivery.channel, &delivery.payload);
            }
        }
    }
}

/// The stores with a name.
static NAMED: OnceBox<Mutex<Named>> = OnceBox::new();

type Named = HashMap<String, Weak<Inner>>;

/// Lets other threads deliver if a listener panics.
struct DeliveryDone<'a>(&'a Mutex<Outbox>);

impl Drop for DeliveryDone<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            lock(self.0).is_being_delivered = false;
        }
    }
}

impl Default for Embedded {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embedded").finish_non_exhaustive()
    }
}

/// The callback of a listener: receives a channel and a payload.
type OnMessage = Box<dyn Fn(&[u8], &[u8]) + Send + Sync>;
/// The same callback, shared so that it can still run while its [`Subscriber`] is dropped.
type Listener = Arc<dyn Fn(&[u8], &[u8]) + Send + Sync>;

struct Inner {
    clock: ServerClock,
    time_limit: Option<Arc<dyn TimeLimit>>,
    store: Mutex<Store>,
    outbox: Mutex<Outbox>,
    subscribers: Mutex<HashMap<SubscriberId, Listener>>,
    next_subscriber: AtomicU64,
}

/// Published messages that have not been delivered.
#[derive(Default)]
struct Outbox {
    queue: VecDeque<Delivery>,
    is_being_delivered: bool,
}

/// The channels of a listener. Dropping the subscriber unsubscribes from all of them.
pub struct Subscriber {
    store: Embedded,
    id: SubscriberId,
    channels: Mutex<HashSet<Vec<u8>>>,
}

impl Subscriber {
    /// Subscribes to a channel. A second subscription to the same channel has no effect. The listener receives all
    /// messages that are published after this function returns.
    pub fn subscribe(&self, channel: &[u8]) {
        if lock(&self.channels).insert(channel.to_vec()) {
            self.store.with_store(|store, _| store.subscribe(self.id, channel));
        }
    }

    /// Unsubscribes from a channel. Messages that were published before can still arrive.
    pub fn unsubscribe(&self, channel: &[u8]) {
        if lock(&self.channels).remove(channel) {
            self.store.with_store(|store, _| store.unsubscribe(self.id, channel));
        }
    }

    /// Returns the number of subscribed channels.
    #[must_use]
    pub fn channel_count(&self) -> usize {
        lock(&self.channels).len()
    }

    /// Returns the subscribed channels, sorted.
    #[must_use]
    pub fn channels(&self) -> Vec<Vec<u8>> {
        let mut channels: Vec<_> = lock(&self.channels).iter().cloned().collect();
        channels.sort_unstable();
        channels
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        lock(&self.store.inner.subscribers).remove(&self.id);
        let channels = std::mem::take(&mut *lock(&self.channels));
        if !channels.is_empty() {
            self.store.with_store(|store, _| {
                for channel in &channels {
                    store.unsubscribe(self.id, channel);
                }
            });
        }
    }
}

impl fmt::Debug for Subscriber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscriber")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// Locks a mutex. After a panic in another thread the data is still consistent: every command has either finished or
/// not begun.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns 40 hex digits that tell servers apart.
fn random_run_id(now: ServerTime) -> String {
    use std::hash::{BuildHasher, RandomState};
    // The keys of the standard library's hasher come from the operating system's entropy.
    let drawn = RandomState::new().hash_one(std::process::id());
    sha1_smol::Sha1::from(format!("{drawn}:{}", now.as_micros()))
        .digest()
        .to_string()
}
