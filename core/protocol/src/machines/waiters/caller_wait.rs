//! A wait of a caller, for the case that another wait of the same caller is granted the lock.
//!
//! A thread can have two waits at once, because a signal handler runs during a wait of its thread.

use std::sync::Arc;

use super::input::Wanted;
use super::request::Request;
use crate::ids::Ticket;
use crate::kinds::Keys;
use crate::lease::{LeasePlan, LeaseTerms};
use crate::owner::OwnerId;
use crate::types::AcquireRequest;

/// A wait of a caller, with all that is needed to request the lock again.
pub(crate) struct CallerWait {
    pub(crate) ticket: Ticket,
    pub(crate) keys: Arc<Keys>,
    pub(crate) plan: LeasePlan,
    /// Whether the caller waits without a bound.
    pub(crate) is_endless: bool,
    request: AcquireRequest,
}

impl CallerWait {
    pub(super) fn of(ticket: Ticket, request: &Request) -> Self {
        let keys = request.keys();
        Self {
            ticket,
            keys: Arc::clone(keys),
            plan: request.plan(),
            is_endless: !request.is_once() && !request.is_bounded(),
            request: AcquireRequest {
                kind: keys.kind,
                name: keys.name.clone(),
                context: request.context(),
                within: None,
                wait: None,
                lease: LeaseTerms::default(),
                max_hold: request.max_hold(),
                fencing: request.fencing(),
                on_unavailable: request.on_unavailable(),
                blocked: Vec::new(),
            },
        }
    }

    /// Returns the request of an endless wait once more, inside the write hold of this owner.
    pub(crate) fn again(self, writer: OwnerId) -> Wanted {
        Wanted {
            ticket: self.ticket,
            request: self.request,
            keys: self.keys,
            inside: Some(writer),
            plan: self.plan,
        }
    }
}
