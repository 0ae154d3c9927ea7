//! The state diagram of a waiter of a fair lock, as rows of a state, an input and the next state.

use std::collections::BTreeMap;

use super::{FairQueue, Input, Waiter};
use crate::ids::{LockId, Ticket};
use crate::io::Io;
use crate::step::{Step, WaiterInput};
use crate::transitions::{Drawn, GONE, Labelled, NEW, Row, State};

const ASKING: &str = "Asking";
const QUEUED: &str = "in the queue";
const HOLD: &str = "a Hold";
const TOO_LATE: &str = "too late";

impl Drawn for FairQueue {
    type Id = (LockId, Ticket);
    const NAME: &'static str = "fair waiter";
    const ROWS: &'static [Row] = &[
        (NEW, "joined", ASKING),
        (ASKING, "found", QUEUED),
        (QUEUED, "found", QUEUED),
        (QUEUED, "poll answered", QUEUED),
        // The waiter is granted the lock, or the grant is of no use: it expires too soon, or lacks its token.
        (QUEUED, "grant message", HOLD),
        (QUEUED, "grant message", TOO_LATE),
        (QUEUED, "poll answered", HOLD),
        (QUEUED, "poll answered", TOO_LATE),
        // The poll of another waiter names this waiter as the holder before its own reply arrives.
        (ASKING, "poll answered", HOLD),
        (ASKING, "poll answered", TOO_LATE),
        // A grant came too late: the waiter asks under a new owner id.
        (QUEUED, "joined", ASKING),
        (ASKING, "left", GONE),
        (QUEUED, "left", GONE),
    ];

    fn states(&self, io: &Io) -> BTreeMap<Self::Id, State> {
        let waiters = self.by_lock.iter().flat_map(|(lock, queue)| {
            let waiters = queue.waiting.iter();
            waiters.map(|(ticket, waiter)| ((*lock, *ticket), state(io, *ticket, waiter)))
        });
        waiters.collect()
    }
}

/// Returns the state of a waiter. The steps show whether the input granted it the lock.
fn state(io: &Io, ticket: Ticket, waiter: &Waiter) -> State {
    let follows = io.steps().iter().find_map(|step| match step {
        Step::Waiter(WaiterInput::GrantedInQueue(granted, _)) if *granted == ticket => Some(HOLD),
        Step::Waiter(WaiterInput::AskAgain(asking)) if *asking == ticket => Some(TOO_LATE),
        _ => None,
    });
    match (follows, waiter.found) {
        (Some(follows), _) => (follows, 0),
        (None, None) => (ASKING, 0),
        (None, Some(found)) => (QUEUED, found.sent.as_micros()),
    }
}

impl Labelled for Input {
    fn label(&self) -> &'static str {
        match self {
            Self::WillJoin { .. } => "joined",
            Self::Left(..) => "left",
            Self::HasJoined { .. } => "found",
            Self::PollSoon(_) => "poll soon",
            Self::PollBy(..) => "poll by",
            Self::PollDue(_) => "poll due",
            Self::Answered(..) => "poll answered",
            Self::GrantMessage { .. } => "grant message",
            Self::AbandonedOwnerReleased(_) => "abandoned owner released",
            Self::Forget(_) => "forget",
        }
    }
}
