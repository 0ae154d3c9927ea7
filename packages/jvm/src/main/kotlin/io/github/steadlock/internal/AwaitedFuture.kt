package io.github.steadlock.internal

import io.github.steadlock.Lease
import java.util.concurrent.CompletableFuture
import java.util.concurrent.TimeUnit

/** A future that a callback, and what depends on the future, may wait for: another thread does its work meanwhile. */
internal open class AwaitedFuture<T> : CompletableFuture<T>() {
    override fun get(): T = Callbacks.whileWaiting { super.get() }

    override fun get(timeout: Long, unit: TimeUnit): T = Callbacks.whileWaiting { super.get(timeout, unit) }

    override fun join(): T = Callbacks.whileWaiting { super.join() }

    override fun <U> newIncompleteFuture(): CompletableFuture<U> = AwaitedFuture()
}

/**
 * The future of an acquisition. Once it is completed, or any future that depends on it, nobody would take the grant:
 * the acquisition is given up by [giveUp].
 */
internal class GrantFuture(private val giveUp: () -> Unit) : AwaitedFuture<Lease>() {
    @Volatile
    private var lease: HeldLease? = null

    @Volatile
    private var isTaken = false

    /** Completes it with a lease. False if it is complete: nobody takes the lease. */
    fun grant(granted: HeldLease): Boolean {
        lease = granted
        granted.giveToStage(isTaken || numberOfDependents > 0)
        if (isTaken) granted.take()
        return super.complete(granted.lease())
    }

    override fun get(): Lease = super.get().also { take() }

    override fun get(timeout: Long, unit: TimeUnit): Lease = super.get(timeout, unit).also { take() }

    override fun join(): Lease = super.join().also { take() }

    override fun getNow(valueIfAbsent: Lease?): Lease? = super.getNow(valueIfAbsent).also { take() }

    override fun complete(value: Lease?): Boolean = super.complete(value).also { if (it) giveUp() }

    override fun completeExceptionally(failure: Throwable): Boolean =
        super.completeExceptionally(failure).also { if (it) giveUp() }

    override fun cancel(mayInterruptIfRunning: Boolean): Boolean =
        super.cancel(mayInterruptIfRunning).also { if (it) giveUp() }

    override fun <U> newIncompleteFuture(): CompletableFuture<U> {
        take()
        return Dependent(this)
    }

    private fun take() {
        isTaken = true
        lease?.take()
    }

    /** What is to be done with the lease. Who ends it before the grant wants no lease any more. */
    private class Dependent<T>(private val grant: GrantFuture) : AwaitedFuture<T>() {
        override fun complete(value: T): Boolean = super.complete(value).also { if (it) grant.cancel(false) }

        override fun completeExceptionally(failure: Throwable): Boolean =
            super.completeExceptionally(failure).also { if (it) grant.cancel(false) }

        override fun cancel(mayInterruptIfRunning: Boolean): Boolean =
            super.cancel(mayInterruptIfRunning).also { if (it) grant.cancel(false) }

        override fun <U> newIncompleteFuture(): CompletableFuture<U> = Dependent(grant)
    }
}
