//! The choice among a host's addresses: the server where the client is, or else the only primary.
//!
//! ```text
//!   every address is tried at once
//!     ├─ the client is at a server ─► the first connection to that server
//!     └─ it is at none
//!          ├─ a connection is to the server where it was last ─► that connection
//!          └─ else, after a short wait: the primaries that answered
//!               ├─ are one server ───────────────────────► the first connection
//!               └─ are several, or cannot be told apart ─► refused
//! ```
//!
//! Replicas and addresses without an answer are skipped while another address is usable. A tool uses a replica if no
//! primary answers. A question about the topology goes to any address.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::select_ok;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use steadlock_protocol::{ClientId, Reply};
use steadlock_resp::commands;
use steadlock_resp::replies::ServerError;
use tokio::time::Instant;

use super::attempt::{Attempt, Connection, Dialer, Purpose};
use super::connect::{Connector, is_forbidden};
use super::failure::Failure;
use super::identity::{Mark, Server};
use super::server_kind::ServerKind;
use super::wire::Wire;
use crate::sleep::timeout_at;

/// The choice waits this long for the other addresses after the first primary has answered.
const CHOICE_DELAY: Duration = Duration::from_millis(250);
/// The lifetime, in milliseconds, of the key that shows whether two connections go to one server.
const KEY_TTL: &[u8] = b"10000";

/// The target of an attempt: an address, or `None` for a Unix socket.
type Route = Option<SocketAddr>;

impl Connector {
    /// Connects to the right server, and verifies that locks can work with it.
    pub(super) async fn find(&self, attempt: &Attempt<'_>) -> Result<Wire, Failure> {
        let mut connection = self.connection(attempt).await?;
        let admitted = self.admit(&mut connection, attempt).await;
        admitted.map_err(|failure| connection.explain(failure))?;
        Ok(connection.wire)
    }

    async fn connection(&self, attempt: &Attempt<'_>) -> Result<Connection, Failure> {
        let routes = self.routes(attempt.dialer).await?;
        if let [route] = routes[..] {
            return self.connect_and_greet(attempt, route).await;
        }
        if attempt.purpose.is_at_server() {
            return self.choose(attempt, routes).await;
        }
        // A connection for topology may go to any of them: all can answer its question.
        let attempts = routes
            .into_iter()
            .map(|route| Box::pin(self.connect_and_greet(attempt, route)));
        select_ok(attempts).await.map(|(connection, _)| connection)
    }

    /// Returns the host's addresses, and that of the server where the client is: the name may lead elsewhere by now.
    async fn routes(&self, dialer: &Dialer) -> Result<Vec<Route>, Failure> {
        let Some(tcp) = dialer.tcp() else {
            return Ok(vec![None]);
        };
        // Sentinels and cluster nodes know the server's address better than an open connection does.
        let current_server = self.identity.server().filter(|_| !self.has_named_address());
        let known = current_server.and_then(|server| server.mark().address);
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

    async fn choose(&self, attempt: &Attempt<'_>, routes: Vec<Route>) -> Result<Connection, Failure> {
        let current_server = self.identity.server().map(|server| server.mark().clone());
        let last = self.identity.last();
        let attempt_at = |route| async move { (route, self.connect_and_greet(attempt, route).await) };
        let mut attempts: FuturesUnordered<_> = routes.into_iter().map(attempt_at).collect();
        let (mut found, mut failures) = (Vec::<Connection>::new(), Vec::new());
        let mut replica = None;
        let mut end: Option<Instant> = None;
        loop {
            // A primary may be slower than a replica, so a replica is used only near the end of the attempt, or when
            // all other addresses have failed.
            let wait_end = end.or_else(|| replica.is_some().then(|| attempt.deadline.before_end(CHOICE_DELAY)));
            let next = match wait_end {
                None => attempts.next().await,
                Some(wait_end) => timeout_at(wait_end, attempts.next()).await.flatten(),
            };
            match next {
                None => break,
                Some((_, Ok(connection))) if connection.is_replica && attempt.purpose == Purpose::Tool => {
                    replica.get_or_insert(connection);
                }
                Some((_, Ok(connection))) if is_preferred(&connection.mark, current_server.as_ref(), last.as_ref()) => {
                    return Ok(connection);
                }
                Some((_, Ok(connection))) => {
                    end.get_or_insert_with(|| Instant::now() + CHOICE_DELAY);
                    found.push(connection);
                }
                Some((route, Err(failure))) => failures.push((route, failure)),
            }
        }
        drop(attempts);
        if found.is_empty() {
            return replica.ok_or_else(|| all_failed(failures));
        }
        let mut chosen = found.swap_remove(0);
        if current_server.is_none() {
            for other in &mut found {
                self.check_same_server(&mut chosen, other, attempt).await?;
            }
        }
        Ok(chosen)
    }

    /// Verifies that two primaries that one attempt has found are the same server.
    async fn check_same_server(
        &self,
        chosen: &mut Connection,
        other: &mut Connection,
        attempt: &Attempt<'_>,
    ) -> Result<(), Failure> {
        if chosen.mark.is_same_server(&other.mark) == Some(true) {
            return Ok(());
        }
        let value = match self.set_key(&mut chosen.wire).await? {
            Some(key) => {
                commands::write(other.wire.out(), [b"GET".as_slice(), &key].into_iter());
                let value = other.wire.reply().await?;
                delete(&mut chosen.wire, &key).await?;
                Some(value)
            }
            None => None,
        };
        match is_key_found(value).or_else(|| chosen.mark.is_same_server(&other.mark)) {
            Some(true) => Ok(()),
            Some(false) => Err(several_servers(attempt.node)),
            None => Err(cannot_tell_apart(attempt.node)),
        }
    }

    /// Verifies that the server is the one where the client is, and none of the other primaries. If the client is at no
    /// server, a connection for calls makes this server the client's.
    async fn admit(&self, connection: &mut Connection, attempt: &Attempt<'_>) -> Result<(), Failure> {
        if let Some(peers) = self.peers.as_ref().filter(|_| attempt.purpose.is_for_calls()) {
            let is_new_connection = attempt.purpose != Purpose::PeerCheck;
            let run_id = connection.mark.run_id.clone();
            peers
                .check(run_id, &mut connection.wire, self.database(), is_new_connection)
                .await?;
        }
        // This comes last: as soon as the client is at this server, other attempts ask its connections to read a key,
        // and a connection that is still being made does not answer.
        if attempt.purpose.is_at_server() {
            let server = self.join_server(connection, attempt).await?;
            if attempt.purpose != Purpose::PeerCheck {
                connection.wire.keep_at(server);
            }
        }
        Ok(())
    }

    async fn join_server(&self, connection: &mut Connection, attempt: &Attempt<'_>) -> Result<Arc<Server>, Failure> {
        loop {
            let Some(server) = self.identity.server() else {
                if !attempt.purpose.keeps_server() {
                    return Err(Failure::unavailable("not connected"));
                }
                match self.identity.join(connection.mark.clone()) {
                    Some(server) => return Ok(server),
                    None => continue,
                }
            };
            let mark = server.mark().clone();
            if connection.mark.is_same_server(&mark) == Some(true) {
                return Ok(server);
            }
            // Drops the reference before the question, because the reference would keep the client at this server even
            // if all connections are lost.
            drop(server);
            match self.check_key(connection).await? {
                KeyCheck::Found => {}
                KeyCheck::NoServer => continue,
                KeyCheck::Missing => return Err(self.at_other_server(attempt, connection.mark.has_same_address(&mark))),
                KeyCheck::Unknown => match connection.mark.is_same_server(&mark) {
                    None if connection.mark.has_same_address(&mark) => {}
                    None => return Err(cannot_tell_apart(attempt.node)),
                    Some(_) => return Err(self.at_other_server(attempt, connection.mark.has_same_address(&mark))),
                },
            }
            if let Some(server) = self.identity.server() {
                return Ok(server);
            }
        }
    }

    /// Whether an open connection at the server sees a key that the new connection sets.
    async fn check_key(&self, connection: &mut Connection) -> Result<KeyCheck, Failure> {
        // A key belongs to one node of a cluster, and every other node would only redirect the command.
        if self.server_kind != ServerKind::Standalone {
            return Ok(KeyCheck::Unknown);
        }
        let Some(key) = self.set_key(&mut connection.wire).await? else {
            return Ok(KeyCheck::Unknown);
        };
        let value = self.identity.ask(Arc::clone(&key)).await;
        delete(&mut connection.wire, &key).await?;
        Ok(match value.map(|value| is_key_found(Some(value))) {
            Err(_) => KeyCheck::NoServer,
            Ok(Some(true)) => KeyCheck::Found,
            Ok(Some(false)) => KeyCheck::Missing,
            Ok(None) => KeyCheck::Unknown,
        })
    }

    /// Sets a key that no other client uses. Returns `None` if the server refuses.
    async fn set_key(&self, wire: &mut Wire) -> Result<Option<Arc<[u8]>>, Failure> {
        if self.server_kind != ServerKind::Standalone || self.may_not_write.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let key = self.key_prefix.nonce_key(ClientId::random(&mut *self.world.entropy()));
        commands::write(wire.out(), [b"SET".as_slice(), &key, b"1", b"PX", KEY_TTL].into_iter());
        let set = wire.reply().await?;
        if is_forbidden(&set) {
            self.may_not_write.store(true, Ordering::Relaxed);
        }
        Ok(set.is_ok().then_some(key))
    }

    /// Returns the failure for a connection to another server than the client's. If both have the same address, the new
    /// server has replaced the old one, and no new connection to the old one is possible.
    fn at_other_server(&self, attempt: &Attempt<'_>, has_same_address: bool) -> Failure {
        if matches!(attempt.purpose, Purpose::FirstCalls(_)) && !self.has_named_address() {
            several_servers(attempt.node)
        } else if has_same_address {
            Failure::moved()
        } else {
            Failure::unavailable("the name leads to another server than the client's other connections")
        }
    }
}

enum KeyCheck {
    Found,
    Missing,
    Unknown,
    /// The client is at no server any more, so no connection has answered.
    NoServer,
}

/// Whether the mark is that of the server where the client is or, if the client is at none, where it was last.
fn is_preferred(mark: &Mark, current_server: Option<&Mark>, last: Option<&Mark>) -> bool {
    match current_server {
        Some(current_server) => mark
            .is_same_server(current_server)
            .unwrap_or_else(|| mark.has_same_address(current_server)),
        None => last.is_some_and(|last| mark.is_same_server(last) == Some(true)),
    }
}

/// Whether the other connection saw the key. `None` if that is unknown.
fn is_key_found(read: Option<Result<Reply, ServerError>>) -> Option<bool> {
    let read = read?.ok()?;
    Some(read != Reply::Nil)
}

/// Deletes the key if the user has the right; otherwise the key expires.
async fn delete(wire: &mut Wire, key: &[u8]) -> Result<(), Failure> {
    commands::write(wire.out(), [b"DEL".as_slice(), key].into_iter());
    wire.reply().await.map(drop)
}

fn several_servers(node: &str) -> Failure {
    Failure::misconfigured(format!(
        "{node} leads to several servers that are primaries of their own"
    ))
    .with_advice("a lock is at one server: give the address of one, or use sentinels or a cluster")
}

fn cannot_tell_apart(node: &str) -> Failure {
    Failure::misconfigured(format!(
        "whether {node} leads to one server or to several cannot be told"
    ))
    .with_advice(
        "servers are told apart by INFO, or else by a key: give the user +info, or +set and +get, or give one address",
    )
}

/// Returns the reason why no address of a host is usable.
fn all_failed(failures: Vec<(Route, Failure)>) -> Failure {
    let is_one_reason = failures.windows(2).all(|two| two[0].1.cause() == two[1].1.cause());
    if is_one_reason || failures.iter().all(|(_, failure)| failure.is_lasting()) {
        let (_, failure) = failures.into_iter().next().expect("an address was tried");
        return failure;
    }
    let at = |(route, failure): (Route, Failure)| match route {
        Some(address) => failure.with_socket_address(address),
        None => failure,
    };
    let failures: Vec<Failure> = failures.into_iter().map(at).collect();
    Failure::unavailable(Failure::joined(failures.iter()))
}
