package io.leasehold.internal

import io.leasehold.LostReason
import io.leasehold.ReleaseOutcome

/** Who is told of a client's acquisitions, and of what becomes of their leases. What it does neither blocks nor throws. */
internal interface Observer {
    /** [lock] is asked for, on the thread of the caller. */
    fun asked(lock: LockKey): ObservedWait

    /** The client is closed. Waits [limitMs] at the most until all that it was told has been handed on. */
    fun closed(limitMs: Long)
}

/** One acquisition under way. It ends once: its first end counts. */
internal interface ObservedWait {
    /** Gives who is told how the lease ends, or null if the caller had gone away before. */
    fun granted(token: Long?, isDegraded: Boolean): ObservedHold?

    fun failed(failure: Failure)

    /** The caller went away. */
    fun cancelled()
}

/** One lease. It ends once: its first end counts. */
internal interface ObservedHold {
    /** [lost] says why the lease was lost before, if its release found that out. */
    fun released(outcome: ReleaseOutcome, lost: LostReason?)

    fun lost(reason: LostReason)
}
