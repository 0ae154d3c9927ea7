//! The way in for clients of another protocol than RESP: the same store within the same bounds.
//!
//! A server of that protocol lets each of its connections [`Door::enter`],
//! has the [`Guest`] run requests, and counts what it keeps for it by a [`Hold`].

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::yield_now;

use super::connection::weight;
use super::connections::Held;
use super::mailbox::Mailbox;
use super::place::Place;
use super::shared::Shared;
use super::stream::{ROUNDS, is_quick};
use super::transaction::Transaction;
use crate::commands::{self, Run};
use crate::embedded::Subscriber;
use crate::float;
use crate::limits::{self, Limits};
use crate::reply::{Reply, StoreError};

/// Lets clients in that do not speak RESP. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Door(Arc<Shared>);

impl Door {
    pub(super) const fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    /// A client that has connected; `None` if there are too many.
    #[must_use]
    pub fn enter(&self) -> Option<Guest> {
        let place = Place::take(&self.0);
        if !place.is_free() {
            return None;
        }
        let id = self.0.next_id.fetch_add(1, Ordering::Relaxed);
        Some(Guest {
            go: self.0.connections.add(id),
            id,
            shared: Arc::clone(&self.0),
            _place: place,
        })
    }
}

/// A client that came by the [`Door`], for as long as it is connected.
pub struct Guest {
    shared: Arc<Shared>,
    id: u64,
    /// Somebody else needs the room.
    go: Arc<Notify>,
    _place: Place,
}

impl Guest {
    /// The most bytes of a request, with some for each word.
    pub const REQUEST_BYTES: usize = limits::server::REQUEST_BYTES;
    /// The most words of a request, or of several that come together.
    pub const WORDS: usize = limits::server::WORDS;
    /// The most bytes of one word.
    pub const WORD_BYTES: usize = limits::server::WORD_BYTES;
    /// The most bytes of an answer, to one request or to several that came together.
    pub const REPLY_BYTES: usize = Limits::SERVED.reply_bytes;
    /// How long a client may keep silent before its first request.
    pub const STRANGER_TIME: Duration = limits::server::STRANGER_TIME;
    /// How long the rest of a request may take.
    pub const REQUEST_TIME: Duration = limits::server::REQUEST_TIME;
    /// How long a client may read none of what was written to it.
    pub const STALLED_TIME: Duration = limits::server::STALLED_TIME;

    /// It asked something that it may ask. Until then it is the first to make room for others.
    pub fn mark_known(&self) {
        self.shared.connections.mark_known(self.id);
    }

    /// Whether it reads what is written to it.
    pub fn mark_reading(&self, reads: bool) {
        self.shared.connections.mark_reading(self.id, &self.go, reads);
    }

    /// Waits until it has to go, because others need the room.
    pub async fn sent_away(&self) {
        self.go.notified().await;
    }

    /// For what is kept for it, which is nothing yet.
    #[must_use]
    pub fn hold(&self) -> Hold {
        Hold {
            held: Held::of(self.shared.connections.held()),
            shared: Arc::clone(&self.shared),
        }
    }

    /// Executes a request. One that may take long waits for those of others, and lets everybody have a turn after it.
    pub async fn run(&self, request: &Vec<Vec<u8>>) -> Reply {
        if is_quick(request) {
            return self.execute(request);
        }
        self.take_turn(|| self.execute(request)).await
    }

    /// Executes one request after another, and lets others come in between. `tell` gets each reply, and may end it.
    pub async fn run_each(&self, requests: &[Vec<Vec<u8>>], mut tell: impl FnMut(Reply) -> ControlFlow<()>) {
        let mut began = Instant::now();
        for request in requests {
            if tell(self.run(request).await).is_break() {
                return;
            }
            if began.elapsed() >= limits::server::TURN {
                yield_now().await;
                began = Instant::now();
            }
        }
    }

    /// Executes requests with nothing in between, and gives a reply to each.
    ///
    /// # Errors
    /// `EXECABORT` if one of them cannot be executed at all; then none was.
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
        match self.take_turn(work).await {
            Reply::Array(replies) => Ok(replies),
            reply => Ok(vec![reply]),
        }
    }

    /// Listens on channels. Messages published after the return are heard.
    ///
    /// # Errors
    /// If their names take too much.
    pub fn subscribe(&self, channels: &[Vec<u8>]) -> Result<Subscription, StoreError> {
        let bytes: usize = channels.iter().map(|channel| weight(channel)).sum();
        if bytes > limits::server::CHANNEL_BYTES {
            return Err(StoreError::err("this connection listens to too many channels"));
        }
        let mailbox = Arc::new(Mailbox::new(&self.shared.connections));
        let (to, of) = (Arc::clone(&mailbox), Arc::clone(&self.shared));
        let subscriber = self.shared.store.connect(Box::new(move |channel, payload| {
            to.push(&of.connections, channel, payload);
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

    /// Whether there is a command of this name.
    #[must_use]
    pub fn knows(name: &[u8]) -> bool {
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

    async fn take_turn(&self, work: impl FnOnce() -> Reply) -> Reply {
        // Never closed.
        let _turn = self.shared.turn.acquire().await;
        let began = Instant::now();
        let reply = work();
        if began.elapsed() >= limits::server::TURN {
            for _ in 0..ROUNDS {
                yield_now().await;
            }
        }
        reply
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.shared.connections.remove(self.id);
    }
}

impl fmt::Debug for Guest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guest").field("id", &self.id).finish_non_exhaustive()
    }
}

/// What is kept for a guest, counted among what all connections hold. Dropping it gives that back.
pub struct Hold {
    held: Held,
    shared: Arc<Shared>,
}

impl Hold {
    /// It is so many bytes now. Says whether there is room for them; if not, they should be dropped.
    #[must_use]
    pub fn set(&mut self, bytes: usize) -> bool {
        let grows = bytes > self.held.bytes();
        self.held.set(bytes);
        !grows || bytes <= limits::server::SMALL_BYTES || self.shared.connections.has_room()
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold")
            .field("bytes", &self.held.bytes())
            .finish_non_exhaustive()
    }
}

/// Channels that a guest listens on. Dropping it ends that.
pub struct Subscription {
    mailbox: Arc<Mailbox>,
    _subscriber: Subscriber,
}

impl Subscription {
    /// The next message, as channel and payload; `None` if more came than was taken, and some are lost.
    pub async fn next(&mut self) -> Option<(Vec<u8>, Vec<u8>)> {
        loop {
            if self.mailbox.is_flooded() {
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
    /// A number with a fraction as RESP2 has it: a text.
    #[must_use]
    pub fn number_text(number: f64) -> String {
        float::format(number)
    }
}
