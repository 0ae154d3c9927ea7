//! The one lower-case word that every language has for an outcome.

use crate::types::{LostReason, ReleaseOutcome};

impl ReleaseOutcome {
    /// Every outcome.
    pub const ALL: [Self; 4] = [Self::Released, Self::Expired, Self::Stolen, Self::Unknown];

    /// The outcome in one lower-case word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::Expired => "expired",
            Self::Stolen => "stolen",
            Self::Unknown => "unknown",
        }
    }
}

impl LostReason {
    /// Every reason.
    pub const ALL: [Self; 5] = [Self::Expired, Self::Removed, Self::Stolen, Self::MaxHold, Self::Closed];

    /// The reason in one lower-case word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Removed => "removed",
            Self::Stolen => "stolen",
            Self::MaxHold => "max_hold",
            Self::Closed => "closed",
        }
    }
}
