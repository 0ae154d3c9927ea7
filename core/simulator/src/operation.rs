//! The operations of callers and operators, and how often each was done.

use crate::counted::counted;

counted! {
    /// An operation of a caller or an operator.
    Operation, OperationCounts;
    /// A caller requested a lock.
    Acquire = "acquire",
    /// A caller requested several locks together.
    AcquireAll = "acquire several",
    /// A holder requested a lock inside a hold.
    AcquireInside = "acquire inside",
    /// A holder released a lease.
    Release = "release",
    /// A holder released its innermost level, by its context.
    ReleaseInnermost = "release innermost",
    /// A lease was released a second time.
    ReleaseAgain = "release again",
    /// A holder of a composite lock tried to release one member by itself.
    ReleasePart = "release a member",
    /// A holder extended a lease.
    Extend = "extend",
    /// A holder wrote to the guarded resource.
    GuardedWrite = "guarded write",
    /// A caller asked who holds a lock.
    Inspect = "inspect",
    /// An operator released a lock by force, no matter which owner held it.
    ForceRelease = "force release",
    /// In an outage a caller was granted a degraded lease.
    Degraded = "granted degraded",
    /// In an outage, the client let a caller continue without the lock.
    Skipped = "skipped",
    /// A caller ended its run of a job.
    EndRun = "end a run",
    /// A request for a run was skipped because of another run.
    RunSkipped = "run skipped",
    /// A caller asked for the last runs of a job.
    LastRun = "last runs",
    /// An operator changed the limit of a semaphore.
    SetLimit = "set limit",
}
