//! The reports about holds for observers.

use super::hold::Hold;
use crate::cause::Cause;
use crate::ending::LostReason;
use crate::instant::Instant;
use crate::io::Io;
use crate::observed::{Detail, Observed, Place};

/// Reports that the server confirmed a renewal that was sent at `sent`. After failed renewals, the report says that
/// the trouble is over.
pub(super) fn renewed(io: &mut Io, hold: &Hold, sent: Instant, now: Instant) {
    let failures = hold.watchdog().failures();
    let detail = if failures > 0 {
        Detail::Trouble
    } else {
        Detail::Renewals
    };
    io.observe(detail, |_| Observed::Renewed {
        place: Place::of(hold.keys()),
        took: now.saturating_since(sent),
        failures,
    });
}

/// Reports a failed renewal. Must be called before the watchdog counts the failure.
pub(super) fn renewal_failed(io: &mut Io, hold: &Hold, why: Option<&Cause>, now: Instant) {
    io.observe(Detail::Trouble, |io| Observed::RenewalFailed {
        place: Place::of(hold.keys()),
        why: why.map_or_else(|| io.silence_of(hold.keys().node).to_string(), Cause::to_string),
        left: hold.deadline().saturating_since(now),
        failures: hold.watchdog().failures().saturating_add(1),
    });
}

/// Reports a due renewal as failed if it is not in flight. No lane was open to send it.
pub(super) fn renewal_has_to_wait(io: &mut Io, hold: &Hold, now: Instant) {
    if !hold.watchdog().is_renewing() && hold.is_valid(now) {
        renewal_failed(io, hold, None, now);
    }
}

/// Reports that a hold is lost.
pub(super) fn lost(io: &mut Io, hold: &Hold, reason: LostReason, now: Instant) {
    io.observe(Detail::Trouble, |io| {
        let node = hold.keys().node;
        let is_unrenewed = reason == LostReason::Expired && hold.plan().renewed;
        let why = || {
            hold.watchdog()
                .failure()
                .map_or_else(|| io.silence_of(node).to_string(), Cause::to_string)
        };
        Observed::Lost {
            place: Place::of(hold.keys()),
            leases: hold.levels().to_vec(),
            reason,
            why: is_unrenewed.then(why),
            held: now.saturating_since(hold.since()),
            lease: hold.plan().length,
        }
    });
}
