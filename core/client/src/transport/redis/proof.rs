//! Making sure once more that a server is none of the other primaries, on a connection for that alone.
//!
//! ```text
//!   idle ── another one had reason ─► connecting ── good ──────────► idle
//!    ▲                                  │ │ └─ another's server ───► the server is left
//!    └── later again ◄── no connection ─┘ └─── it will not let in ─► idle
//! ```

use std::sync::Arc;
use std::task::{Context, Poll};

use steadlock_protocol::Instant;

use super::connect::{Boxed, Connector};
use super::failure::Failure;
use super::outage::Outage;
use super::purpose::Purpose;
use super::wire::Wire;

/// Looks when others had reason to.
pub(super) struct Proof {
    connector: Arc<Connector>,
    /// The last change that was followed, and the last one that was passed on.
    followed: Option<u64>,
    passed_on: u64,
    running: Option<Boxed<Result<Wire, Failure>>>,
    outage: Outage,
}

impl Proof {
    pub(super) fn new(connector: &Arc<Connector>) -> Self {
        Self {
            connector: Arc::clone(connector),
            followed: Some(0),
            passed_on: 0,
            running: None,
            outage: Outage::default(),
        }
    }

    /// Moves on. Says why the server is to be left. Unless every connection `is_open`, the next one looks.
    pub(super) fn poll(&mut self, context: &mut Context<'_>, now: Instant, is_open: bool) -> Option<Failure> {
        let peers = self.connector.peers.as_ref()?;
        let changes = peers.changes();
        if self.passed_on != changes {
            self.passed_on = changes;
            // The others are to be polled, too.
            context.waker().wake_by_ref();
        }
        if self.running.is_none() && is_open && self.followed != Some(changes) {
            self.followed = Some(changes);
            if peers.is_due(now) {
                self.running = Some(self.connector.open(Purpose::Proof, &self.outage, now));
            }
        }
        let Poll::Ready(result) = self.running.as_mut()?.as_mut().poll(context) else {
            return None;
        };
        self.running = None;
        // There may be reason again.
        context.waker().wake_by_ref();
        let Err(failure) = result else {
            self.outage = Outage::default();
            return None;
        };
        if peers.is_refused() {
            return Some(failure);
        }
        self.outage.failed(now);
        if !failure.is_lasting() {
            self.followed = None;
        }
        None
    }
}
