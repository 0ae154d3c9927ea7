//! What makes sure that several primaries are several servers.
//!
//! A server says its run id, and a cluster the ids of its nodes: what has one id is one. A server
//! whose run id is hidden from this client is told apart by a key of the client's own, that has the
//! number of the primary in it. It is set only where it is not: of several primaries that are one
//! server the first one sets it, and the others find its number there.
//!
//! ```text
//!   run id ──── another's ────────────────────────────► refused
//!     │  └───── new, and nobody's is hidden ──────────► good
//!     └ hidden, or another's is ─► SET key me NX PX, GET key ── me ──► good
//!                                                        └─ another ► refused
//! ```
//!
//! A primary that sets the key, finds the key of another primary, or is the first whose run id is
//! hidden, makes the others look again (`proof.rs`), unless they did lately: an address may lead
//! elsewhere than it did, and a key ends. A primary that connects while the keys of others may have
//! ended makes them look first, and waits a moment, so that it is the newcomer that is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use steadlock_protocol::{ClientId, Instant, Reply};
use tokio::sync::Notify;

use super::failure::Failure;
use super::resp::{self, ServerError, text};
use super::wire::Wire;
use crate::settings::Settings;
use crate::sleep::timeout;

/// What asks a server for its run id.
pub(super) const QUESTION: &[&[u8]] = &[b"INFO", b"server"];
/// How long the key lives.
const LIFE: Duration = Duration::from_secs(30);
/// A key that was set so lately, or made to last, is there for as long again: half its life.
const FRESH: Duration = Duration::from_secs(LIFE.as_secs() / 2);
/// How long the first one that hides its run id gives the others to set their keys.
const PATIENCE: Duration = Duration::from_millis(200);
/// How long a later one does, when nobody waits for the client's first connection any more.
const LATER_PATIENCE: Duration = Duration::from_secs(1);

/// What one primary knows of the others.
#[derive(Clone)]
pub(in crate::transport) struct Peers {
    shared: Arc<Shared>,
    node: usize,
}

struct Shared {
    settings: Arc<Settings>,
    /// Made when it is needed.
    key: OnceLock<Arc<[u8]>>,
    known: Mutex<Known>,
    /// Some have set their keys.
    proved: Notify,
}

#[derive(Default)]
struct Known {
    /// The run id of each server that says it.
    run_ids: BTreeMap<usize, String>,
    /// The ids of each cluster's nodes.
    clusters: BTreeMap<usize, BTreeSet<String>>,
    /// Some server does not say its run id.
    is_hidden: bool,
    /// When each last made sure that its server has its own key.
    proved: BTreeMap<usize, Instant>,
    /// Which found another one's key.
    refused: BTreeSet<usize>,
    /// How often the others had reason to look again.
    changes: u64,
}

impl Peers {
    /// One for each of the primaries.
    pub(in crate::transport) fn new(settings: &Arc<Settings>) -> Vec<Self> {
        let shared = Arc::new(Shared {
            settings: Arc::clone(settings),
            key: OnceLock::new(),
            known: Mutex::default(),
            proved: Notify::new(),
        });
        let peer = |node| Self {
            shared: Arc::clone(&shared),
            node,
        };
        (0..settings.targets.len()).map(peer).collect()
    }

    /// Makes sure that a cluster is none of the others, by the ids of its nodes.
    pub(super) fn check_nodes(&self, own: BTreeSet<String>) -> Result<(), Failure> {
        if own.is_empty() {
            return Err(Failure::misconfigured(
                "the cluster does not say the ids of its nodes, by which primaries are told apart",
            ));
        }
        let mut known = self.known();
        let mut others = known.clusters.iter().filter(|(node, _)| **node != self.node);
        if others.any(|(_, ids)| !ids.is_disjoint(&own)) {
            return Err(same_server());
        }
        known.clusters.insert(self.node, own);
        Ok(())
    }

    /// Makes sure that a server is none of the others, by the run id that it said, if it does. One that is connected
    /// to waits for nobody, as others wait for it: then it is no newcomer.
    pub(super) async fn check(
        &self,
        run_id: Option<String>,
        wire: &mut Wire,
        database: i64,
        is_newcomer: bool,
    ) -> Result<(), Failure> {
        let is_first = self.known().note(self.node, run_id)?;
        if !self.known().is_hidden {
            return Ok(());
        }
        if is_newcomer {
            let has_called = self.known().call_others(self.node, self.now());
            if is_first {
                self.wait_for_others(PATIENCE).await;
            } else if has_called {
                self.wait_for_others(LATER_PATIENCE).await;
            }
        }
        self.prove(wire, database).await
    }

    /// How often somebody had reason to look again.
    pub(super) fn changes(&self) -> u64 {
        self.known().changes
    }

    /// Whether this one has to look again when another had reason to.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        let known = self.known();
        known.is_hidden && !known.is_fresh(self.node, now)
    }

    /// Whether its server is another one's, as far as it knows.
    pub(super) fn is_refused(&self) -> bool {
        self.known().refused.contains(&self.node)
    }

    /// Those that were told apart by their run ids, or whose keys may have ended, set theirs first. So
    /// it is the one that connects last that is refused, while somebody waits to be told.
    async fn wait_for_others(&self, limit: Duration) {
        let all = async {
            loop {
                let proved = self.shared.proved.notified();
                let now = self.now();
                if self.known().others_are_fresh(self.node, now) {
                    return;
                }
                proved.await;
            }
        };
        timeout(limit, all).await;
    }

    async fn prove(&self, wire: &mut Wire, database: i64) -> Result<(), Failure> {
        let (key, me) = (self.key(), self.node.to_string());
        let (start, life) = (self.now(), LIFE.as_millis().to_string());
        let set: [&[u8]; 6] = [b"SET", &key, me.as_bytes(), b"NX", b"PX", life.as_bytes()];
        let (set, found) = in_first_database(wire, database, &set, &key).await?;
        let (is_refused, is_new) = (set.is_err(), set.as_ref().is_ok_and(|reply| *reply != Reply::Nil));
        if !self.has_own(found, &me)? {
            let failure = set.err().map_or_else(vanished, of_key);
            // A server that takes no writes for now is still the one that it was.
            let is_believed = is_refused && self.is_proved() && !failure.is_lasting();
            return if is_believed { Ok(()) } else { Err(failure) };
        }
        let was_fresh = self.known().is_fresh(self.node, start);
        if !is_new && !was_fresh {
            // Looked at once more: meanwhile it may have ended, and be another's.
            let longer: [&[u8]; 3] = [b"PEXPIRE", &key, life.as_bytes()];
            let (longer, found) = in_first_database(wire, database, &longer, &key).await?;
            if !self.has_own(found, &me)? {
                return Err(vanished());
            }
            if let Err(error) = longer {
                let failure = of_key(error);
                // It takes no writes for now, and has the key all the same: it is looked at again soon.
                return if failure.is_lasting() { Err(failure) } else { Ok(()) };
            }
        }
        let mut known = self.known();
        // What was only seen ends when it would have ended.
        if is_new || !was_fresh {
            known.proved.insert(self.node, start);
        }
        known.refused.remove(&self.node);
        known.changes += u64::from(is_new);
        self.shared.proved.notify_waiters();
        Ok(())
    }

    /// Whether the server has this one's key, and not another one's.
    fn has_own(&self, found: Result<Reply, ServerError>, me: &str) -> Result<bool, Failure> {
        match text(&found.map_err(of_key)?) {
            Some(node) if node == me => Ok(true),
            Some(_) => Err(self.refuse()),
            None => Ok(false),
        }
    }

    /// The server has the key of another one.
    fn refuse(&self) -> Failure {
        let mut known = self.known();
        known.proved.remove(&self.node);
        known.refused.insert(self.node);
        // The primary that has it keeps it, or else it ends.
        known.changes += 1;
        same_server()
    }

    fn is_proved(&self) -> bool {
        self.known().proved.contains_key(&self.node)
    }

    fn key(&self) -> Arc<[u8]> {
        let settings = &self.shared.settings;
        let new = || {
            settings
                .key_prefix()
                .nonce_key(ClientId::random(&mut *settings.world.entropy()))
        };
        Arc::clone(self.shared.key.get_or_init(new))
    }

    fn now(&self) -> Instant {
        self.shared.settings.world.now()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.shared.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Notes what a server said. Says whether it hides its run id and was not looked at before.
    fn note(&mut self, node: usize, run_id: Option<String>) -> Result<bool, Failure> {
        let Some(run_id) = run_id else {
            self.run_ids.remove(&node);
            self.changes += u64::from(!self.is_hidden);
            self.is_hidden = true;
            return Ok(!self.proved.contains_key(&node));
        };
        if self
            .run_ids
            .iter()
            .any(|(other, known)| *other != node && *known == run_id)
        {
            return Err(same_server());
        }
        self.run_ids.insert(node, run_id);
        Ok(false)
    }

    /// Has the others look again if the keys of some may have ended. Says whether that is so.
    fn call_others(&mut self, node: usize, now: Instant) -> bool {
        let is_called = self
            .proved
            .keys()
            .any(|other| *other != node && !self.is_fresh(*other, now));
        self.changes += u64::from(is_called);
        is_called
    }

    /// Whether the keys of all others are there that were looked at, or are to be.
    fn others_are_fresh(&self, node: usize, now: Instant) -> bool {
        let mut others = self
            .run_ids
            .keys()
            .chain(self.proved.keys())
            .filter(|other| **other != node);
        others.all(|other| self.is_fresh(*other, now))
    }

    fn is_fresh(&self, node: usize, now: Instant) -> bool {
        self.proved.get(&node).is_some_and(|at| now < *at + FRESH)
    }
}

/// What a server calls itself; `None` if it does not say it to this user, or to nobody.
pub(super) fn run_id(said: Result<Reply, ServerError>) -> Result<Option<String>, Failure> {
    let info = match said {
        Ok(info) => info,
        Err(error) if ["NOPERM", "ERR"].contains(&error.code.as_str()) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let told = text(&info).and_then(|info| info.lines().find_map(|line| line.strip_prefix("run_id:")));
    Ok(told.filter(|id| !id.is_empty()).map(str::to_owned))
}

/// Runs a command on the key, and looks what is there then. In database 0, whatever the URL says: two
/// primaries with two databases of one server are to meet.
async fn in_first_database(
    wire: &mut Wire,
    database: i64,
    change: &[&[u8]],
    key: &[u8],
) -> Result<(Result<Reply, ServerError>, Result<Reply, ServerError>), Failure> {
    let select = |out: &mut Vec<u8>, number: i64| {
        if database != 0 {
            resp::command(out, [b"SELECT".as_slice(), number.to_string().as_bytes()].into_iter());
        }
    };
    select(wire.out(), 0);
    resp::command(wire.out(), change.iter().copied());
    resp::command(wire.out(), [b"GET".as_slice(), key].into_iter());
    select(wire.out(), database);
    if database != 0 {
        wire.reply().await??;
    }
    let both = (wire.reply().await?, wire.reply().await?);
    if database != 0 {
        wire.reply().await??;
    }
    Ok(both)
}

fn same_server() -> Failure {
    Failure::misconfigured("it is the same server as another one of the primaries")
        .advising("a majority needs independent ones")
}

fn vanished() -> Failure {
    Failure::unavailable("the key by which primaries are told apart was not there any more")
}

/// The server does not say its run id, and refused what was to tell it apart.
fn of_key(error: ServerError) -> Failure {
    let failure = Failure::from(error);
    if failure.is_lasting() {
        failure.advising(
            "primaries are told apart by INFO, or else by a key: give the user +info, or +set, +get and +pexpire",
        )
    } else {
        failure
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Options;

    fn info(text: &str) -> Result<Reply, ServerError> {
        Ok(Reply::Bytes(text.into()))
    }

    fn error(code: &str) -> Result<Reply, ServerError> {
        Err(ServerError {
            code: code.into(),
            message: "so it is".into(),
        })
    }

    #[test]
    fn a_run_id_is_hidden_by_a_refusal_and_by_its_absence() {
        let told = |said| run_id(said).expect("an answer");
        assert_eq!(told(info("# Server\r\nrun_id:abc\r\n")).as_deref(), Some("abc"));
        for said in [
            info("# Server\r\nredis_version:7.4\r\n"),
            info("run_id:\r\n"),
            error("NOPERM"),
            error("ERR"),
        ] {
            assert_eq!(told(said), None);
        }
        assert!(!run_id(error("LOADING")).unwrap_err().is_lasting());
    }

    #[test]
    fn clusters_are_compared_by_the_ids_that_their_nodes_had_last() {
        let urls = (1..=3).map(|host| format!("redis+cluster://h{host}"));
        let options = Options {
            primaries: Some(urls.collect()),
            ..Options::default()
        };
        let peers = Peers::new(&Arc::new(Settings::check(options).unwrap()));
        let check =
            |peer: usize, ids: &[&str]| peers[peer].check_nodes(ids.iter().copied().map(str::to_owned).collect());
        check(0, &["a", "b"]).unwrap();
        check(0, &["a", "c"]).unwrap();
        check(1, &["b"]).unwrap();
        assert!(check(2, &["d", "c"]).unwrap_err().is_lasting());
        assert!(check(2, &[]).unwrap_err().is_lasting(), "nobody can tell");
        check(2, &["d"]).unwrap();
    }

    #[test]
    fn run_ids_are_compared_with_those_that_the_others_said_last() {
        let mut known = Known::default();
        for node in [0, 0, 1] {
            known.note(node, Some(format!("id-{node}"))).unwrap();
        }
        assert!(known.note(2, Some("id-0".into())).unwrap_err().is_lasting());
        known.note(0, Some("id-3".into())).unwrap();
        known.note(2, Some("id-0".into())).unwrap();
        assert!(!known.is_hidden && known.changes == 0);
    }

    #[test]
    fn the_first_that_hides_its_run_id_makes_the_others_look() {
        let mut known = Known::default();
        known.note(0, Some("id-0".into())).unwrap();
        assert!(known.note(1, None).unwrap(), "it was not looked at");
        assert!(known.is_hidden && known.changes == 1);
        assert!(known.note(2, None).unwrap());
        known.proved.insert(2, Instant::ZERO);
        assert!(!known.note(2, None).unwrap(), "it was");
        assert_eq!(known.changes, 1);
    }
}
