//! Why a request for a run of a job was skipped.

use std::time::Duration;

/// The run that keeps a skipped caller out. The holder of the error says which program runs or ran
/// the job, and when the next request can be granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skip {
    /// The reason.
    pub reason: SkipReason,
    /// When the other run began, in milliseconds since 1970 by the server's clock; `None` if the server was not asked.
    pub since: Option<u64>,
    /// How long the other run took; `None` while it is running.
    pub took: Option<Duration>,
}

impl Skip {
    /// Makes the skip of a caller whose server is unavailable.
    pub(crate) const fn unavailable() -> Self {
        Self {
            reason: SkipReason::Unavailable,
            since: None,
            took: None,
        }
    }
}

/// The reason why a caller was skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// Another run of the job is going on.
    Running,
    /// The job, or this key of it, is done.
    Done,
    /// The server is unavailable, and the caller did not want to run without it
    /// ([`OnUnavailable::Skip`](crate::OnUnavailable::Skip)).
    Unavailable,
}

impl SkipReason {
    /// All reasons.
    pub const ALL: [Self; 3] = [Self::Running, Self::Done, Self::Unavailable];

    /// Returns the text that all languages show.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Unavailable => "unavailable",
        }
    }
}
