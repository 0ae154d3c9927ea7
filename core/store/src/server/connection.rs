//! One client's connection: what it is, and what its requests do. Its bytes come and go in `stream`.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::Notify;

use super::Shared;
use super::connections::Held;
use super::encode::{self, Protocol};
use super::handshake;
use super::mailbox::{Mailbox, Message};
use super::request::{Decoder, Request};
use super::transaction::Transaction;
use crate::commands::{self, Run};
use crate::embedded::Subscriber;
use crate::limits::server::{CHANNEL_BYTES, CHANNEL_EXTRA};
use crate::reply::{Reply, StoreError};

/// What a connection is and has.
pub(super) struct Connection {
    pub(super) id: u64,
    pub(super) protocol: Protocol,
    /// Empty if the client gave none.
    pub(super) name: Vec<u8>,
    pub(super) shared: Arc<Shared>,
    peer: SocketAddr,
    pub(super) since: Instant,
    is_authenticated: bool,
    /// It has not completed a command.
    pub(super) is_stranger: bool,
    /// So many requests are taken for slow ones, as the last was.
    pub(super) slow_requests: u32,
    /// The client asked to end, or cannot go on.
    pub(super) is_ending: bool,
    pub(super) decoder: Decoder,
    pub(super) out: Vec<u8>,
    /// How much of `out` is on its way.
    pub(super) written: usize,
    /// Since when the client has read nothing of it.
    pub(super) stalled_since: Option<Instant>,
    /// When the request began of which a part has come.
    pub(super) request_began: Option<Instant>,
    pub(super) transaction: Option<Transaction>,
    subscriber: Subscriber,
    /// What the client believes it is subscribed to.
    channels: BTreeSet<Vec<u8>>,
    pub(super) channel_bytes: usize,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) held: Held,
    /// Somebody else needs the room.
    pub(super) go: Arc<Notify>,
}

impl Connection {
    pub(super) fn new(shared: Arc<Shared>, id: u64, peer: SocketAddr) -> Self {
        let mailbox = Arc::new(Mailbox::new(&shared.connections));
        let (to, of) = (Arc::clone(&mailbox), Arc::clone(&shared));
        let subscriber = shared.store.connect(Box::new(move |channel, payload| {
            to.push(&of.connections, channel, payload);
        }));
        let is_authenticated = shared.password.is_none();
        let mut decoder = Decoder::default();
        if is_authenticated {
            decoder.trust();
        }
        Self {
            id,
            protocol: Protocol::Resp2,
            name: Vec::new(),
            peer,
            since: Instant::now(),
            is_authenticated,
            is_stranger: true,
            slow_requests: 0,
            is_ending: false,
            decoder,
            out: Vec::new(),
            written: 0,
            stalled_since: None,
            request_began: None,
            transaction: None,
            subscriber,
            channels: BTreeSet::new(),
            channel_bytes: 0,
            mailbox,
            held: Held::of(shared.connections.held()),
            go: shared.connections.add(id),
            shared,
        }
    }

    /// A command was completed.
    pub(super) fn mark_known(&mut self) {
        if self.is_stranger && self.is_authenticated {
            self.is_stranger = false;
            self.shared.connections.mark_known(self.id);
        }
    }

    pub(super) fn execute(&mut self, request: Request) {
        let name = request
            .first()
            .map(|name| name.to_ascii_lowercase())
            .unwrap_or_default();
        // A browser that was tricked into posting requests here.
        if name == b"post" || name == b"host:" {
            self.is_ending = true;
            return;
        }
        if let Err(error) = self.permits(&name) {
            return self.reply(&Reply::Error(error));
        }
        match commands::find(&name) {
            Some(command) if matches!(command.run, Run::Connection) => {
                let outcome = if command.accepts(request.len()) {
                    self.execute_here(command.name, &request)
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

    /// Whether the client may call this now.
    fn permits(&self, name: &[u8]) -> Result<(), StoreError> {
        if !self.is_authenticated && !matches!(name, b"auth" | b"hello" | b"quit" | b"reset") {
            return Err(StoreError::parse("NOAUTH Authentication required."));
        }
        let works_subscribed = matches!(name, b"subscribe" | b"unsubscribe" | b"ping" | b"quit" | b"reset");
        if self.is_subscribed_mode() && !works_subscribed {
            let shown = String::from_utf8_lossy(name);
            return Err(StoreError::err(format!(
                "Can't execute '{shown}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed \
                 in this context"
            )));
        }
        Ok(())
    }

    /// Carries out a command on the connection. `None` if it has replied already.
    fn execute_here(&mut self, name: &str, words: &[Vec<u8>]) -> Result<Option<Reply>, StoreError> {
        if self.transaction.is_some() && !matches!(name, "exec" | "discard" | "multi" | "quit" | "reset") {
            let refused = self
                .transaction
                .as_mut()
                .map(|transaction| transaction.queue(words.to_vec()));
            return Ok(refused);
        }
        let reply = match name {
            "auth" => handshake::auth(self, words)?,
            "client" => handshake::client(self, words)?,
            "hello" => handshake::hello(self, words)?,
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
            if self.channel_bytes + weight(channel) > CHANNEL_BYTES {
                return Err(StoreError::err("this connection listens to too many channels"));
            }
            self.subscriber.subscribe(channel);
            if self.channels.insert(channel.clone()) {
                self.channel_bytes += weight(channel);
            }
            self.confirm("subscribe", Reply::bytes(channel.clone()));
        }
        Ok(None)
    }

    /// From these channels, or from all.
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
                self.channel_bytes -= weight(&channel);
            }
            self.confirm("unsubscribe", Reply::Bytes(channel));
        }
        Ok(None)
    }

    fn confirm(&mut self, what: &str, channel: Reply) {
        let items = [Reply::bytes(what), channel, Reply::count(self.channels.len())];
        encode::push(&items, self.protocol, &mut self.out);
    }

    /// Makes the connection as it was when it was new.
    fn reset(&mut self) -> Reply {
        for channel in std::mem::take(&mut self.channels) {
            self.subscriber.unsubscribe(&channel);
        }
        self.channel_bytes = 0;
        self.transaction = None;
        self.name.clear();
        self.protocol = Protocol::Resp2;
        if self.shared.password.is_some() {
            // A stranger again, with as much time as a new one.
            self.is_authenticated = false;
            self.since = Instant::now();
            self.decoder.distrust();
        }
        Reply::Status("RESET".into())
    }

    pub(super) fn pass_on(&mut self, (channel, payload): Message) {
        // One that was under way when the client unsubscribed.
        if self.channels.contains(&channel) {
            encode::message(&channel, &payload, self.protocol, &mut self.out);
        }
    }

    pub(super) fn reply(&mut self, reply: &Reply) {
        encode::reply(reply, self.protocol, &mut self.out);
    }

    /// In RESP2 a subscribed connection can do little else, for nothing tells messages from replies.
    fn is_subscribed_mode(&self) -> bool {
        self.protocol == Protocol::Resp2 && !self.channels.is_empty()
    }

    pub(super) fn is_authenticated(&self) -> bool {
        self.is_authenticated
    }

    pub(super) fn password(&self) -> Option<&[u8]> {
        self.shared.password.as_deref()
    }

    /// The client has given the password, or needs none.
    pub(super) fn trust(&mut self) {
        self.is_authenticated = true;
        self.decoder.trust();
    }

    /// The line of `CLIENT LIST`.
    pub(super) fn description(&self) -> String {
        let version = match self.protocol {
            Protocol::Resp2 => 2,
            Protocol::Resp3 => 3,
        };
        format!(
            "id={} addr={} name={} db=0 sub={} psub=0 user=default resp={version}\n",
            self.id,
            self.peer,
            String::from_utf8_lossy(&self.name),
            self.channels.len(),
        )
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.connections.remove(self.id);
    }
}

/// What a channel takes, in each table that has its name.
const fn weight(channel: &[u8]) -> usize {
    channel.len() * 3 + CHANNEL_EXTRA
}

/// Says that there are too many clients.
pub(super) async fn turn_away(mut stream: TcpStream) {
    let _ = stream.write_all(b"-ERR max number of clients reached\r\n").await;
}
