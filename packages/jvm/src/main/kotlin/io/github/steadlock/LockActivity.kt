package io.github.steadlock

import io.github.steadlock.internal.Engine
import io.github.steadlock.internal.Failure
import io.github.steadlock.internal.LockKey
import io.github.steadlock.internal.ObservedHold
import io.github.steadlock.internal.ObservedWait
import io.github.steadlock.internal.Observer
import io.github.steadlock.internal.Owner
import io.github.steadlock.internal.shown
import java.time.Duration
import java.time.Instant
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicBoolean

/**
 * What one client does with locks: which leases it holds, what it waits for, and which leases it lost. For a page or an
 * endpoint that people look at. Nothing of it asks the server.
 *
 * ```java
 * try (var activity = LockActivity.watch(client)) {
 *     activity.held().forEach(hold -> System.out.println(hold.getName() + " for " + hold.getRemaining()));
 * }
 * ```
 *
 * It knows what was asked for since [watch]. While nobody watches, a client keeps no such record. It does not keep a
 * client open that the program has dropped.
 */
public class LockActivity private constructor(private val engine: Engine) : AutoCloseable {
    private val waits: MutableSet<Waiting> = ConcurrentHashMap.newKeySet()
    private val holds: MutableSet<Holding> = ConcurrentHashMap.newKeySet()
    private val losses = ArrayDeque<Loss>()
    private val observer = Watching()

    /** The leases that are held, those of re-entries too, the oldest first. What was lost is not among them. */
    public fun held(): List<Hold> = holds.map(Holding::told).sortedBy(Hold::since)

    /** The acquisitions under way, the oldest first. */
    public fun waiting(): List<Wait> = waits.map(Waiting::told).sortedBy(Wait::since)

    /** The leases that were lost, the latest 100, the oldest first. */
    public fun lost(): List<Loss> = synchronized(losses) { losses.toList() }

    /** Watches no longer; the second time it does nothing. [held] and [waiting] are empty from then on. */
    override fun close() {
        engine.unobserve(observer)
        observer.isClosed = true
        waits.clear()
        holds.clear()
    }

    /**
     * A lease that is held.
     *
     * @property name the lock, without the userinfo of a URL
     * @property kind `lock`, `mutex`, `fair_lock`, `read_lock`, `write_lock`, `semaphore` or `multi_lock`
     * @property since when it was granted, by this machine's clock
     * @property remaining how long it may be relied on if nothing renews it; zero if it is just over
     * @property token its fencing token, or null if it has none
     * @property isDegraded whether it excludes others of this client alone, see [Lease.isDegraded]
     * @property thread the name of the thread that holds it, or null of a stage or a coroutine, which have none
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
     * An acquisition under way.
     *
     * @property name the lock, without the userinfo of a URL
     * @property kind as of a [Hold]
     * @property since when it was asked for, by this machine's clock
     * @property thread the name of the thread that waits, or null of a stage or a coroutine
     */
    public data class Wait(val name: String, val kind: String, val since: Instant, val thread: String?)

    /**
     * A lease that was lost.
     *
     * @property name the lock, without the userinfo of a URL
     * @property kind as of a [Hold]
     * @property since when it was granted, by this machine's clock
     * @property at when the client found out, by this machine's clock
     * @property reason why
     * @property thread the name of the thread that held it, or null of a stage or a coroutine
     */
    public data class Loss(
        val name: String,
        val kind: String,
        val since: Instant,
        val at: Instant,
        val reason: LostReason,
        val thread: String?,
    )

    private inner class Watching : Observer {
        @Volatile
        var isClosed = false

        override val isOnlyOne = false

        override fun asked(lock: LockKey, owner: Owner): ObservedWait =
            Waiting(lock, Instant.now(), owner.threadName).also {
                waits += it
                if (isClosed) waits -= it
            }

        override fun closed(limitMs: Long) = Unit
    }

    private inner class Waiting(val lock: LockKey, val since: Instant, val thread: String?) : ObservedWait {
        override fun granted(token: Long?, isDegraded: Boolean, remainingNanos: () -> Long): ObservedHold? {
            waits -= this
            if (observer.isClosed) return null
            val hold = Holding(this, Instant.now(), token, isDegraded, remainingNanos)
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

        fun told() = Wait(shown(lock.name), lock.kind, since, thread)
    }

    private inner class Holding(
        val asked: Waiting,
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
            val loss = Loss(shown(asked.lock.name), asked.lock.kind, since, Instant.now(), reason, asked.thread)
            synchronized(losses) {
                if (losses.size == MOST_LOSSES) losses.removeFirst()
                losses += loss
            }
        }

        fun told(): Hold {
            val remaining = Duration.ofNanos(remainingNanos())
            return Hold(shown(asked.lock.name), asked.lock.kind, since, remaining, token, isDegraded, asked.thread)
        }
    }

    public companion object {
        private const val MOST_LOSSES = 100

        /**
         * Watches [client] from now on. Several may watch one client.
         *
         * @return closing it ends that; it need not be closed before the client
         * @throws ClosedException if [client] is closed
         */
        @JvmStatic
        public fun watch(client: SteadlockClient): LockActivity =
            LockActivity(client.engine).also { it.engine.observe(it.observer) }
    }
}
