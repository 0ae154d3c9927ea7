//! Verifies that several primaries are several servers.
//!
//! A server tells its run id, and a cluster the ids of its nodes; equal ids mean one server. A server that hides its
//! run id from this client is identified by a key of the client, whose value is the number of the primary. The key is
//! only set where it does not exist. If several primaries are one server, the first of them sets the key, and the
//! others find its number there.
//!
//! ```text
//!   run id ──── that of another primary ───────────────────────────────────────────► refused
//!     │  └───── new, and no server hides its run id ───────────────────────────────► good
//!     └ any server hides its run id ─► SET key own NX PX, GET key ─┬ own number ───► good
//!                                                                  ├ another number ► refused
//!                                                                  └ no key, error ─► no connection
//! ```
//!
//! Three events make the other primaries check again (`peer_check.rs`), unless they did so recently: a primary sets the
//! key, finds the number of another primary in it, or is the first with a hidden run id. They must check again because
//! an address can lead to another server later, and because keys expire. If the keys of others may have expired when a
//! primary connects, it makes the others check first, and waits a moment. As a result the newcomer is refused, and not
//! a primary in use.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use steadlock_protocol::{ClientId, Instant, Reply};
use steadlock_resp::commands;
use steadlock_resp::replies::{ServerError, text};
use tokio::sync::Notify;

use super::failure::Failure;
use super::wire::Wire;
use crate::settings::Settings;
use crate::sleep::timeout;

/// The command that asks a server for its run id.
pub(super) const QUESTION: &[&[u8]] = &[b"INFO", b"server"];
/// The lifetime of the key.
const KEY_TTL: Duration = Duration::from_secs(30);
/// Half the lifetime of the key. A key that was set or extended less than this ago lasts at least as long again.
const FRESH_FOR: Duration = Duration::from_secs(KEY_TTL.as_secs() / 2);
/// How long a primary with a hidden run id waits, at its first check, for the others to set their keys.
const FIRST_WAIT: Duration = Duration::from_millis(200);
/// How long a primary waits for the others at a later check, when no caller waits for the client's first connection any
/// more.
const LATER_WAIT: Duration = Duration::from_secs(1);

/// The knowledge of one primary about the others.
#[derive(Clone)]
pub(in crate::transport) struct Peers {
    shared: Arc<Shared>,
    node: usize,
}

struct Shared {
    settings: Arc<Settings>,
    /// Created when it is first needed.
    key: OnceLock<Arc<[u8]>>,
    state: Mutex<PeerState>,
    /// Notified when a primary has found its own number in the key at its server.
    proved: Notify,
}

#[derive(Default)]
struct PeerState {
    /// The run ids of the servers that tell theirs.
    run_ids: BTreeMap<usize, String>,
    /// The ids of each cluster's nodes.
    clusters: BTreeMap<usize, BTreeSet<String>>,
    /// Whether any server has hidden its run id so far.
    is_hidden: bool,
    /// The time at which each primary last set or extended a key with its own number.
    proved: BTreeMap<usize, Instant>,
    /// The primaries that found the number of another primary in the key.
    refused: BTreeSet<usize>,
    /// The number of requests to check again.
    changes: u64,
}

impl Peers {
    /// Creates a `Peers` for each of the primaries.
    pub(in crate::transport) fn new(settings: &Arc<Settings>) -> Vec<Self> {
        let shared = Arc::new(Shared {
            settings: Arc::clone(settings),
            key: OnceLock::new(),
            state: Mutex::default(),
            proved: Notify::new(),
        });
        let peer = |node| Self {
            shared: Arc::clone(&shared),
            node,
        };
        (0..settings.targets.len()).map(peer).collect()
    }

    /// Verifies by the ids of its nodes that a cluster is none of the other primaries.
    pub(super) fn check_nodes(&self, own: BTreeSet<String>) -> Result<(), Failure> {
        if own.is_empty() {
            return Err(Failure::misconfigured(
                "the cluster does not say the ids of its nodes, by which primaries are told apart",
            ));
        }
        let mut state = self.state();
        let mut others = state.clusters.iter().filter(|(node, _)| **node != self.node);
        if others.any(|(_, ids)| !ids.is_disjoint(&own)) {
            return Err(same_server());
        }
        state.clusters.insert(self.node, own);
        Ok(())
    }

    /// Verifies that a server is none of the other primaries: by its run id, or by the key if any server hides its run
    /// id. A primary that is connected already (not `is_new_connection`) waits for no others, because they wait for it.
    pub(super) async fn check(
        &self,
        run_id: Option<String>,
        wire: &mut Wire,
        database: i64,
        is_new_connection: bool,
    ) -> Result<(), Failure> {
        let is_first = self.state().set_run_id(self.node, run_id)?;
        if !self.state().is_hidden {
            return Ok(());
        }
        if is_new_connection {
            let has_requested = self.state().request_checks(self.node, self.now());
            if is_first {
                self.wait_for_others(FIRST_WAIT).await;
            } else if has_requested {
                self.wait_for_others(LATER_WAIT).await;
            }
        }
        self.prove(wire, database).await
    }

    /// Returns the number of requests to check again.
    pub(super) fn changes(&self) -> u64 {
        self.state().changes
    }

    /// Whether this primary must check again when another one has requested it.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        let state = self.state();
        state.is_hidden && !state.is_fresh(self.node, now)
    }

    /// Whether the last check found the number of another primary in the key at this primary's server.
    pub(super) fn is_refused(&self) -> bool {
        self.state().refused.contains(&self.node)
    }

    /// Waits until the others have set their keys: those that were identified by run id so far, and those whose keys
    /// may have expired. If they set their keys first, the primary that connects last is the one to be refused, while a
    /// caller still waits for its connection.
    async fn wait_for_others(&self, limit: Duration) {
        let all = async {
            loop {
                let proved = self.shared.proved.notified();
                let now = self.now();
                if self.state().others_are_fresh(self.node, now) {
                    return;
                }
                proved.await;
            }
        };
        timeout(limit, all).await;
    }

    /// Verifies that the server's key has the number of this primary. Sets the key if it does not exist, and extends a
    /// key that is no longer fresh.
    async fn prove(&self, wire: &mut Wire, database: i64) -> Result<(), Failure> {
        let (key, own_number) = (self.key(), self.node.to_string());
        let (start, key_ttl) = (self.now(), KEY_TTL.as_millis().to_string());
        let set: [&[u8]; 6] = [b"SET", &key, own_number.as_bytes(), b"NX", b"PX", key_ttl.as_bytes()];
        let set = in_first_database(wire, database, &set, &key).await?;
        let is_refused = set.changed.is_err();
        let is_new = set.changed.as_ref().is_ok_and(|reply| *reply != Reply::Nil);
        if !self.is_own_number(set.value, &own_number)? {
            let failure = set.changed.err().map_or_else(vanished, key_failure);
            // A server that refuses writes for now is still the same server.
            let is_believed = is_refused && self.is_proved() && !failure.is_lasting();
            return if is_believed { Ok(()) } else { Err(failure) };
        }
        let was_fresh = self.state().is_fresh(self.node, start);
        if !is_new && !was_fresh {
            // Checked once more, because the key may have expired meanwhile and been set by another primary.
            let extend: [&[u8]; 3] = [b"PEXPIRE", &key, key_ttl.as_bytes()];
            let extended = in_first_database(wire, database, &extend, &key).await?;
            if !self.is_own_number(extended.value, &own_number)? {
                return Err(vanished());
            }
            if let Err(error) = extended.changed {
                let failure = key_failure(error);
                // The server refuses writes for now but still has the key. The next check comes soon.
                return if failure.is_lasting() { Err(failure) } else { Ok(()) };
            }
        }
        let mut state = self.state();
        // A key that was only read expires at its old time.
        if is_new || !was_fresh {
            state.proved.insert(self.node, start);
        }
        state.refused.remove(&self.node);
        state.changes += u64::from(is_new);
        self.shared.proved.notify_waiters();
        Ok(())
    }

    /// Whether the key has the number of this primary. Fails if it has the number of another primary.
    fn is_own_number(&self, found: Result<Reply, ServerError>, own_number: &str) -> Result<bool, Failure> {
        match text(&found.map_err(key_failure)?) {
            Some(node) if node == own_number => Ok(true),
            Some(_) => Err(self.refuse()),
            None => Ok(false),
        }
    }

    /// Notes that the key has the number of another primary.
    fn refuse(&self) -> Failure {
        let mut state = self.state();
        state.proved.remove(&self.node);
        state.refused.insert(self.node);
        // The other primary extends the key when it checks again. If it has left the server, the key expires.
        state.changes += 1;
        same_server()
    }

    fn is_proved(&self) -> bool {
        self.state().proved.contains_key(&self.node)
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

    fn state(&self) -> MutexGuard<'_, PeerState> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PeerState {
    /// Notes the run id of a server. Returns whether the server hides it and was not checked before.
    fn set_run_id(&mut self, node: usize, run_id: Option<String>) -> Result<bool, Failure> {
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

    /// Requests another check if the keys of some other primaries may have expired. Returns whether it did.
    fn request_checks(&mut self, node: usize, now: Instant) -> bool {
        let must_request = self
            .proved
            .keys()
            .any(|other| *other != node && !self.is_fresh(*other, now));
        self.changes += u64::from(must_request);
        must_request
    }

    /// Whether the keys of all others are fresh: those with a known run id, and those that have proved a key.
    fn others_are_fresh(&self, node: usize, now: Instant) -> bool {
        let mut others = self
            .run_ids
            .keys()
            .chain(self.proved.keys())
            .filter(|other| **other != node);
        others.all(|other| self.is_fresh(*other, now))
    }

    fn is_fresh(&self, node: usize, now: Instant) -> bool {
        self.proved.get(&node).is_some_and(|at| now < *at + FRESH_FOR)
    }
}

/// Returns the run id of a server; `None` if the server hides it from this user or from all users.
pub(super) fn run_id(reply: Result<Reply, ServerError>) -> Result<Option<String>, Failure> {
    let info = match reply {
        Ok(info) => info,
        Err(error) if ["NOPERM", "ERR"].contains(&error.code.as_str()) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let id = text(&info).and_then(|info| info.lines().find_map(|line| line.strip_prefix("run_id:")));
    Ok(id.filter(|id| !id.is_empty()).map(str::to_owned))
}

/// The replies to a command on the key, and to reading the key afterwards.
struct ChangeReplies {
    changed: Result<Reply, ServerError>,
    value: Result<Reply, ServerError>,
}

/// Runs a command on the key and reads the key afterwards. Uses database 0, whatever the URL says: two primaries that
/// are two databases of one server must find the same key.
async fn in_first_database(
    wire: &mut Wire,
    database: i64,
    change: &[&[u8]],
    key: &[u8],
) -> Result<ChangeReplies, Failure> {
    let select = |out: &mut Vec<u8>, number: i64| {
        if database != 0 {
            commands::write(out, [b"SELECT".as_slice(), number.to_string().as_bytes()].into_iter());
        }
    };
    select(wire.out(), 0);
    commands::write(wire.out(), change.iter().copied());
    commands::write(wire.out(), [b"GET".as_slice(), key].into_iter());
    select(wire.out(), database);
    if database != 0 {
        wire.reply().await??;
    }
    let replies = ChangeReplies {
        changed: wire.reply().await?,
        value: wire.reply().await?,
    };
    if database != 0 {
        wire.reply().await??;
    }
    Ok(replies)
}

fn same_server() -> Failure {
    Failure::misconfigured("it is the same server as another one of the primaries")
        .with_advice("a majority needs independent ones")
}

fn vanished() -> Failure {
    Failure::unavailable("the key by which primaries are told apart was not there any more")
}

/// Returns the failure for a server that hides its run id and refused the key.
fn key_failure(error: ServerError) -> Failure {
    let failure = Failure::from(error);
    if failure.is_lasting() {
        failure.with_advice(
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
            message: "text".into(),
        })
    }

    #[test]
    fn a_run_id_is_hidden_by_a_refusal_and_by_its_absence() {
        let id = |reply| run_id(reply).expect("an answer");
        assert_eq!(id(info("# Server\r\nrun_id:abc\r\n")).as_deref(), Some("abc"));
        for reply in [
            info("# Server\r\nredis_version:7.4\r\n"),
            info("run_id:\r\n"),
            error("NOPERM"),
            error("ERR"),
        ] {
            assert_eq!(id(reply), None);
        }
        assert!(!run_id(error("LOADING")).unwrap_err().is_lasting());
    }

    #[test]
    fn clusters_are_compared_by_the_last_ids_of_their_nodes() {
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
        assert!(check(2, &[]).unwrap_err().is_lasting(), "the ids are unknown");
        check(2, &["d"]).unwrap();
    }

    #[test]
    fn run_ids_are_compared_with_the_last_ones_of_the_others() {
        let mut state = PeerState::default();
        for node in [0, 0, 1] {
            state.set_run_id(node, Some(format!("id-{node}"))).unwrap();
        }
        assert!(state.set_run_id(2, Some("id-0".into())).unwrap_err().is_lasting());
        state.set_run_id(0, Some("id-3".into())).unwrap();
        state.set_run_id(2, Some("id-0".into())).unwrap();
        assert!(!state.is_hidden && state.changes == 0);
    }

    #[test]
    fn the_first_primary_that_hides_its_run_id_makes_the_others_check_again() {
        let mut state = PeerState::default();
        state.set_run_id(0, Some("id-0".into())).unwrap();
        assert!(state.set_run_id(1, None).unwrap(), "it was not checked before");
        assert!(state.is_hidden && state.changes == 1);
        assert!(state.set_run_id(2, None).unwrap());
        state.proved.insert(2, Instant::ZERO);
        assert!(!state.set_run_id(2, None).unwrap(), "it was checked before");
        assert_eq!(state.changes, 1);
    }
}
