//! How a lease ends, in the words of every language.

/// The outcome of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseOutcome {
    /// The release ended the hold, or one level of it while others remain.
    Released,
    /// The lease had ended before, or there was no record any more.
    Expired,
    /// The record belongs to another owner.
    Stolen,
    /// The server did not answer in time, or its answer does not say whether this release removed the record. A release
    /// without an answer is retried in the background until the record's TTL has passed.
    Unknown,
}

impl ReleaseOutcome {
    /// All outcomes.
    pub const ALL: [Self; 4] = [Self::Released, Self::Expired, Self::Stolen, Self::Unknown];

    /// Returns the text that all languages show.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::Expired => "expired",
            Self::Stolen => "stolen",
            Self::Unknown => "unknown",
        }
    }

    /// Returns why a lease was lost, if its release was the first to discover the loss; `None` if the lease was not
    /// lost, or if that is unknown.
    #[must_use]
    pub const fn lost_reason(self) -> Option<LostReason> {
        match self {
            Self::Expired => Some(LostReason::Expired),
            Self::Stolen => Some(LostReason::Stolen),
            Self::Released | Self::Unknown => None,
        }
    }
}

/// The reason why a hold was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostReason {
    /// The deadline came: the lease was fixed, or the server confirmed no renewal in time.
    Expired,
    /// The server has no record of the hold: DEL, FLUSHALL, eviction, failover.
    Removed,
    /// The record on the server belongs to another owner, or the key contains something that is no lock of this kind.
    Stolen,
    /// `max_hold` has passed.
    MaxHold,
    /// The client was closed.
    Closed,
}

impl LostReason {
    /// All reasons.
    pub const ALL: [Self; 5] = [Self::Expired, Self::Removed, Self::Stolen, Self::MaxHold, Self::Closed];

    /// Returns the text that all languages show.
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

    /// Parses the text that all languages show.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == word)
    }

    /// Returns an explanation for people.
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

    /// Returns the outcome of a release of a lease that was lost for this reason.
    #[must_use]
    pub const fn outcome(self) -> ReleaseOutcome {
        match self {
            Self::Stolen => ReleaseOutcome::Stolen,
            // A client that closes releases all its holds.
            Self::Closed => ReleaseOutcome::Released,
            Self::Expired | Self::Removed | Self::MaxHold => ReleaseOutcome::Expired,
        }
    }
}
