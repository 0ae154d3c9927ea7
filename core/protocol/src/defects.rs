//! Mistakes that other lock libraries have made, each behind a switch, to prove that the tests find them.
//!
//! The switches exist only with the feature `defects`, which no released build enables. Without the feature, `Io::has`
//! is always false, and the compiler removes the code behind it. A mistake is made where the code calls `has`. A test
//! that needs a mistake in a script changes the text of the script instead.

/// A mistake that can be switched on in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "defects"), allow(unreachable_pub))]
pub enum Defect {
    /// A waiter sleeps for the whole TTL of the holder unless a message arrives.
    WaiterTrustsMessages,
    /// A waiter sleeps until a message arrives.
    WaiterParks,
    /// A single attempt for a lock that several owners can hold is refused while other callers of its client are
    /// asking.
    SharedTryStandsInLine,
    /// Renewals are sent one after the other, and wait for one that is not answered.
    StuckNodeStopsRenewals,
    /// The last renewals of a multi-lock use milliseconds as if they were seconds.
    MultiLockUnits,
    /// A lock with a fencing token gets the client's lease instead of the requested one.
    TokenIgnoresLease,
    /// A hold is still renewed after its release.
    RenewalOutlivesUnlock,
    /// All tasks of a thread count as one holder.
    OwnerIsTheThread,
    /// A requested lease is also used for later requests that name none.
    LeaseLeaks,
    /// A re-entry sets the lease even if it becomes shorter.
    ReentryShortens,
    /// A re-entry of an auto-renewed lease ignores a request for a longer one.
    ReentryKeepsLength,
    /// A grant is used although nothing of its lease is left.
    ExpiredGrantIsHeld,
    /// The release of a lost lease fails.
    ReleaseFails,
    /// An extension returns the deadline from before the extension.
    ExtendIsStale,
    /// A late grant of a cancelled attempt is not released.
    CancelLeavesRecord,
    /// The loss of one lane counts as the loss of all connections.
    LaneLossIsOutage,
    /// Renewals wait for the renewal lane, even if the command lane is open.
    RenewalsHaveOneLane,
    /// The members of a multi-lock that is re-entered are renewed too late.
    ReentryLeavesMembers,
    /// A multi-lock is granted although a member was lost before the last one was granted.
    LostMemberIsGranted,
    /// An extension of a RedLock counts members that have been lost since.
    ExtensionOfMembers,
    /// A waiter for a RedLock counts the time for which its own client holds the lock as silence of the servers.
    SilenceOfTheHolder,
    /// A caller that waits for a composite lock can wait for itself.
    CompositeWaitsForItself,
    /// A message that a lock may be free makes no waiter ask.
    MessagesWakeNobody,
    /// After a call that removed its maximum of dead waiters, the client waits for the next regular poll.
    DeadEndThePassing,
    /// A poll that was cut off is forgotten, although it may run after its waiter has left. A grant to an owner id that
    /// was given up is left to expire.
    PollsAreNoAttempts,
    /// Every grant message is trusted if the server saw the waiter late enough.
    NewsIsBelieved,
    /// A lost fixed lease is kept until its holder releases it.
    LapsedLeaseStays,
    /// A record that may outlast its lost fixed lease is not released.
    LapsedRecordStays,
    /// In an outage a degraded lease is granted although another caller of this client holds the lock.
    LocalBesideHolder,
    /// Late grants of the attempts of a request are not released if the request gets a degraded lease.
    LocalLeavesRecord,
    /// No probe asks whether the server of an open circuit breaker serves again.
    BreakerStaysOpen,
    /// A release whose connection closes before the answer is not sent again.
    ReleaseEndsWithItsConnection,
    /// A release ends with its first answer, although an attempt of its owner was cut off and may run later.
    LateAttemptsAreForgotten,
    /// A grant that came too late to be used is not released.
    LateGrantStays,
    /// The deadline of a RedLock is that of the member that ends last.
    LongestMemberCounts,
    /// The deadline of a RedLock is that of the member that ends last, until a member is renewed.
    LongestMemberIsGranted,
}

#[cfg(feature = "defects")]
impl Defect {
    /// All mistakes.
    pub const ALL: &'static [Self] = &[
        Self::WaiterTrustsMessages,
        Self::WaiterParks,
        Self::SharedTryStandsInLine,
        Self::StuckNodeStopsRenewals,
        Self::MultiLockUnits,
        Self::TokenIgnoresLease,
        Self::RenewalOutlivesUnlock,
        Self::OwnerIsTheThread,
        Self::LeaseLeaks,
        Self::ReentryShortens,
        Self::ReentryKeepsLength,
        Self::ExpiredGrantIsHeld,
        Self::ReleaseFails,
        Self::ExtendIsStale,
        Self::CancelLeavesRecord,
        Self::LaneLossIsOutage,
        Self::RenewalsHaveOneLane,
        Self::ReentryLeavesMembers,
        Self::LostMemberIsGranted,
        Self::ExtensionOfMembers,
        Self::SilenceOfTheHolder,
        Self::CompositeWaitsForItself,
        Self::MessagesWakeNobody,
        Self::DeadEndThePassing,
        Self::PollsAreNoAttempts,
        Self::NewsIsBelieved,
        Self::LapsedLeaseStays,
        Self::LapsedRecordStays,
        Self::LocalBesideHolder,
        Self::LocalLeavesRecord,
        Self::BreakerStaysOpen,
        Self::ReleaseEndsWithItsConnection,
        Self::LateAttemptsAreForgotten,
        Self::LateGrantStays,
        Self::LongestMemberCounts,
        Self::LongestMemberIsGranted,
    ];
}
