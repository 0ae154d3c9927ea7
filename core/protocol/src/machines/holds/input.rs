//! What happens to holds.

use std::time::Duration;

use crate::calls::InFlight;
use crate::ending::LostReason;
use crate::ids::{CallId, HoldId, LeaseId, NodeId, Ticket};
use crate::instant::Instant;
use crate::lease::{LeaseDuration, LeasePlan};
use crate::reply::{CallError, Reply};
use crate::step::NewHold;
use crate::types::Lane;

/// What happens to holds.
#[derive(Debug)]
pub(crate) enum Input {
    /// A request was granted.
    Granted(Ticket, NewHold),
    /// Its context, or who names its lease, comes again.
    Enter(Ticket, HoldId, LeasePlan),
    /// A member of a composite lock is held; the server is to confirm it until then, and the
    /// ticket is answered by the other instant at the latest.
    Confirm(Ticket, HoldId, Instant, Option<Instant>),
    /// A caller releases one lease.
    Release(Ticket, LeaseId),
    /// A caller wants a lease to last so long from now, or as long as it was given.
    Extend(Ticket, LeaseId, Option<LeaseDuration>),
    /// A caller's extension has taken long enough.
    ExtensionOver(Ticket),
    /// A caller of an extension went away.
    Cancelled(Ticket),
    /// A composite lock is entered again: its member is renewed if the new level says so.
    Watch(LeaseId, LeasePlan),
    /// The hold is renewed as this says from now on.
    Plan(HoldId, LeasePlan),
    /// A fixed hold that lasts as long as it is wanted is not renewed.
    RenewNoMore(HoldId),
    /// A renewal is due.
    RenewalDue(HoldId),
    /// A renewal was answered, which asked for that TTL.
    Renewed(HoldId, (CallId, InFlight), Duration, Result<Reply, CallError>),
    /// A renewal's answer did not come in time.
    RenewalOverdue(HoldId, CallId),
    /// The deadline's timer has run out.
    DeadlinePassed(HoldId),
    /// Its context comes back, perhaps before that timer.
    Return(HoldId),
    /// It is lost.
    Lost(HoldId, LostReason),
    /// The client closes: nobody will release it. The ticket is told what its release came to, if there is one.
    Dropped(HoldId, Option<Ticket>),
    /// An attempt of its owner was answered, or cut off.
    Resolved(HoldId, CallId, bool),
    /// A lane of a node is open again.
    Connected(NodeId, Lane),
    /// A lane of a node closed.
    LaneClosed(NodeId),
}
