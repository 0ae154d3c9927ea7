//! A server: the embedded store with a clock that may step, that may stand
//! still, refuse for a while, or come back with an older state.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use steadlock_protocol::{Call, CallError, Reply, Script};
use steadlock_store::{Delivery, Reply as StoreReply, ServerTime, Store, SubscriberId};

use crate::defect::Defect;
use crate::event::Event;
use crate::plan::Most;
use crate::records::texts;
use crate::snapshot::Snapshot;
use crate::stores::Lent;
use crate::time::{Clock, Micros};

/// A full server's error.
pub(crate) const FULL: &str = "OOM";

/// What every server's clock shows when a history begins.
const EPOCH: u64 = 1_795_000_000_000_000;

/// A server.
pub(crate) struct Node {
    pub(crate) store: Lent,
    /// Its clock, if nobody had set it.
    ticks: Clock,
    /// By how much its clock was set.
    pub(crate) step: i64,
    /// By how much it was put back in all.
    pub(crate) set_back: i64,
    /// It stands still; what arrives waits.
    pub(crate) stopped: bool,
    pub(crate) backlog: VecDeque<Event>,
    /// It was demoted, and the address does not lead to the one in its place yet.
    pub(crate) is_moving: bool,
    /// It refuses calls with this error.
    pub(crate) trouble: Option<&'static str>,
    /// What its replica has heard.
    pub(crate) snapshot: Option<Snapshot>,
    listeners: BTreeSet<(usize, Arc<[u8]>)>,
    /// Scripts that do less in one call than those of users, or that are defective.
    changed: BTreeMap<Script, Changed>,
}

/// A script whose text is not that of users.
#[derive(Debug)]
struct Changed {
    text: String,
    /// By which it is called, once it was loaded.
    sha1: Option<Vec<u8>>,
}

impl Node {
    pub(crate) fn new(most: &Most, defect: Option<Defect>) -> Self {
        Self {
            store: Lent::new(),
            ticks: Clock {
                origin: EPOCH,
                drift_ppm: 0,
            },
            step: 0,
            set_back: 0,
            stopped: false,
            backlog: VecDeque::new(),
            is_moving: false,
            trouble: None,
            snapshot: None,
            listeners: BTreeSet::new(),
            changed: changed(most, defect),
        }
    }

    /// Its clock runs too fast or too slow from now on, when nothing has happened yet.
    pub(crate) fn drifts(&mut self, ppm: i64) {
        self.ticks.drift_ppm = ppm;
    }

    /// Its own time.
    pub(crate) fn clock(&self, now: Micros) -> ServerTime {
        let shown = self.ticks.at(now).as_micros();
        ServerTime::from_micros(shown.saturating_add_signed(self.step))
    }

    /// How much true time passes until its clock has gone on by so much.
    pub(crate) fn lasts(&self, shown: Micros) -> Micros {
        self.ticks.lasts(shown)
    }

    /// Runs a call's script.
    pub(crate) fn run(&mut self, call: &Call, now: Micros) -> Result<Reply, CallError> {
        let clock = self.clock(now);
        self.store.set_full(self.trouble == Some(FULL));
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
        // What strangers and the checks do to it is never refused.
        self.store.set_full(false);
        Ok(reply.into_result()?.into())
    }

    /// The error of a call that it refuses without running it.
    pub(crate) fn refuses(&self) -> Option<&'static str> {
        // A full server runs the script, and refuses in it what would take memory.
        self.trouble.filter(|code| *code != FULL)
    }

    pub(crate) fn subscribe(&mut self, client: usize, channel: &Arc<[u8]>) {
        self.listeners.insert((client, Arc::clone(channel)));
        self.store.subscribe(SubscriberId(client as u64), channel);
    }

    pub(crate) fn unsubscribe(&mut self, client: usize, channel: &Arc<[u8]>) {
        self.listeners.remove(&(client, Arc::clone(channel)));
        self.store.unsubscribe(SubscriberId(client as u64), channel);
    }

    /// Who listens, and on which channel.
    pub(crate) fn listeners(&self) -> Vec<(usize, Arc<[u8]>)> {
        self.listeners.iter().cloned().collect()
    }

    /// A client's connection for messages is gone.
    pub(crate) fn forget_listener(&mut self, client: usize) {
        let (gone, left) = std::mem::take(&mut self.listeners)
            .into_iter()
            .partition(|(listener, _)| *listener == client);
        self.listeners = left;
        let gone: BTreeSet<(usize, Arc<[u8]>)> = gone;
        for (_, channel) in gone {
            self.store.unsubscribe(SubscriberId(client as u64), &channel);
        }
    }

    /// What was published and has not been taken, with the client that is to hear it.
    pub(crate) fn published(&mut self) -> Vec<(usize, Delivery)> {
        let deliveries = self.store.take_deliveries().into_iter();
        deliveries
            .filter_map(|delivery| Some((usize::try_from(delivery.subscriber.0).ok()?, delivery)))
            .collect()
    }

    /// What is left of a key's TTL, in milliseconds; -1 without TTL, -2 without key.
    pub(crate) fn pttl(&mut self, key: &[u8], now: Micros) -> i64 {
        let clock = self.clock(now);
        match self.store.execute(&[b"PTTL", key], clock) {
            StoreReply::Int(left) => left,
            other => unreachable!("PTTL replied {other:?}"),
        }
    }

    /// Every key.
    pub(crate) fn keys(&mut self, now: Micros) -> Vec<Vec<u8>> {
        let clock = self.clock(now);
        texts(self.store.execute(&["KEYS", "*"], clock))
    }

    /// Lets the replica hear everything up to now.
    pub(crate) fn replicate(&mut self, now: Micros) {
        let clock = self.clock(now);
        self.snapshot = Some(Snapshot::take(&mut self.store, clock));
    }

    /// The replica takes over with what it has heard.
    pub(crate) fn fail_over(&mut self, now: Micros) {
        let clock = self.clock(now);
        if let Some(snapshot) = self.snapshot.take() {
            snapshot.restore(&mut self.store, clock);
        }
    }
}

/// The scripts whose text is not that of users.
fn changed(most: &Most, defect: Option<Defect>) -> BTreeMap<Script, Changed> {
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
