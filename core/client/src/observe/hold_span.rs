//! The span of a hold, and how it ends.

use std::sync::{Mutex, PoisonError};

use steadlock_protocol::{LostReason, ReleaseOutcome};
use tracing::Span;

use crate::unwind::catch_panic;

/// The span of a hold, if it has one. The first end counts; later ones change nothing.
#[derive(Default)]
pub(crate) struct HoldSpan(Mutex<Option<Span>>);

impl HoldSpan {
    pub(crate) fn begin(&self, span: Span) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(span).filter(|span| !span.is_disabled());
    }

    /// Ends the span because the lease is lost.
    pub(crate) fn lost(&self, reason: LostReason) {
        self.end("lost", Some(reason));
    }

    /// Ends the span with the outcome of the release, which may have found the lease lost.
    pub(crate) fn released(&self, outcome: ReleaseOutcome) {
        self.end(outcome.as_str(), outcome.lost_reason());
    }

    fn end(&self, outcome: &str, lost: Option<LostReason>) {
        let span = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(span) = span {
            end_span(span, |span| record(span, outcome, lost));
        }
    }
}

impl Drop for HoldSpan {
    /// Ends the span of a hold whose release was never answered.
    fn drop(&mut self) {
        self.released(ReleaseOutcome::Unknown);
    }
}

/// Ends a span after `record` has added its fields. A subscriber that panics must not end the engine, which keeps the
/// locks, and must not keep a lock from its caller. Each step is caught separately, because the subscriber can panic in
/// both.
pub(crate) fn end_span(span: Span, record: impl FnOnce(&Span)) {
    catch_panic(|| record(&span));
    catch_panic(move || drop(span));
}

fn record(span: &Span, outcome: &str, lost: Option<LostReason>) {
    span.record("steadlock.outcome", outcome);
    let Some(reason) = lost else { return };
    span.record("steadlock.reason", reason.as_str());
    if let LostReason::Expired | LostReason::Removed | LostReason::Stolen = reason {
        span.record("otel.status_code", "ERROR");
    }
}
