package io.github.steadlock.internal

import io.github.steadlock.Lease
import io.github.steadlock.LockOptions
import io.github.steadlock.LockedAction
import io.github.steadlock.NamedSemaphore
import io.github.steadlock.SteadlockClient
import java.time.Duration
import java.util.concurrent.CompletionStage

/** A [NamedSemaphore] of [client]. Has no state of its own. */
internal class ThreadSemaphore(
    private val client: SteadlockClient,
    override val name: String,
    override val limit: Int,
    private val options: LockOptions,
) : NamedSemaphore {
    private val one = lockOf(1)

    override fun acquire(permits: Int): Lease = permits(permits).acquireInterruptibly().lease()

    override fun tryAcquire(permits: Int): Lease? = permits(permits).tryNow()?.lease()

    override fun tryAcquire(permits: Int, wait: Duration): Lease? =
        permits(permits).tryInterruptibly(options.withWaitFrom(wait))?.lease()

    override fun tryAcquire(permits: Int, wait: Duration, lease: Duration): Lease? =
        permits(permits).tryInterruptibly(options.withWaitFrom(wait).withFixedLease(lease))?.lease()

    override fun acquireAsync(permits: Int, options: LockOptions): CompletionStage<Lease> =
        permits(permits).lockAsync(options)

    // The core finds the lease that the thread acquired last, regardless of its number of permits.
    override fun release() = one.unlock()

    override fun <T, E : Exception> withPermits(permits: Int, action: LockedAction<T, E>): T =
        permits(permits).withLock(action)

    override fun available(): Int = one.inspect().permits?.let { (it.limit - it.held).coerceAtLeast(0) } ?: limit

    override fun permits(permits: Int): ThreadLock = if (permits == 1) one else lockOf(permits)

    private fun lockOf(permits: Int) = ThreadLock(client, Kind.SEMAPHORE.ref(name, permits, limit), options)

    override fun toString(): String = "NamedSemaphore(name=${displayName(name)}, limit=$limit)"
}
