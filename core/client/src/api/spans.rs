//! The spans of `tracing` of a wait and of a lease, with the feature of that name; without it, nothing.

#[cfg(feature = "tracing")]
pub(crate) use self::traced::{Holding, Waiting};
#[cfg(not(feature = "tracing"))]
pub(crate) use self::untraced::{Holding, Waiting};

#[cfg(feature = "tracing")]
mod traced {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use leasehold_protocol::{Error, LostReason, ReleaseOutcome, shown};
    use tracing::field::Empty;
    use tracing::{Level, Span, span};

    use crate::host::{self, Completion, LockRef};
    use crate::observe::metrics::Outcome;

    /// A call waits for a lock. One that is dropped before it has ended was given up.
    pub(crate) struct Waiting {
        span: Span,
        /// Where the lock was asked for, of which that of the lease is a child, too.
        caller: Span,
        kind: &'static str,
        has_ended: bool,
    }

    impl Waiting {
        pub(crate) fn begin(lock: &LockRef, name: &str) -> Self {
            let kind = lock.kind_name();
            let span = span!(
                target: "leasehold",
                Level::INFO,
                "leasehold.wait",
                leasehold.kind = kind,
                leasehold.lock = &*shown(name),
                leasehold.outcome = Empty,
                error.type = Empty,
                otel.status_code = Empty,
            );
            Self {
                caller: if span.is_none() { Span::none() } else { Span::current() },
                span,
                kind,
                has_ended: false,
            }
        }

        /// The call has ended so; gives what is held by then.
        pub(crate) fn ended(mut self, result: &Result<Completion, Error>, name: &str) -> Holding {
            self.has_ended = true;
            match result {
                Ok(Completion::Granted(lease)) => {
                    let is_degraded = lease.is_degraded();
                    let outcome = if is_degraded {
                        Outcome::Degraded
                    } else {
                        Outcome::Granted
                    };
                    self.span.record("leasehold.outcome", outcome.as_str());
                    if self.span.is_none() {
                        return Holding::none();
                    }
                    let span = span!(
                        target: "leasehold",
                        parent: &self.caller,
                        Level::INFO,
                        "leasehold.hold",
                        leasehold.kind = self.kind,
                        leasehold.lock = &*shown(name),
                        leasehold.token = lease.token(),
                        leasehold.degraded = is_degraded.then_some(true),
                        leasehold.outcome = Empty,
                        leasehold.reason = Empty,
                        otel.status_code = Empty,
                    );
                    return Holding {
                        span,
                        lease: Some(Arc::clone(lease)),
                        is_told: AtomicBool::new(false),
                    };
                }
                Ok(Completion::NotGranted(error)) if error.is_skipped() => {
                    self.span.record("leasehold.outcome", Outcome::Skipped.as_str());
                }
                Ok(Completion::NotGranted(_)) => {
                    self.span.record("leasehold.outcome", Outcome::TimedOut.as_str());
                }
                Ok(_) => {}
                Err(error) => {
                    self.span
                        .record("leasehold.outcome", Outcome::of(error.kind()).as_str());
                    self.span.record("error.type", error.kind().name());
                    self.span.record("otel.status_code", "ERROR");
                }
            }
            Holding::none()
        }
    }

    impl Drop for Waiting {
        fn drop(&mut self) {
            if !self.has_ended {
                self.span.record("leasehold.outcome", Outcome::Cancelled.as_str());
            }
        }
    }

    /// A lease is held. Its span ends when it is dropped.
    #[derive(Debug)]
    pub(crate) struct Holding {
        span: Span,
        lease: Option<Arc<host::Lease>>,
        is_told: AtomicBool,
    }

    impl Holding {
        fn none() -> Self {
            Self {
                span: Span::none(),
                lease: None,
                is_told: AtomicBool::new(false),
            }
        }

        /// The release said this.
        pub(crate) fn released(&self, outcome: ReleaseOutcome) {
            let lost = match outcome {
                ReleaseOutcome::Expired => Some(LostReason::Expired),
                ReleaseOutcome::Stolen => Some(LostReason::Stolen),
                _ => None,
            };
            let known = self.lease.as_ref().and_then(|lease| lease.lost_reason());
            self.tell(outcome.as_str(), lost.map(|lost| known.unwrap_or(lost)));
        }

        fn tell(&self, outcome: &'static str, lost: Option<LostReason>) {
            if self.is_told.swap(true, Ordering::Relaxed) {
                return;
            }
            self.span.record("leasehold.outcome", outcome);
            if let Some(lost) = lost {
                self.span.record("leasehold.reason", lost.as_str());
                if matches!(lost, LostReason::Expired | LostReason::Removed | LostReason::Stolen) {
                    self.span.record("otel.status_code", "ERROR");
                }
            }
        }
    }

    impl Drop for Holding {
        fn drop(&mut self) {
            let Some(lease) = &self.lease else { return };
            match lease.lost_reason() {
                Some(lost) => self.tell("lost", Some(lost)),
                // It is released in the background, or that failed.
                None => self.tell(ReleaseOutcome::Unknown.as_str(), None),
            }
        }
    }
}

#[cfg(not(feature = "tracing"))]
mod untraced {
    use leasehold_protocol::{Error, ReleaseOutcome};

    use crate::host::{Completion, LockRef};

    pub(crate) struct Waiting;

    impl Waiting {
        pub(crate) const fn begin(_lock: &LockRef, _name: &str) -> Self {
            Self
        }

        pub(crate) const fn ended(self, _result: &Result<Completion, Error>, _name: &str) -> Holding {
            Holding
        }
    }

    #[derive(Debug)]
    pub(crate) struct Holding;

    impl Holding {
        #[expect(clippy::unused_self, reason = "the same call as with the feature")]
        pub(crate) const fn released(&self, _outcome: ReleaseOutcome) {}
    }
}
