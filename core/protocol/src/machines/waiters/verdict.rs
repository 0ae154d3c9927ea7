//! The meaning of the answer to an attempt.

use std::time::Duration;

use super::request::Request;
use crate::calls::InFlight;
use crate::cause::Cause;
use crate::defects::Defect;
use crate::instant::Instant;
use crate::io::Io;
use crate::kinds::Answer;
use crate::lease::deadline;
use crate::reply::{CallError, Refusal, Reply};
use crate::step::Granted;
use crate::wording::explain;

/// The meaning of the answer to an attempt.
pub(super) enum Verdict {
    /// The lock was granted.
    Granted(Granted),
    /// The lock was granted, but nothing of the lease is left, because the answer took this long.
    TooLate(Duration),
    /// Another owner holds the lock, or other waiters come first.
    Held {
        owner: String,
        remaining: Option<Duration>,
        /// The server's clock when the call ran, in µs; `None` if waiters do not queue on the server.
        queued: Option<u64>,
    },
    /// Another attempt cannot help, for this reason. The flag says whether this one may have been granted all the same.
    Useless(Cause, bool),
    /// Another attempt may help. The flag says whether this one may have been granted.
    Failed(CallError, bool),
}

impl Verdict {
    /// Judges the answer to an attempt that asked for `ttl`.
    pub(super) fn of(
        result: Result<Reply, CallError>,
        request: &Request,
        (in_flight, ttl): (InFlight, Duration),
        io: &Io,
        now: Instant,
    ) -> Self {
        match result.map(|reply| request.keys().parse_answer(&reply)) {
            Ok(Some(Answer::Granted(token))) => {
                let sent = request.sent(in_flight);
                if deadline(sent, ttl) > now || io.has(Defect::ExpiredGrantIsHeld) {
                    Self::Granted(Granted {
                        token,
                        sent,
                        ttl,
                        provisional: false,
                        is_local: false,
                    })
                } else {
                    Self::TooLate(now.saturating_since(sent))
                }
            }
            Ok(Some(Answer::Held { owner, ttl, queued, .. })) => Self::Held {
                owner,
                remaining: ttl,
                queued,
            },
            Ok(None) => {
                let why = Cause::new("the server's reply is not Steadlock's");
                Self::Useless(why.with_advice("is something between client and server?"), true)
            }
            Err(failure) => Self::of_failure(failure, request),
        }
    }

    fn of_failure(failure: CallError, request: &Request) -> Self {
        let CallError::Server { code, message } = &failure else {
            return Self::Failed(failure, false);
        };
        let refusal = Refusal::of(code);
        let may_be_granted = refusal != Refusal::BeforeWrite;
        if refusal == Refusal::Temporary {
            Self::Failed(failure, may_be_granted)
        } else {
            Self::Useless(explain(request.keys(), code, message), may_be_granted)
        }
    }
}
