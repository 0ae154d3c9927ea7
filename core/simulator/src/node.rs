//! A server: the embedded store with a clock that can be set. The server can be paused, refuse calls for a while, or
//! return with an older state.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use steadlock_protocol::{Call, CallError, Reply, Script};
use steadlock_store::{Delivery, Reply as StoreReply, ServerTime, Store, SubscriberId};

use crate::defect::Defect;
use crate::event::Event;
use crate::plan::CallLimits;
use crate::records::texts;
use crate::snapshot::Snapshot;
use crate::stores::PooledStore;
use crate::time::{Clock, Micros};

/// The error of a full server.
pub(crate) const FULL: &str = "OOM";

/// The time that every server's clock shows when a history begins.
const EPOCH: u64 = 1_795_000_000_000_000;

pub(crate) struct Node {
    pub(crate) store: PooledStore,
    /// The clock without the steps by which it was set forward or back.
    ticks: Clock,
    /// How far the clock was set forward or back in total. If there are several servers, each begins with an offset.
    pub(crate) clock_offset: i64,
    /// How far the clock was set back in total, without the steps forward.
    pub(crate) set_back: i64,
    /// Whether the server is paused. Events for it wait meanwhile.
    pub(crate) stopped: bool,
    pub(crate) backlog: VecDeque<Event>,
    /// Whether the server was demoted and its address does not lead to its successor yet.
    pub(crate) is_moving: bool,
    /// The error with which the server refuses calls; with `FULL`, it refuses only writes that need memory.
    pub(crate) refusal: Option<&'static str>,
    /// The state that the server's replica has received.
    pub(crate) snapshot: Option<Snapshot>,
    listeners: BTreeSet<(usize, Arc<[u8]>)>,
    /// The scripts that differ from the shipped ones: they have lower limits for one call, or a defect.
    changed: BTreeMap<Script, Changed>,
}

/// A script with a changed text.
#[derive(Debug)]
struct Changed {
    text: String,
    /// The digest; `None` until the script is loaded.
    sha1: Option<Vec<u8>>,
}

impl Node {
    pub(crate) fn new(most: &CallLimits, defect: Option<Defect>) -> Self {
        Self {
            store: PooledStore::new(),
            ticks: Clock {
                origin: EPOCH,
                drift_ppm: 0,
            },
            clock_offset: 0,
            set_back: 0,
            stopped: false,
            backlog: VecDeque::new(),
            is_moving: false,
            refusal: None,
            snapshot: None,
            listeners: BTreeSet::new(),
            changed: changed(most, defect),
        }
    }

    /// Sets the error of the clock's rate. Must be called before anything has happened.
    pub(crate) fn set_drift(&mut self, ppm: i64) {
        self.ticks.drift_ppm = ppm;
    }

    /// Returns the server's own time.
    pub(crate) fn clock(&self, now: Micros) -> ServerTime {
        let shown = self.ticks.at(now).as_micros();
        ServerTime::from_micros(shown.saturating_add_signed(self.clock_offset))
    }

    /// Returns the true time in which the server's clock advances by this much.
    pub(crate) fn true_duration(&self, shown: Micros) -> Micros {
        self.ticks.true_duration(shown)
    }

    /// Runs the script of a call.
    pub(crate) fn run(&mut self, call: &Call, now: Micros) -> Result<Reply, CallError> {
        let clock = self.clock(now);
        self.store.set_full(self.refusal == Some(FULL));
        let reply = match self.changed.get_mut(&call.script) {
            Some(changed) => {
                let count = call.keys.len().to_string();
                let load = |store: &mut Store, text: &str| match store.execute(&["SCRIPT", "LOAD", text], clock) {
                    StoreReply::Bytes(sha1) => sha1,
                    reply => unreachable!("a script is not loaded: {reply:?}"),
                };
                let sha1 = changed.sha1.get_or_insert_with(|| load(&mut self.store, &changed.text));
                let mut words: Vec<&[u8]> = vec![b"EVALSHA", sha1, count.as_bytes()];
                words.extend(call.keys.iter().chain(&call.args).map(|word| &**word));
                self.store.execute(&words, clock)
            }
            None => self.store.run_script(call.script, &call.keys, &call.args, clock),
        };
        // Commands of external clients and of the checks are never refused.
        self.store.set_full(false);
        Ok(reply.into_result()?.into())
    }

    /// Returns the error of a call that the server refuses without running it.
    pub(crate) fn refuses(&self) -> Option<&'static str> {
        // A full server runs the script, and refuses only the writes in it that need memory.
        self.refusal.filter(|code| *code != FULL)
    }

    pub(crate) fn subscribe(&mut self, client: usize, channel: &Arc<[u8]>) {
        self.listeners.insert((client, Arc::clone(channel)));
        self.store.subscribe(SubscriberId(client as u64), channel);
    }

    pub(crate) fn unsubscribe(&mut self, client: usize, channel: &Arc<[u8]>) {
        self.listeners.remove(&(client, Arc::clone(channel)));
        self.store.unsubscribe(SubscriberId(client as u64), channel);
    }

    /// Returns the listeners with their channels.
    pub(crate) fn listeners(&self) -> Vec<(usize, Arc<[u8]>)> {
        self.listeners.iter().cloned().collect()
    }

    /// Removes the subscriptions of a client whose connection for messages is gone.
    pub(crate) fn forget_listener(&mut self, client: usize) {
        let (removed, left) = std::mem::take(&mut self.listeners)
            .into_iter()
            .partition(|(listener, _)| *listener == client);
        self.listeners = left;
        let removed: BTreeSet<(usize, Arc<[u8]>)> = removed;
        for (_, channel) in removed {
            self.store.unsubscribe(SubscriberId(client as u64), &channel);
        }
    }

    /// Takes the messages that were published, each with the client that receives it.
    pub(crate) fn published(&mut self) -> Vec<(usize, Delivery)> {
        let deliveries = self.store.take_deliveries().into_iter();
        deliveries
            .filter_map(|delivery| Some((usize::try_from(delivery.subscriber.0).ok()?, delivery)))
            .collect()
    }

    /// Returns the TTL of a key in milliseconds; -1 without a TTL, -2 without the key.
    pub(crate) fn pttl(&mut self, key: &[u8], now: Micros) -> i64 {
        let clock = self.clock(now);
        match self.store.execute(&[b"PTTL", key], clock) {
            StoreReply::Int(left) => left,
            other => unreachable!("PTTL replied {other:?}"),
        }
    }

    pub(crate) fn keys(&mut self, now: Micros) -> Vec<Vec<u8>> {
        let clock = self.clock(now);
        texts(self.store.execute(&["KEYS", "*"], clock))
    }

    /// Sends the current state to the replica.
    pub(crate) fn replicate(&mut self, now: Micros) {
        let clock = self.clock(now);
        self.snapshot = Some(Snapshot::take(&mut self.store, clock));
    }

    /// Lets the replica take over with the state that it has received.
    pub(crate) fn fail_over(&mut self, now: Micros) {
        let clock = self.clock(now);
        if let Some(snapshot) = self.snapshot.take() {
            snapshot.restore(&mut self.store, clock);
        }
    }
}

/// Returns the scripts with a changed text.
fn changed(most: &CallLimits, defect: Option<Defect>) -> BTreeMap<Script, Changed> {
    let mut changed = BTreeMap::new();
    let patched = defect.and_then(Defect::patch);
    for script in Script::ALL {
        let text = match &patched {
            Some((of, text)) if of == script => text.clone(),
            _ => script.text().to_owned(),
        };
        let text = text
            .replace("local MOST_DEAD = 32", &format!("local MOST_DEAD = {}", most.dead))
            .replace("'LIMIT', 0, 64)", &format!("'LIMIT', 0, {})", most.ended));
        if text != script.text() {
            changed.insert(*script, Changed { text, sha1: None });
        }
    }
    changed
}
