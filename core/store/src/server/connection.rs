//! One client's connection, from its first byte to its last.
//!
//! ```text
//!  reads ─► Decoder ─► execute ─► out ─► one write for all that was read
//!                                  ▲
//!  messages of its subscriptions ──┘
//! ```

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::Shared;
use super::encode::{self, Protocol};
use super::handshake;
use super::request::{Decoder, Request};
use super::transaction::Transaction;
use crate::commands::{self, Run};
use crate::embedded::Subscriber;
use crate::reply::{Reply, StoreError};

/// How many messages may wait for a slow reader before it is cut off.
const MAX_WAITING_MESSAGES: usize = 65_536;
/// How many bytes of replies are gathered before they are written.
const WRITE_AT: usize = 256 * 1024;
/// How many bytes are read at once.
const READ_BYTES: usize = 64 * 1024;

/// A message as it came: channel and payload.
type Message = (Vec<u8>, Vec<u8>);

/// What a connection is and has.
pub(super) struct Connection {
    pub(super) id: u64,
    pub(super) protocol: Protocol,
    /// Empty if the client gave none.
    pub(super) name: Vec<u8>,
    shared: Arc<Shared>,
    peer: SocketAddr,
    is_authenticated: bool,
    /// The client asked to end.
    is_ending: bool,
    decoder: Decoder,
    out: Vec<u8>,
    transaction: Option<Transaction>,
    subscriber: Subscriber,
    /// What the client believes it is subscribed to.
    channels: BTreeSet<Vec<u8>>,
    messages: mpsc::Receiver<Message>,
    /// More messages came than the client read.
    is_flooded: Arc<AtomicBool>,
}

impl Connection {
    pub(super) fn new(shared: Arc<Shared>, id: u64, peer: SocketAddr) -> Self {
        let (sender, messages) = mpsc::channel(MAX_WAITING_MESSAGES);
        let is_flooded = Arc::new(AtomicBool::new(false));
        let flooded = Arc::clone(&is_flooded);
        let subscriber = shared.store.connect(Box::new(move |channel, payload| {
            if sender.try_send((channel.to_vec(), payload.to_vec())).is_err() {
                flooded.store(true, Ordering::Relaxed);
            }
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
            shared,
            peer,
            is_authenticated,
            is_ending: false,
            decoder,
            out: Vec::new(),
            transaction: None,
            subscriber,
            channels: BTreeSet::new(),
            messages,
            is_flooded,
        }
    }

    /// Serves the client until it goes.
    pub(super) async fn run(mut self, mut stream: TcpStream) -> io::Result<()> {
        while !self.is_ending {
            let buffer = self.decoder.buffer();
            buffer.reserve(READ_BYTES);
            tokio::select! {
                read = stream.read_buf(buffer) => {
                    if read? == 0 {
                        return Ok(());
                    }
                    self.answer(&mut stream).await?;
                }
                Some(message) = self.messages.recv() => self.pass_on(message),
            }
            while let Ok(message) = self.messages.try_recv() {
                self.pass_on(message);
                if self.out.len() >= WRITE_AT {
                    break;
                }
            }
            self.write(&mut stream).await?;
            if self.is_flooded.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Answers every request that is complete.
    async fn answer(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        while !self.is_ending {
            match self.decoder.next() {
                Ok(None) => break,
                Ok(Some(request)) => self.execute(request),
                Err(error) => {
                    self.reply(&Reply::Error(StoreError::err(error.to_string())));
                    self.is_ending = true;
                }
            }
            if self.out.len() >= WRITE_AT {
                self.write(stream).await?;
            }
        }
        Ok(())
    }

    async fn write(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        if !self.out.is_empty() {
            stream.write_all(&self.out).await?;
            self.out.clear();
            self.out.shrink_to(WRITE_AT);
        }
        Ok(())
    }

    fn execute(&mut self, request: Request) {
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
            self.subscriber.subscribe(channel);
            self.channels.insert(channel.clone());
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
            self.channels.remove(&channel);
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
        self.transaction = None;
        self.name.clear();
        self.protocol = Protocol::Resp2;
        self.is_authenticated = self.shared.password.is_none();
        Reply::Status("RESET".into())
    }

    fn pass_on(&mut self, (channel, payload): Message) {
        // One that was under way when the client unsubscribed.
        if self.channels.contains(&channel) {
            encode::message(&channel, &payload, self.protocol, &mut self.out);
        }
    }

    fn reply(&mut self, reply: &Reply) {
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

/// Says that there are too many clients.
pub(super) async fn turn_away(mut stream: TcpStream) {
    let _ = stream.write_all(b"-ERR max number of clients reached\r\n").await;
}
