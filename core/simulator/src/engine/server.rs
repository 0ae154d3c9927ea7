//! A server that speaks RESP: the embedded store, which runs the shipped scripts.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use steadlock_protocol::Script;
use steadlock_resp::commands::{Decoder, Limits};
use steadlock_store::encode::{self, Protocol};
use steadlock_store::{Reply, ServerTime, SlotMigration, SubscriberId};
use tokio::sync::Notify;

use super::cable::Cable;
use super::clock::Clock;
use super::data::{Contents, Data, Listener, split};
use super::server_per_client::ServerPerClient;
use super::shards::text;
use super::shards::{Shards, error, slot};
use super::trace::Trace;
use crate::kinds::{Role, is_fair, role};
use crate::records::Record;
use crate::stores::PooledStore;

/// Everything that the machines of a history share.
pub(super) struct Around {
    pub(super) clock: Clock,
    pub(super) trace: Arc<Trace>,
    /// The cluster, if the machines are nodes of one. Then their channels are sharded.
    pub(super) shards: Option<Arc<Shards>>,
    /// The check that each client uses only one server, if this is promised.
    pub(super) server_per_client: Option<Arc<ServerPerClient>>,
    /// Whether machines hide their run id.
    pub(super) hides_run_id: bool,
}

/// A server, at one or several addresses. Several machines can serve the same data.
pub(super) struct Machine {
    id: u64,
    around: Arc<Around>,
    data: Arc<Data>,
    state: Mutex<State>,
    resumed: Notify,
}

#[derive(Default)]
struct State {
    is_replica: bool,
    /// The number of faults that pause the machine.
    pauses: u32,
    /// The number of times that the machine has died. Each death ends all connections.
    deaths: u32,
    /// The error for every call with keys.
    refusal: Option<&'static str>,
    /// The scripts that were loaded since the machine started.
    loaded: BTreeSet<&'static str>,
}

/// The state of a connection on the machine.
struct Connection<'a> {
    id: u64,
    client: usize,
    cable: &'a Arc<Cable>,
    /// Whether the next call runs even though its slot is still being imported.
    is_asking: bool,
}

type Words = [Vec<u8>];

impl Machine {
    pub(super) fn new(id: u64, around: &Arc<Around>, data: &Arc<Data>) -> Arc<Self> {
        Arc::new(Self {
            id,
            around: Arc::clone(around),
            data: Arc::clone(data),
            state: Mutex::default(),
            resumed: Notify::new(),
        })
    }

    pub(super) const fn id(&self) -> u64 {
        self.id
    }

    /// Creates a machine that replaces this one, with all of its data and no scripts.
    pub(super) fn successor(&self, id: u64) -> Arc<Self> {
        Self::new(id, &self.around, &self.data)
    }

    pub(super) const fn data(&self) -> &Arc<Data> {
        &self.data
    }

    pub(super) fn is_replica(&self) -> bool {
        self.lock().is_replica
    }

    pub(super) fn demote(&self) {
        self.lock().is_replica = true;
    }

    pub(super) fn promote(&self) {
        self.lock().is_replica = false;
    }

    /// Lets the machine die. A call that it has not run yet never runs.
    pub(super) fn die(&self) {
        self.lock().deaths += 1;
        self.forget_scripts();
    }

    /// Sets the error for every call with keys, or removes it.
    pub(super) fn refuse(&self, refusal: Option<&'static str>) {
        self.lock().refusal = refusal;
    }

    /// Ends the subscriptions to channels of a slot that the node has lost, and notifies their listeners.
    pub(super) fn end_channels(&self, of: usize) {
        let mut data = self.data.lock();
        let Contents { store, listeners, .. } = &mut *data;
        for (id, listener) in listeners.iter_mut().filter(|(_, of)| of.machine == self.id) {
            let (ended, left) = std::mem::take(&mut listener.channels)
                .into_iter()
                .partition::<BTreeSet<_>, _>(|channel| slot(channel) == of);
            listener.channels = left;
            let mut out = Vec::new();
            for channel in &ended {
                store.sunsubscribe(SubscriberId(*id), channel);
                confirm("sunsubscribe", channel, listener.channels.len(), &mut out);
            }
            listener.cable.send(out);
        }
    }

    pub(super) fn forget_scripts(&self) {
        self.lock().loaded.clear();
    }

    pub(super) fn set_paused(&self, is_paused: bool) {
        let pauses = &mut self.lock().pauses;
        *pauses = if is_paused { *pauses + 1 } else { *pauses - 1 };
        self.resumed.notify_waiters();
    }

    /// Serves a connection until it ends.
    pub(super) async fn serve(self: Arc<Self>, id: u64, client: usize, cable: Arc<Cable>) {
        let mut commands = Decoder::new(Limits::NONE);
        let life = self.lock().deaths;
        let mut connection = Connection {
            id,
            client,
            cable: &cable,
            is_asking: false,
        };
        while let Some(bytes) = cable.receive().await {
            commands.buffer().extend(bytes);
            self.unpaused().await;
            if self.lock().deaths != life {
                break;
            }
            let mut out = Vec::new();
            while let Some(words) = commands.next_request().expect("the client speaks RESP") {
                self.execute(&mut connection, &words, &mut out);
            }
            cable.send(out);
        }
        let mut data = self.data.lock();
        let listener = data.listeners.remove(&id);
        for channel in listener.iter().flat_map(|of| &of.channels) {
            data.store.unsubscribe(SubscriberId(id), channel);
            data.store.sunsubscribe(SubscriberId(id), channel);
        }
    }

    /// Waits until the machine is not paused.
    pub(super) async fn unpaused(&self) {
        loop {
            let resumed = self.resumed.notified();
            if self.lock().pauses == 0 {
                return;
            }
            resumed.await;
        }
    }

    fn execute(&self, connection: &mut Connection<'_>, words: &Words, out: &mut Vec<u8>) {
        let is_asking = std::mem::take(&mut connection.is_asking);
        let name = words[0].to_ascii_uppercase();
        let answer = match name.as_slice() {
            b"HELLO" => {
                let mode = if self.around.shards.is_some() {
                    "cluster"
                } else {
                    "standalone"
                };
                greeting(mode, if self.is_replica() { "replica" } else { "master" })
            }
            b"CLIENT" => Reply::OK,
            b"INFO" if self.around.hides_run_id => error("NOPERM User has no permissions to run the 'info' command"),
            b"INFO" => Reply::Bytes(format!("# Server\r\nrun_id:{:040}\r\n", self.id).into_bytes()),
            b"PING" => Reply::Status("PONG".into()),
            b"SCRIPT" => self.load(&words[2]),
            // The commands by which a client finds out whether two connections lead to one server.
            b"SET" | b"DEL" if self.is_replica() => error("READONLY You can't write against a read only replica."),
            b"SET" | b"GET" | b"DEL" => self.data.execute(words, self.around.clock.server_time()),
            b"EVALSHA" => {
                if let Some(server_per_client) = &self.around.server_per_client {
                    server_per_client.runs(connection.client, connection.id, connection.cable, &self.data);
                }
                self.refusal_of(words, is_asking).unwrap_or_else(|| self.run(words))
            }
            b"SUBSCRIBE" | b"SSUBSCRIBE" => return self.listen(connection, words, out),
            b"UNSUBSCRIBE" | b"SUNSUBSCRIBE" => return self.unsubscribe(connection.id, words, out),
            b"ASKING" => {
                connection.is_asking = true;
                Reply::OK
            }
            b"CLUSTER" => self.shards().slots(self.node()),
            other => unreachable!("{} is not simulated", String::from_utf8_lossy(other)),
        };
        encode::reply(&answer, Protocol::Resp3, out);
        self.publish(connection.id);
    }

    /// Returns the cluster to which the machine belongs.
    fn shards(&self) -> &Shards {
        let shards = self.around.shards.as_deref();
        shards.unwrap_or_else(|| unreachable!("machine {} is no node of a cluster", self.id))
    }

    /// Returns the number of the node in its cluster.
    fn node(&self) -> usize {
        usize::try_from(self.id).unwrap_or(usize::MAX)
    }

    /// Returns the reply to a call that the machine refuses; `None` if the machine runs the call.
    fn refusal_of(&self, words: &Words, is_asking: bool) -> Option<Reply> {
        let refusal = self.lock().refusal.map(error);
        let shards = self.around.shards.as_ref();
        let (keys, _) = split(&words[2..]);
        let now = self.around.clock.server_time();
        let has = |key: &[u8]| self.data.execute(&[b"EXISTS", key], now) == Reply::Int(1);
        let answer = refusal.or_else(|| shards?.refusal_of(self.node(), keys, is_asking, has));
        if let Some(answer) = &answer {
            self.around
                .trace
                .note(format_args!("machine {} says {answer:?}", self.id));
        }
        answer
    }

    fn load(&self, text: &[u8]) -> Reply {
        let script = Script::ALL.iter().find(|script| script.text().as_bytes() == text);
        let script = script.unwrap_or_else(|| unreachable!("a script that is not shipped"));
        self.lock().loaded.insert(script.sha1());
        Reply::Bytes(script.sha1().into())
    }

    fn run(&self, words: &Words) -> Reply {
        let (is_replica, script) = {
            let state = self.lock();
            let known = |script: &&Script| script.sha1().as_bytes() == words[1] && state.loaded.contains(script.sha1());
            (
                state.is_replica,
                Script::ALL.iter().copied().find(|script| known(&script)),
            )
        };
        let Some(script) = script else {
            self.around
                .trace
                .note(format_args!("machine {} has no script", self.id));
            return error("NOSCRIPT No matching script. Please use EVAL.");
        };
        let (keys, args) = split(&words[2..]);
        let now = self.around.clock.server_time();
        let mut data = self.data.lock();
        if is_replica && writes(script, keys, args, &mut data.store, now) {
            self.around
                .trace
                .note(format_args!("machine {} refuses {}", self.id, script.file()));
            return error("READONLY You can't write against a read only replica.");
        }
        if let Some(shards) = &self.around.shards {
            data.store.set_slot_migration(shards.slot_migration(self.node(), keys));
        }
        let reply = data.run(script, &words[2..], now);
        data.store.set_slot_migration(SlotMigration::None);
        if let Some(shards) = &self.around.shards {
            shards.ran(script, args, &reply);
        }
        self.around
            .trace
            .note(format_args!("machine {} runs {}: {reply:?}", self.id, script.file()));
        reply
    }

    fn listen(&self, connection: &Connection<'_>, words: &Words, out: &mut Vec<u8>) {
        for channel in &words[1..] {
            if let Some(answer) = self.refuse_listener(words, channel) {
                encode::reply(&answer, Protocol::Resp3, out);
                continue;
            }
            let mut data = self.data.lock();
            let Contents { store, listeners, .. } = &mut *data;
            let listener = listeners.entry(connection.id).or_insert_with(|| Listener {
                cable: Arc::clone(connection.cable),
                machine: self.id,
                channels: BTreeSet::new(),
            });
            if self.around.shards.is_some() {
                store.ssubscribe(SubscriberId(connection.id), channel);
            } else {
                store.subscribe(SubscriberId(connection.id), channel);
            }
            listener.channels.insert(channel.clone());
            confirm(&command(words), channel, listener.channels.len(), out);
        }
    }

    fn unsubscribe(&self, id: u64, words: &Words, out: &mut Vec<u8>) {
        for channel in &words[1..] {
            if let Some(answer) = self.refuse_listener(words, channel) {
                encode::reply(&answer, Protocol::Resp3, out);
                continue;
            }
            let mut data = self.data.lock();
            let Contents { store, listeners, .. } = &mut *data;
            store.unsubscribe(SubscriberId(id), channel);
            store.sunsubscribe(SubscriberId(id), channel);
            let left = listeners.get_mut(&id).map_or(0, |listener| {
                listener.channels.remove(channel);
                listener.channels.len()
            });
            confirm(&command(words), channel, left, out);
        }
    }

    /// Returns the reply to a subscribe or unsubscribe request, if the slot belongs to another node.
    fn refuse_listener(&self, words: &Words, channel: &[u8]) -> Option<Reply> {
        let shards = self.around.shards.as_ref()?;
        let command = command(words);
        assert!(command.starts_with('s'), "{command} in a cluster with sharded channels");
        shards.refuse_listener(self.node(), channel)
    }

    /// Sends published messages to their listeners.
    fn publish(&self, publisher: u64) {
        let mut data = self.data.lock();
        for delivery in data.store.take_deliveries() {
            let Some(listener) = data.listeners.get(&delivery.subscriber.0) else {
                continue;
            };
            self.around.trace.note(format_args!(
                "connection {publisher} wakes connection {}",
                delivery.subscriber.0
            ));
            let mut out = Vec::new();
            let bytes = |bytes: &[u8]| Reply::Bytes(bytes.into());
            let kind: &[u8] = if delivery.is_sharded { b"smessage" } else { b"message" };
            let items = [bytes(kind), bytes(&delivery.channel), bytes(&delivery.payload)];
            encode::push(&items, Protocol::Resp3, &mut out);
            listener.cable.send(out);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the greeting of a server or a sentinel.
pub(super) fn greeting(mode: &str, role: &str) -> Reply {
    let entries = [
        ("server", "redis"),
        ("version", "7.0.15"),
        ("mode", mode),
        ("role", role),
    ];
    Reply::Map(entries.map(|(key, value)| (text(key), text(value))).into())
}

/// Returns the name of a command, as confirmations contain it.
fn command(words: &Words) -> String {
    String::from_utf8_lossy(&words[0]).to_ascii_lowercase()
}

pub(super) fn confirm(what: &str, channel: &[u8], count: usize, out: &mut Vec<u8>) {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let items = [text(what), text(channel), Reply::Int(count)];
    encode::push(&items, Protocol::Resp3, out);
}

/// Returns whether a replica refuses a script because it would write. Most scripts count as writing. An attempt for a
/// lock or mutex that another owner holds only reads.
fn writes(script: Script, keys: &Words, args: &Words, store: &mut PooledStore, now: ServerTime) -> bool {
    match role(script) {
        (Role::Inspect, _) => false,
        (Role::Acquire, Record::Hash) if !is_fair(script) => {
            let owner = args[1].as_slice();
            let (Reply::Int(levels), Reply::Int(own)) = (
                store.execute(&[b"HLEN".as_slice(), &keys[0]], now),
                store.execute(&[b"HEXISTS".as_slice(), &keys[0], owner], now),
            ) else {
                return true;
            };
            levels == 0 || own == 1
        }
        (Role::Acquire, Record::Text) => match store.execute(&[b"GET".as_slice(), &keys[0]], now) {
            Reply::Bytes(owner) => owner == args[1],
            _ => true,
        },
        _ => true,
    }
}
