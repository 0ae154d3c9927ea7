package io.github.steadlock.internal

import java.util.concurrent.CompletableFuture
import java.util.concurrent.TimeUnit

/** A future that a callback, and what depends on the future, may wait for: another thread does its work meanwhile. */
internal open class AwaitedFuture<T> : CompletableFuture<T>() {
    override fun get(): T = Callbacks.whileWaiting { super.get() }

    override fun get(timeout: Long, unit: TimeUnit): T = Callbacks.whileWaiting { super.get(timeout, unit) }

    override fun join(): T = Callbacks.whileWaiting { super.join() }

    override fun <U> newIncompleteFuture(): CompletableFuture<U> = AwaitedFuture()
}
