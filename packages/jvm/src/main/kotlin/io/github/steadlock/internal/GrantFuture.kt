package io.github.steadlock.internal

import io.github.steadlock.Lease
import java.util.concurrent.CancellationException
import java.util.concurrent.CompletableFuture
import java.util.concurrent.CompletionStage
import java.util.concurrent.ConcurrentLinkedQueue
import java.util.concurrent.Executor
import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicInteger
import java.util.concurrent.atomic.AtomicReference
import java.util.function.BiConsumer
import java.util.function.BiFunction
import java.util.function.Consumer
import java.util.function.Function

/**
 * The future of an acquisition. If the program completes or cancels this future, or a future that depends on it, before
 * the grant, [cancelAcquisition] cancels the acquisition, because no code would use the lease. If the program does so
 * after the grant, the lease is released, unless code of the program has seen the lease. After such a release, no
 * dependent runs its function with the lease.
 */
internal class GrantFuture(private val cancelAcquisition: () -> Unit) : AwaitedFuture<Lease>() {
    /** Claimed: code of the program has seen the lease. Released: no code has seen the lease, and none will. */
    private enum class State { OPEN, CLAIMED, RELEASED }

    private val state = AtomicReference(State.OPEN)
    private val dependents = ConcurrentLinkedQueue<CompletableFuture<*>>()

    /** The number of dependents that mark the lease as seen before they run their function. */
    private val claimers = AtomicInteger()

    @Volatile
    private var lease: HeldLease? = null

    /**
     * Completes the future with a lease. Returns false if the future is complete already: no code will use the lease.
     */
    fun grant(granted: HeldLease): Boolean {
        lease = granted
        granted.giveToStage(state.get() == State.CLAIMED)
        // Dependents of `allOf` and threads that wait are no claimers: they use the lease without marking it as seen.
        // If there are any, the lease counts as seen now.
        if (dependents.size > claimers.get() || numberOfDependents > dependents.size) claim()
        // If every dependent already has its value from another stage, as with `applyToEither`, none will use the
        // lease.
        val isLate = dependents.isNotEmpty() && numberOfDependents == 0 && dependents.all { it.isDone }
        if (!super.complete(granted.lease())) return false
        if (isLate) release()
        dependents.clear()
        return true
    }

    override fun get(): Lease = super.get().also { claimOrThrow() }

    override fun get(timeout: Long, unit: TimeUnit): Lease = super.get(timeout, unit).also { claimOrThrow() }

    override fun join(): Lease = super.join().also { claimOrThrow() }

    override fun getNow(valueIfAbsent: Lease?): Lease? = super.getNow(valueIfAbsent).also { if (isDone) claimOrThrow() }

    override fun complete(value: Lease?): Boolean = super.complete(value).also { if (it) cancelAcquisition() }

    override fun completeExceptionally(failure: Throwable): Boolean =
        super.completeExceptionally(failure).also { if (it) cancelAcquisition() }

    override fun cancel(mayInterruptIfRunning: Boolean): Boolean =
        super.cancel(mayInterruptIfRunning).also { if (it) cancelAcquisition() }

    override fun <U> newIncompleteFuture(): CompletableFuture<U> =
        Dependent<U>(this).also { if (lease == null) dependents.add(it) }

    override fun copy(): CompletableFuture<Lease> = thenApply { it }

    override fun minimalCompletionStage(): CompletionStage<Lease> = copy()

    override fun exceptionally(action: Function<Throwable, out Lease>): CompletableFuture<Lease> =
        handle { lease, failure -> if (failure == null) lease else action.apply(failure) }

    override fun <U> thenApply(action: Function<in Lease, out U>) = tracked { super.thenApply(claiming(action)) }

    override fun <U> thenApplyAsync(
        action: Function<in Lease, out U>,
    ) = tracked { super.thenApplyAsync(claiming(action)) }

    override fun <U> thenApplyAsync(
        action: Function<in Lease, out U>,
        executor: Executor,
    ) = tracked { super.thenApplyAsync(claiming(action), executor) }

    override fun thenAccept(action: Consumer<in Lease>) = tracked { super.thenAccept(claiming(action)) }

    override fun thenAcceptAsync(action: Consumer<in Lease>) = tracked { super.thenAcceptAsync(claiming(action)) }

    override fun thenAcceptAsync(
        action: Consumer<in Lease>,
        executor: Executor,
    ) = tracked { super.thenAcceptAsync(claiming(action), executor) }

    override fun thenRun(action: Runnable) = tracked { super.thenRun(claiming(action)) }

    override fun thenRunAsync(action: Runnable) = tracked { super.thenRunAsync(claiming(action)) }

    override fun thenRunAsync(
        action: Runnable,
        executor: Executor,
    ) = tracked { super.thenRunAsync(claiming(action), executor) }

    override fun <U> thenCompose(
        action: Function<in Lease, out CompletionStage<U>>,
    ) = tracked { super.thenCompose(claiming(action)) }

    override fun <U> thenComposeAsync(
        action: Function<in Lease, out CompletionStage<U>>,
    ) = tracked { super.thenComposeAsync(claiming(action)) }

    override fun <U> thenComposeAsync(
        action: Function<in Lease, out CompletionStage<U>>,
        executor: Executor,
    ) = tracked { super.thenComposeAsync(claiming(action), executor) }

    override fun <U, V> thenCombine(
        other: CompletionStage<out U>,
        action: BiFunction<in Lease, in U, out V>,
    ) = tracked { super.thenCombine(other, claiming(action)) }

    override fun <U, V> thenCombineAsync(
        other: CompletionStage<out U>,
        action: BiFunction<in Lease, in U, out V>,
    ) = tracked { super.thenCombineAsync(other, claiming(action)) }

    override fun <U, V> thenCombineAsync(
        other: CompletionStage<out U>,
        action: BiFunction<in Lease, in U, out V>,
        executor: Executor,
    ) = tracked { super.thenCombineAsync(other, claiming(action), executor) }

    override fun <U> thenAcceptBoth(
        other: CompletionStage<out U>,
        action: BiConsumer<in Lease, in U>,
    ) = tracked { super.thenAcceptBoth(other, claiming(action)) }

    override fun <U> thenAcceptBothAsync(
        other: CompletionStage<out U>,
        action: BiConsumer<in Lease, in U>,
    ) = tracked { super.thenAcceptBothAsync(other, claiming(action)) }

    override fun <U> thenAcceptBothAsync(
        other: CompletionStage<out U>,
        action: BiConsumer<in Lease, in U>,
        executor: Executor,
    ) = tracked { super.thenAcceptBothAsync(other, claiming(action), executor) }

    override fun runAfterBoth(
        other: CompletionStage<*>,
        action: Runnable,
    ) = tracked { super.runAfterBoth(other, claiming(action)) }

    override fun runAfterBothAsync(
        other: CompletionStage<*>,
        action: Runnable,
    ) = tracked { super.runAfterBothAsync(other, claiming(action)) }

    override fun runAfterBothAsync(
        other: CompletionStage<*>,
        action: Runnable,
        executor: Executor,
    ) = tracked { super.runAfterBothAsync(other, claiming(action), executor) }

    override fun <U> applyToEither(
        other: CompletionStage<out Lease>,
        action: Function<in Lease, U>,
    ) = tracked { super.applyToEither(other, claiming(action)) }

    override fun <U> applyToEitherAsync(
        other: CompletionStage<out Lease>,
        action: Function<in Lease, U>,
    ) = tracked { super.applyToEitherAsync(other, claiming(action)) }

    override fun <U> applyToEitherAsync(
        other: CompletionStage<out Lease>,
        action: Function<in Lease, U>,
        executor: Executor,
    ) = tracked { super.applyToEitherAsync(other, claiming(action), executor) }

    override fun acceptEither(
        other: CompletionStage<out Lease>,
        action: Consumer<in Lease>,
    ) = tracked { super.acceptEither(other, claiming(action)) }

    override fun acceptEitherAsync(
        other: CompletionStage<out Lease>,
        action: Consumer<in Lease>,
    ) = tracked { super.acceptEitherAsync(other, claiming(action)) }

    override fun acceptEitherAsync(
        other: CompletionStage<out Lease>,
        action: Consumer<in Lease>,
        executor: Executor,
    ) = tracked { super.acceptEitherAsync(other, claiming(action), executor) }

    override fun <U> handle(
        action: BiFunction<in Lease?, Throwable?, out U>,
    ) = tracked { super.handle(claiming(action)) }

    override fun <U> handleAsync(
        action: BiFunction<in Lease?, Throwable?, out U>,
    ) = tracked { super.handleAsync(claiming(action)) }

    override fun <U> handleAsync(
        action: BiFunction<in Lease?, Throwable?, out U>,
        executor: Executor,
    ) = tracked { super.handleAsync(claiming(action), executor) }

    override fun whenComplete(
        action: BiConsumer<in Lease?, in Throwable?>,
    ) = tracked { super.whenComplete(claiming(action)) }

    override fun whenCompleteAsync(
        action: BiConsumer<in Lease?, in Throwable?>,
    ) = tracked { super.whenCompleteAsync(claiming(action)) }

    override fun whenCompleteAsync(
        action: BiConsumer<in Lease?, in Throwable?>,
        executor: Executor,
    ) = tracked { super.whenCompleteAsync(claiming(action), executor) }

    /** Marks the lease as seen by code of the program. Returns false if the lease was released before. */
    private fun claim(): Boolean {
        state.compareAndSet(State.OPEN, State.CLAIMED)
        lease?.markTaken()
        return state.get() == State.CLAIMED
    }

    private fun claimOrThrow() {
        if (!isCompletedExceptionally && !claim()) {
            throw CancellationException("the stage that depends on the lease was completed or cancelled")
        }
    }

    /** Releases the lease, unless code of the program has seen it. */
    private fun release() {
        if (state.compareAndSet(State.OPEN, State.RELEASED)) lease?.startRelease()
    }

    private fun abandon() {
        if (!cancel(false)) release()
    }

    private inline fun <T> tracked(dependent: () -> T): T {
        claimers.incrementAndGet()
        return dependent()
    }

    private fun <T, R> claiming(action: Function<in T, out R>): Function<T, R> =
        Function { value ->
            claimIfOwn(value)
            action.apply(value)
        }

    private fun <T> claiming(action: Consumer<in T>): Consumer<T> =
        Consumer { value ->
            claimIfOwn(value)
            action.accept(value)
        }

    private fun claiming(action: Runnable): Runnable =
        Runnable {
            claimOrThrow()
            action.run()
        }

    private fun <T, U, R> claiming(action: BiFunction<in T, in U, out R>): BiFunction<T, U, R> =
        BiFunction { value, other ->
            claimIfOwn(value)
            action.apply(value, other)
        }

    private fun <T, U> claiming(action: BiConsumer<in T, in U>): BiConsumer<T, U> =
        BiConsumer { value, other ->
            claimIfOwn(value)
            action.accept(value, other)
        }

    /** Marks the lease as seen if [value] is this lease. Otherwise the value comes from another stage. */
    private fun claimIfOwn(value: Any?) {
        if (value != null && value === lease?.lease()) claimOrThrow()
    }

    /**
     * A future that depends on the grant. A program that completes or cancels this future before its function begins
     * does not want the lease any more.
     */
    private class Dependent<T>(private val grant: GrantFuture) : AwaitedFuture<T>() {
        override fun complete(value: T): Boolean = super.complete(value).also { if (it) grant.abandon() }

        override fun completeExceptionally(failure: Throwable): Boolean =
            super.completeExceptionally(failure).also { if (it) grant.abandon() }

        override fun cancel(mayInterruptIfRunning: Boolean): Boolean =
            super.cancel(mayInterruptIfRunning).also { if (it) grant.abandon() }

        override fun <U> newIncompleteFuture(): CompletableFuture<U> = Dependent(grant)
    }
}
