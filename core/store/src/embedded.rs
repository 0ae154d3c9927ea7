//! A store that the threads of one process share: what stands behind `memory://`.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use steadlock_protocol::Script;

use crate::limits::Limits;
use crate::lua::Watch;
use crate::pubsub::{Delivery, SubscriberId};
use crate::reply::{Reply, StoreError};
use crate::store::Store;
use crate::time::{ServerClock, ServerTime};

/// A shared store with a clock of its own. Cheap to clone; all clones are one store.
///
/// Its clock is set once from the wall clock and runs on the monotonic one, so
/// it never steps. Calls are executed one at a time, on the calling thread, and
/// take microseconds.
#[derive(Clone)]
pub struct Embedded {
    inner: Arc<Inner>,
}

impl Embedded {
    /// A store of its own.
    #[must_use]
    pub fn new() -> Self {
        Self::watched(Limits::NONE, None)
    }

    /// A store with bounds, and somebody who can tell that a piece of work takes too long.
    pub(crate) fn watched(limits: Limits, watch: Option<Arc<dyn Watch>>) -> Self {
        let clock = ServerClock::start();
        let mut store = Store::watched(limits, watch.clone());
        store.set_run_id(random_run_id(clock.now()));
        Self {
            inner: Arc::new(Inner {
                clock,
                watch,
                store: Mutex::new(store),
                mail: Mutex::new(Mail::default()),
                subscribers: Mutex::new(HashMap::new()),
                next_subscriber: AtomicU64::new(1),
            }),
        }
    }

    /// The store of this name, the same one for the whole process.
    ///
    /// It lives as long as somebody holds it; the next caller after that gets an
    /// empty one.
    #[must_use]
    pub fn named(name: &str) -> Self {
        let mut named = lock(NAMED.get_or_init(Mutex::default));
        if let Some(inner) = named.get(name).and_then(Weak::upgrade) {
            return Self { inner };
        }
        named.retain(|_, inner| inner.strong_count() > 0);
        let store = Self::new();
        named.insert(name.into(), Arc::downgrade(&store.inner));
        store
    }

    /// Whether somebody holds a store of this name.
    #[must_use]
    pub fn is_held(name: &str) -> bool {
        let named = lock(NAMED.get_or_init(Mutex::default));
        named.get(name).is_some_and(|inner| inner.strong_count() > 0)
    }

    /// Runs one of Steadlock's scripts.
    ///
    /// # Errors
    /// What the script or a command in it refuses.
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
    /// What the store refuses; unknown commands are `ERR unknown command …`.
    pub fn execute<A: AsRef<[u8]>>(&self, args: &[A]) -> Result<Reply, StoreError> {
        self.with_store(|store, now| store.execute(args, now)).into_result()
    }

    /// A listener. `on_message` is called with channel and payload, on the
    /// publisher's thread; no lock of the store is held meanwhile.
    /// Messages come one at a time, in the order they were published. It should
    /// only hand them over.
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

    /// The store's time now.
    #[must_use]
    pub fn now(&self) -> ServerTime {
        self.inner.clock.now()
    }

    /// Does something to the store and delivers what was published by it.
    pub(crate) fn with_store<T>(&self, work: impl FnOnce(&mut Store, ServerTime) -> T) -> T {
        let (result, has_mail) = {
            let mut store = lock(&self.inner.store);
            if let Some(watch) = &self.inner.watch {
                watch.start();
            }
            // Read under the lock, so that time never goes back between two calls.
            let result = work(&mut store, self.inner.clock.now());
            let deliveries = store.take_deliveries();
            let has_mail = !deliveries.is_empty();
            if has_mail {
                // Queued before the store is free again: the order of publishing is the order of delivery.
                lock(&self.inner.mail).queue.extend(deliveries);
            }
            (result, has_mail)
        };
        if has_mail {
            self.deliver();
        }
        result
    }

    /// Calls the listeners, unless another thread is at it; then that thread goes on with ours.
    fn deliver(&self) {
        if std::mem::replace(&mut lock(&self.inner.mail).is_being_delivered, true) {
            return;
        }
        let _done = DeliveryDone(&self.inner.mail);
        loop {
            let delivery = {
                let mut mail = lock(&self.inner.mail);
                let Some(delivery) = mail.queue.pop_front() else {
                    // Under the same lock as the look into the queue, so that nothing is left lying.
                    mail.is_being_delivered = false;
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

/// The stores that have a name.
static NAMED: OnceLock<Mutex<HashMap<String, Weak<Inner>>>> = OnceLock::new();

/// Lets others deliver, also when a listener panics.
struct DeliveryDone<'a>(&'a Mutex<Mail>);

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

/// What a listener does with a channel's message.
type OnMessage = Box<dyn Fn(&[u8], &[u8]) + Send + Sync>;
/// The same, while it is being called.
type Listener = Arc<dyn Fn(&[u8], &[u8]) + Send + Sync>;

struct Inner {
    clock: ServerClock,
    watch: Option<Arc<dyn Watch>>,
    store: Mutex<Store>,
    mail: Mutex<Mail>,
    subscribers: Mutex<HashMap<SubscriberId, Listener>>,
    next_subscriber: AtomicU64,
}

/// Published messages that no listener has seen yet.
#[derive(Default)]
struct Mail {
    queue: VecDeque<Delivery>,
    is_being_delivered: bool,
}

/// A listener's channels. Dropping it unsubscribes from all of them.
pub struct Subscriber {
    store: Embedded,
    id: SubscriberId,
    channels: Mutex<HashSet<Vec<u8>>>,
}

impl Subscriber {
    /// Listens on a channel. Twice is once. Messages published after the return are heard.
    pub fn subscribe(&self, channel: &[u8]) {
        if lock(&self.channels).insert(channel.to_vec()) {
            self.store.with_store(|store, _| store.subscribe(self.id, channel));
        }
    }

    /// Stops listening on a channel. One message more may still come.
    pub fn unsubscribe(&self, channel: &[u8]) {
        if lock(&self.channels).remove(channel) {
            self.store.with_store(|store, _| store.unsubscribe(self.id, channel));
        }
    }

    /// The number of channels listened on.
    #[must_use]
    pub fn channel_count(&self) -> usize {
        lock(&self.channels).len()
    }

    /// The channels listened on, sorted.
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

/// A panic in another thread leaves data that is still whole: every command is finished or not begun.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// 40 hex digits that tell two servers apart.
fn random_run_id(now: ServerTime) -> String {
    use std::hash::{BuildHasher, RandomState};
    // The standard library's hasher keys come from the operating system's entropy.
    let drawn = RandomState::new().hash_one(std::process::id());
    sha1_smol::Sha1::from(format!("{drawn}:{}", now.as_micros()))
        .digest()
        .to_string()
}
