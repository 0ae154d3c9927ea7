//! The `tracing` spans of each wait for a lock and of each hold.
//!
//! ```text
//!   the caller's span ─┬─ steadlock.wait   from the call to its result
//!                      └─ steadlock.hold   from the grant to the release or the loss
//! ```
//!
//! The spans are never entered, so the work that the program does meanwhile is not inside them. A span that no
//! subscriber enables costs one check, and makes no text. If a subscriber panics, its span is left out, and locks and
//! callers are not affected.

use std::mem;

use steadlock_protocol::{Error, shown};
use tracing::field::Empty;
use tracing::{Level, Span, info_span, level_enabled};

use crate::host::{Completion, Lease};
use crate::observe::{self, metrics::Outcome};
use crate::unwind::catch;

const OUTCOME: &str = "steadlock.outcome";

/// The span of a wait. Dropping it before the result arrives records a cancellation.
pub(crate) struct WaitSpan<'a> {
    kind: &'a str,
    name: &'a str,
    span: Span,
    /// The parent of the hold's span.
    caller: Span,
}

impl<'a> WaitSpan<'a> {
    /// Opens the span of a wait for a lock of this kind and name.
    pub(crate) fn begin(kind: &'a str, name: &'a str) -> Self {
        let is_wanted = level_enabled!(Level::INFO);
        let span = || {
            info_span!(
                target: "steadlock",
                "steadlock.wait",
                steadlock.kind = kind,
                steadlock.lock = &*shown(name),
                steadlock.outcome = Empty,
                otel.status_code = Empty,
                error.type = Empty,
            )
        };
        let caller = is_wanted.then(|| catch(Span::current)).flatten();
        Self {
            kind,
            name,
            span: catch(span).unwrap_or_else(Span::none),
            caller: caller.unwrap_or_else(Span::none),
        }
    }

    /// Ends the span. If the lock was granted, the span of the hold begins.
    pub(crate) fn end(mut self, result: &Result<Completion, Error>) {
        let span = mem::replace(&mut self.span, Span::none());
        let (outcome, error) = match result {
            Ok(Completion::Granted(lease)) if lease.is_degraded() => (Outcome::Degraded, None),
            Ok(Completion::NotGranted(error)) | Err(error) => (Outcome::of_error(error), Some(error)),
            Ok(_) => (Outcome::Granted, None),
        };
        observe::end_span(span, |span| {
            span.record(OUTCOME, outcome.as_str());
            if let Some(error) = error.filter(|_| outcome.is_failure()) {
                span.record("otel.status_code", "ERROR");
                span.record("error.type", error.kind().name());
            }
        });
        if let Ok(Completion::Granted(lease)) = result
            && let Some(hold) = catch(|| self.hold_span(lease))
        {
            lease.attach_span(hold);
        }
    }

    fn hold_span(&self, lease: &Lease) -> Span {
        macro_rules! hold {
            ($($parent:tt)*) => {
                info_span!(
                    target: "steadlock",
                    $($parent)*
                    "steadlock.hold",
                    steadlock.kind = self.kind,
                    steadlock.lock = &*shown(self.name),
                    steadlock.token = lease.token(),
                    steadlock.degraded = lease.is_degraded().then_some(true),
                    steadlock.outcome = Empty,
                    steadlock.reason = Empty,
                    otel.status_code = Empty,
                )
            };
        }
        // If the caller has no current span, the subscriber chooses the parent, because it may know another one.
        if self.caller.is_none() {
            hold!()
        } else {
            hold!(parent: &self.caller,)
        }
    }
}

impl Drop for WaitSpan<'_> {
    fn drop(&mut self) {
        let span = mem::replace(&mut self.span, Span::none());
        let caller = mem::replace(&mut self.caller, Span::none());
        observe::end_span(span, |span| {
            span.record(OUTCOME, Outcome::Cancelled.as_str());
        });
        observe::end_span(caller, |_| {});
    }
}
