//! The state diagram of an election, as rows of a state, an input and the next state.

use std::collections::BTreeMap;

use super::{Election, Elections, Input};
use crate::ids::ElectionId;
use crate::io::Io;
use crate::transitions::{Drawn, GONE, Labelled, NEW, Row, State};

const ASKING: &str = "Asking";
const WATCHING: &str = "Watching";
const IDLE: &str = "Idle";

impl Drawn for Elections {
    type Id = ElectionId;
    const NAME: &'static str = "election";
    const ROWS: &'static [Row] = &[
        (NEW, "asked", ASKING),
        // There is no connection.
        (NEW, "asked", WATCHING),
        (IDLE, "asked", ASKING),
        (IDLE, "asked", WATCHING),
        (WATCHING, "asked", ASKING),
        (WATCHING, "may have changed", ASKING),
        (WATCHING, "poll due", ASKING),
        (WATCHING, "connected", ASKING),
        (ASKING, "answered", WATCHING),
        (ASKING, "answered", IDLE),
        // The client asked which program the leader or a candidate is.
        (ASKING, "identified", WATCHING),
        (ASKING, "identified", IDLE),
        (ASKING, "cancelled", IDLE),
        (WATCHING, "cancelled", IDLE),
        (IDLE, "linger over", GONE),
    ];

    fn states(&self, _io: &Io) -> BTreeMap<ElectionId, State> {
        let state = |election: &Election| match (&*election.observers, election.is_asking || election.answer.is_some())
        {
            ([], _) => IDLE,
            (_, true) => ASKING,
            (_, false) => WATCHING,
        };
        let elections = self.by_id.iter();
        elections.map(|(id, election)| (*id, (state(election), 0))).collect()
    }
}

impl Labelled for Input {
    fn label(&self) -> &'static str {
        match self {
            Self::Asked { .. } => "asked",
            Self::MayHaveChanged(_) => "may have changed",
            Self::PollDue(_) => "poll due",
            Self::Answered(..) => "answered",
            Self::Identified => "identified",
            Self::Connected(_) => "connected",
            Self::Cancelled(_) => "cancelled",
            Self::LingerOver(_) => "linger over",
        }
    }
}
