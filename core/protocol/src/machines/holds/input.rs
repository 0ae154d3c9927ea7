//! The inputs of the machine of holds.

use std::time::Duration;

use crate::calls::InFlight;
use crate::ending::LostReason;
use crate::ids::{CallId, HoldId, LeaseId, NodeId, Ticket};
use crate::instant::Instant;
use crate::lease::{LeaseDuration, LeasePlan};
use crate::reply::{CallError, Reply};
use crate::step::NewHold;
use crate::types::Lane;

/// The events that concern holds.
#[derive(Debug)]
pub(crate) enum Input {
    /// A request was granted.
    Granted(Ticket, NewHold),
    /// The context of a hold, or a caller that names its lease, re-enters the hold.
    Enter(Ticket, HoldId, LeasePlan),
    /// A member of a composite lock is held. The server must confirm that its record lasts until the first instant. The
    /// ticket is completed at the second instant at the latest.
    Confirm(Ticket, HoldId, Instant, Option<Instant>),
    /// A caller releases one lease.
    Release(Ticket, LeaseId),
    /// A caller extends a lease to this length from now; `None` stands for the length of the lease.
    Extend(Ticket, LeaseId, Option<LeaseDuration>),
    /// The wait for an extension is over.
    ExtensionOver(Ticket),
    /// The caller of an extension no longer waits.
    Cancelled(Ticket),
    /// A composite lock is re-entered: its member is auto-renewed if the new level is.
    Watch(LeaseId, LeasePlan),
    /// The hold is renewed by this plan from now on.
    Plan(HoldId, LeasePlan),
    /// A fixed hold whose record lasts long enough needs no renewal any more.
    RenewNoMore(HoldId),
    /// A renewal is due.
    RenewalDue(HoldId),
    /// A renewal that asked for this TTL was answered.
    Renewed(HoldId, (CallId, InFlight), Duration, Result<Reply, CallError>),
    /// The reply to a renewal is overdue.
    RenewalOverdue(HoldId, CallId),
    /// The timer of the deadline has fired.
    DeadlinePassed(HoldId),
    /// The context of the hold makes another call, perhaps before the timer of the deadline has fired.
    Return(HoldId),
    /// The hold is lost, for this reason.
    Lost(HoldId, LostReason),
    /// The client closes, so no caller will release the hold. The ticket, if any, gets the outcome of the release.
    Dropped(HoldId, Option<Ticket>),
    /// An attempt of the hold's owner was answered, or was cut off (`true`).
    Resolved(HoldId, CallId, bool),
    /// A lane of a node has opened.
    Connected(NodeId, Lane),
    /// A lane of a node has closed.
    LaneClosed(NodeId),
}
