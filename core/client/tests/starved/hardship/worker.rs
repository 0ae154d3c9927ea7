//! Threads and tasks that acquire, hold, extend and release locks, and check every result.

use std::collections::{BTreeMap, HashMap};
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use steadlock::{Builder, Error, ErrorKind, LostReason, ReleaseOutcome, blocking};

use super::NAME;

pub const COMMAND_TIMEOUT: Duration = Duration::from_secs(1);
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// A busy machine can delay a thread by this time.
const STALL: Duration = Duration::from_secs(4);
/// Holds that last longer than this are reported to the other process, which checks their records.
const LONG: Duration = Duration::from_millis(100);
/// The longest time in which a client that has ended refuses a call.
const REFUSAL_LIMIT: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(4);

/// A client, and its successors: when a client has ended, a new one replaces it.
pub struct Place {
    pub name: String,
    builder: Box<dyn Fn() -> Builder + Send + Sync>,
    is_async: bool,
    handle: Mutex<ClientHandle>,
    /// The time at which the last granted call began.
    last_grant: Mutex<Option<Instant>>,
}

#[derive(Clone)]
enum ClientHandle {
    Blocking(blocking::Client),
    Tasks(steadlock::Client),
    /// The client has ended, or none was made yet.
    None,
}

enum Held {
    Blocking(blocking::Lease),
    Tasks(steadlock::Lease),
}

/// The next acquisition of a worker.
struct Request {
    lock: String,
    wait: Duration,
    /// The length of a fixed lease. With `None` the lease is auto-renewed.
    lease: Option<Duration>,
    hold: Duration,
}

/// The state that all workers share.
pub struct Shared {
    pub is_over: AtomicBool,
    /// Whether workers must not begin another call.
    pub is_paused: AtomicBool,
    active: AtomicUsize,
    holds: AtomicU64,
    counts: Mutex<BTreeMap<String, u64>>,
    holders: Mutex<HashMap<String, Vec<Arc<Held>>>>,
    /// The calls in progress, each with the time by which it must end.
    calls: Mutex<HashMap<u64, (Instant, String)>>,
}

/// Random numbers that a seed reproduces.
#[derive(Clone)]
pub struct SeededRandom(pub u64);

impl SeededRandom {
    pub fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % most
    }

    pub fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to - from))
    }
}

pub fn builder(port: &str, user: &str, lease: Duration) -> Builder {
    steadlock::Client::builder()
        .url(format!("redis://{user}{NAME}:{port}"))
        .lease(lease)
        .command_timeout(COMMAND_TIMEOUT)
        .connect_timeout(CONNECT_TIMEOUT)
}

impl Place {
    pub fn new(name: &str, is_async: bool, builder: impl Fn() -> Builder + Send + Sync + 'static) -> Self {
        Self {
            name: name.into(),
            builder: Box::new(builder),
            is_async,
            handle: Mutex::new(ClientHandle::None),
            last_grant: Mutex::new(None),
        }
    }

    /// Whether a call that began after `start` was granted.
    pub fn was_granted_since(&self, start: Instant) -> bool {
        lock(&self.last_grant).is_some_and(|last_grant| last_grant > start)
    }

    async fn connect(&self, shared: &Shared) -> Result<ClientHandle, Error> {
        let builder = (self.builder)();
        let call = shared.begin("connect", CONNECT_TIMEOUT + COMMAND_TIMEOUT);
        let result = match self.is_async {
            true => builder.connect().await.map(ClientHandle::Tasks),
            false => builder.connect_blocking().map(ClientHandle::Blocking),
        };
        shared.end(call);
        result
    }

    /// Returns the client, after making one if there is none.
    async fn client(&self, shared: &Shared) -> Option<ClientHandle> {
        let handle = lock(&self.handle).clone();
        if !matches!(handle, ClientHandle::None) {
            return Some(handle);
        }
        match self.connect(shared).await {
            Ok(result) => {
                shared.count("clients made");
                *lock(&self.handle) = result.clone();
                Some(result)
            }
            Err(error) => {
                shared.note_error("connect", &error, &[ErrorKind::Unavailable]);
                None
            }
        }
    }

    /// Checks a client that has reported that it ended: it refuses every further call at once. Then removes it.
    async fn ended(&self, handle: &ClientHandle, shared: &Shared) {
        shared.count("clients ended");
        for _ in 0..10 {
            let start = Instant::now();
            let request = Request::attempt("ended");
            match handle.acquire(&request).await {
                Err(error) if has_ended(&error) => {}
                Err(error) => shared.fail(&format!("a client that has ended says {error}")),
                Ok(_) => shared.fail("a client that has ended grants a lock"),
            }
            if start.elapsed() > REFUSAL_LIMIT {
                shared.fail("a client that has ended does not say so at once");
            }
        }
        *lock(&self.handle) = ClientHandle::None;
    }
}

fn has_ended(error: &Error) -> bool {
    error.kind() == ErrorKind::Unavailable && error.to_string().contains("make a new client")
}

impl Request {
    fn attempt(lock: &str) -> Self {
        Self {
            lock: lock.into(),
            wait: Duration::ZERO,
            lease: None,
            hold: Duration::ZERO,
        }
    }

    fn random(random: &mut SeededRandom, worker: &str) -> Self {
        let lock = match random.below(4) {
            0 => format!("own-{worker}"),
            1 => "fair".into(),
            number => format!("shared-{number}"),
        };
        let wait = match random.below(3) {
            0 => Duration::ZERO,
            _ => random.millis(1, 700),
        };
        let lease = (random.below(3) == 0).then(|| random.millis(300, 1_500));
        let hold = match random.below(10) {
            0 => random.millis(500, 4_000),
            1..4 => random.millis(1, 200),
            _ => Duration::ZERO,
        };
        Self {
            lock,
            wait,
            lease,
            hold,
        }
    }
}

impl ClientHandle {
    async fn acquire(&self, request: &Request) -> Result<Option<Held>, Error> {
        // A macro, because both types of clients have the same methods.
        macro_rules! prepared {
            ($client:expr) => {{
                let lock = match request.lock.as_str() {
                    "fair" => $client.fair_lock(&request.lock),
                    name => $client.lock(name),
                };
                let lock = match request.lease {
                    Some(lease) => lock.lease(lease),
                    None => lock,
                };
                lock.wait(request.wait)
            }};
        }
        let is_once = request.wait.is_zero();
        Ok(match self {
            Self::Blocking(client) if is_once => prepared!(client).try_acquire()?.map(Held::Blocking),
            Self::Blocking(client) => Some(Held::Blocking(prepared!(client).acquire()?)),
            Self::Tasks(client) if is_once => prepared!(client).try_acquire().await?.map(Held::Tasks),
            Self::Tasks(client) => Some(Held::Tasks(prepared!(client).acquire().await?)),
            Self::None => None,
        })
    }
}

impl Held {
    fn is_valid(&self) -> bool {
        match self {
            Self::Blocking(lease) => lease.is_valid(),
            Self::Tasks(lease) => lease.is_valid(),
        }
    }

    fn lost_reason(&self) -> Option<LostReason> {
        match self {
            Self::Blocking(lease) => lease.lost_reason(),
            Self::Tasks(lease) => lease.lost_reason(),
        }
    }

    async fn extend(&self, by: Duration) -> Result<(), Error> {
        match self {
            Self::Blocking(lease) => lease.extend(Some(by)),
            Self::Tasks(lease) => lease.extend(Some(by)).await,
        }
    }

    async fn release(self) -> Result<ReleaseOutcome, Error> {
        match self {
            Self::Blocking(lease) => lease.release(),
            Self::Tasks(lease) => lease.release().await,
        }
    }
}

/// A thread or task that uses a client.
pub struct Worker {
    pub name: String,
    pub place: Arc<Place>,
    pub shared: Arc<Shared>,
    pub random: SeededRandom,
}

impl Worker {
    pub async fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        while !shared.is_over.load(Ordering::Relaxed) {
            if shared.is_paused.load(Ordering::SeqCst) {
                self.pause(TICK).await;
                continue;
            }
            shared.active.fetch_add(1, Ordering::SeqCst);
            self.turn().await;
            shared.active.fetch_sub(1, Ordering::SeqCst);
        }
    }

    async fn turn(&mut self) {
        let shared = Arc::clone(&self.shared);
        let Some(handle) = self.place.client(&shared).await else {
            self.pause(5 * TICK).await;
            return;
        };
        let count = if self.random.below(20) == 0 { 200 } else { 1 };
        for _ in 0..count {
            let request = match count {
                1 => Request::random(&mut self.random, &self.name),
                _ => Request::attempt(&format!("quick-{}", self.name)),
            };
            if shared.is_paused.load(Ordering::SeqCst) || !self.attempt(&handle, &request).await {
                return;
            }
        }
    }

    /// Makes one acquisition. Returns whether to continue with this client.
    async fn attempt(&mut self, handle: &ClientHandle, request: &Request) -> bool {
        let start = Instant::now();
        let call = self.shared.begin("acquire", request.wait + COMMAND_TIMEOUT);
        let acquired = match (handle, self.random.below(10)) {
            // The caller stops waiting and drops the call.
            (ClientHandle::Tasks(_), 0) => {
                let cancel_after = self.random.millis(1, 40);
                tokio::time::timeout(cancel_after, handle.acquire(request))
                    .await
                    .unwrap_or(Ok(None))
            }
            _ => handle.acquire(request).await,
        };
        self.shared.end(call);
        match acquired {
            Ok(Some(held)) => {
                self.shared.count("grants");
                *lock(&self.place.last_grant) = Some(start);
                self.hold(request, held).await;
                true
            }
            Ok(None) => {
                self.shared.count("not granted");
                true
            }
            Err(error) if has_ended(&error) => {
                self.place.ended(handle, &self.shared).await;
                false
            }
            Err(error) => {
                let allowed = [ErrorKind::Unavailable, ErrorKind::LockTimeout];
                self.shared.note_error("acquire", &error, &allowed);
                self.pause(TICK).await;
                false
            }
        }
    }

    async fn hold(&mut self, request: &Request, held: Held) {
        let shared = Arc::clone(&self.shared);
        let held = Arc::new(held);
        shared.enter(&request.lock, &held);
        let id = shared.holds.fetch_add(1, Ordering::Relaxed);
        let end = Instant::now() + request.hold;
        let lease = request.lease.unwrap_or(super::clients::LONGEST_LEASE);
        let is_reported = request.hold > LONG;
        if is_reported {
            print_line(&format!("hold {id} {} {}", request.lock, lease.as_millis()));
        }
        while Instant::now() < end && held.is_valid() && !shared.is_paused.load(Ordering::Relaxed) {
            if self.random.below(100) == 0 {
                let call = shared.begin("extend", COMMAND_TIMEOUT);
                let extended = held.extend(lease.min(super::clients::LONGEST_LEASE)).await;
                shared.end(call);
                match extended {
                    Ok(()) => shared.count("extensions"),
                    Err(error) => {
                        let allowed = [ErrorKind::Unavailable, ErrorKind::LockLost, ErrorKind::Closed];
                        shared.note_error("extend", &error, &allowed);
                    }
                }
            }
            self.pause(TICK).await;
        }
        let is_lost = !held.is_valid();
        if is_reported {
            print_line(&format!("over {id}"));
        }
        if is_lost {
            self.check_loss_reason(&held).await;
        }
        shared.leave(&request.lock, &held);
        let Ok(held) = Arc::try_unwrap(held) else {
            return shared.fail("a lease is still shared");
        };
        if self.random.below(10) == 0 {
            drop(held);
            return;
        }
        let call = shared.begin("release", COMMAND_TIMEOUT);
        let released = held.release().await;
        shared.end(call);
        match released {
            Ok(outcome) => shared.count(&format!("released: {outcome:?}")),
            Err(error) => shared.note_error("release", &error, &[ErrorKind::Unavailable, ErrorKind::Closed]),
        }
    }

    /// Checks that a lease which is not valid any more soon has a reason for its loss.
    async fn check_loss_reason(&self, held: &Held) {
        let start = Instant::now();
        loop {
            if let Some(reason) = held.lost_reason() {
                return self.shared.count(&format!("lost: {reason:?}"));
            }
            if start.elapsed() > STALL {
                return self.shared.fail("an ended lease has no reason");
            }
            self.pause(TICK).await;
        }
    }

    async fn pause(&self, time: Duration) {
        match self.place.is_async {
            true => tokio::time::sleep(time).await,
            false => thread::sleep(time),
        }
    }
}

impl Shared {
    pub fn new() -> Self {
        Self {
            is_over: AtomicBool::new(false),
            is_paused: AtomicBool::new(false),
            active: AtomicUsize::new(0),
            holds: AtomicU64::new(0),
            counts: Mutex::default(),
            holders: Mutex::default(),
            calls: Mutex::default(),
        }
    }

    pub fn is_idle(&self) -> bool {
        self.active.load(Ordering::SeqCst) == 0
    }

    pub fn count(&self, what: &str) {
        *lock(&self.counts).entry(what.into()).or_default() += 1;
    }

    pub fn counts(&self) -> BTreeMap<String, u64> {
        lock(&self.counts).clone()
    }

    pub fn note_error(&self, call: &str, error: &Error, allowed: &[ErrorKind]) {
        if !allowed.contains(&error.kind()) || error.to_string().contains("report this") {
            self.fail(&format!("{call} says {}: {error}", error.kind().name()));
        }
        self.count(&format!("{call}: {}", error.kind().name()));
    }

    /// Records the start of a call, which may take at most this time.
    pub fn begin(&self, what: &str, most: Duration) -> u64 {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        lock(&self.calls).insert(number, (Instant::now() + most + STALL, what.into()));
        number
    }

    pub fn end(&self, call: u64) {
        lock(&self.calls).remove(&call);
    }

    /// Fails the test if a call has not ended in time.
    pub fn check_calls(&self) {
        let now = Instant::now();
        let late = lock(&self.calls)
            .values()
            .find(|(due, _)| *due < now)
            .map(|(_, what)| what.clone());
        if let Some(what) = late {
            self.fail(&format!("{what} does not end"));
        }
    }

    fn enter(&self, name: &str, held: &Arc<Held>) {
        let mut holders = lock(&self.holders);
        let these = holders.entry(name.into()).or_default();
        // The order matters. If the new lease is still valid after another one was valid, both were valid at once.
        let has_other_holder = these.iter().any(|other| other.is_valid());
        if has_other_holder && held.is_valid() {
            self.fail(&format!("{name} has two holders"));
        }
        these.push(Arc::clone(held));
    }

    fn leave(&self, name: &str, held: &Arc<Held>) {
        let mut holders = lock(&self.holders);
        if let Some(these) = holders.get_mut(name) {
            these.retain(|one| !Arc::ptr_eq(one, held));
        }
    }

    #[expect(clippy::unused_self, reason = "called like the other methods")]
    pub fn fail(&self, what: &str) {
        print_line(&format!("FAILED: {what}"));
        std::process::exit(1);
    }
}

/// Prints a line for the other process.
pub fn print_line(line: &str) {
    // A single write, so that lines do not mix. It bypasses the output capture of the test harness.
    let _ = std::io::stdout().lock().write_all(format!("{line}\n").as_bytes());
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a future that never waits: the calls of a blocking client block the thread instead.
pub fn poll_ready(future: impl Future<Output = ()>) {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(future.as_mut().poll(&mut context).is_ready(), "the future waits");
}
