package io.github.steadlock.internal

import io.github.steadlock.LostReason
import io.github.steadlock.ReleaseOutcome
import java.util.concurrent.CopyOnWriteArrayList

/** Who is told of a client's acquisitions, and of what becomes of their leases. What it does neither blocks nor throws. */
internal interface Observer {
    /** Whether a client has one observer of this class at the most. */
    val isOnlyOne: Boolean

    /** [lock] is asked for, on the thread of the caller; [owner] is who may re-enter implicitly. */
    fun asked(lock: LockKey, owner: Owner): ObservedWait

    /** The client is closed. Waits [limitMs] at the most until all that it was told has been handed on. */
    fun closed(limitMs: Long)
}

/** One acquisition under way. It ends once: its first end counts. */
internal interface ObservedWait {
    /**
     * Gives who is told how the lease ends, or null if the caller had gone away before. [remainingNanos] is how long
     * the lease may be relied on, and refers to no object of it.
     */
    fun granted(token: Long?, isDegraded: Boolean, remainingNanos: () -> Long): ObservedHold?

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

/** The observers of one client. Without any, and with one, it costs nothing more than that one. */
internal class Observers {
    private val all = CopyOnWriteArrayList<Observer>()

    /** @throws IllegalStateException if there is one of its class already, which is to be the only one */
    fun add(observer: Observer): Unit =
        synchronized(this) {
            val isOther = !observer.isOnlyOne || all.none { it.javaClass == observer.javaClass }
            check(isOther) { "the client is instrumented already; undo that first" }
            all += observer
        }

    fun remove(observer: Observer) {
        all -= observer
    }

    fun asked(lock: LockKey, owner: Owner): ObservedWait? {
        if (all.isEmpty()) return null
        val waits = all.map { it.asked(lock, owner) }
        return waits.singleOrNull() ?: SeveralWaits(waits)
    }

    /** Tells each once that the client is closed; there are none any more then. */
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
