//! The entry for clients of other protocols than RESP: the same store with the same limits.
//!
//! A server for such a protocol calls [`Gateway::connect`] for each of its connections, and executes requests through
//! the [`ExternalClient`]. A [`ClientMemory`] counts the memory that the server keeps for the client.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::yield_now;

use super::client_slot::ClientSlot;
use super::connection::memory_of;
use super::connections::MemoryShare;
use super::mailbox::Mailbox;
use super::shared::Shared;
use super::stream::{YIELDS, is_quick};
use super::transaction::Transaction;
use crate::commands::{self, Run};
use crate::embedded::Subscriber;
use crate::float;
use crate::limits::{self, Limits};
use crate::reply::{Reply, StoreError};

/// The entry for clients that do not speak RESP. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct Gateway(Arc<Shared>);

impl Gateway {
    pub(super) const fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    /// Admits a client that has connected; `None` if there are too many clients.
    #[must_use]
    pub fn connect(&self) -> Option<ExternalClient> {
        let slot = ClientSlot::occupy(&self.0);
        if !slot.may_stay() {
            return None;
        }
        let id = self.0.next_id.fetch_add(1, Ordering::Relaxed);
        Some(ExternalClient {
            must_close: self.0.connections.add(id),
            id,
            shared: Arc::clone(&self.0),
            _slot: slot,
        })
    }
}

/// A client that connected through the [`Gateway`], for as long as it is connected.
pub struct ExternalClient {
    shared: Arc<Shared>,
    id: u64,
    /// The notification that the connection must close to make room.
    must_close: Arc<Notify>,
    _slot: ClientSlot,
}

impl ExternalClient {
    /// The most bytes of a request, including a fixed number for each word.
    pub const REQUEST_BYTES: usize = limits::server::REQUEST.request_bytes;
    /// The most words of a request, or of several that arrive together.
    pub const WORDS: usize = limits::server::REQUEST.words;
    /// The most bytes of one word.
    pub const WORD_BYTES: usize = limits::server::REQUEST.word_bytes;
    /// The most bytes of an answer to one request, or to several that arrived together.
    pub const REPLY_BYTES: usize = Limits::SERVED.reply_bytes;
    /// The time that a client has until its first request.
    pub const FIRST_REQUEST_TIME: Duration = limits::server::FIRST_REQUEST_TIME;
    /// The time for the rest of a request once it has begun.
    pub const REQUEST_TIME: Duration = limits::server::REQUEST_TIME;
    /// The time for which a client may read nothing of its replies.
    pub const STALLED_TIME: Duration = limits::server::STALLED_TIME;

    /// Marks the client as established, after its first request that is allowed. Until then it is one of the first to
    /// be disconnected when room is needed.
    pub fn mark_established(&self) {
        self.shared.connections.mark_established(self.id);
    }

    /// Marks whether the client reads what is written to it.
    pub fn mark_reading(&self, reads: bool) {
        self.shared.connections.mark_reading(self.id, &self.must_close, reads);
    }

    /// Waits until the client must be disconnected to make room.
    pub async fn disconnect_requested(&self) {
        self.must_close.notified().await;
    }

    /// Returns a counter of the memory that is kept for the client, which starts at zero.
    #[must_use]
    pub fn memory(&self) -> ClientMemory {
        ClientMemory {
            share: MemoryShare::of(self.shared.connections.memory()),
            shared: Arc::clone(&self.shared),
        }
    }

    /// Executes a request. A request that can be slow waits for other slow requests. If it takes long, the other
    /// connections get a turn after it.
    pub async fn run(&self, request: &Vec<Vec<u8>>) -> Reply {
        if is_quick(request) {
            return self.execute(request);
        }
        self.run_in_turn(|| self.execute(request)).await
    }

    /// Executes the requests one after another. Requests of other clients can run in between. `on_reply` receives each
    /// reply, and can stop the rest.
    pub async fn run_each(&self, requests: &[Vec<Vec<u8>>], mut on_reply: impl FnMut(Reply) -> ControlFlow<()>) {
        let mut began = Instant::now();
        for request in requests {
            if on_reply(self.run(request).await).is_break() {
                return;
            }
            if began.elapsed() >= limits::server::TURN_TIME {
                yield_now().await;
                began = Instant::now();
            }
        }
    }

    /// Executes requests without any other in between, and returns a reply to each.
    ///
    /// # Errors
    /// Fails with `EXECABORT` if one of them cannot be executed at all. In that case none was executed.
    pub async fn run_together(&self, requests: Vec<Vec<Vec<u8>>>) -> Result<Vec<Reply>, StoreError> {
        let mut transaction = Transaction::default();
        for request in requests {
            if let Reply::Error(error) = transaction.queue(request) {
                return Err(StoreError::parse(&format!(
                    "EXECABORT Transaction discarded because of: {error}"
                )));
            }
        }
        let work = || {
            let store = &self.shared.store;
            store.with_store(|store, now| transaction.execute(store, now))
        };
        match self.run_in_turn(work).await {
            Reply::Array(replies) => Ok(replies),
            reply => Ok(vec![reply]),
        }
    }

    /// Subscribes to channels. The subscription receives all messages that are published after this function returns,
    /// unless they come too fast (see [`Subscription::next`]).
    ///
    /// # Errors
    /// Fails if the names of the channels take too much memory together.
    pub fn subscribe(&self, channels: &[Vec<u8>]) -> Result<Subscription, StoreError> {
        let bytes: usize = channels.iter().map(|channel| memory_of(channel)).sum();
        if bytes > limits::server::CHANNEL_BYTES {
            return Err(StoreError::err("this connection listens to too many channels"));
        }
        let mailbox = Arc::new(Mailbox::new(&self.shared.connections));
        let (receiver, shared) = (Arc::clone(&mailbox), Arc::clone(&self.shared));
        let subscriber = self.shared.store.connect(Box::new(move |channel, payload| {
            receiver.push(&shared.connections, channel, payload);
        }));
        for channel in channels {
            subscriber.subscribe(channel);
        }
        if let Some(command) = commands::find(b"subscribe") {
            self.shared.store.with_store(|store, _| store.count(command, None));
        }
        Ok(Subscription {
            mailbox,
            _subscriber: subscriber,
        })
    }

    /// Returns whether there is a command with this name.
    #[must_use]
    pub fn is_command(name: &[u8]) -> bool {
        commands::find(name).is_some()
    }

    fn execute(&self, request: &[Vec<u8>]) -> Reply {
        let command = request.first().and_then(|name| commands::find(name));
        if let Some(command) = command.filter(|command| matches!(command.run, Run::Connection)) {
            let reply = Reply::Error(StoreError::err(format!(
                "'{}' is for connections of the Redis protocol only",
                command.name
            )));
            self.shared
                .store
                .with_store(|store, _| store.count(command, Some(&reply)));
            return reply;
        }
        self.shared.store.with_store(|store, now| store.execute(request, now))
    }

    async fn run_in_turn(&self, work: impl FnOnce() -> Reply) -> Reply {
        // The semaphore is never closed.
        let _turn = self.shared.turn.acquire().await;
        let began = Instant::now();
        let reply = work();
        if began.elapsed() >= limits::server::TURN_TIME {
            for _ in 0..YIELDS {
                yield_now().await;
            }
        }
        reply
    }
}

impl Drop for ExternalClient {
    fn drop(&mut self) {
        self.shared.connections.remove(self.id);
    }
}

impl fmt::Debug for ExternalClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExternalClient")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// The memory that is kept for a client, as a part of the count for all connections. Dropping it subtracts this part.
pub struct ClientMemory {
    share: MemoryShare,
    shared: Arc<Shared>,
}

impl ClientMemory {
    /// Sets the number of bytes. Returns whether there is room for them; if not, the caller should drop them.
    #[must_use]
    pub fn set(&mut self, bytes: usize) -> bool {
        let grows = bytes > self.share.bytes();
        self.share.set(bytes);
        !grows || bytes <= limits::server::SMALL_BYTES || self.shared.connections.can_grow()
    }
}

impl fmt::Debug for ClientMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientMemory")
            .field("bytes", &self.share.bytes())
            .finish_non_exhaustive()
    }
}

/// A subscription of a client. Dropping it unsubscribes.
pub struct Subscription {
    mailbox: Arc<Mailbox>,
    _subscriber: Subscriber,
}

impl Subscription {
    /// Returns the next message, as channel and payload; `None` if there was no room for a message. In that case
    /// messages are lost, and the subscription receives no more.
    pub async fn next(&mut self) -> Option<(Vec<u8>, Vec<u8>)> {
        loop {
            if self.mailbox.has_overflowed() {
                return None;
            }
            if let Some(message) = self.mailbox.pop() {
                return Some(message);
            }
            self.mailbox.changed().await;
        }
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").finish_non_exhaustive()
    }
}

impl Reply {
    /// Formats a floating-point number as RESP2 does.
    #[must_use]
    pub fn number_text(number: f64) -> String {
        float::format(number)
    }
}
