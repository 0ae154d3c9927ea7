//! One client's connection: its state, and the effects of its requests. `stream` reads and writes its bytes.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use steadlock_resp::commands::Request;
use steadlock_resp::replies::Writer;

use super::handshake::Client;
use super::mailbox::Mailbox;
use super::shared::Shared;
use super::transaction::Transaction;
use crate::commands::{self, Run};
use crate::embedded::Subscriber;
use crate::encode::{self, Protocol};
use crate::limits::server::{CHANNEL_BYTES, CHANNEL_EXTRA, WRITE_AT};
use crate::reply::{Reply, StoreError};

/// The state of a connection.
pub(super) struct Connection {
    client: Client,
    shared: Arc<Shared>,
    since: Instant,
    /// Whether the connection has not completed a command.
    is_new: bool,
    /// Whether the connection must close, because the client asked for it or cannot continue.
    is_ending: bool,
    /// Bytes that must be written to the client.
    out: Vec<u8>,
    transaction: Option<Transaction>,
    subscriber: Subscriber,
    /// The channels whose subscription was confirmed to the client.
    channels: BTreeSet<Vec<u8>>,
    channel_bytes: usize,
    mailbox: Arc<Mailbox>,
}

impl Connection {
    pub(super) fn new(shared: Arc<Shared>, id: u64, peer: SocketAddr) -> Self {
        let mailbox = Arc::new(Mailbox::new(&shared.connections));
        let (receiver, server) = (Arc::clone(&mailbox), Arc::clone(&shared));
        let subscriber = shared.store.connect(Box::new(move |channel, payload| {
            receiver.push(&server.connections, channel, payload);
        }));
        Self {
            client: Client::new(id, peer, shared.password.is_some()),
            since: Instant::now(),
            is_new: true,
            is_ending: false,
            out: Vec::new(),
            transaction: None,
            subscriber,
            channels: BTreeSet::new(),
            channel_bytes: 0,
            mailbox,
            shared,
        }
    }

    pub(super) const fn id(&self) -> u64 {
        self.client.id()
    }

    /// Returns when the time for the login began: when the connection was opened or last reset.
    pub(super) const fn since(&self) -> Instant {
        self.since
    }

    /// Returns whether the client has logged in, or needs no password.
    pub(super) const fn is_authenticated(&self) -> bool {
        self.client.is_authenticated()
    }

    /// Returns whether the connection has not completed a command.
    pub(super) const fn is_new(&self) -> bool {
        self.is_new
    }

    pub(super) const fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// Closes the connection after the remaining replies.
    pub(super) const fn end(&mut self) {
        self.is_ending = true;
    }

    pub(super) const fn is_in_transaction(&self) -> bool {
        self.transaction.is_some()
    }

    /// Returns the bytes that must be written to the client.
    pub(super) const fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    pub(super) fn mailbox(&self) -> &Mailbox {
        &self.mailbox
    }

    /// Returns the memory of unwritten replies, of queued requests and of channels, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let queued = self.transaction.as_ref().map_or(0, Transaction::bytes);
        self.out.capacity() + queued + self.channel_bytes
    }

    /// Notes that a command was completed, if the client has logged in or needs no password.
    pub(super) fn mark_established(&mut self) {
        if self.is_new && self.is_authenticated() {
            self.is_new = false;
            self.shared.connections.mark_established(self.id());
        }
    }

    /// Moves messages to the output while the output is small. The others stay in the mailbox, which has its own limit.
    pub(super) fn take_messages(&mut self) {
        while self.out.len() < WRITE_AT {
            let Some((channel, payload)) = self.mailbox.pop() else {
                return;
            };
            // The client may have unsubscribed while the message was on its way.
            if self.channels.contains(&channel) {
                Writer::new(&mut self.out, self.client.protocol()).message(&channel, &payload);
            }
        }
    }

    pub(super) fn execute(&mut self, request: Request) {
        let name = request
            .first()
            .map(|name| name.to_ascii_lowercase())
            .unwrap_or_default();
        // These words begin lines of an HTTP request. A web page can make a browser send such a request to this port.
        if name == b"post" || name == b"host:" {
            self.is_ending = true;
            return;
        }
        if let Err(error) = self.check_allowed(&name) {
            return self.reply(&Reply::Error(error));
        }
        match commands::find(&name) {
            Some(command) if matches!(command.run, Run::Connection) => {
                let outcome = if command.accepts(request.len()) {
                    self.execute_on_connection(command.name, &request)
                } else {
                    Err(StoreError::arity(command.name))
                };
                let reply = outcome.unwrap_or_else(|error| Some(Reply::Error(error)));
                self.shared
                    .store
                    .with_store(|store, _| store.count(command, reply.as_ref()));
                if let Some(reply) = reply {
                    self.reply(&reply);
                }
            }
            _ => {
                let reply = if let Some(transaction) = &mut self.transaction {
                    transaction.queue(request)
                } else if name == b"ping" && self.is_subscribed_mode() {
                    Reply::Array(vec![
                        Reply::bytes("pong"),
                        Reply::bytes(request.get(1).cloned().unwrap_or_default()),
                    ])
                } else {
                    self.shared.store.with_store(|store, now| store.execute(&request, now))
                };
                self.reply(&reply);
            }
        }
    }

    /// Checks whether the client may call this command now.
    fn check_allowed(&self, name: &[u8]) -> Result<(), StoreError> {
        if !self.is_authenticated() && !matches!(name, b"auth" | b"hello" | b"quit" | b"reset") {
            return Err(StoreError::parse("NOAUTH Authentication required."));
        }
        let is_allowed = matches!(name, b"subscribe" | b"unsubscribe" | b"ping" | b"quit" | b"reset");
        if self.is_subscribed_mode() && !is_allowed {
            let shown = String::from_utf8_lossy(name);
            return Err(StoreError::err(format!(
                "Can't execute '{shown}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed \
                 in this context"
            )));
        }
        Ok(())
    }

    /// Executes a command that concerns the connection. Returns `None` if the reply has already been written.
    fn execute_on_connection(&mut self, name: &str, words: &[Vec<u8>]) -> Result<Option<Reply>, StoreError> {
        if self.transaction.is_some() && !matches!(name, "exec" | "discard" | "multi" | "quit" | "reset") {
            let refused = self
                .transaction
                .as_mut()
                .map(|transaction| transaction.queue(words.to_vec()));
            return Ok(refused);
        }
        let reply = match name {
            "auth" => self.client.auth(words, self.shared.password.as_deref())?,
            "client" => self.client.client(words, self.channels.len())?,
            "hello" => self.client.hello(words, self.shared.password.as_deref())?,
            "quit" => {
                self.is_ending = true;
                Reply::OK
            }
            "reset" => self.reset(),
            "subscribe" => return self.subscribe(&words[1..]),
            "unsubscribe" => return self.unsubscribe(&words[1..]),
            "multi" => {
                if self.transaction.is_some() {
                    return Err(StoreError::err("MULTI calls can not be nested"));
                }
                self.transaction = Some(Transaction::default());
                Reply::OK
            }
            "discard" => match self.transaction.take() {
                Some(_) => Reply::OK,
                None => return Err(StoreError::err("DISCARD without MULTI")),
            },
            "exec" => match self.transaction.take() {
                Some(transaction) => self
                    .shared
                    .store
                    .with_store(|store, now| transaction.execute(store, now)),
                None => return Err(StoreError::err("EXEC without MULTI")),
            },
            "unwatch" => Reply::OK,
            _ => {
                return Err(StoreError::err(format!(
                    "'{name}' is not offered by this development server"
                )));
            }
        };
        Ok(Some(reply))
    }

    fn subscribe(&mut self, channels: &[Vec<u8>]) -> Result<Option<Reply>, StoreError> {
        for channel in channels {
            if self.channel_bytes + memory_of(channel) > CHANNEL_BYTES {
                return Err(StoreError::err("this connection listens to too many channels"));
            }
            self.subscriber.subscribe(channel);
            if self.channels.insert(channel.clone()) {
                self.channel_bytes += memory_of(channel);
            }
            self.confirm("subscribe", Reply::bytes(channel.clone()));
        }
        Ok(None)
    }

    /// Unsubscribes from these channels, or from all if none is given.
    fn unsubscribe(&mut self, channels: &[Vec<u8>]) -> Result<Option<Reply>, StoreError> {
        let channels = if channels.is_empty() {
            self.channels.iter().cloned().collect()
        } else {
            channels.to_vec()
        };
        if channels.is_empty() {
            self.confirm("unsubscribe", Reply::Nil);
        }
        for channel in channels {
            self.subscriber.unsubscribe(&channel);
            if self.channels.remove(&channel) {
                self.channel_bytes -= memory_of(&channel);
            }
            self.confirm("unsubscribe", Reply::Bytes(channel));
        }
        Ok(None)
    }

    fn confirm(&mut self, what: &str, channel: Reply) {
        let items = [Reply::bytes(what), channel, Reply::count(self.channels.len())];
        encode::push(&items, self.client.protocol(), &mut self.out);
    }

    /// Resets the connection to its initial state.
    fn reset(&mut self) -> Reply {
        for channel in std::mem::take(&mut self.channels) {
            self.subscriber.unsubscribe(&channel);
        }
        self.channel_bytes = 0;
        self.transaction = None;
        let needs_password = self.shared.password.is_some();
        self.client.reset(needs_password);
        if needs_password {
            // The client must log in again, and has the full time for its login.
            self.since = Instant::now();
        }
        Reply::Status("RESET".into())
    }

    pub(super) fn reply(&mut self, reply: &Reply) {
        encode::reply(reply, self.client.protocol(), &mut self.out);
    }

    /// Returns whether the connection accepts only a few commands. This applies to a subscribed connection in RESP2,
    /// because its client could not distinguish messages from replies.
    fn is_subscribed_mode(&self) -> bool {
        self.client.protocol() == Protocol::Resp2 && !self.channels.is_empty()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.connections.remove(self.id());
    }
}

/// Returns the memory of a channel in all tables that contain its name.
pub(super) const fn memory_of(channel: &[u8]) -> usize {
    channel.len() * 3 + CHANNEL_EXTRA
}
