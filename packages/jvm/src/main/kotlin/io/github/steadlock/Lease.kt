package io.github.steadlock

import io.github.steadlock.internal.CurrentLeases
import io.github.steadlock.internal.HeldLease
import io.github.steadlock.internal.millis
import io.github.steadlock.internal.shown
import java.time.Duration
import java.util.concurrent.CompletionStage
import java.util.function.Consumer

/** How a release ended. */
public enum class ReleaseOutcome {
    /** The record is gone by our hand, or an outer level still holds it. */
    RELEASED,

    /** The record was gone already. */
    EXPIRED,

    /** The record is another owner's, and was left alone. */
    STOLEN,

    /** The server did not answer in time. The release is retried in the background. */
    UNKNOWN,
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
 * A lease taken by a thread through [NamedLock.lock] and the like belongs to that thread. If the thread has
 * ended and the program has no [Lease] object of it any more, it is released, with a warning. One taken by
 * [NamedLock.lockAsync] or a coroutine belongs to nobody, and can be handed on.
 */
public class Lease internal constructor(
    internal val held: HeldLease,
) : AutoCloseable {
    /** The lock's name. */
    public val name: String
        get() = held.name

    /**
     * The fencing token: rises with each grant of the lock, so that a resource can refuse a holder that was paused too
     * long. Null if the lock draws none; readers, permits and several locks as one never do.
     */
    public val token: Long?
        get() = held.token

    /**
     * Whether the lease excludes others of this client alone: its server was unavailable, and it was granted without
     * ([OnUnavailable.LOCAL]). It has no [token] then, and other processes may hold the lock at the same time. Of
     * several locks as one, whether any of them is so. Stays as it was granted.
     */
    public val isDegraded: Boolean
        get() = held.isDegraded

    /**
     * How long the lease may be relied on if nothing renews it; zero if it was lost or released. The deadline behind
     * it counts from before the server was asked. Its clock counts what the machine slept, and what it was paused as
     * soon as its wall clock was set to the time.
     */
    public val remaining: Duration
        get() = Duration.ofNanos(held.remainingNanos)

    /**
     * Whether the lease may be relied on at this moment. Reads the clock, so it is right at once after a pause of the
     * process or a sleep of the machine; for a pause of a virtual machine see [remaining].
     */
    public val isValid: Boolean
        get() = held.remainingNanos > 0

    /** Why the lease was lost, or null if it was not. */
    public val lostReason: LostReason?
        get() = held.lostReason

    /**
     * Calls [listener] once if the lease is lost, at once if it is lost already, never after it was released. It runs
     * on a thread of the client, or on the executor of [SteadlockBuilder.callbackExecutor].
     *
     * @return closing it takes the listener away
     */
    public fun onLost(listener: Consumer<LostReason>): AutoCloseable = held.onLost(listener)

    /**
     * Makes the lease last its own length from now, if that is later than it lasts already. One call to the server.
     *
     * @throws LockLostException if it was lost
     * @throws NotOwnerException if it was released
     * @throws UnavailableException if the server does not answer within the command timeout
     * @throws ClosedException if the client was closed
     */
    public fun extend(): Unit = held.extend(null)

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
    public fun extend(by: Duration): Unit = held.extend(by.millis())

    /**
     * Gives the lease back, from any thread, and says how that ended; a lost lease is no exception here. A second call
     * does nothing and gives the first one's outcome. Waits one command timeout at the most; an interrupt is kept for
     * later. After the client was closed it says what the close, which released it, came to.
     *
     * @throws MisconfiguredException if the server's user may not release it; it is retried in the background
     */
    public fun release(): ReleaseOutcome = held.release()

    /** Like [release], without waiting. */
    public fun releaseAsync(): CompletionStage<ReleaseOutcome> = held.releaseAsync()

    /**
     * Makes the calling thread the owner of this lease's hold, for this lock alone: [NamedLock.lock] and
     * [NamedLock.lockAsync] re-enter, [NamedLock.unlock] releases the innermost level, and
     * [NamedLock.isHeldByCurrentThread] is true. Without it a thread waits for a lease that `lockAsync` or a coroutine
     * acquired as for anybody else's. `lockAsync` does not re-enter by a lease that a thread acquired. Does not ask the
     * server. A thread unlocks what it locks before the scope ends: afterwards it is not the owner any more.
     *
     * ```java
     * lock.lockAsync().thenAccept(lease -> {
     *     try (var scope = lease.makeCurrent()) {
     *         blockingWork(); // may call lock.lock() and lock.unlock()
     *     } finally {
     *         lease.releaseAsync();
     *     }
     * });
     * ```
     *
     * @return closing it ends that, from any thread; the lease stays held
     */
    public fun makeCurrent(): Scope {
        val leave = CurrentLeases.enter(held)
        return Scope { leave.run() }
    }

    /** A thread's time as the owner of a lease; see [makeCurrent]. */
    public fun interface Scope : AutoCloseable {
        /** Ends it. The second time it does nothing. */
        override fun close()
    }

    /**
     * Gives the lease back at the end of a `try` with resources or of `use`, which keep what the body throws.
     *
     * @throws LockLostException if the lease was lost before, so that a block that relied on it does not end well
     */
    override fun close() {
        held.release()
        held.checkNotLost()
    }

    override fun toString(): String = "Lease(name=${shown(name)}, token=$token, remaining=$remaining)"
}
