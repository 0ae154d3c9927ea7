//! Sentinels: the primary that each one knows, and how slow a connection to each sentinel is.
//!
//! Each sentinel learns of a new primary at another time. Until then it names the previous one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use steadlock_resp::commands::{Decoder, Limits};
use steadlock_store::Reply;
use steadlock_store::encode::{self, Protocol};

use super::cable::Cable;
use super::plan::Plan;
use super::server::{confirm, greeting};
use super::shards::text;
use super::shards::{self, error};
use super::trace::Trace;
use crate::random::Random;

const PORT: u16 = 26_379;

/// All sentinels of a history.
pub(super) struct Sentinels {
    trace: Arc<Trace>,
    hides_epochs: bool,
    state: Mutex<State>,
}

struct State {
    /// The address of the primary that the majority agreed on.
    primary: usize,
    /// The number of these agreements.
    epoch: u64,
    views: Vec<View>,
}

/// The state of one sentinel.
struct View {
    primary: usize,
    epoch: u64,
    slowest: u64,
    listeners: BTreeMap<u64, Arc<Cable>>,
}

impl Sentinels {
    /// The name of the service: the primary with its replica.
    pub(super) const SERVICE: &str = "shop";

    pub(super) fn new(plan: &Plan, random: &mut Random, trace: &Arc<Trace>) -> Arc<Self> {
        let view = |_| View {
            primary: 0,
            epoch: 1,
            slowest: random.pick(&[500, 10_000, 150_000]),
            listeners: BTreeMap::new(),
        };
        Arc::new(Self {
            trace: Arc::clone(trace),
            hides_epochs: plan.hides_epochs,
            state: Mutex::new(State {
                primary: 0,
                epoch: 1,
                views: (0..plan.sentinels).map(view).collect(),
            }),
        })
    }

    pub(super) fn host(number: usize) -> String {
        format!("sentinel-{number}")
    }

    /// Returns the longest time that bytes take to or from a sentinel, in microseconds.
    pub(super) fn slowest(&self, number: usize) -> u64 {
        self.lock().views[number].slowest
    }

    pub(super) fn primary(&self) -> usize {
        self.lock().primary
    }

    /// Lets the majority agree on another primary.
    pub(super) fn sentinel_failover(&self, primary: usize) {
        let mut state = self.lock();
        state.primary = primary;
        state.epoch += 1;
    }

    /// Lets a sentinel learn of the agreed primary. With `notifies`, it tells its listeners if its primary changes.
    pub(super) fn learn(&self, number: usize, notifies: bool) {
        let mut state = self.lock();
        let State { primary, epoch, views } = &mut *state;
        let view = &mut views[number];
        let before = std::mem::replace(&mut view.primary, *primary);
        view.epoch = *epoch;
        self.trace
            .note(format_args!("sentinel {number} names server {primary}, epoch {epoch}"));
        if before == *primary || !notifies {
            return;
        }
        let address = |number| format!("{} {}", shards::host(number), shards::PORT);
        let event = format!("{} {} {}", Self::SERVICE, address(before), address(*primary));
        let mut out = Vec::new();
        let items = ["message", "+switch-master", &event].map(text);
        encode::push(&items, Protocol::Resp3, &mut out);
        for listener in view.listeners.values() {
            listener.send(out.clone());
        }
    }

    /// Serves a connection to a sentinel until it ends.
    pub(super) async fn serve(self: Arc<Self>, number: usize, id: u64, cable: Arc<Cable>) {
        let mut commands = Decoder::new(Limits::NONE);
        while let Some(bytes) = cable.receive().await {
            commands.buffer().extend(bytes);
            let mut out = Vec::new();
            while let Some(words) = commands.next_request().expect("the client speaks RESP") {
                if words[0].eq_ignore_ascii_case(b"SUBSCRIBE") {
                    for (count, channel) in (1..).zip(&words[1..]) {
                        confirm("subscribe", channel, count, &mut out);
                    }
                    self.lock().views[number].listeners.insert(id, Arc::clone(&cable));
                } else {
                    encode::reply(&self.answer(number, &words), Protocol::Resp3, &mut out);
                }
            }
            cable.send(out);
        }
        self.lock().views[number].listeners.remove(&id);
    }

    fn answer(&self, number: usize, words: &[Vec<u8>]) -> Reply {
        let state = self.lock();
        let View { primary, epoch, .. } = state.views[number];
        let word = |at: usize| words.get(at).map(|word| word.to_ascii_uppercase()).unwrap_or_default();
        match (word(0).as_slice(), word(1).as_slice()) {
            (b"HELLO", _) => greeting("sentinel", "master"),
            (b"CLIENT", _) => Reply::OK,
            (b"SENTINEL", b"MYID") => text(id(number)),
            (b"SENTINEL", b"MASTER") if self.hides_epochs => {
                error("NOPERM User has no permissions to run the 'sentinel|master' command")
            }
            (b"SENTINEL", b"MASTER") => Reply::Map(vec![(text("config-epoch"), text(epoch.to_string()))]),
            (b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME") => {
                Reply::Array(vec![text(shards::host(primary)), text(shards::PORT.to_string())])
            }
            (b"SENTINEL", b"SENTINELS") => {
                let others = (0..state.views.len()).filter(|other| *other != number);
                Reply::Array(others.map(described).collect())
            }
            (name, rest) => unreachable!(
                "{} {} is not simulated",
                String::from_utf8_lossy(name),
                String::from_utf8_lossy(rest)
            ),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Describes a sentinel as the other sentinels do.
fn described(number: usize) -> Reply {
    let fields = [
        "ip".into(),
        Sentinels::host(number),
        "port".into(),
        PORT.to_string(),
        "runid".into(),
        id(number),
    ];
    Reply::Array(fields.map(text).into())
}

fn id(number: usize) -> String {
    format!("{number:040}")
}
