//! How the span of a hold ends.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use steadlock_protocol::{LostReason, ReleaseOutcome};
use tracing::Span;

/// The span of a hold, if it has one. It ends once: the first end stands.
#[derive(Default)]
pub(crate) struct Hold(Mutex<Option<Span>>);

impl Hold {
    pub(crate) fn begin(&self, span: Span) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(span).filter(|span| !span.is_disabled());
    }

    /// The lease is lost.
    pub(crate) fn lost(&self, reason: LostReason) {
        self.end("lost", Some(reason));
    }

    /// Its release came to this, and perhaps found out that the lease was lost.
    pub(crate) fn released(&self, outcome: ReleaseOutcome) {
        self.end(outcome.as_str(), outcome.lost_reason());
    }

    fn end(&self, outcome: &str, lost: Option<LostReason>) {
        let span = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(span) = span {
            // A subscriber's defect must not end the engine, which keeps the locks.
            let _ = catch_unwind(AssertUnwindSafe(move || {
                record(&span, outcome, lost);
                drop(span);
            }));
        }
    }
}

impl Drop for Hold {
    /// No answer to a release came.
    fn drop(&mut self) {
        self.released(ReleaseOutcome::Unknown);
    }
}

fn record(span: &Span, outcome: &str, lost: Option<LostReason>) {
    span.record("steadlock.outcome", outcome);
    let Some(reason) = lost else { return };
    span.record("steadlock.reason", reason.as_str());
    if let LostReason::Expired | LostReason::Removed | LostReason::Stolen = reason {
        span.record("otel.status_code", "ERROR");
    }
}
