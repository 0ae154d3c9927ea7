//! Threads for work that blocks: name lookups, reading files, functions of the program.
//!
//! If a process has as many threads as it may have, the system refuses a new one. tokio's pool panics then. This pool
//! leaves the work to a thread that it already has; if it has none, it returns the error, and the caller can repeat the
//! work later. Once the pool has a thread, it keeps one idle while a client is open. A client that has connected by a
//! host's name can therefore look the name up again.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use once_cell::race::OnceBox;
use tokio::sync::oneshot;

use crate::process::PerProcess;
use crate::unwind::catch_panic;

/// The limit of threads. Work beyond it waits for a free thread.
const MAX_THREADS: usize = 32;

/// The reason for a missing result.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The system refuses a thread, and the pool has none.
    NoThread(io::Error),
    Panicked,
}

/// Runs `work` on a thread of the pool. Work that has not begun when the future is dropped never runs.
pub(crate) async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
    Pool::current().run(work).await
}

/// While this exists, this process's pool keeps one idle thread, once it has a thread.
pub(crate) struct KeepAlive(Arc<Pool>);

impl KeepAlive {
    pub(crate) fn new() -> Self {
        let pool = Pool::current();
        pool.lock().open_clients += 1;
        Self(pool)
    }
}

impl Drop for KeepAlive {
    fn drop(&mut self) {
        self.0.lock().open_clients -= 1;
        self.0.work_added.notify_all();
    }
}

type Work = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Pool {
    state: Mutex<State>,
    work_added: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Work>,
    threads: usize,
    idle: usize,
    open_clients: usize,
}

static POOL: OnceBox<PerProcess<Arc<Pool>>> = OnceBox::new();

impl Pool {
    fn current() -> Arc<Self> {
        let pools = POOL.get_or_init(Box::default);
        Arc::clone(pools)
    }

    async fn run<T: Send + 'static>(self: &Arc<Self>, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
        let (sender, receiver) = oneshot::channel();
        let work = Box::new(move || {
            if sender.is_closed() {
                return;
            }
            let result = work();
            // The caller may have stopped waiting, or the engine's runtime may be gone.
            catch_panic(|| drop(sender.send(result)));
        });
        self.start(work, start_thread).map_err(Failure::NoThread)?;
        receiver.await.map_err(|_| Failure::Panicked)
    }

    /// Queues work. Starts a thread if fewer are idle than pieces of work are waiting, up to the limit.
    fn start(self: &Arc<Self>, work: Work, start_thread: impl FnOnce(Arc<Self>) -> io::Result<()>) -> io::Result<()> {
        let mut state = self.lock();
        state.waiting.push_back(work);
        if state.idle < state.waiting.len() && state.threads < MAX_THREADS {
            match start_thread(Arc::clone(self)) {
                Ok(()) => state.threads += 1,
                // A thread that is busy now does the work later.
                Err(_) if state.threads > 0 => {}
                Err(error) => {
                    state.waiting.pop_back();
                    return Err(error);
                }
            }
        }
        drop(state);
        self.work_added.notify_one();
        Ok(())
    }

    /// Runs work until none is waiting. One idle thread stays until no client is open.
    fn work(&self) {
        let mut state = self.lock();
        loop {
            if let Some(work) = state.waiting.pop_front() {
                drop(state);
                catch_panic(work);
                state = self.lock();
            } else if state.idle > 0 || state.open_clients == 0 {
                state.threads -= 1;
                return;
            } else {
                state.idle += 1;
                state = self.work_added.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the mutex. Even if one did, the state would be consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn start_thread(pool: Arc<Pool>) -> io::Result<()> {
    let thread = thread::Builder::new().name("steadlock-block".into());
    thread.spawn(move || pool.work()).map(drop)
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoThread(error) => write!(f, "the system gives this process no more threads: {error}"),
            Self::Panicked => f.write_str("it panicked"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::task::{Context, Waker};
    use std::time::Duration;

    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    fn refuse_thread(_: Arc<Pool>) -> io::Result<()> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    #[derive(Debug, PartialEq, Eq)]
    struct Threads {
        all: usize,
        idle: usize,
    }

    const NO_THREAD: Threads = Threads { all: 0, idle: 0 };
    const ONE_IDLE_THREAD: Threads = Threads { all: 1, idle: 1 };

    fn threads(pool: &Pool) -> Threads {
        let state = pool.lock();
        Threads {
            all: state.threads,
            idle: state.idle,
        }
    }

    fn wait_until(pool: &Pool, expected: &Threads) {
        let start = std::time::Instant::now();
        while threads(pool) != *expected {
            assert!(start.elapsed() < SOON, "{:?} is not {expected:?}", threads(pool));
            thread::yield_now();
        }
    }

    #[test]
    fn work_without_a_thread_is_refused_and_later_work_is_done() {
        let pool = Arc::new(Pool::default());
        let (sender, receiver) = mpsc::channel();
        let work = |number| {
            let sender = sender.clone();
            Box::new(move || sender.send(number).unwrap())
        };
        let refused = pool.start(work(1), refuse_thread).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        pool.start(work(2), start_thread).unwrap();
        assert_eq!(receiver.recv_timeout(SOON), Ok(2), "the first is not done later");
    }

    #[test]
    fn a_busy_thread_does_the_work_if_no_other_thread_can_start() {
        let pool = Arc::new(Pool::default());
        let (sender, receiver) = mpsc::channel();
        let (open_gate, gate) = mpsc::channel::<()>();
        pool.start(Box::new(move || gate.recv().unwrap()), start_thread)
            .unwrap();
        pool.start(Box::new(move || sender.send(()).unwrap()), refuse_thread)
            .unwrap();
        open_gate.send(()).unwrap();
        receiver.recv_timeout(SOON).unwrap();
    }

    #[test]
    fn one_idle_thread_is_kept_while_a_client_is_open() {
        let pool = Arc::new(Pool::default());
        pool.lock().open_clients += 1;
        let keep_alive = KeepAlive(Arc::clone(&pool));
        let (open_gate, gate) = mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        for _ in 0..3 {
            let gate = Arc::clone(&gate);
            let work = move || gate.lock().unwrap().recv().unwrap();
            pool.start(Box::new(work), start_thread).unwrap();
        }
        assert_eq!(threads(&pool).all, 3);
        (0..3).for_each(|_| open_gate.send(()).unwrap());
        wait_until(&pool, &ONE_IDLE_THREAD);
        let (sender, receiver) = mpsc::channel();
        pool.start(Box::new(move || sender.send(()).unwrap()), refuse_thread)
            .unwrap();
        receiver.recv_timeout(SOON).unwrap();
        wait_until(&pool, &ONE_IDLE_THREAD);
        drop(keep_alive);
        wait_until(&pool, &NO_THREAD);
    }

    #[test]
    fn work_that_panics_is_reported_and_costs_no_thread() {
        let pool = Arc::new(Pool::default());
        pool.lock().open_clients += 1;
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let failure = runtime
            .block_on(pool.run(|| std::panic::resume_unwind(Box::new(()))))
            .map(|(): ()| ());
        assert!(matches!(failure, Err(Failure::Panicked)));
        assert_eq!(runtime.block_on(pool.run(|| 7)).unwrap(), 7);
        wait_until(&pool, &ONE_IDLE_THREAD);
    }

    #[test]
    fn work_whose_caller_has_gone_is_not_begun() {
        let pool = Arc::new(Pool::default());
        let (open_gate, gate) = mpsc::channel::<()>();
        pool.start(Box::new(move || gate.recv().unwrap()), start_thread)
            .unwrap();
        let (sender, receiver) = mpsc::channel();
        pool.lock().threads = MAX_THREADS;
        let mut abandoned = Box::pin(pool.run(move || sender.send(()).unwrap()));
        assert!(
            abandoned
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()))
                .is_pending()
        );
        drop(abandoned);
        open_gate.send(()).unwrap();
        // The work was dropped, and not begun.
        assert_eq!(receiver.recv_timeout(SOON), Err(mpsc::RecvTimeoutError::Disconnected));
    }
}
