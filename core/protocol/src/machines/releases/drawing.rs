//! The state diagram of a release, as rows of a state, an input and the next state.

use std::collections::BTreeMap;

use super::{Input, Releases, record_of};
use crate::ids::ReleaseId;
use crate::io::Io;
use crate::reply::CallError;
use crate::transitions::{Drawn, GONE, Labelled, NEW, Row, State};

const WAITING: &str = "Waiting";
const SENT: &str = "Sent";

impl Drawn for Releases {
    type Id = ReleaseId;
    const NAME: &'static str = "release";
    const ROWS: &'static [Row] = &[
        (NEW, "owed", SENT),
        // No lane is open for the release, or the TTL of an expired lease must pass first.
        (NEW, "owed", WAITING),
        // An abandoned owner id holds a fair lock.
        (NEW, "seen", SENT),
        (NEW, "seen", WAITING),
        (WAITING, "connected", SENT),
        (WAITING, "due", SENT),
        (WAITING, "attempt answered", SENT),
        (WAITING, "client closes", SENT),
        (WAITING, "client closes", GONE),
        // An attempt of the same owner was cut off.
        (SENT, "answered", WAITING),
        (SENT, "answered", GONE),
        // The client does not know whether the release ran before an attempt or after it.
        (SENT, "answered", SENT),
        (SENT, "error", WAITING),
        (SENT, "disconnected", WAITING),
        (SENT, "overdue", SENT),
        (SENT, "overdue", WAITING),
        // The release is sent again on the command lane.
        (SENT, "connected", SENT),
        // An overdue call of the release is answered.
        (WAITING, "answered", GONE),
        // The record's TTL has passed.
        (WAITING, "due", GONE),
        (WAITING, "connected", GONE),
        (SENT, "connected", GONE),
        (SENT, "overdue", GONE),
    ];

    fn states(&self, _io: &Io) -> BTreeMap<ReleaseId, State> {
        let state = |call: Option<crate::ids::CallId>| call.map_or((WAITING, 0), |call| (SENT, call.get()));
        self.by_id
            .iter()
            .map(|(id, release)| (id, state(release.call)))
            .collect()
    }
}

impl Labelled for Input {
    fn label(&self) -> &'static str {
        match self {
            Self::Owed(_) => "owed",
            Self::Due(_) => "due",
            Self::Sent(_) => "sent",
            Self::Answered(_, answered) if record_of(&answered.result).is_some() => "answered",
            Self::Answered(_, answered) if matches!(answered.result, Err(CallError::Disconnected(_))) => "disconnected",
            Self::Answered(..) => "error",
            Self::Overdue(..) => "overdue",
            Self::Resolved(..) => "attempt answered",
            Self::WaitOver(_) => "wait over",
            Self::Cancelled(_) => "cancelled",
            Self::Connected { .. } => "connected",
            Self::Closed => "client closes",
            Self::OwnerSeen(..) => "seen",
        }
    }
}
