//! Code of the program that runs inside the client's code: observers, wakers, subscribers and destructors that call the
//! client, drop its objects, or panic.

mod support;

use std::cell::RefCell;
use std::panic::panic_any;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use steadlock::observe::{Detail, Observation, Observer};
use steadlock::{Client, ErrorKind, LostReason, blocking};
use support::Server;

const SOON: Duration = Duration::from_secs(20);

/// Runs work that may hang on a separate thread. If it hangs, the test fails and abandons that thread.
fn within<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    let worker = thread::spawn(move || drop(sender.send(work())));
    match receiver.recv_timeout(SOON) {
        Ok(result) => result,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("the call hangs"),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            // The payload of the panic is not dropped: in some tests, dropping it panics again.
            std::mem::forget(worker.join());
            panic!("the thread panicked")
        }
    }
}

/// An observer that calls a function.
struct Calls<F>(F);

impl<F: Fn(&Observation) + Send + Sync> Observer for Calls<F> {
    fn observe(&self, observation: &Observation) {
        (self.0)(observation);
    }
}

fn is_grant_of(observation: &Observation, name: &str) -> bool {
    matches!(observation, Observation::Granted { lock, .. } if &*lock.name == name)
}

/// A waker that calls a function when its last clone is dropped.
struct CallOnWakerDrop<F: FnOnce() + Send>(Mutex<Option<F>>);

impl<F: FnOnce() + Send + 'static> CallOnWakerDrop<F> {
    fn waker(work: F) -> Waker {
        Waker::from(Arc::new(Self(Mutex::new(Some(work)))))
    }
}

impl<F: FnOnce() + Send> Wake for CallOnWakerDrop<F> {
    fn wake(self: Arc<Self>) {}
}

impl<F: FnOnce() + Send> Drop for CallOnWakerDrop<F> {
    fn drop(&mut self) {
        if let Some(work) = self.0.get_mut().unwrap().take() {
            work();
        }
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(future)
}

/// Polls a future once, with a waker that does nothing.
fn poll_once<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Makes every blocking call of a connected client, and returns the error of each.
fn blocking_calls(client: &blocking::Client, lease: blocking::Lease) -> Vec<Option<ErrorKind>> {
    let lock = client.lock("inner");
    let semaphore = client.semaphore("permits", 2);
    let kind = |error: steadlock::Error| error.kind();
    let long = Duration::from_secs(3_600);
    vec![
        lock.acquire().err().map(kind),
        lock.clone().wait(long).try_acquire().err().map(kind),
        lock.is_locked().err().map(kind),
        lock.holder().err().map(kind),
        semaphore.acquire(1).err().map(kind),
        semaphore.available().err().map(kind),
        client.force_release(&lock).err().map(kind),
        client.set_limit("permits", 3).err().map(kind),
        lease.extend(None).err().map(kind),
        lease
            .wait_lost(long)
            .map(|_| ErrorKind::LockLost)
            .or(Some(ErrorKind::InvalidArgument)),
        lease.release().err().map(kind),
    ]
}

#[test]
fn a_call_that_would_block_the_engine_is_refused_at_once_and_leaves_nothing_behind() {
    within(|| {
        let server = Server::memory();
        let own: Arc<OnceLock<blocking::Client>> = Arc::default();
        let lease: Arc<Mutex<Option<blocking::Lease>>> = Arc::default();
        let (sender, receiver) = mpsc::channel();
        let (known, held) = (Arc::clone(&own), Arc::clone(&lease));
        let observer = Calls(move |observation: &Observation| {
            if is_grant_of(observation, "outer") {
                let (client, lease) = (known.get().unwrap(), held.lock().unwrap().take().unwrap());
                let _ = sender.send(blocking_calls(client, lease));
            }
        });
        let builder = Client::builder().url(server.url()).observer(observer);
        let client = builder.connect_blocking().unwrap();
        own.set(client.clone()).unwrap();
        *lease.lock().unwrap() = Some(client.lock("held").acquire().unwrap());
        let outer = client.lock("outer").acquire().unwrap();
        let refused = receiver.recv_timeout(SOON).expect("the observer has returned");
        assert!(
            refused.iter().all(|kind| *kind == Some(ErrorKind::InvalidArgument)),
            "{refused:?}"
        );
        // Acquisitions that had begun are undone, and the release proceeds.
        for name in ["inner", "held"] {
            let lease = client.lock(name).wait(SOON).acquire().unwrap();
            lease.release().unwrap();
        }
        outer.release().unwrap();
        client.close();
    });
}

#[test]
fn a_refusal_says_why_and_what_to_do() {
    let error = within(|| {
        let server = Server::memory();
        let own: Arc<OnceLock<blocking::Client>> = Arc::default();
        let (sender, receiver) = mpsc::channel();
        let known = Arc::clone(&own);
        let observer = Calls(move |observation: &Observation| {
            if is_grant_of(observation, "outer") {
                let _ = sender.send(known.get().unwrap().lock("inner").acquire().unwrap_err());
            }
        });
        let builder = Client::builder().url(server.url()).observer(observer);
        let client = builder.connect_blocking().unwrap();
        own.set(client.clone()).unwrap();
        let _outer = client.lock("outer").acquire().unwrap();
        receiver.recv_timeout(SOON).unwrap()
    });
    let message = error.to_string();
    assert!(
        message.contains("observer") && message.contains("another thread"),
        "{message}"
    );
}

#[test]
fn an_observer_that_blocks_is_refused_also_where_a_caller_drives_the_engine() {
    within(|| {
        let server = Server::memory();
        let own: Arc<OnceLock<blocking::Client>> = Arc::default();
        let refused = Arc::new(AtomicUsize::new(0));
        let (known, count) = (Arc::clone(&own), Arc::clone(&refused));
        let observer = Calls(move |observation: &Observation| {
            if is_grant_of(observation, "outer") {
                let inner = known.get().unwrap().lock("inner").acquire();
                assert_eq!(inner.unwrap_err().kind(), ErrorKind::InvalidArgument);
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        let builder = Client::builder().url(server.url()).observer(observer);
        let client = builder.connect_blocking().unwrap();
        own.set(client.clone()).unwrap();
        // After many fast calls, the calling thread drives the engine.
        for _ in 0..500 {
            client.lock("outer").acquire().unwrap().release().unwrap();
        }
        assert_eq!(refused.load(Ordering::SeqCst), 500);
    });
}

#[test]
fn an_observer_may_drop_a_lease_and_the_last_client() {
    within(|| {
        struct SendOnDrop(mpsc::Sender<()>);
        impl Drop for SendOnDrop {
            fn drop(&mut self) {
                let _ = self.0.send(());
            }
        }
        let server = Server::memory();
        let all: Arc<Mutex<Vec<Box<dyn Send>>>> = Arc::default();
        let (sender, receiver) = mpsc::channel();
        let (on_drop, bag) = (SendOnDrop(sender), Arc::clone(&all));
        let observer = Calls(move |observation: &Observation| {
            let _captured = &on_drop;
            if matches!(observation, Observation::Lost { .. }) {
                let all = std::mem::take(&mut *bag.lock().unwrap());
                drop(all);
            }
        });
        let builder = Client::builder().url(server.url()).observer(observer);
        let client = builder.connect_blocking().unwrap();
        let long = client.lock("long").acquire().unwrap();
        let lock = client.lock("short").lease(Duration::from_millis(100));
        all.lock().unwrap().push(Box::new(long));
        all.lock().unwrap().push(Box::new(client));
        let short = lock.acquire().unwrap();
        drop(lock);
        assert_eq!(short.wait_lost(SOON), Some(LostReason::Expired));
        drop(short);
        // The engine ends, and drops the observer of its client.
        receiver.recv_timeout(SOON).expect("the engine ends");
        let other = blocking::Client::connect(server.url()).unwrap();
        assert!(other.lock("long").wait(SOON).try_acquire().unwrap().is_some());
    });
}

#[test]
fn an_observer_may_call_its_client_while_the_engine_starts() {
    struct CallingObserver(Arc<OnceLock<Client>>);
    impl Observer for CallingObserver {
        fn observe(&self, _: &Observation) {}

        fn detail(&self) -> Detail {
            if let Some(client) = self.0.get() {
                let _ = poll_once(pin!(client.lock("inner").acquire()));
            }
            Detail::Everything
        }
    }
    within(|| {
        let server = Server::memory();
        let own: Arc<OnceLock<Client>> = Arc::default();
        let builder = Client::builder()
            .url(server.url())
            .lazy()
            .observer(CallingObserver(Arc::clone(&own)));
        block_on(async {
            let client = builder.connect().await.unwrap();
            own.set(client.clone()).unwrap();
            client.lock("outer").acquire().await.unwrap().release().await.unwrap();
            client.close().await;
        });
    });
}

#[test]
fn panicking_observers_affect_nobody_else() {
    struct PanicOnDrop;
    impl Drop for PanicOnDrop {
        fn drop(&mut self) {
            panic!("the payload of the panic panics, too");
        }
    }
    struct PanickingObserver {
        in_detail: bool,
        calls: Arc<AtomicUsize>,
    }
    impl Observer for PanickingObserver {
        fn observe(&self, _: &Observation) {
            self.calls.fetch_add(1, Ordering::SeqCst);
            panic_any(PanicOnDrop);
        }

        fn detail(&self) -> Detail {
            if self.in_detail {
                panic_any(PanicOnDrop);
            }
            Detail::Everything
        }
    }
    within(|| {
        let server = Server::memory();
        let calls: [Arc<AtomicUsize>; 3] = Default::default();
        let [receiver, first, second] = calls.clone();
        let builder = Client::builder()
            .url(server.url())
            .observer(PanickingObserver {
                in_detail: true,
                calls: first,
            })
            .observer(PanickingObserver {
                in_detail: false,
                calls: second,
            })
            .observer(Calls(move |_: &Observation| {
                receiver.fetch_add(1, Ordering::SeqCst);
            }));
        let client = builder.connect_blocking().unwrap();
        for _ in 0..3 {
            client.lock("a").acquire().unwrap().release().unwrap();
        }
        let [receiver, in_detail, in_observe] = calls.map(|calls| calls.load(Ordering::SeqCst));
        assert_eq!((in_detail, in_observe), (0, 1), "none is called after a panic");
        assert!(receiver >= 9, "{receiver}");
    });
}

#[test]
fn a_waker_of_a_result_may_call_the_client_when_it_is_dropped() {
    within(|| {
        let server = Server::memory();
        let client = block_on(Client::connect(server.url())).unwrap();
        let held = block_on(client.lock("a").acquire()).unwrap();
        let lock = client.lock("a");
        let mut waits = pin!(lock.acquire());
        // The next poll of `waits` replaces this waker and drops it. The poll has to return although the drop makes a
        // call and waits for its result.
        let waker = CallOnWakerDrop::waker(move || {
            block_on(held.release()).unwrap();
        });
        assert!(waits.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        drop(waker);
        let began = Instant::now();
        while poll_once(waits.as_mut()).is_pending() {
            assert!(began.elapsed() < SOON, "the lock is not granted");
            thread::yield_now();
        }
    });
}

#[test]
fn a_waker_of_a_loss_may_drop_another_future_of_the_same_loss() {
    within(|| {
        let server = Server::memory();
        let client = block_on(Client::connect(server.url())).unwrap();
        let lease = block_on(client.lock("a").acquire()).unwrap();
        let (mut stays, mut goes) = (Box::pin(lease.lost()), Box::pin(lease.lost()));
        assert!(poll_once(goes.as_mut()).is_pending());
        let waker = CallOnWakerDrop::waker(move || drop(goes));
        assert!(stays.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        drop(waker);
        assert!(poll_once(stays.as_mut()).is_pending());
        drop(stays);
    });
}

/// The things that an observer drops while the engine calls it.
type Bag = Arc<Mutex<Vec<Box<dyn Send>>>>;

/// Acquires one of several locks, and leaves futures, leases and clients for the observer to drop.
fn leave_work(client: &Client, bag: &Bag, turn: usize) {
    let lock = client
        .lock(format!("name-{}", turn % 5))
        .wait(Duration::from_millis(50));
    let owned = lock.clone();
    let mut pending = Box::pin(async move { owned.acquire().await.map(drop) });
    if poll_once(pending.as_mut()).is_pending() {
        bag.lock().unwrap().push(Box::new(pending));
    }
    if let Ok(Some(lease)) = block_on(lock.try_acquire()) {
        let mut lost = Box::pin(lease.lost());
        assert!(poll_once(lost.as_mut()).is_pending() || !lease.is_valid());
        bag.lock().unwrap().push(Box::new(lost));
        bag.lock().unwrap().push(Box::new(lease));
    }
    bag.lock().unwrap().push(Box::new(client.clone()));
}

#[test]
fn many_calls_from_the_engines_thread_leave_every_lock_free() {
    within(|| {
        let server = Server::memory();
        let own: Arc<OnceLock<(Client, blocking::Client)>> = Arc::default();
        let (bag, calls) = (Bag::default(), AtomicUsize::new(0));
        let (known, drops) = (Arc::clone(&own), Arc::clone(&bag));
        let observer = Calls(move |_: &Observation| {
            let item = drops.lock().unwrap().pop();
            drop(item);
            let Some((client, blocking)) = known.get() else { return };
            match calls.fetch_add(1, Ordering::SeqCst) % 50 {
                // Only every 50th observation makes a call: each call causes further observations.
                0 => {
                    let _ = poll_once(pin!(client.lock("inner").try_acquire()));
                }
                1 => assert_eq!(
                    blocking.lock("inner").acquire().unwrap_err().kind(),
                    ErrorKind::InvalidArgument
                ),
                _ => {}
            }
        });
        let builder = Client::builder().url(server.url()).observer(observer);
        let client = block_on(builder.connect()).unwrap();
        let other = blocking::Client::connect(server.url()).unwrap();
        own.set((client.clone(), other.clone())).unwrap();
        thread::scope(|scope| {
            for worker in 0..4 {
                let (client, bag) = (&client, &bag);
                scope.spawn(move || (0..100).for_each(|turn| leave_work(client, bag, worker + turn)));
            }
        });
        while let Some(item) = { bag.lock().unwrap().pop() } {
            drop(item);
        }
        for name in (0..5).map(|number| format!("name-{number}")).chain(["inner".into()]) {
            let free = other.lock(&name).wait(SOON).try_acquire().unwrap();
            free.unwrap_or_else(|| panic!("{name} is held")).release().unwrap();
        }
    });
}

thread_local! {
    static LAST: RefCell<Option<CallOnThreadExit>> = const { RefCell::new(None) };
}

/// A thread-local value that calls the client when it is dropped.
struct CallOnThreadExit(Option<Box<dyn FnOnce()>>);

impl Drop for CallOnThreadExit {
    fn drop(&mut self) {
        if let Some(work) = self.0.take() {
            work();
        }
    }
}

#[test]
fn a_thread_local_destructor_may_call_the_client_and_costs_no_connection() {
    let server = Server::redis();
    let (sender, receiver) = mpsc::channel();
    let observer = Calls(move |observation: &Observation| {
        if matches!(observation, Observation::Disconnected { .. }) {
            let _ = sender.send(());
        }
    });
    let client = Client::builder().url(server.url()).observer(observer);
    let client = client.connect_blocking().unwrap();
    let last = client.clone();
    within(move || {
        let (ended_sender, ended) = mpsc::channel();
        let thread = thread::spawn(move || {
            LAST.set(Some(CallOnThreadExit(None)));
            // This first call creates the client's own thread-local values, which are dropped before `LAST`.
            last.lock("a").acquire().unwrap().release().unwrap();
            LAST.with_borrow_mut(|value| {
                value.as_mut().unwrap().0 = Some(Box::new(move || {
                    for _ in 0..200 {
                        last.lock("a").acquire().unwrap().release().unwrap();
                    }
                    let _ = ended_sender.send(());
                }));
            });
        });
        thread.join().unwrap();
        ended.recv_timeout(SOON).expect("all calls have returned");
    });
    client.lock("a").acquire().unwrap().release().unwrap();
    assert!(receiver.try_recv().is_err(), "a connection was lost");
}

#[cfg(feature = "tracing")]
mod subscribers {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    use super::*;

    /// A subscriber that calls a function at every event of a span.
    struct CallOnSpanEvent<F>(F);

    impl<F: Fn() + Send + Sync + 'static> Subscriber for CallOnSpanEvent<F> {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.target() == "steadlock"
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            (self.0)();
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {
            (self.0)();
        }

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, _: &Event<'_>) {
            (self.0)();
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}

        fn try_close(&self, _: Id) -> bool {
            (self.0)();
            true
        }
    }

    #[test]
    fn a_panicking_subscriber_neither_loses_nor_leaks_a_lock() {
        within(|| {
            let server = Server::memory();
            let client = blocking::Client::connect(server.url()).unwrap();
            // The subscriber panics from its first call on, or only once a wait has begun.
            for calls_before_panic in [0, 1, 2] {
                let calls = AtomicUsize::new(0);
                let subscriber = CallOnSpanEvent(move || {
                    if calls.fetch_add(1, Ordering::SeqCst) >= calls_before_panic {
                        panic!("a defect of the subscriber");
                    }
                });
                let guard = tracing::subscriber::set_default(subscriber);
                let lease = client.lock("a").acquire().unwrap();
                assert!(client.lock("a").try_acquire().unwrap().is_none());
                lease.release().unwrap();
                drop(client.lock("a").acquire().unwrap());
                drop(guard);
                let free = client.lock("a").wait(SOON).try_acquire().unwrap();
                free.expect("the lock is free").release().unwrap();
            }
        });
    }

    #[test]
    fn a_panicking_subscriber_does_not_abort_an_unwinding_process() {
        within(|| {
            let server = Server::memory();
            let client = block_on(Client::connect(server.url())).unwrap();
            let held = block_on(client.lock("a").acquire()).unwrap();
            let guard = tracing::subscriber::set_default(CallOnSpanEvent(|| panic!("a defect of the subscriber")));
            let unwound: Result<(), _> = catch_unwind(AssertUnwindSafe(|| {
                let lock = client.lock("a");
                let mut waits = pin!(lock.acquire());
                assert!(poll_once(waits.as_mut()).is_pending());
                let _lease = block_on(client.lock("b").acquire()).unwrap();
                panic!("the caller's own panic");
            }));
            drop(guard);
            let payload = unwound.unwrap_err();
            assert_eq!(payload.downcast_ref::<&str>(), Some(&"the caller's own panic"));
            block_on(held.release()).unwrap();
            for name in ["a", "b"] {
                let free = block_on(client.lock(name).wait(SOON).try_acquire()).unwrap();
                assert!(free.is_some(), "{name}");
            }
        });
    }
}
