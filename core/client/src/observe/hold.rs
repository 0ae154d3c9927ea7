//! How the span of a hold ends.

use std::sync::{Mutex, PoisonError};

use steadlock_protocol::{LostReason, ReleaseOutcome};
use tracing::Span;

use crate::unwind::quietly;

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
            end(span, |span| record(span, outcome, lost));
        }
    }
}

impl Drop for Hold {
    /// No answer to a release came.
    fn drop(&mut self) {
        self.released(ReleaseOutcome::Unknown);
    }
}

/// Ends a span with what `record` says of it. A subscriber's defect must not end the engine, which keeps the locks, nor
/// keep a lock from its caller. Each step is for itself: it may panic in both.
pub(crate) fn end(span: Span, record: impl FnOnce(&Span)) {
    quietly(|| record(&span));
    quietly(move || drop(span));
}

fn record(span: &Span, outcome: &str, lost: Option<LostReason>) {
    span.record("steadlock.outcome", outcome);
    let Some(reason) = lost else { return };
    span.record("steadlock.reason", reason.as_str());
    if let LostReason::Expired | LostReason::Removed | LostReason::Stolen = reason {
        span.record("otel.status_code", "ERROR");
    }
}
