//! Checks again, on a connection of its own, that a server is none of the other primaries (`peers.rs`).
//!
//! ```text
//!   idle ── a check is requested ───► connecting ── good ──────────► idle
//!    ▲                                  │ │ └─ another primary's ──► the server is left
//!    └── later again ◄── no connection ─┘ └─── a lasting failure ──► idle
//! ```

use std::sync::Arc;
use std::task::{Context, Poll};

use steadlock_protocol::Instant;

use super::attempt::Purpose;
use super::connect::{Boxed, Connector};
use super::failure::Failure;
use super::outage::Outage;
use super::wire::Wire;

/// The repeated check, which runs when another primary requests it (`peers.rs`).
pub(super) struct PeerCheck {
    connector: Arc<Connector>,
    /// The number of the last request that this check followed; `None` if the check must be repeated.
    checked_changes: Option<u64>,
    /// The number of the last request for which the other checks were woken.
    last_seen_changes: u64,
    running: Option<Boxed<Result<Wire, Failure>>>,
    outage: Outage,
}

impl PeerCheck {
    pub(super) fn new(connector: &Arc<Connector>) -> Self {
        Self {
            connector: Arc::clone(connector),
            checked_changes: Some(0),
            last_seen_changes: 0,
            running: None,
            outage: Outage::default(),
        }
    }

    /// Advances the check. Returns the reason to leave the server. While `is_open` is false no check begins, because a
    /// new connection checks the server itself.
    pub(super) fn poll(&mut self, context: &mut Context<'_>, now: Instant, is_open: bool) -> Option<Failure> {
        let peers = self.connector.peers.as_ref()?;
        let changes = peers.changes();
        if self.last_seen_changes != changes {
            self.last_seen_changes = changes;
            // The other primaries' checks must be polled, too.
            context.waker().wake_by_ref();
        }
        if self.running.is_none() && is_open && self.checked_changes != Some(changes) {
            self.checked_changes = Some(changes);
            if peers.is_due(now) {
                self.running = Some(self.connector.open(Purpose::PeerCheck, &self.outage, now));
            }
        }
        let Poll::Ready(result) = self.running.as_mut()?.as_mut().poll(context) else {
            return None;
        };
        self.running = None;
        // Another check may be due already.
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
            self.checked_changes = None;
        }
        None
    }
}
