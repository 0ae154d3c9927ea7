//! How a lease ends, in the words that every language has.

/// How a release ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseOutcome {
    /// The record is gone by our hand, or an outer level still holds it.
    Released,
    /// The record was gone already.
    Expired,
    /// The record is another owner's.
    Stolen,
    /// The server did not answer in time; it is retried in the background until the record's TTL has passed.
    Unknown,
}

impl ReleaseOutcome {
    /// All outcomes.
    pub const ALL: [Self; 4] = [Self::Released, Self::Expired, Self::Stolen, Self::Unknown];

    /// The word that hosts see.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::Expired => "expired",
            Self::Stolen => "stolen",
            Self::Unknown => "unknown",
        }
    }

    /// Why a lease was lost, by a release that was the first to notice; `None` if it was not.
    #[must_use]
    pub const fn lost_reason(self) -> Option<LostReason> {
        match self {
            Self::Expired => Some(LostReason::Expired),
            Self::Stolen => Some(LostReason::Stolen),
            Self::Released | Self::Unknown => None,
        }
    }
}

/// Why a hold was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostReason {
    /// Its deadline came without a renewal that the server confirmed.
    Expired,
    /// The server has no record of it: DEL, FLUSHALL, eviction, failover.
    Removed,
    /// The server's record is another owner's.
    Stolen,
    /// `max_hold` has passed.
    MaxHold,
    /// The client was closed.
    Closed,
}

impl LostReason {
    /// All reasons.
    pub const ALL: [Self; 5] = [Self::Expired, Self::Removed, Self::Stolen, Self::MaxHold, Self::Closed];

    /// The word that hosts see.
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

    /// The reason of this word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == word)
    }

    /// How it came to that, for people.
    #[must_use]
    pub const fn cause(self) -> &'static str {
        match self {
            Self::Expired => "its deadline passed without a confirmed renewal",
            Self::Removed => "its record is gone from the server",
            Self::Stolen => "its record is another owner's",
            Self::MaxHold => "max_hold has passed",
            Self::Closed => "the client was closed",
        }
    }

    /// What releasing a lease comes to that was lost so.
    #[must_use]
    pub const fn outcome(self) -> ReleaseOutcome {
        match self {
            Self::Stolen => ReleaseOutcome::Stolen,
            Self::Closed => ReleaseOutcome::Released,
            Self::Expired | Self::Removed | Self::MaxHold => ReleaseOutcome::Expired,
        }
    }
}
