//! The reports about attempts for observers.

use super::request::Request;
use super::verdict::Verdict;
use crate::calls::InFlight;
use crate::ids::CallId;
use crate::instant::Instant;
use crate::io::Io;
use crate::observed::{Attempted, Detail, Observed, Place};

/// Reports that an attempt was answered.
pub(super) fn answered(io: &mut Io, request: &Request, call: InFlight, verdict: &Verdict, now: Instant) {
    io.observe(Detail::Everything, |_| Observed::Attempt {
        place: Place::of(request.keys()),
        outcome: match verdict {
            Verdict::Granted(_) => Attempted::Granted,
            Verdict::Held { .. } => Attempted::Refused,
            Verdict::TooLate(_) | Verdict::Useless(..) | Verdict::Failed(..) => Attempted::Failed,
        },
        took: call.sent.map(|sent| now.saturating_since(sent)),
    });
    if let (Verdict::Granted(granted), Some(sent)) = (verdict, call.sent)
        && let Some(token) = granted.token
    {
        io.token_came(request.keys(), token, (sent, now));
    }
}

/// Reports that the answer to an attempt is overdue. A late answer is reported as well.
pub(super) fn overdue(io: &mut Io, request: &Request, call: CallId, now: Instant) {
    io.observe(Detail::Everything, |io| {
        let sent = io.in_flight(call).and_then(|call| call.sent);
        Observed::Attempt {
            place: Place::of(request.keys()),
            outcome: Attempted::Failed,
            took: sent.map(|sent| now.saturating_since(sent)),
        }
    });
}
