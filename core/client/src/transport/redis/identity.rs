//! Which server a client is at: its connections are all to one, wherever their name leads.
//!
//! ```text
//!   nowhere ── the first connection for calls ─► at a server ── the last of them is lost ─► nowhere
//!                                                  ▲    │
//!                  it has the same run id, or a    │    └ another connection is tried
//!                  key that it sets is seen by one ┘            │
//!                  that is there                   else it is to another server, and closed
//! ```
//!
//! A server says its run id to those who may ask for it. To others, and behind a proxy that says now
//! this id and now that, a key shows it: the new connection sets it, and one that is there reads it
//! (`lane.rs`).

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use steadlock_protocol::Reply;
use tokio::sync::oneshot;

use super::resp::ServerError;

/// Data that tells one server from another.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    /// `None` if it does not say it to this user.
    pub(super) run_id: Option<String>,
    /// `None` for a socket in the file system.
    pub(super) address: Option<SocketAddr>,
}

/// The server that connections for calls are to. Each of them has it, and with the last one it is gone.
#[derive(Debug)]
pub(super) struct Server {
    number: u64,
    mark: Mark,
}

/// The server of a connection that keeps nobody there: one for subscriptions.
#[derive(Clone, Debug)]
pub(super) struct Visit {
    number: u64,
    run_id: Option<String>,
}

/// Where a client is.
#[derive(Default)]
pub(super) struct Identity(Mutex<State>);

#[derive(Default)]
struct State {
    at: Weak<Server>,
    /// Counts the servers that were gone to.
    count: u64,
    /// Where it was last.
    last: Option<Mark>,
    questions: Vec<Question>,
}

/// A question of a connection that is being made to one that is there.
pub(super) struct Question {
    pub(super) key: Arc<[u8]>,
    pub(super) answer: oneshot::Sender<Result<Reply, ServerError>>,
}

impl Mark {
    /// Whether both are one server, by what it says of itself; `None` if that does not show it.
    pub(super) fn says_same(&self, other: &Self) -> Option<bool> {
        match (&self.run_id, &other.run_id) {
            (Some(a), Some(b)) => Some(a == b),
            _ => None,
        }
    }

    /// Whether both are at one address.
    pub(super) fn is_where(&self, other: &Self) -> bool {
        self.address == other.address
    }
}

impl Server {
    pub(super) const fn mark(&self) -> &Mark {
        &self.mark
    }

    pub(super) fn visit(&self) -> Visit {
        Visit {
            number: self.number,
            run_id: self.mark.run_id.clone(),
        }
    }

    /// Whether a visitor is there for sure.
    pub(super) fn has(&self, visit: &Visit) -> bool {
        self.number == visit.number || (visit.run_id.is_some() && visit.run_id == self.mark.run_id)
    }
}

impl Identity {
    /// The server that connections for calls are to.
    pub(super) fn server(&self) -> Option<Arc<Server>> {
        self.state().at.upgrade()
    }

    /// Goes to a server, unless another connection is at one.
    pub(super) fn go(&self, mark: Mark) -> Option<Arc<Server>> {
        let mut state = self.state();
        if state.at.strong_count() > 0 {
            return None;
        }
        state.count += 1;
        let server = Arc::new(Server {
            number: state.count,
            mark: mark.clone(),
        });
        state.last = Some(mark);
        state.at = Arc::downgrade(&server);
        Some(server)
    }

    /// Where the client was last, also if no connection is there any more.
    pub(super) fn last(&self) -> Option<Mark> {
        self.state().last.clone()
    }

    /// Has a connection that is at the server read a key. No answer comes if there is none any more.
    pub(super) fn ask(&self, key: Arc<[u8]>) -> oneshot::Receiver<Result<Reply, ServerError>> {
        let (answer, asked) = oneshot::channel();
        self.state().questions.push(Question { key, answer });
        asked
    }

    pub(super) fn take_questions(&self) -> Vec<Question> {
        std::mem::take(&mut self.state().questions)
    }

    pub(super) fn is_asked(&self) -> bool {
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
    fn a_client_is_at_one_server_until_its_last_connection_is_gone() {
        let identity = Identity::default();
        let first = identity.go(mark(Some("a"), 1)).expect("nobody is anywhere");
        assert!(identity.go(mark(Some("b"), 2)).is_none());
        let second = identity.server().expect("it is there");
        drop(first);
        assert!(identity.go(mark(Some("b"), 2)).is_none());
        drop(second);
        assert!(identity.server().is_none());
        assert_eq!(identity.last().unwrap().run_id.as_deref(), Some("a"));
        assert!(identity.go(mark(Some("b"), 2)).is_some());
    }

    #[test]
    fn what_a_server_hides_does_not_tell_it_apart() {
        let (a, b, hidden) = (mark(Some("a"), 1), mark(Some("b"), 1), mark(None, 1));
        assert_eq!(a.says_same(&a.clone()), Some(true));
        assert_eq!(a.says_same(&b), Some(false));
        assert_eq!(a.says_same(&hidden), None);
        assert_eq!(hidden.says_same(&hidden.clone()), None);
    }

    #[test]
    fn a_visitor_stays_while_the_server_is_certainly_the_same() {
        let identity = Identity::default();
        for (run_id, stays) in [(Some("a"), true), (None, false)] {
            let before = identity.go(mark(run_id, 1)).expect("nobody is anywhere");
            let visit = before.visit();
            assert!(before.has(&visit));
            drop(before);
            let after = identity.go(mark(run_id, 1)).expect("nobody is anywhere any more");
            assert_eq!(after.has(&visit), stays, "{run_id:?}");
        }
    }
}
