package io.github.steadlock

import io.github.steadlock.internal.Engine
import io.github.steadlock.internal.Failure
import io.github.steadlock.internal.LockRef
import io.github.steadlock.internal.ObservedHold
import io.github.steadlock.internal.ObservedWait
import io.github.steadlock.internal.Observer
import io.github.steadlock.internal.Owner
import io.github.steadlock.internal.displayName
import java.time.Duration
import java.time.Instant
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicBoolean

/**
 * The lock activity of one client: the leases that it holds, the acquisitions that wait, and the leases that it lost.
 * For a page or an endpoint that people look at. Makes no server call.
 *
 * ```java
 * try (var activity = LockActivity.watch(client)) {
 *     activity.held().forEach(hold -> System.out.println(hold.getName() + " for " + hold.getRemaining()));
 * }
 * ```
 *
 * The activity begins with [watch]; without a watcher, a client records nothing. A client that the program has dropped
 * closes even if it has a watcher.
 */
public class LockActivity private constructor(private val engine: Engine) : AutoCloseable {
    private val waits: MutableSet<TrackedWait> = ConcurrentHashMap.newKeySet()
    private val holds: MutableSet<TrackedHold> = ConcurrentHashMap.newKeySet()
    private val losses = ArrayDeque<Loss>()
    private val observer = ActivityObserver()

    /** Returns the leases that are held, oldest first. Includes the leases of re-entries, but no lost leases. */
    public fun held(): List<Hold> = holds.map(TrackedHold::snapshot).sortedBy(Hold::since)

    /** Returns the acquisitions that wait, oldest first. */
    public fun waiting(): List<Wait> = waits.map(TrackedWait::snapshot).sortedBy(Wait::since)

    /** Returns the last 100 leases that were lost, oldest first. */
    public fun lost(): List<Loss> = synchronized(losses) { losses.toList() }

    /** Stops watching. [held] and [waiting] are empty from then on. A second call does nothing. */
    override fun close() {
        engine.unobserve(observer)
        observer.isClosed = true
        waits.clear()
        holds.clear()
    }

    /**
     * A lease that is held.
     *
     * @property name the name of the lock; the userinfo of a URL in it is left out
     * @property kind `lock`, `mutex`, `fair_lock`, `read_lock`, `write_lock`, `semaphore`, `once`,
     * `leader` or `multi_lock`
     * @property since the time of the grant, by this machine's clock
     * @property remaining how long the holder may rely on the lease if nothing renews it; zero if the lease has just
     * ended
     * @property token the fencing token, or null if there is none
     * @property isDegraded whether the lease excludes only other callers of this client, see [Lease.isDegraded]
     * @property thread the name of the thread that holds the lock, or null for a stage or a coroutine
     */
    public data class Hold(
        val name: String,
        val kind: String,
        val since: Instant,
        val remaining: Duration,
        val token: Long?,
        val isDegraded: Boolean,
        val thread: String?,
    )

    /**
     * An acquisition that is not granted yet.
     *
     * @property name the name of the lock; the userinfo of a URL in it is left out
     * @property kind the kind, as in [Hold]
     * @property since the time of the request, by this machine's clock
     * @property thread the name of the thread that waits, or null for a stage or a coroutine
     */
    public data class Wait(val name: String, val kind: String, val since: Instant, val thread: String?)

    /**
     * A lease that was lost.
     *
     * @property name the name of the lock; the userinfo of a URL in it is left out
     * @property kind the kind, as in [Hold]
     * @property since the time of the grant, by this machine's clock
     * @property at the time when the client noticed the loss, by this machine's clock
     * @property reason the reason for the loss
     * @property thread the name of the thread that held the lock, or null for a stage or a coroutine
     */
    public data class Loss(
        val name: String,
        val kind: String,
        val since: Instant,
        val at: Instant,
        val reason: LostReason,
        val thread: String?,
    )

    private inner class ActivityObserver : Observer {
        @Volatile
        var isClosed = false

        override val isOnlyOne = false

        override fun requested(lock: LockRef, owner: Owner): ObservedWait =
            TrackedWait(lock, Instant.now(), owner.threadName).also {
                waits += it
                if (isClosed) waits -= it
            }

        override fun closed(limitMs: Long) = Unit
    }

    private inner class TrackedWait(val lock: LockRef, val since: Instant, val thread: String?) : ObservedWait {
        override fun granted(token: Long?, isDegraded: Boolean, remainingNanos: () -> Long): ObservedHold? {
            waits -= this
            if (observer.isClosed) return null
            val hold = TrackedHold(this, Instant.now(), token, isDegraded, remainingNanos)
            holds += hold
            if (observer.isClosed) holds -= hold
            return hold
        }

        override fun failed(failure: Failure) {
            waits -= this
        }

        override fun cancelled() {
            waits -= this
        }

        fun snapshot() = Wait(displayName(lock.name), lock.kind, since, thread)
    }

    private inner class TrackedHold(
        val wait: TrackedWait,
        val since: Instant,
        val token: Long?,
        val isDegraded: Boolean,
        val remainingNanos: () -> Long,
    ) : ObservedHold {
        private val isEnded = AtomicBoolean()

        override fun released(outcome: ReleaseOutcome, lost: LostReason?) = end(lost)

        override fun lost(reason: LostReason) = end(reason)

        private fun end(reason: LostReason?) {
            if (!isEnded.compareAndSet(false, true)) return
            holds -= this
            if (reason == null || observer.isClosed) return
            val loss = Loss(displayName(wait.lock.name), wait.lock.kind, since, Instant.now(), reason, wait.thread)
            synchronized(losses) {
                if (losses.size == MAX_LOSSES) losses.removeFirst()
                losses += loss
            }
        }

        fun snapshot(): Hold {
            val remaining = Duration.ofNanos(remainingNanos())
            val lock = wait.lock
            return Hold(displayName(lock.name), lock.kind, since, remaining, token, isDegraded, wait.thread)
        }
    }

    public companion object {
        private const val MAX_LOSSES = 100

        /**
         * Watches [client] from now on. One client can have several watchers.
         *
         * @return closing it stops the watching; it need not be closed before the client
         * @throws ClosedException if [client] is closed
         */
        @JvmStatic
        public fun watch(client: SteadlockClient): LockActivity =
            LockActivity(client.engine).also { it.engine.observe(it.observer) }
    }
}
