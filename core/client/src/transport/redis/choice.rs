//! The choice among a host's addresses: the server where the client is, or else the only primary.
//!
//! ```text
//!   every address is tried at once
//!     ├─ the client is at a server ─► the first connection to that server
//!     └─ it is at none ─► the primaries that answer within the round:
//!            one ─► it    the same server, or where it was last ─► that    several servers ─► refused
//! ```
//!
//! Replicas and addresses without an answer are skipped while another address is usable.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::select_ok;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use steadlock_protocol::{ClientId, Reply};
use tokio::time::Instant;

use super::connect::{Connector, is_forbidden};
use super::failure::Failure;
use super::identity::{Mark, Server};
use super::membership::Membership;
use super::purpose::Purpose;
use super::resp::{self, ServerError};
use super::way::{Candidate, Dialer, Way};
use super::wire::Wire;
use crate::sleep::timeout_at;
use crate::world::Defect;

/// The time from the first primary of a round to the end of the round.
const ROUND: Duration = Duration::from_millis(250);
/// The lifetime, in milliseconds, of the key that shows whether two connections go to one server.
const LIFE: &[u8] = b"10000";

/// The target of an attempt: an address, or none for a Unix socket or an announced server.
type Route = Option<SocketAddr>;

impl Connector {
    /// Connects to the right server, and verifies that locks can work with it.
    pub(super) async fn find(&self, way: &Way<'_>) -> Result<Wire, Failure> {
        let mut candidate = self.candidate(way).await?;
        let admitted = self.admit(&mut candidate, way).await;
        admitted.map_err(|failure| candidate.explained(failure))?;
        Ok(candidate.wire)
    }

    async fn candidate(&self, way: &Way<'_>) -> Result<Candidate, Failure> {
        let routes = self.routes(way.dialer).await?;
        if let [route] = routes[..] {
            return self.greeted(way, route).await;
        }
        if way.purpose.is_at_server() {
            return self.choose(way, routes).await;
        }
        // A connection for topology may go to any of them: all can answer its question.
        let tries = routes.into_iter().map(|route| Box::pin(self.greeted(way, route)));
        select_ok(tries).await.map(|(candidate, _)| candidate)
    }

    /// Returns the addresses of the host and of the server where the client is, because the name may lead elsewhere by
    /// now.
    async fn routes(&self, dialer: &Dialer) -> Result<Vec<Route>, Failure> {
        let Some(tcp) = dialer.tcp() else {
            return Ok(vec![None]);
        };
        // Sentinels and cluster nodes know the server's address better than an open connection does.
        let here = self.here().filter(|_| !self.is_led());
        let known = here.and_then(|server| server.mark().address);
        let mut routes: Vec<Route> = match tcp.addresses(&self.world).await {
            Ok(addresses) => addresses.into_iter().map(Some).collect(),
            // The name cannot be looked up, but an open connection knows the address.
            Err(_) if known.is_some() => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        if known.is_some() && !routes.contains(&known) {
            routes.insert(0, known);
        }
        Ok(routes)
    }

    /// Returns the server where the client is.
    fn here(&self) -> Option<Arc<Server>> {
        self.identity.server().filter(|_| !self.world.has(Defect::LanesSplit))
    }

    async fn choose(&self, way: &Way<'_>, routes: Vec<Route>) -> Result<Candidate, Failure> {
        let here = self.here().map(|server| server.mark().clone());
        let last = self.identity.last();
        let tried = |route| async move { (route, self.greeted(way, route).await) };
        let mut tries: FuturesUnordered<_> = routes.into_iter().map(tried).collect();
        let (mut found, mut failures) = (Vec::<Candidate>::new(), Vec::new());
        let mut end: Option<Instant> = None;
        loop {
            let next = match end {
                None => tries.next().await,
                Some(end) => timeout_at(end, tries.next()).await.flatten(),
            };
            match next {
                None => break,
                Some((_, Ok(candidate))) if is_meant(&candidate.mark, here.as_ref(), last.as_ref()) => {
                    return Ok(candidate);
                }
                Some((_, Ok(candidate))) => {
                    end.get_or_insert_with(|| Instant::now() + ROUND);
                    found.push(candidate);
                }
                Some((route, Err(failure))) => failures.push((route, failure)),
            }
        }
        drop(tries);
        if found.is_empty() {
            return Err(none_of(failures));
        }
        let mut chosen = found.swap_remove(0);
        if here.is_none() {
            for other in &mut found {
                self.tell_one(&mut chosen, other, way).await?;
            }
        }
        Ok(chosen)
    }

    /// Verifies that two primaries found in one round are the same server.
    async fn tell_one(&self, chosen: &mut Candidate, other: &mut Candidate, way: &Way<'_>) -> Result<(), Failure> {
        if chosen.mark.says_same(&other.mark) == Some(true) {
            return Ok(());
        }
        let seen = match self.set_key(&mut chosen.wire).await? {
            Some(key) => {
                resp::command(other.wire.out(), [b"GET".as_slice(), &key].into_iter());
                let seen = other.wire.reply().await?;
                delete(&mut chosen.wire, &key).await?;
                Some(seen)
            }
            None => None,
        };
        match is_seen(seen).or_else(|| chosen.mark.says_same(&other.mark)) {
            Some(true) => Ok(()),
            Some(false) => Err(several(way.node)),
            None => Err(undecided(way.node)),
        }
    }

    /// Verifies that the server is the one where the client is, and none of the other primaries. If the client is at no
    /// server, a connection for calls puts it at this one.
    async fn admit(&self, candidate: &mut Candidate, way: &Way<'_>) -> Result<(), Failure> {
        if let Some(peers) = self.peers.as_ref().filter(|_| way.purpose.is_for_calls()) {
            let is_newcomer = way.purpose != Purpose::Proof;
            let run_id = candidate.mark.run_id.clone();
            peers
                .check(run_id, &mut candidate.wire, self.database(), is_newcomer)
                .await?;
        }
        // This comes last: as soon as the client is at this server, other attempts ask an open connection there, and
        // one that is still being made answers nothing.
        if way.purpose.is_at_server() && !self.world.has(Defect::LanesSplit) {
            let server = self.enter(candidate, way).await?;
            if way.purpose != Purpose::Proof {
                candidate.wire.keep_at(server);
            }
        }
        Ok(())
    }

    async fn enter(&self, candidate: &mut Candidate, way: &Way<'_>) -> Result<Arc<Server>, Failure> {
        loop {
            let Some(server) = self.identity.server() else {
                if !way.purpose.keeps_server() {
                    return Err(Failure::unavailable("not connected"));
                }
                match self.identity.go(candidate.mark.clone()) {
                    Some(server) => return Ok(server),
                    None => continue,
                }
            };
            let there = server.mark().clone();
            if candidate.mark.says_same(&there) == Some(true) {
                return Ok(server);
            }
            // Drops the reference during the question: it would keep the client at this server even if all connections
            // are lost.
            drop(server);
            match self.is_seen_there(candidate).await? {
                Seen::Yes => {}
                Seen::NobodyIsThere => continue,
                Seen::No => return Err(self.elsewhere(way, candidate.mark.is_where(&there))),
                Seen::Unknown => match candidate.mark.says_same(&there) {
                    None if candidate.mark.is_where(&there) => {}
                    None => return Err(undecided(way.node)),
                    Some(_) => return Err(self.elsewhere(way, candidate.mark.is_where(&there))),
                },
            }
            if let Some(server) = self.identity.server() {
                return Ok(server);
            }
        }
    }

    /// Whether an open connection at the server sees a key that the new connection sets.
    async fn is_seen_there(&self, candidate: &mut Candidate) -> Result<Seen, Failure> {
        // A key belongs to one node of a cluster, and every other node would only redirect the command.
        if self.membership != Membership::Alone {
            return Ok(Seen::Unknown);
        }
        let Some(key) = self.set_key(&mut candidate.wire).await? else {
            return Ok(Seen::Unknown);
        };
        let seen = self.identity.ask(Arc::clone(&key)).await;
        delete(&mut candidate.wire, &key).await?;
        Ok(match seen.map(|seen| is_seen(Some(seen))) {
            Err(_) => Seen::NobodyIsThere,
            Ok(Some(true)) => Seen::Yes,
            Ok(Some(false)) => Seen::No,
            Ok(None) => Seen::Unknown,
        })
    }

    /// Sets a key that no other client uses. Returns `None` if the server refuses.
    async fn set_key(&self, wire: &mut Wire) -> Result<Option<Arc<[u8]>>, Failure> {
        if self.membership != Membership::Alone || self.writes_nothing.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let key = self.key_prefix.nonce_key(ClientId::random(&mut *self.world.entropy()));
        resp::command(wire.out(), [b"SET".as_slice(), &key, b"1", b"PX", LIFE].into_iter());
        let set = wire.reply().await?;
        if is_forbidden(&set) {
            self.writes_nothing.store(true, Ordering::Relaxed);
        }
        Ok(set.is_ok().then_some(key))
    }

    /// Returns the failure for a connection to another server than the client's. If both have the same address, the new
    /// server has replaced the old one, and no new connection to the old one is possible.
    fn elsewhere(&self, way: &Way<'_>, is_in_its_place: bool) -> Failure {
        if matches!(way.purpose, Purpose::FirstCalls(_)) && !self.is_led() {
            several(way.node)
        } else if is_in_its_place {
            Failure::moved()
        } else {
            Failure::unavailable("the name leads to another server than the client's other connections")
        }
    }
}

enum Seen {
    Yes,
    No,
    Unknown,
    NobodyIsThere,
}

/// Whether this is the server where the client is, or where it was last if it is at none.
fn is_meant(mark: &Mark, here: Option<&Mark>, last: Option<&Mark>) -> bool {
    match here {
        Some(here) => mark.says_same(here).unwrap_or_else(|| mark.is_where(here)),
        None => last.is_some_and(|last| mark.says_same(last) == Some(true)),
    }
}

/// Whether the other connection saw the key. `None` if that is unknown.
fn is_seen(read: Option<Result<Reply, ServerError>>) -> Option<bool> {
    let read = read?.ok()?;
    Some(read != Reply::Nil)
}

/// Deletes the key if the user has the right; otherwise the key expires.
async fn delete(wire: &mut Wire, key: &[u8]) -> Result<(), Failure> {
    resp::command(wire.out(), [b"DEL".as_slice(), key].into_iter());
    wire.reply().await.map(drop)
}

fn several(node: &str) -> Failure {
    Failure::misconfigured(format!(
        "{node} leads to several servers that are primaries of their own"
    ))
    .advising("a lock is at one server: give the address of one, or use sentinels or a cluster")
}

fn undecided(node: &str) -> Failure {
    Failure::misconfigured(format!(
        "whether {node} leads to one server or to several cannot be told"
    ))
    .advising(
        "servers are told apart by INFO, or else by a key: give the user +info, or +set and +get, or give one address",
    )
}

/// Returns the reason why no address of a host is usable.
fn none_of(failures: Vec<(Route, Failure)>) -> Failure {
    let is_one_reason = failures.windows(2).all(|two| two[0].1.cause() == two[1].1.cause());
    if is_one_reason || failures.iter().all(|(_, failure)| failure.is_lasting()) {
        let (_, failure) = failures.into_iter().next().expect("an address was tried");
        return failure;
    }
    let at = |(route, failure): (Route, Failure)| match route {
        Some(address) => failure.at_socket(address),
        None => failure,
    };
    let failures: Vec<Failure> = failures.into_iter().map(at).collect();
    Failure::unavailable(Failure::joined(failures.iter()))
}
