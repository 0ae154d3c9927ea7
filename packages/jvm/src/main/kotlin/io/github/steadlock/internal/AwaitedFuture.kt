package io.github.steadlock.internal

import java.util.concurrent.CompletableFuture
import java.util.concurrent.TimeUnit

/**
 * A future that callbacks may wait for. While a callback thread waits for it, or for a future that depends on it,
 * another thread takes over the work of that thread.
 */
internal open class AwaitedFuture<T> : CompletableFuture<T>() {
    override fun get(): T = Callbacks.whileWaiting { super.get() }

    override fun get(timeout: Long, unit: TimeUnit): T = Callbacks.whileWaiting { super.get(timeout, unit) }

    override fun join(): T = Callbacks.whileWaiting { super.join() }

    override fun <U> newIncompleteFuture(): CompletableFuture<U> = AwaitedFuture()
}
