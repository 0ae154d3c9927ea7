//! Mistakes that other lock libraries have made, each behind a switch, to prove that
//! the tests find them.
//!
//! The switches exist with the feature `defects` only, which nothing that is shipped
//! turns on. Without it `Io::has` is constantly false, and the compiler leaves
//! out what stands behind it. A mistake is made where `has` is asked; what takes more
//! than a line is here. Mistakes of the scripts are not: a test changes their text.

/// A mistake that a session can be made to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "defects"), allow(unreachable_pub))]
pub enum Defect {
    /// A waiter sleeps for the holder's whole TTL unless a message comes.
    WaiterTrustsMessages,
    /// A waiter sleeps until a message comes.
    WaiterParks,
    /// Who tries once for what several hold is refused while others of its client are asking.
    SharedTryStandsInLine,
    /// Renewals go out one after the other, and wait for one that is not answered.
    StuckNodeStopsRenewals,
    /// The last renewals of several locks take milliseconds for seconds.
    MultiLockUnits,
    /// A lock that draws a token gets the client's lease, not the one that is asked for.
    TokenIgnoresLease,
    /// A hold that is released is still renewed.
    RenewalOutlivesUnlock,
    /// All tasks are let in as the one thread that they run on.
    OwnerIsTheThread,
    /// A lease that was asked for once is used for later holds that ask for none.
    LeaseLeaks,
    /// A re-entry sets the lease, also to less than was left.
    ReentryShortens,
    /// A re-entry of an auto-renewed lease leaves its length as it is, also if it asks for a longer one.
    ReentryKeepsLength,
    /// A grant is handed out though it came when nothing was left of it.
    ExpiredGrantIsHeld,
    /// Releasing a lost lease fails.
    ReleaseFails,
    /// An extension hands out what was known before it.
    ExtendIsStale,
    /// What a cancelled attempt is granted is not released.
    CancelLeavesRecord,
    /// The loss of one lane is taken for that of all connections.
    LaneLossIsOutage,
    /// Renewals wait for their own lane.
    RenewalsHaveOneLane,
    /// Several locks that are entered again without a lease are renewed too late.
    ReentryLeavesMembers,
    /// Several locks are granted though one was lost before the last one was granted.
    LostMemberIsGranted,
    /// An extension of a majority's lock counts members that were lost since.
    ExtensionOfMembers,
    /// A waiter for a majority's lock counts the time for which its own client holds it as silence of the servers.
    SilenceOfTheHolder,
    /// A wait for a composite lock may wait for its own caller.
    CompositeWaitsForItself,
    /// A message that a lock may be free makes nobody ask.
    MessagesWakeNobody,
    /// A call that passed over so many dead waiters as it may is followed by a poll's pause.
    DeadEndThePassing,
    /// A poll that was cut off is forgotten, though it may run after its waiter has left; and
    /// what is granted to nobody is left to end by itself.
    PollsAreNoAttempts,
    /// Whatever a message says of a grant to a waiter is believed, if it was last seen late enough.
    NewsIsBelieved,
    /// A fixed lease that was lost is kept until somebody releases it.
    LapsedLeaseStays,
    /// A record that may outlast its lost fixed lease is not released.
    LapsedRecordStays,
    /// In an outage a lock is granted in this client though somebody here holds it.
    LocalBesideHolder,
    /// Who is granted a lock in this client leaves what its attempts may be granted.
    LocalLeavesRecord,
    /// A circuit breaker that opened never asks whether the server is back.
    BreakerStaysOpen,
    /// A release whose connection closes before its answer is not sent again.
    ReleaseEndsWithItsConnection,
    /// A release is done with its first answer, though an attempt of its owner was cut off and may run after it.
    LateAttemptsAreForgotten,
    /// What an attempt was granted too late to be of use is not released.
    LateGrantStays,
    /// A majority's lock is relied on for as long as the member that ends last.
    LongestMemberCounts,
    /// So it is from its grant on, until a member is renewed.
    LongestMemberIsGranted,
}

#[cfg(feature = "defects")]
impl Defect {
    /// Every mistake.
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
