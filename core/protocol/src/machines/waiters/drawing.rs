//! The state diagram of a request, as rows.

use std::collections::BTreeMap;

use super::{Input, Request, Waiters};
use crate::ids::Ticket;
use crate::instant::Instant;
use crate::io::Io;
use crate::step::Step;
use crate::transitions::{Drawn, GONE, Labelled, NEW, Row, State};

pub(super) const QUEUED: &str = "Queued";
pub(super) const PAUSING: &str = "Pausing";
pub(super) const TRYING: &str = "Trying";
pub(super) const SLEEPING: &str = "Sleeping";
pub(super) const HOLD: &str = "a Hold";

impl Drawn for Waiters {
    type Id = Ticket;
    const NAME: &'static str = "request";
    const ROWS: &'static [Row] = &[
        (NEW, "wanted", QUEUED),
        // The request is first in the local queue, or in no local queue.
        (NEW, "wanted", TRYING),
        // The same, without a connection.
        (NEW, "wanted", SLEEPING),
        // The same, while the turn of this client is over.
        (NEW, "wanted", PAUSING),
        (QUEUED, "advance", TRYING),
        (QUEUED, "advance", SLEEPING),
        (QUEUED, "advance", PAUSING),
        (QUEUED, "freed here", TRYING),
        (QUEUED, "freed here", SLEEPING),
        (QUEUED, "freed here", PAUSING),
        (QUEUED, "wait over", GONE),
        // The wait was over earlier, and the holder is known now.
        (QUEUED, "answered", GONE),
        (QUEUED, "held here", GONE),
        (QUEUED, "silence", GONE),
        (QUEUED, "cancelled", GONE),
        (PAUSING, "woken", TRYING),
        (PAUSING, "woken", SLEEPING),
        (PAUSING, "wait over", GONE),
        // The request has sent no attempt yet, and the first answer is due.
        (PAUSING, "wait over", TRYING),
        (PAUSING, "silence", GONE),
        (PAUSING, "cancelled", GONE),
        (TRYING, "answered", HOLD),
        (TRYING, "granted unasked", HOLD),
        // A grant came too late: the request asks under a new owner id.
        (TRYING, "ask", TRYING),
        (TRYING, "ask", SLEEPING),
        // A grant came too late, not for the first time.
        (TRYING, "answered", PAUSING),
        (TRYING, "refused", SLEEPING),
        // The refusal is stale, or dead waiters come first.
        (TRYING, "refused", TRYING),
        (TRYING, "error", SLEEPING),
        (TRYING, "overdue", TRYING),
        (TRYING, "overdue", SLEEPING),
        // A single attempt, or a permanent error.
        (TRYING, "refused", GONE),
        (TRYING, "overdue", GONE),
        (TRYING, "error", GONE),
        (TRYING, "answered", GONE),
        (TRYING, "poll failed", GONE),
        (TRYING, "wait over", GONE),
        (TRYING, "silence", GONE),
        (TRYING, "cancelled", GONE),
        (SLEEPING, "woken", TRYING),
        (SLEEPING, "may be free", TRYING),
        (SLEEPING, "connected", TRYING),
        (SLEEPING, "sleep", TRYING),
        (SLEEPING, "advance", TRYING),
        (SLEEPING, "freed here", TRYING),
        (SLEEPING, "ask again", TRYING),
        (SLEEPING, "ask", TRYING),
        (SLEEPING, "granted unasked", HOLD),
        // The answer to an overdue attempt.
        (SLEEPING, "answered", HOLD),
        (SLEEPING, "answered", GONE),
        (SLEEPING, "answered", PAUSING),
        (SLEEPING, "error", GONE),
        (SLEEPING, "poll failed", GONE),
        (SLEEPING, "wait over", GONE),
        (SLEEPING, "silence", GONE),
        (SLEEPING, "cancelled", GONE),
        // The circuit breaker of its primary opened: the request fails, is skipped, or waits in the local queue.
        (QUEUED, "outage", GONE),
        (PAUSING, "outage", GONE),
        (PAUSING, "outage", QUEUED),
        (TRYING, "outage", GONE),
        (TRYING, "outage", QUEUED),
        (SLEEPING, "outage", GONE),
        (SLEEPING, "outage", QUEUED),
        // The request is first in the local queue during an outage.
        (QUEUED, "advance", HOLD),
        (QUEUED, "freed here", HOLD),
    ];

    fn states(&self, _io: &Io) -> BTreeMap<Ticket, State> {
        let tickets = self.tickets().into_iter();
        tickets
            .filter_map(|ticket| Some((ticket, state(self.request(ticket)?))))
            .collect()
    }

    fn ending(io: &Io, id: &Ticket) -> &'static str {
        let is_granted = |step: &Step| matches!(step, Step::Granted(ticket, _) if ticket == id);
        if io.steps().iter().any(is_granted) { HOLD } else { GONE }
    }
}

pub(super) fn state(request: &Request) -> State {
    if request.is_waiting_for_turn() {
        (QUEUED, 0)
    } else if request.is_sleeping() {
        (SLEEPING, 0)
    } else if request.is_trying() {
        (TRYING, request.last_try().map_or(0, Instant::as_micros))
    } else {
        (PAUSING, 0)
    }
}

impl Labelled for Input {
    fn label(&self) -> &'static str {
        match self {
            Self::Wanted(_) => "wanted",
            Self::Answered { attempt, .. } if attempt.result.is_ok() => "answered",
            Self::Answered { .. } => "error",
            Self::Overdue(..) => "overdue",
            Self::Woken(_) => "woken",
            Self::WaitOver(_) => "wait over",
            Self::Silence(_) => "silence",
            Self::Cancelled(_) => "cancelled",
            Self::Refused(..) => "refused",
            Self::Sleep { .. } => "sleep",
            Self::Ask(_) => "ask",
            Self::MissedMessages(_) => "missed messages",
            Self::Advance(_) => "advance",
            Self::Held(..) => "held here",
            Self::Freed(..) => "freed here",
            Self::MayBeFree(_) => "may be free",
            Self::ReleaseMessage(_) => "message",
            Self::Published { .. } => "published",
            Self::Connected(_) => "connected",
            Self::Disconnected(..) => "disconnected",
            Self::Outage(_) => "outage",
            Self::OutageOver(_) => "outage over",
            Self::Forget(_) => "forget",
            Self::Polled { .. } => "polled",
            Self::PollAnswered { .. } => "poll answered",
            Self::PollFailed { .. } => "poll failed",
            Self::HolderSeen(..) => "holder seen",
            Self::GrantedInQueue(..) => "granted unasked",
            Self::AskAgain(_) => "ask again",
        }
    }
}
