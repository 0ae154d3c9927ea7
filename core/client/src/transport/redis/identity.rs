//! The server where a client is: all its connections to one primary go to one server, even if the host name leads to
//! several.
//!
//! ```text
//!   nowhere ── the first connection for calls ─► at a server ── the last of them is lost ─► nowhere
//!
//!   at a server, a new connection
//!     ├─ has the same run id, or sets a key that an open connection reads ─► it is kept
//!     └─ leads to another server ──────────────────────────────────────────► it is closed
//! ```
//!
//! A server tells its run id to users with the right to ask. For other users, and behind a proxy that returns the run
//! ids of different servers, a key identifies the server: the new connection sets it, and an open connection reads it
//! (`lane.rs`). If the user may neither ask for the run id nor use such a key, servers with the same address count as
//! one, and a new connection to another address is closed.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use steadlock_protocol::Reply;
use steadlock_resp::replies::ServerError;
use tokio::sync::oneshot;

/// Data that distinguishes one server from another.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    /// `None` if this user may not ask for the run id.
    pub(super) run_id: Option<String>,
    /// `None` for a Unix socket.
    pub(super) address: Option<SocketAddr>,
}

/// The server to which the connections for calls go. Each of these connections has a reference. The client leaves the
/// server when the last of them is dropped.
#[derive(Debug)]
pub(super) struct Server {
    number: u64,
    mark: Mark,
}

/// The server of a connection for subscriptions, which does not keep the client there.
#[derive(Clone, Debug)]
pub(super) struct ServerRef {
    number: u64,
    run_id: Option<String>,
}

/// The server where the client is, if any.
#[derive(Default)]
pub(super) struct Identity(Mutex<State>);

#[derive(Default)]
struct State {
    current: Weak<Server>,
    /// The number of the last server that was joined.
    count: u64,
    /// The last server where the client was.
    last: Option<Mark>,
    questions: Vec<Question>,
}

/// The question for the value of a key. A connection that is being made asks it of an open connection.
pub(super) struct Question {
    pub(super) key: Arc<[u8]>,
    pub(super) answer: oneshot::Sender<Result<Reply, ServerError>>,
}

impl Mark {
    /// Whether both marks are of one server by their run ids. `None` if the run ids do not show it.
    pub(super) fn is_same_server(&self, other: &Self) -> Option<bool> {
        match (&self.run_id, &other.run_id) {
            (Some(a), Some(b)) => Some(a == b),
            _ => None,
        }
    }

    /// Whether both have the same address.
    pub(super) fn has_same_address(&self, other: &Self) -> bool {
        self.address == other.address
    }
}

impl Server {
    pub(super) const fn mark(&self) -> &Mark {
        &self.mark
    }

    pub(super) fn server_ref(&self) -> ServerRef {
        ServerRef {
            number: self.number,
            run_id: self.mark.run_id.clone(),
        }
    }

    /// Whether a subscription connection is certainly at this server.
    pub(super) fn has(&self, server_ref: &ServerRef) -> bool {
        self.number == server_ref.number || (server_ref.run_id.is_some() && server_ref.run_id == self.mark.run_id)
    }
}

impl Identity {
    /// Returns the server to which the connections for calls go.
    pub(super) fn server(&self) -> Option<Arc<Server>> {
        self.state().current.upgrade()
    }

    /// Notes that the client is at the server with this mark. Returns `None` if another connection keeps the client at a server.
    pub(super) fn join(&self, mark: Mark) -> Option<Arc<Server>> {
        let mut state = self.state();
        if state.current.strong_count() > 0 {
            return None;
        }
        state.count += 1;
        let server = Arc::new(Server {
            number: state.count,
            mark: mark.clone(),
        });
        state.last = Some(mark);
        state.current = Arc::downgrade(&server);
        Some(server)
    }

    /// Returns the last server where the client was, even if no connection is left.
    pub(super) fn last(&self) -> Option<Mark> {
        self.state().last.clone()
    }

    /// Asks an open connection at the server to read a key. No answer arrives if there is no such connection any more.
    pub(super) fn ask(&self, key: Arc<[u8]>) -> oneshot::Receiver<Result<Reply, ServerError>> {
        let (answer, receiver) = oneshot::channel();
        self.state().questions.push(Question { key, answer });
        receiver
    }

    pub(super) fn take_questions(&self) -> Vec<Question> {
        std::mem::take(&mut self.state().questions)
    }

    pub(super) fn has_questions(&self) -> bool {
        !self.state().questions.is_empty()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(run_id: Option<&str>, port: u16) -> Mark {
        Mark {
            run_id: run_id.map(Into::into),
            address: Some(([127, 0, 0, 1], port).into()),
        }
    }

    #[test]
    fn a_client_stays_at_one_server_until_its_last_connection_is_closed() {
        let identity = Identity::default();
        let first = identity.join(mark(Some("a"), 1)).expect("the client is at no server");
        assert!(identity.join(mark(Some("b"), 2)).is_none());
        let second = identity.server().expect("the client is at a server");
        drop(first);
        assert!(identity.join(mark(Some("b"), 2)).is_none());
        drop(second);
        assert!(identity.server().is_none());
        assert_eq!(identity.last().unwrap().run_id.as_deref(), Some("a"));
        assert!(identity.join(mark(Some("b"), 2)).is_some());
    }

    #[test]
    fn hidden_run_ids_show_neither_the_same_server_nor_another() {
        let (a, b, hidden) = (mark(Some("a"), 1), mark(Some("b"), 1), mark(None, 1));
        assert_eq!(a.is_same_server(&a.clone()), Some(true));
        assert_eq!(a.is_same_server(&b), Some(false));
        assert_eq!(a.is_same_server(&hidden), None);
        assert_eq!(hidden.is_same_server(&hidden.clone()), None);
    }

    #[test]
    fn a_subscription_connection_is_kept_while_the_server_is_certainly_the_same() {
        let identity = Identity::default();
        for (run_id, is_kept) in [(Some("a"), true), (None, false)] {
            let before = identity.join(mark(run_id, 1)).expect("the client is at no server");
            let server_ref = before.server_ref();
            assert!(before.has(&server_ref));
            drop(before);
            let after = identity
                .join(mark(run_id, 1))
                .expect("the client is at no server any more");
            assert_eq!(after.has(&server_ref), is_kept, "{run_id:?}");
        }
    }
}
