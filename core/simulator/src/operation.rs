//! What callers and operators can do, and how often each thing was done.

use crate::counted::counted;

counted! {
    /// Something that a caller or an operator does.
    Operation, OperationCounts;
    /// A caller asked for a lock.
    Acquire = "acquire",
    /// A caller asked for several locks together.
    AcquireAll = "acquire several",
    /// A holder asked for a lock inside of what it held.
    AcquireInside = "acquire inside",
    /// A holder released a lease.
    Release = "release",
    /// A holder released its innermost level, by its context.
    ReleaseInnermost = "release innermost",
    /// A lease was released that had been released already.
    ReleaseAgain = "release again",
    /// A holder of several locks tried to release one of them by itself.
    ReleasePart = "release a member",
    /// A holder asked for more time.
    Extend = "extend",
    /// A holder wrote to what the lock guards.
    GuardedWrite = "guarded write",
    /// Somebody asked who holds a lock.
    Inspect = "inspect",
    /// An operator released a lock by force, no matter who held it.
    ForceRelease = "force release",
    /// In an outage a caller was granted a lease that excludes others of its client alone.
    Degraded = "granted degraded",
    /// In an outage a caller was told to go on without the lock.
    Skipped = "skipped",
    /// An operator changed a semaphore's limit.
    SetLimit = "set limit",
}
