//! The state diagram of a hold, as rows of a state, an input and the next state.

use std::collections::BTreeMap;

use super::{Holds, Input};
use crate::ids::HoldId;
use crate::io::Io;
use crate::step::Step;
use crate::transitions::{Drawn, GONE, Labelled, NEW, Row, State};
use crate::types::Event;

const HELD: &str = "Held";
const LOST: &str = "Lost";
const FORGOTTEN: &str = "forgotten";

impl Drawn for Holds {
    type Id = HoldId;
    const NAME: &'static str = "hold";
    const ROWS: &'static [Row] = &[
        (NEW, "granted", HELD),
        (HELD, "released", GONE),
        (HELD, "deadline passed", LOST),
        (HELD, "renewal answered", LOST),
        (HELD, "lost", LOST),
        // The lease is fixed.
        (HELD, "deadline passed", FORGOTTEN),
        (HELD, "its context returns", FORGOTTEN),
        (HELD, "renewal answered", FORGOTTEN),
        (HELD, "lost", FORGOTTEN),
        (LOST, "released", GONE),
        (LOST, "client closes", GONE),
    ];

    fn states(&self, _io: &Io) -> BTreeMap<HoldId, State> {
        let is_lost = |id: &HoldId| self.get(*id).is_some_and(|hold| hold.lost().is_some());
        let ids = self.ids().into_iter();
        ids.map(|id| (id, (if is_lost(&id) { LOST } else { HELD }, 0)))
            .collect()
    }

    fn ending(io: &Io, _id: &HoldId) -> &'static str {
        let is_loss = |step: &Step| matches!(step, Step::Emit(Event::Lost { .. }));
        if io.steps().iter().any(is_loss) {
            FORGOTTEN
        } else {
            GONE
        }
    }
}

impl Labelled for Input {
    fn label(&self) -> &'static str {
        match self {
            Self::Granted(..) => "granted",
            Self::Enter(_) => "enter",
            Self::Confirm(..) => "confirm",
            Self::RunEnded(..) => "run ended",
            Self::Release(..) => "released",
            Self::Extend { .. } => "extend",
            Self::ExtensionOver(_) => "extension over",
            Self::Cancelled(_) => "cancelled",
            Self::Watch(..) => "watch",
            Self::Plan(..) => "plan",
            Self::StopRenewing(_) => "stop renewing",
            Self::RenewalDue(_) => "renewal due",
            Self::RenewalAnswered { .. } => "renewal answered",
            Self::RenewalOverdue(..) => "renewal overdue",
            Self::DeadlinePassed(_) => "deadline passed",
            Self::ContextReturned(_) => "its context returns",
            Self::Lost(..) => "lost",
            Self::ClientCloses { .. } => "client closes",
            Self::Resolved(..) => "attempt answered",
            Self::Connected(..) => "connected",
            Self::LaneClosed(_) => "lane closed",
        }
    }
}
