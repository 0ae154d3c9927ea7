//! The state diagram of a question, as rows of a state, an input and the next state.

use std::collections::BTreeMap;

use super::{Input, Inspection, Inspections};
use crate::ids::Ticket;
use crate::io::Io;
use crate::reply::CallError;
use crate::step::Step;
use crate::transitions::{Drawn, GONE, Labelled, NEW, Row, State};
use crate::types::Event;

const OPEN: &str = "Open";
const ASKED: &str = "Asked";
const UNNAMED: &str = "Unnamed";
const COMPLETED: &str = "completed";

impl Drawn for Inspections {
    type Id = Ticket;
    const NAME: &'static str = "question";
    const ROWS: &'static [Row] = &[
        (NEW, "asked", ASKED),
        // There is no connection.
        (NEW, "asked", OPEN),
        (OPEN, "connected", ASKED),
        (ASKED, "answered", COMPLETED),
        // The client asks which program the holder is.
        (ASKED, "answered", UNNAMED),
        (UNNAMED, "identified", COMPLETED),
        (UNNAMED, "overdue", COMPLETED),
        (UNNAMED, "cancelled", GONE),
        (ASKED, "disconnected", OPEN),
        // A forced release.
        (ASKED, "disconnected", COMPLETED),
        (OPEN, "overdue", COMPLETED),
        (ASKED, "overdue", COMPLETED),
        (OPEN, "cancelled", GONE),
        (ASKED, "cancelled", GONE),
    ];

    fn states(&self, _io: &Io) -> BTreeMap<Ticket, State> {
        let state = |inspection: &Inspection| match (&inspection.answer, inspection.is_asked) {
            (Some(_), _) => UNNAMED,
            (None, true) => ASKED,
            (None, false) => OPEN,
        };
        self.open
            .iter()
            .map(|(ticket, inspection)| (*ticket, (state(inspection), 0)))
            .collect()
    }

    fn ending(io: &Io, id: &Ticket) -> &'static str {
        let completes = |step: &Step| matches!(step, Step::Emit(Event::Completed { ticket, .. }) if ticket == id);
        if io.steps().iter().any(completes) {
            COMPLETED
        } else {
            GONE
        }
    }
}

impl Labelled for Input {
    fn label(&self) -> &'static str {
        match self {
            Self::Asked { .. } => "asked",
            Self::Connected => "connected",
            Self::Answered(_, Err(CallError::Disconnected(_))) => "disconnected",
            Self::Answered(..) => "answered",
            Self::Overdue(_) => "overdue",
            Self::Cancelled(_) => "cancelled",
            Self::Identified => "identified",
        }
    }
}
