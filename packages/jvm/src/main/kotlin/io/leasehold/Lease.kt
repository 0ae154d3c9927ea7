package io.leasehold

import io.leasehold.internal.Engine
import io.leasehold.internal.Owner
import io.leasehold.internal.Reply
import io.leasehold.internal.Request
import io.leasehold.internal.expect
import io.leasehold.internal.millis
import io.leasehold.internal.shown
import java.time.Duration
import java.util.concurrent.CompletableFuture
import java.util.concurrent.CompletionStage
import java.util.concurrent.CopyOnWriteArrayList
import java.util.concurrent.atomic.AtomicBoolean
import java.util.concurrent.atomic.AtomicReference
import java.util.function.Consumer

/** How a release ended. */
public enum class ReleaseOutcome {
    /** The record is gone by our hand, or an outer level still holds it. */
    RELEASED,

    /** The record was gone already. */
    EXPIRED,

    /** The record is another owner's, and was left alone. */
    STOLEN,

    /** The server did not answer in time. The release is tried on in the background. */
    UNKNOWN,
    ;

    /** Why a lease was lost, by a release that was the first to notice; null if it was not. */
    internal val lostReason: LostReason?
        get() =
            when (this) {
                EXPIRED -> LostReason.EXPIRED
                STOLEN -> LostReason.STOLEN
                RELEASED, UNKNOWN -> null
            }
}

/** Why a lease was lost. */
public enum class LostReason {
    /** Its deadline came without a renewal that the server confirmed. */
    EXPIRED,

    /** The server has no record of it. */
    REMOVED,

    /** The server's record is another owner's. */
    STOLEN,

    /** Its longest hold time has passed. */
    MAX_HOLD,

    /** The client was closed. */
    CLOSED,
}

/**
 * One grant of a lock or of permits, or one re-entry. Safe for use by several threads.
 *
 * A lease taken by a thread through [DistributedLock.lock] and the like belongs to that thread, and is released if the
 * thread ends. One taken by [DistributedLock.lockAsync] or a coroutine belongs to nobody, and can be handed on.
 *
 * @property name the lock's name
 * @property token the fencing token: rises with each grant of the lock, so that a resource can refuse a holder that
 * was paused too long. Null if the lock draws none; readers, permits and several locks as one never do
 */
public class Lease internal constructor(
    private val engine: Engine,
    internal val id: Long,
    public val name: String,
    public val token: Long?,
    internal val owner: Owner?,
) : AutoCloseable {
    private val lost = AtomicReference<LostReason?>()
    private val listeners = CopyOnWriteArrayList<Listener>()
    private val releasing = AtomicReference<Request?>()

    @Volatile
    private var outcome: ReleaseOutcome? = null

    /**
     * How long the lease may be relied on if nothing renews it; zero if it was lost or released. The deadline behind
     * it counts from before the server was asked. Its clock counts what the machine slept, and what it was paused as
     * soon as its wall clock was set to the time.
     */
    public val remaining: Duration
        get() = if (isOver) Duration.ZERO else Duration.ofNanos(engine.remainingNanos(this))

    /**
     * Whether the lease may be relied on at this moment. Reads the clock, so it is right at once after a pause of the
     * process or a sleep of the machine; for a pause of a virtual machine see [remaining].
     */
    public val isValid: Boolean
        get() = !isOver && engine.remainingNanos(this) > 0

    /** Why the lease was lost, or null if it was not. */
    public val lostReason: LostReason?
        get() = lost.get()

    private val isOver: Boolean
        get() = outcome != null || lost.get() != null

    internal val isReleasing: Boolean
        get() = releasing.get() != null

    /** False once it was released, or lost in a way that nobody need release it. */
    internal val isKept: Boolean
        get() = engine.keeps(this)

    /**
     * Calls [listener] once if the lease is lost, at once if it is lost already, never after it was released. It runs
     * on a thread of its own, or on the executor of [LeaseholdBuilder.callbackExecutor].
     *
     * @return closing it takes the listener away
     */
    public fun onLost(listener: Consumer<LostReason>): AutoCloseable {
        val added = Listener(listener)
        listeners.add(added)
        lost.get()?.let { tell(added, it) }
        return AutoCloseable { listeners.remove(added) }
    }

    /**
     * Makes the lease last its own length from now, if that is later than it lasts already. One call to the server.
     *
     * @throws LockLostException if it was lost
     * @throws NotOwnerException if it was released
     * @throws UnavailableException if the server does not answer within the command timeout
     * @throws ClosedException if the client was closed
     */
    public fun extend() {
        extend(engine.extend(this, null))
    }

    /**
     * Makes the lease last [by] from now, if that is later than it lasts already. One call to the server.
     *
     * @param by 100 ms to 24 h
     * @throws InvalidArgumentException if [by] is out of its range
     * @throws LockLostException if it was lost
     * @throws NotOwnerException if it was released
     * @throws UnavailableException if the server does not answer within the command timeout
     * @throws ClosedException if the client was closed
     */
    public fun extend(by: Duration) {
        extend(engine.extend(this, by.millis()))
    }

    private fun extend(request: Request) {
        try {
            request.await().expect<Reply.Extended> { lostReason }
        } catch (failed: NotOwnerException) {
            throw lostInstead(failed)
        }
    }

    /**
     * Gives the lease back, from any thread. A second call does nothing and gives the first one's outcome. Waits one
     * command timeout at the most; an interrupt is kept for later.
     *
     * @throws ClosedException if the client was closed
     * @throws MisconfiguredException if the server's user may not release it; it is tried on in the background
     */
    public fun release(): ReleaseOutcome = outcome ?: outcomeOf(startRelease().await())

    /** Like [release], without waiting. */
    public fun releaseAsync(): CompletionStage<ReleaseOutcome> {
        outcome?.let { return CompletableFuture.completedFuture(it) }
        val result = CompletableFuture<ReleaseOutcome>()
        startRelease().thenAccept { reply ->
            engine.callbacks.run {
                try {
                    result.complete(outcomeOf(reply))
                } catch (failed: RuntimeException) {
                    result.completeExceptionally(failed)
                }
            }
        }
        return result
    }

    /**
     * Gives the lease back at the end of a `try` with resources or of `use`.
     *
     * @throws LockLostException if the lease was lost before, so that a block that relied on it does not end well
     */
    override fun close() {
        checkNotLost(release())
    }

    /** What a release came to. The engine does not know any more how a lease was lost that it has forgotten. */
    internal fun outcomeOf(reply: Reply): ReleaseOutcome {
        val answered = reply.expect<Reply.Released>().outcome
        return when (lostReason) {
            null, LostReason.CLOSED -> answered
            LostReason.STOLEN -> if (answered == ReleaseOutcome.RELEASED) ReleaseOutcome.STOLEN else answered
            else -> if (answered == ReleaseOutcome.RELEASED) ReleaseOutcome.EXPIRED else answered
        }
    }

    /** What is thrown for [failed]: a lease that was lost and forgotten is to the engine like one that was released. */
    internal fun lostInstead(failed: LeaseholdException): LeaseholdException {
        val reason = lostReason ?: return failed
        val message =
            "${failed.operation} of lock \"${shown(name)}\": the lease was lost (${reason.name.lowercase()}); " +
                "take the lock again"
        return LockLostException(message, name, failed.operation, reason)
    }

    /** Throws if a release had [outcome] because the lease was lost. */
    internal fun checkNotLost(outcome: ReleaseOutcome, cause: Throwable? = null) {
        val reason = lostReason ?: outcome.lostReason ?: return
        throw lostException(name, reason, cause)
    }

    /** Starts to release, unless that was started before. */
    internal fun startRelease(): Request {
        while (true) {
            releasing.get()?.let { return it }
            val ours = Request(0, name, null)
            if (releasing.compareAndSet(null, ours)) {
                engine.release(this).thenAccept(ours::complete)
                return ours
            }
        }
    }

    internal fun markReleased(outcome: ReleaseOutcome) {
        this.outcome = outcome
        listeners.clear()
    }

    internal fun markLost(reason: LostReason) {
        if (outcome == null && lost.compareAndSet(null, reason)) {
            listeners.forEach { tell(it, reason) }
        }
    }

    private fun tell(listener: Listener, reason: LostReason) {
        if (listener.told.compareAndSet(false, true)) {
            listeners.remove(listener)
            engine.callbacks.run { listener.action.accept(reason) }
        }
    }

    override fun toString(): String = "Lease(name=${shown(name)}, token=$token, remaining=$remaining)"

    private class Listener(val action: Consumer<LostReason>) {
        val told = AtomicBoolean()
    }
}
