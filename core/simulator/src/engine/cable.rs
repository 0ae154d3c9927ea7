//! A connection in memory. Bytes take time to arrive. A fault can reset the connection, or make bytes vanish.
//!
//! ```text
//!   client's End ── up ──► server      each direction is a queue: bytes arrive in order,
//!       ▲                    │         some time after they were sent
//!       └────── down ◄───────┘
//! ```

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::random::Random;

/// A connection, as both ends and the faults see it.
#[derive(Debug)]
pub(super) struct Cable(Mutex<State>);

#[derive(Debug)]
struct State {
    random: Random,
    /// The longest time that bytes take, in microseconds.
    slowest: u64,
    up: Direction,
    down: Direction,
    /// Whether the connection is reset. The client's next operation on it fails.
    is_cut: bool,
    /// Whether everything sent from now on is lost, without an error for either end.
    is_silent: bool,
    /// Whether the client has dropped its end.
    is_left: bool,
}

#[derive(Debug)]
struct Direction {
    chunks: VecDeque<(Instant, Vec<u8>)>,
    last: Instant,
    reader: Option<Waker>,
}

impl Cable {
    pub(super) fn new(mut random: Random, slowest: u64) -> Arc<Self> {
        let random = random.fork();
        let direction = || Direction {
            chunks: VecDeque::new(),
            last: Instant::now(),
            reader: None,
        };
        Arc::new(Self(Mutex::new(State {
            random,
            slowest,
            up: direction(),
            down: direction(),
            is_cut: false,
            is_silent: false,
            is_left: false,
        })))
    }

    /// Resets the connection. Bytes that the client has already sent arrive or are lost, by chance.
    pub(super) fn cut(&self) {
        let mut state = self.lock();
        state.is_cut = true;
        if state.random.chance(500) {
            state.up.chunks.clear();
        }
        state.down.chunks.clear();
        state.up.wake();
        state.down.wake();
    }

    /// Makes everything that is sent from now on vanish.
    pub(super) fn silence(&self) {
        self.lock().is_silent = true;
    }

    /// Returns whether the client still has its end and the connection is not reset. A connection on which bytes vanish
    /// counts as in use.
    pub(super) fn is_in_use(&self) -> bool {
        let state = self.lock();
        !state.is_left && !state.is_cut
    }

    /// Returns bytes from the client; `None` when no more can arrive.
    pub(super) async fn receive(&self) -> Option<Vec<u8>> {
        let mut alarm = None;
        poll_fn(|context| {
            let mut state = self.lock();
            let is_over = state.is_cut || state.is_left;
            match state.up.poll_take(usize::MAX, &mut alarm, context) {
                Poll::Pending if is_over && state.up.chunks.is_empty() => Poll::Ready(None),
                poll => poll.map(Some),
            }
        })
        .await
    }

    /// Sends bytes to the client.
    pub(super) fn send(&self, bytes: Vec<u8>) {
        let mut state = self.lock();
        if !state.is_cut && !state.is_left {
            let State {
                random,
                slowest,
                down,
                is_silent,
                ..
            } = &mut *state;
            down.push(bytes, random, *slowest, *is_silent);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Direction {
    fn push(&mut self, bytes: Vec<u8>, random: &mut Random, slowest: u64, vanishes: bool) {
        let takes = Duration::from_micros(random.between(100, slowest));
        if bytes.is_empty() || vanishes {
            return;
        }
        let at = (Instant::now() + takes).max(self.last);
        self.last = at;
        self.chunks.push_back((at, bytes));
        self.wake();
    }

    fn wake(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }

    /// Takes at most `most` bytes that have arrived. If there are none, sets the alarm for the next ones.
    fn poll_take(
        &mut self,
        most: usize,
        alarm: &mut Option<Pin<Box<Sleep>>>,
        context: &mut Context<'_>,
    ) -> Poll<Vec<u8>> {
        self.reader = Some(context.waker().clone());
        loop {
            let Some((at, bytes)) = self.chunks.front_mut() else {
                return Poll::Pending;
            };
            if *at <= Instant::now() {
                if bytes.len() > most {
                    let rest = bytes.split_off(most);
                    return Poll::Ready(std::mem::replace(bytes, rest));
                }
                return Poll::Ready(self.chunks.pop_front().map(|(_, bytes)| bytes).unwrap_or_default());
            }
            let sleep = alarm.get_or_insert_with(|| Box::pin(sleep_until(*at)));
            if sleep.deadline() != *at {
                sleep.as_mut().reset(*at);
            }
            if sleep.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

/// The client's end, which is a stream.
#[derive(Debug)]
pub(super) struct End {
    cable: Arc<Cable>,
    alarm: Option<Pin<Box<Sleep>>>,
}

impl End {
    pub(super) const fn new(cable: Arc<Cable>) -> Self {
        Self { cable, alarm: None }
    }
}

impl AsyncRead for End {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { cable, alarm } = &mut *self;
        let mut state = cable.lock();
        if state.is_cut {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let taken = state.down.poll_take(buffer.remaining(), alarm, context);
        taken.map(|bytes| {
            buffer.put_slice(&bytes);
            Ok(())
        })
    }
}

impl AsyncWrite for End {
    fn poll_write(self: Pin<&mut Self>, _context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.cable.lock();
        if state.is_cut {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let State {
            random,
            slowest,
            up,
            is_silent,
            ..
        } = &mut *state;
        up.push(bytes.to_vec(), random, *slowest, *is_silent);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let mut state = self.cable.lock();
        state.is_left = true;
        state.down.chunks.clear();
        state.up.wake();
    }
}
