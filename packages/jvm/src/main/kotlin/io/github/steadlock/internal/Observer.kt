package io.github.steadlock.internal

import io.github.steadlock.LostReason
import io.github.steadlock.ReleaseOutcome
import java.util.concurrent.CopyOnWriteArrayList

/** An observer of the acquisitions of a client and their leases. Implementations must neither block nor throw. */
internal interface Observer {
    /** Whether a client can have only one observer of this class. */
    val isOnlyOne: Boolean

    /** Reports that an acquisition of [lock] by [owner] begins. Runs on the thread of the caller. */
    fun requested(lock: LockRef, owner: Owner): ObservedWait

    /** Reports that the client is closed. Waits up to [limitMs] until the observer has handled all earlier reports. */
    fun closed(limitMs: Long)
}

/** One acquisition that has not ended. Only the first call of one of these functions counts. */
internal interface ObservedWait {
    /**
     * Reports the grant. Returns the observer of the lease, or null if the acquisition was cancelled before.
     * [remainingNanos] returns how long the holder may rely on the lease. It does not refer to an object of the lease,
     * so that the lease can become garbage.
     */
    fun granted(token: Long?, isDegraded: Boolean, remainingNanos: () -> Long): ObservedHold?

    fun failed(failure: Failure)

    /** Reports that the caller no longer waits. */
    fun cancelled()
}

/** One lease. Only the first call of one of these functions counts. */
internal interface ObservedHold {
    /** Reports the release. [lost] is the reason if the release noticed that the lease was lost. */
    fun released(outcome: ReleaseOutcome, lost: LostReason?)

    fun lost(reason: LostReason)
}

/** The observers of one client. Reports cost nothing if there is no observer. */
internal class Observers {
    private val all = CopyOnWriteArrayList<Observer>()

    /** @throws IllegalStateException if only one observer of its class is allowed, and there is one already */
    fun add(observer: Observer): Unit =
        synchronized(this) {
            val isAllowed = !observer.isOnlyOne || all.none { it.javaClass == observer.javaClass }
            check(isAllowed) { "the client is instrumented already; undo that first" }
            all += observer
        }

    fun remove(observer: Observer) {
        all -= observer
    }

    fun requested(lock: LockRef, owner: Owner): ObservedWait? {
        if (all.isEmpty()) return null
        val waits = all.map { it.requested(lock, owner) }
        return waits.singleOrNull() ?: SeveralWaits(waits)
    }

    /** Reports the close to each observer once, and removes all of them. */
    fun close(limitMs: () -> Long) {
        for (observer in all) {
            if (all.remove(observer)) observer.closed(limitMs())
        }
    }
}

private class SeveralWaits(private val waits: List<ObservedWait>) : ObservedWait {
    override fun granted(token: Long?, isDegraded: Boolean, remainingNanos: () -> Long): ObservedHold? {
        val holds = waits.mapNotNull { it.granted(token, isDegraded, remainingNanos) }
        return if (holds.isEmpty()) null else SeveralHolds(holds)
    }

    override fun failed(failure: Failure) = waits.forEach { it.failed(failure) }

    override fun cancelled() = waits.forEach(ObservedWait::cancelled)
}

private class SeveralHolds(private val holds: List<ObservedHold>) : ObservedHold {
    override fun released(outcome: ReleaseOutcome, lost: LostReason?) = holds.forEach { it.released(outcome, lost) }

    override fun lost(reason: LostReason) = holds.forEach { it.lost(reason) }
}
