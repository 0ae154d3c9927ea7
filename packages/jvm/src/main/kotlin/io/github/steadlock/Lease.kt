package io.github.steadlock

import io.github.steadlock.internal.CurrentLeases
import io.github.steadlock.internal.HeldLease
import io.github.steadlock.internal.displayName
import io.github.steadlock.internal.millis
import java.time.Duration
import java.util.concurrent.CompletionStage
import java.util.function.Consumer

/** The outcome of a release. */
public enum class ReleaseOutcome {
    /** The lock was released, or an outer level still holds the lock. */
    RELEASED,

    /** The server had no record any more, or the lease was lost before (but not as [STOLEN]). */
    EXPIRED,

    /** The record belongs to another owner. The release did not touch it. */
    STOLEN,

    /** The server did not answer in time. The release is retried in the background. */
    UNKNOWN,
}

/** The reason for the loss of a lease. */
public enum class LostReason {
    /** The deadline passed, because the lease was fixed or the server confirmed no renewal. */
    EXPIRED,

    /** The server has no record of the lease; for a RedLock, too many primaries have none. */
    REMOVED,

    /** The record on the server belongs to another owner; for a RedLock, on too many primaries. */
    STOLEN,

    /** The longest time that the hold may last has passed. */
    MAX_HOLD,

    /** The client was closed. */
    CLOSED,
}

/**
 * One grant of a lock or of permits, or one re-entry. Safe for use by several threads.
 *
 * A lease that a thread acquired by [NamedLock.lock] or a similar method belongs to that thread. If the thread has
 * ended and the program has no [Lease] object of it any more, the client releases the lease and logs a warning. A lease
 * that [NamedLock.lockAsync] or a coroutine acquired belongs to no thread, so the program can hand it to other code.
 */
public class Lease internal constructor(
    internal val held: HeldLease,
) : AutoCloseable {
    /** The lock's name. */
    public val name: String
        get() = held.name

    /**
     * The fencing token, which rises with each grant of the lock. A resource can use it to refuse a holder that was
     * paused too long. Null if there is no token: read locks, permits and composite locks never have one.
     */
    public val token: Long?
        get() = held.token

    /**
     * Whether the lease excludes only other callers of this client, because the client granted it alone while the
     * server was unavailable ([OnUnavailable.LOCAL]). Such a lease has no [token], and other clients can hold the lock
     * at the same time. For a composite lock, whether this is so for any of its members. The value does not change
     * after the grant.
     */
    public val isDegraded: Boolean
        get() = held.isDegraded

    /**
     * How long the holder may rely on the lease if nothing renews it; zero if the lease is not valid any more. The
     * deadline counts from before the request was sent. The time for which the machine sleeps is used up too. A pause
     * of a virtual machine is used up once its wall clock has been corrected.
     */
    public val remaining: Duration
        get() = Duration.ofNanos(held.remainingNanos)

    /**
     * Whether the holder may rely on the lease at this moment. Reads the clock, so the answer is right even directly
     * after a pause of the process or a sleep of the machine. For the pause of a virtual machine see [remaining].
     */
    public val isValid: Boolean
        get() = held.remainingNanos > 0

    /** The reason for the loss of the lease, or null if it was not lost. */
    public val lostReason: LostReason?
        get() = held.lostReason

    /**
     * Calls [listener] once if the lease is lost: at once if it is lost already, and never after its release. The
     * listener runs on a thread of the client, or on the executor of [SteadlockBuilder.callbackExecutor].
     *
     * @return closing it removes the listener
     */
    public fun onLost(listener: Consumer<LostReason>): AutoCloseable = held.onLost(listener)

    /**
     * Extends the lease to its own length from now, by a call to the server. Does nothing if the lease already lasts
     * longer.
     *
     * @throws LockLostException if the lease was lost
     * @throws NotOwnerException if the lease was released
     * @throws UnavailableException if the server does not answer within the command timeout
     * @throws ClosedException if the client was closed
     */
    public fun extend(): Unit = held.extend(null)

    /**
     * Extends the lease to last [by] from now, by a call to the server. Does nothing if the lease already lasts longer.
     *
     * @param by 100 ms to 24 h
     * @throws InvalidArgumentException if [by] is out of its range
     * @throws LockLostException if the lease was lost
     * @throws NotOwnerException if the lease was released
     * @throws UnavailableException if the server does not answer within the command timeout
     * @throws ClosedException if the client was closed
     */
    public fun extend(by: Duration): Unit = held.extend(by.millis())

    /**
     * Releases the lease and returns the outcome. Any thread can call it. Throws nothing for a lost lease. A second
     * call does nothing and returns the outcome of the first. Waits at most one command timeout. An interrupt does not
     * end the wait: the thread's interrupt status is set again afterwards. After the client was closed, returns the
     * outcome of the release that the close made.
     *
     * @throws MisconfiguredException if the server does not permit the client's user to release the lock; the release
     * is retried in the background
     */
    public fun release(): ReleaseOutcome = held.release()

    /** Starts a [release] without waiting for its outcome. */
    public fun releaseAsync(): CompletionStage<ReleaseOutcome> = held.releaseAsync()

    /**
     * Makes the calling thread the owner of this lease's hold, for this lock only: [NamedLock.lock] and
     * [NamedLock.lockAsync] re-enter, [NamedLock.unlock] releases the innermost level, and
     * [NamedLock.isHeldByCurrentThread] is true. If a thread acquired the lease, only `lock` re-enters it. Without this
     * call, a thread waits for a lease that `lockAsync` or a coroutine acquired, as for the lease of any other owner.
     * `makeCurrent` makes no server call. The thread must unlock what it locked before the scope ends, because
     * afterwards it is not the owner any more.
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
     * @return closing the scope ends the ownership, from any thread; the lease stays held
     */
    public fun makeCurrent(): Scope {
        val leave = CurrentLeases.enter(held)
        return Scope { leave.run() }
    }

    /** The time during which a thread is the owner of a lease; see [makeCurrent]. */
    public fun interface Scope : AutoCloseable {
        /** Ends the scope. A second call does nothing. */
        override fun close()
    }

    /**
     * Releases the lease at the end of `try`-with-resources or of `use`. Both keep the exception of the body.
     *
     * @throws LockLostException if the lease was lost before, so that a block that relied on it does not end normally
     */
    override fun close() {
        held.release()
        held.checkNotLost()
    }

    override fun toString(): String = "Lease(name=${displayName(name)}, token=$token, remaining=$remaining)"
}
