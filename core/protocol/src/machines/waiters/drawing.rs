//! The state diagram of a request, as rows of a state, an input and the next state.

use std::collections::BTreeMap;

use super::{Input, Request, Waiters};
use crate::ids::Ticket;
use crate::instant::Instant;
use crate::io::Io;
use crate::step::Step;
use crate::transitions::{Drawn, GONE, Labelled, NEW, Row, State};

pub(super) const QUEUED: &str = "Queued";
pub(super) const PAUSING: &str = "Pausing";
pub(super) const ASKING: &str = "Asking";
pub(super) const SLEEPING: &str = "Sleeping";
pub(super) const HOLD: &str = "a Hold";

impl Drawn for Waiters {
    type Id = Ticket;
    const NAME: &'static str = "request";
    const ROWS: &'static [Row] = &[
        (NEW, "wanted", QUEUED),
        // The request is first in the local queue, or in no local queue.
        (NEW, "wanted", ASKING),
        // The same, without a connection.
        (NEW, "wanted", SLEEPING),
        // The same, while the turn of this client is over.
        (NEW, "wanted", PAUSING),
        (QUEUED, "advance", ASKING),
        (QUEUED, "advance", SLEEPING),
        (QUEUED, "advance", PAUSING),
        (QUEUED, "freed here", ASKING),
        (QUEUED, "freed here", SLEEPING),
        (QUEUED, "freed here", PAUSING),
        (QUEUED, "wait over", GONE),
        // The wait was over earlier, and the holder is known now.
        (QUEUED, "answered", GONE),
        (QUEUED, "held here", GONE),
        (QUEUED, "silence", GONE),
        (QUEUED, "cancelled", GONE),
        (PAUSING, "woken", ASKING),
        (PAUSING, "woken", SLEEPING),
        (PAUSING, "wait over", GONE),
        // The request has sent no attempt yet, and the first answer is due.
        (PAUSING, "wait over", ASKING),
        (PAUSING, "silence", GONE),
        (PAUSING, "cancelled", GONE),
        (ASKING, "answered", HOLD),
        (ASKING, "granted unasked", HOLD),
        // A grant came too late: the request asks under a new owner id.
        (ASKING, "ask", ASKING),
        (ASKING, "ask", SLEEPING),
        // A grant came too late, not for the first time.
        (ASKING, "answered", PAUSING),
        (ASKING, "refused", SLEEPING),
        // The refusal is stale, or dead waiters come first.
        (ASKING, "refused", ASKING),
        (ASKING, "error", SLEEPING),
        (ASKING, "overdue", ASKING),
        (ASKING, "overdue", SLEEPING),
        // A single attempt, or a permanent error.
        (ASKING, "refused", GONE),
        (ASKING, "overdue", GONE),
        (ASKING, "error", GONE),
        (ASKING, "answered", GONE),
        (ASKING, "poll failed", GONE),
        (ASKING, "wait over", GONE),
        (ASKING, "silence", GONE),
        (ASKING, "cancelled", GONE),
        (SLEEPING, "woken", ASKING),
        (SLEEPING, "may be free", ASKING),
        (SLEEPING, "connected", ASKING),
        (SLEEPING, "sleep", ASKING),
        (SLEEPING, "advance", ASKING),
        (SLEEPING, "freed here", ASKING),
        (SLEEPING, "ask again", ASKING),
        (SLEEPING, "ask", ASKING),
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
        (ASKING, "outage", GONE),
        (ASKING, "outage", QUEUED),
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
    if request.is_queued() {
        (QUEUED, 0)
    } else if request.is_sleeping() {
        (SLEEPING, 0)
    } else if request.is_asking() {
        (ASKING, request.last_attempt().map_or(0, Instant::as_micros))
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
            Self::AnswerMayBeStale(_) => "answer may be stale",
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
