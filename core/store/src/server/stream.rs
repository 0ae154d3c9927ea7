//! The bytes of a connection: reading, writing, and when it must close.
//!
//! ```text
//!        ┌───────────────────────────────────────────────┐
//!        ▼                                               │
//!  write what can be ─► answer, if nothing waits ─► wait for one of:
//!                       to be written               bytes · room to write · a message
//!                                                   · the end of its time · a request to close
//! ```
//!
//! The server never waits for a client that does not read. The replies stay in `out`, the client's further requests are
//! not answered, and after a while the client is disconnected. If there is no memory for the client's requests, replies
//! or messages, the connection closes at once.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use steadlock_resp::commands::{Decoder, Limits, Request};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::{Instant as TokioInstant, sleep_until};

use super::connection::Connection;
use super::connections::MemoryShare;
use super::shared::Shared;
use crate::commands::{self, Run};
use crate::limits::server::{
    FIRST_REQUEST_TIME, LOGIN_REQUEST, QUICK_WORDS, REQUEST, REQUEST_TIME, REQUESTS_AT_ONCE, SLOW_PENALTY_REQUESTS,
    SMALL_BYTES, STALLED_TIME, TURN_TIME, WRITE_AT,
};
use crate::reply::{Reply, StoreError};

/// How often other connections get a turn after slow work: to be accepted, read and answered.
pub(super) const YIELDS: usize = 3;

/// The bytes of a connection.
pub(super) struct Stream {
    connection: Connection,
    shared: Arc<Shared>,
    decoder: Decoder,
    /// How much of the output has been written.
    written: usize,
    /// The time since which the client has read nothing of the output.
    stalled_since: Option<Instant>,
    /// The time at which an incomplete request began.
    request_began: Option<Instant>,
    /// The number of further requests that count as slow, because a previous one had a long reply.
    slow_requests: u32,
    memory: MemoryShare,
    /// The notification that the connection must close to make room.
    must_close: Arc<Notify>,
}

impl Stream {
    pub(super) fn new(shared: &Arc<Shared>, id: u64, peer: SocketAddr) -> Self {
        let connection = Connection::new(Arc::clone(shared), id, peer);
        Self {
            decoder: Decoder::new(request_limits(&connection)),
            connection,
            shared: Arc::clone(shared),
            written: 0,
            stalled_since: None,
            request_began: None,
            slow_requests: 0,
            memory: MemoryShare::of(shared.connections.memory()),
            must_close: shared.connections.add(id),
        }
    }

    /// Serves the client until it disconnects or must be disconnected.
    pub(super) async fn run(mut self, stream: TcpStream) -> io::Result<()> {
        loop {
            self.connection.take_messages();
            self.write(&stream)?;
            if self.connection.mailbox().has_overflowed() || !self.has_memory(&stream) {
                return Ok(());
            }
            let has_written = self.connection.out().is_empty();
            if has_written {
                if self.connection.is_ending() {
                    return Ok(());
                }
                if self.answer(&stream).await? || self.connection.is_ending() || !self.connection.out().is_empty() {
                    continue;
                }
            }
            let end = self.deadline();
            tokio::select! {
                () = self.must_close.notified() => return Ok(()),
                () = sleep_until(end.unwrap_or_else(TokioInstant::now)), if end.is_some() => return Ok(()),
                ready = stream.readable(), if has_written => {
                    ready?;
                    if self.read(&stream)? == Some(0) {
                        return Ok(());
                    }
                }
                ready = stream.writable(), if !has_written => ready?,
                () = self.connection.mailbox().changed() => {}
            }
        }
    }

    /// Returns the number of bytes that were read: zero at the end of the stream, `None` if no bytes have arrived.
    fn read(&mut self, stream: &TcpStream) -> io::Result<Option<usize>> {
        let buffer = self.decoder.buffer();
        buffer.reserve(Decoder::READ_BYTES);
        match stream.try_read_buf(buffer) {
            Ok(count) => Ok(Some(count)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.decoder.free_unused();
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn write(&mut self, stream: &TcpStream) -> io::Result<()> {
        while self.written < self.connection.out().len() {
            match stream.try_write(&self.connection.out()[self.written..]) {
                Ok(count) => {
                    self.written += count;
                    if self.stalled_since.take().is_some() {
                        self.shared
                            .connections
                            .mark_reading(self.connection.id(), &self.must_close, true);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if self.stalled_since.is_none() {
                        self.stalled_since = Some(Instant::now());
                        self.shared
                            .connections
                            .mark_reading(self.connection.id(), &self.must_close, false);
                    }
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        self.written = 0;
        let out = self.connection.out();
        out.clear();
        // An idle connection keeps no buffer.
        out.shrink_to(0);
        Ok(())
    }

    /// Answers complete requests, a limited number at a time. Returns whether there may be more.
    async fn answer(&mut self, stream: &TcpStream) -> io::Result<bool> {
        let began = Instant::now();
        for _ in 0..REQUESTS_AT_ONCE {
            match self.decoder.next_request() {
                Ok(None) => {
                    if self.decoder.free_unused() {
                        self.request_began = None;
                    } else {
                        self.request_began.get_or_insert(began);
                    }
                    return Ok(false);
                }
                Ok(Some(request)) => {
                    self.request_began = None;
                    self.execute_in_turn(request, stream).await?;
                    self.connection.mark_established();
                }
                Err(error) => {
                    self.connection.reply(&Reply::Error(StoreError::err(error.to_string())));
                    self.connection.end();
                }
            }
            if self.connection.is_ending() || self.connection.out().len() >= WRITE_AT {
                return Ok(!self.connection.is_ending());
            }
            if began.elapsed() >= TURN_TIME {
                break;
            }
        }
        self.write(stream)?;
        yield_now().await;
        Ok(true)
    }

    /// Executes a request. A request that can be slow waits for other slow requests. If it takes long, the other
    /// connections get a turn after it.
    async fn execute_in_turn(&mut self, request: Request, stream: &TcpStream) -> io::Result<()> {
        if self.slow_requests == 0 && !self.connection.is_in_transaction() && is_quick(&request) {
            self.execute(request);
            // The size of the reply decides, not the time: on a busy machine any request can take long.
            if self.connection.out().len() >= WRITE_AT {
                self.slow_requests = SLOW_PENALTY_REQUESTS;
            }
            return Ok(());
        }
        self.slow_requests = self.slow_requests.saturating_sub(1);
        let shared = Arc::clone(&self.shared);
        let Ok(_turn) = shared.turn.acquire().await else {
            return Ok(());
        };
        let began = Instant::now();
        self.execute(request);
        if began.elapsed() >= TURN_TIME {
            self.write(stream)?;
            for _ in 0..YIELDS {
                yield_now().await;
            }
        }
        Ok(())
    }

    fn execute(&mut self, request: Request) {
        self.connection.execute(request);
        self.decoder.set_limits(request_limits(&self.connection));
    }

    /// Returns whether there is memory for the client's requests and replies.
    fn has_memory(&mut self, stream: &TcpStream) -> bool {
        let bytes = self.decoder.memory() + self.connection.bytes();
        let grows = bytes > self.memory.bytes();
        self.memory.set(bytes);
        if !grows || bytes <= SMALL_BYTES || self.shared.connections.can_grow() {
            return true;
        }
        if self.connection.out().is_empty() {
            // The error is sent if possible. The connection closes in any case.
            let _ = stream.try_write(b"-OOM requests and replies of all clients take too much memory\r\n");
        }
        false
    }

    /// Returns the time by which the client must have made progress; `None` if nothing is due from the client.
    fn deadline(&self) -> Option<TokioInstant> {
        let end = if let Some(since) = self.stalled_since {
            Some(since + STALLED_TIME)
        } else if !self.connection.is_authenticated() {
            Some(self.connection.since() + FIRST_REQUEST_TIME)
        } else if self.connection.is_new() {
            self.request_began.map(|began| began + FIRST_REQUEST_TIME)
        } else {
            self.request_began.map(|began| began + REQUEST_TIME)
        };
        end.map(TokioInstant::from_std)
    }
}

fn request_limits(connection: &Connection) -> Limits {
    if connection.is_authenticated() {
        REQUEST
    } else {
        LOGIN_REQUEST
    }
}

/// Returns whether a request visits only a few elements, however many the store has.
pub(super) fn is_quick(request: &Request) -> bool {
    let Some(command) = request.first().and_then(|name| commands::find(name)) else {
        return true;
    };
    match command.run {
        Run::Script(_) => false,
        Run::Data(_) => request.len() <= QUICK_WORDS && !command.is_slow,
        Run::Connection => command.name != "exec",
    }
}

/// Answers that there are too many clients.
pub(super) async fn refuse(mut stream: TcpStream) {
    let _ = stream.write_all(b"-ERR max number of clients reached\r\n").await;
}
