//! Which of a host's addresses is used: that of the server where the client is, or else of the only
//! primary.
//!
//! ```text
//!   every address is tried at once
//!     ├─ the client is at a server ─► the first that is that one
//!     └─ it is nowhere ─► those that are primaries within the round:
//!            one ─► it    several that are one server, or where it was last ─► that    others ─► refused
//! ```
//!
//! A replica, and an address where nobody answers, is passed over while another will do.

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

/// A round ends so long after its first primary.
const ROUND: Duration = Duration::from_millis(250);
/// The key that shows whether two connections are to one server lives so many milliseconds.
const LIFE: &[u8] = b"10000";

/// Where a connection may go: an address, or what needs none.
type Route = Option<SocketAddr>;

impl Connector {
    /// Connects to the server that is meant, and makes sure that it will do.
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
        // It is asked what any of them knows.
        let tries = routes.into_iter().map(|route| Box::pin(self.greeted(way, route)));
        select_ok(tries).await.map(|(candidate, _)| candidate)
    }

    /// Where the host is, and where the client is already: its name may lead elsewhere by now.
    async fn routes(&self, dialer: &Dialer) -> Result<Vec<Route>, Failure> {
        let Some(tcp) = dialer.tcp() else {
            return Ok(vec![None]);
        };
        // Sentinels and nodes know better than a connection where the server is.
        let here = self.here().filter(|_| !self.is_led());
        let known = here.and_then(|server| server.mark().address);
        let mut routes: Vec<Route> = match tcp.addresses(&self.world).await {
            Ok(addresses) => addresses.into_iter().map(Some).collect(),
            // Nobody knows where the name leads, but for the connection that is there.
            Err(_) if known.is_some() => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        if known.is_some() && !routes.contains(&known) {
            routes.insert(0, known);
        }
        Ok(routes)
    }

    /// The server where the client is.
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

    /// Makes sure that two primaries that are found at once are one server.
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

    /// Makes sure that the server is the one where the client is, which it is from now on if the connection is for
    /// calls; and none of the other primaries.
    async fn admit(&self, candidate: &mut Candidate, way: &Way<'_>) -> Result<(), Failure> {
        if let Some(peers) = self.peers.as_ref().filter(|_| way.purpose.is_for_calls()) {
            let is_newcomer = way.purpose != Purpose::Proof;
            let run_id = candidate.mark.run_id.clone();
            peers
                .check(run_id, &mut candidate.wire, self.database(), is_newcomer)
                .await?;
        }
        // Last: others ask whoever is there, and nobody answers on a connection that is still being made.
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
            // Held no longer: it would be there as long as somebody asks for it.
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

    /// Whether a connection that is at the server sees a key that is set by the new one.
    async fn is_seen_there(&self, candidate: &mut Candidate) -> Result<Seen, Failure> {
        // A key belongs to one node of a cluster, and any other would only say so.
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

    /// Sets a key of nobody else; `None` if the server refuses it.
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

    /// Another server than the one where the client is. One that is at its address has taken its place: what is
    /// left there cannot be connected to any more.
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

/// Whether a server is where the client is, or was if it is nowhere.
fn is_meant(mark: &Mark, here: Option<&Mark>, last: Option<&Mark>) -> bool {
    match here {
        Some(here) => mark.says_same(here).unwrap_or_else(|| mark.is_where(here)),
        None => last.is_some_and(|last| mark.says_same(last) == Some(true)),
    }
}

/// Whether a key is seen that was set on another connection.
fn is_seen(read: Option<Result<Reply, ServerError>>) -> Option<bool> {
    let read = read?.ok()?;
    Some(read != Reply::Nil)
}

/// Leaves nothing behind, if the user may delete; else the key ends by itself.
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

/// Why none of a host's addresses will do.
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
