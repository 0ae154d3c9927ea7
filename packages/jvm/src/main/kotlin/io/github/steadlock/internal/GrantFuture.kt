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
 * the grant, no code would use the lease: [giveUp] then cancels the acquisition. If the program does so after the
 * grant, the lease is released, provided that no code of the program has seen it. A dependent that is cancelled at that
 * moment does not run its function.
 */
internal class GrantFuture(private val giveUp: () -> Unit) : AwaitedFuture<Lease>() {
    private enum class Fate { OPEN, SEEN, RELEASED }

    private val fate = AtomicReference(Fate.OPEN)
    private val dependents = ConcurrentLinkedQueue<CompletableFuture<*>>()

    /** The number of dependents whose function first marks the lease as seen. */
    private val watched = AtomicInteger()

    @Volatile
    private var lease: HeldLease? = null

    /**
     * Completes the future with a lease. Returns false if the future is complete already: no code will use the lease.
     */
    fun grant(granted: HeldLease): Boolean {
        lease = granted
        granted.giveToStage(fate.get() == Fate.SEEN)
        // The other dependents use the lease without marking it as seen: those of `allOf`, and threads that wait. If
        // there are any, the lease counts as seen now.
        if (dependents.size > watched.get() || numberOfDependents > dependents.size) see()
        // Every dependent already has its value from another stage, as with `applyToEither`, so none will use the
        // lease.
        val isLate = dependents.isNotEmpty() && numberOfDependents == 0 && dependents.all { it.isDone }
        if (!super.complete(granted.lease())) return false
        if (isLate) release()
        dependents.clear()
        return true
    }

    override fun get(): Lease = super.get().also { seeOrThrow() }

    override fun get(timeout: Long, unit: TimeUnit): Lease = super.get(timeout, unit).also { seeOrThrow() }

    override fun join(): Lease = super.join().also { seeOrThrow() }

    override fun getNow(valueIfAbsent: Lease?): Lease? = super.getNow(valueIfAbsent).also { if (isDone) seeOrThrow() }

    override fun complete(value: Lease?): Boolean = super.complete(value).also { if (it) giveUp() }

    override fun completeExceptionally(failure: Throwable): Boolean =
        super.completeExceptionally(failure).also { if (it) giveUp() }

    override fun cancel(mayInterruptIfRunning: Boolean): Boolean =
        super.cancel(mayInterruptIfRunning).also { if (it) giveUp() }

    override fun <U> newIncompleteFuture(): CompletableFuture<U> =
        Dependent<U>(this).also { if (lease == null) dependents.add(it) }

    override fun copy(): CompletableFuture<Lease> = thenApply { it }

    override fun minimalCompletionStage(): CompletionStage<Lease> = copy()

    override fun exceptionally(action: Function<Throwable, out Lease>): CompletableFuture<Lease> =
        handle { lease, failure -> if (failure == null) lease else action.apply(failure) }

    override fun <U> thenApply(action: Function<in Lease, out U>) = watched { super.thenApply(seeing(action)) }

    override fun <U> thenApplyAsync(
        action: Function<in Lease, out U>,
    ) = watched { super.thenApplyAsync(seeing(action)) }

    override fun <U> thenApplyAsync(
        action: Function<in Lease, out U>,
        executor: Executor,
    ) = watched { super.thenApplyAsync(seeing(action), executor) }

    override fun thenAccept(action: Consumer<in Lease>) = watched { super.thenAccept(seeing(action)) }

    override fun thenAcceptAsync(action: Consumer<in Lease>) = watched { super.thenAcceptAsync(seeing(action)) }

    override fun thenAcceptAsync(
        action: Consumer<in Lease>,
        executor: Executor,
    ) = watched { super.thenAcceptAsync(seeing(action), executor) }

    override fun thenRun(action: Runnable) = watched { super.thenRun(seeing(action)) }

    override fun thenRunAsync(action: Runnable) = watched { super.thenRunAsync(seeing(action)) }

    override fun thenRunAsync(
        action: Runnable,
        executor: Executor,
    ) = watched { super.thenRunAsync(seeing(action), executor) }

    override fun <U> thenCompose(
        action: Function<in Lease, out CompletionStage<U>>,
    ) = watched { super.thenCompose(seeing(action)) }

    override fun <U> thenComposeAsync(
        action: Function<in Lease, out CompletionStage<U>>,
    ) = watched { super.thenComposeAsync(seeing(action)) }

    override fun <U> thenComposeAsync(
        action: Function<in Lease, out CompletionStage<U>>,
        executor: Executor,
    ) = watched { super.thenComposeAsync(seeing(action), executor) }

    override fun <U, V> thenCombine(
        other: CompletionStage<out U>,
        action: BiFunction<in Lease, in U, out V>,
    ) = watched { super.thenCombine(other, seeing(action)) }

    override fun <U, V> thenCombineAsync(
        other: CompletionStage<out U>,
        action: BiFunction<in Lease, in U, out V>,
    ) = watched { super.thenCombineAsync(other, seeing(action)) }

    override fun <U, V> thenCombineAsync(
        other: CompletionStage<out U>,
        action: BiFunction<in Lease, in U, out V>,
        executor: Executor,
    ) = watched { super.thenCombineAsync(other, seeing(action), executor) }

    override fun <U> thenAcceptBoth(
        other: CompletionStage<out U>,
        action: BiConsumer<in Lease, in U>,
    ) = watched { super.thenAcceptBoth(other, seeing(action)) }

    override fun <U> thenAcceptBothAsync(
        other: CompletionStage<out U>,
        action: BiConsumer<in Lease, in U>,
    ) = watched { super.thenAcceptBothAsync(other, seeing(action)) }

    override fun <U> thenAcceptBothAsync(
        other: CompletionStage<out U>,
        action: BiConsumer<in Lease, in U>,
        executor: Executor,
    ) = watched { super.thenAcceptBothAsync(other, seeing(action), executor) }

    override fun runAfterBoth(
        other: CompletionStage<*>,
        action: Runnable,
    ) = watched { super.runAfterBoth(other, seeing(action)) }

    override fun runAfterBothAsync(
        other: CompletionStage<*>,
        action: Runnable,
    ) = watched { super.runAfterBothAsync(other, seeing(action)) }

    override fun runAfterBothAsync(
        other: CompletionStage<*>,
        action: Runnable,
        executor: Executor,
    ) = watched { super.runAfterBothAsync(other, seeing(action), executor) }

    override fun <U> applyToEither(
        other: CompletionStage<out Lease>,
        action: Function<in Lease, U>,
    ) = watched { super.applyToEither(other, seeing(action)) }

    override fun <U> applyToEitherAsync(
        other: CompletionStage<out Lease>,
        action: Function<in Lease, U>,
    ) = watched { super.applyToEitherAsync(other, seeing(action)) }

    override fun <U> applyToEitherAsync(
        other: CompletionStage<out Lease>,
        action: Function<in Lease, U>,
        executor: Executor,
    ) = watched { super.applyToEitherAsync(other, seeing(action), executor) }

    override fun acceptEither(
        other: CompletionStage<out Lease>,
        action: Consumer<in Lease>,
    ) = watched { super.acceptEither(other, seeing(action)) }

    override fun acceptEitherAsync(
        other: CompletionStage<out Lease>,
        action: Consumer<in Lease>,
    ) = watched { super.acceptEitherAsync(other, seeing(action)) }

    override fun acceptEitherAsync(
        other: CompletionStage<out Lease>,
        action: Consumer<in Lease>,
        executor: Executor,
    ) = watched { super.acceptEitherAsync(other, seeing(action), executor) }

    override fun <U> handle(action: BiFunction<in Lease?, Throwable?, out U>) = watched { super.handle(seeing(action)) }

    override fun <U> handleAsync(
        action: BiFunction<in Lease?, Throwable?, out U>,
    ) = watched { super.handleAsync(seeing(action)) }

    override fun <U> handleAsync(
        action: BiFunction<in Lease?, Throwable?, out U>,
        executor: Executor,
    ) = watched { super.handleAsync(seeing(action), executor) }

    override fun whenComplete(
        action: BiConsumer<in Lease?, in Throwable?>,
    ) = watched { super.whenComplete(seeing(action)) }

    override fun whenCompleteAsync(
        action: BiConsumer<in Lease?, in Throwable?>,
    ) = watched { super.whenCompleteAsync(seeing(action)) }

    override fun whenCompleteAsync(
        action: BiConsumer<in Lease?, in Throwable?>,
        executor: Executor,
    ) = watched { super.whenCompleteAsync(seeing(action), executor) }

    /** Marks the lease as seen by code of the program. Returns false if it was released before. */
    private fun see(): Boolean {
        fate.compareAndSet(Fate.OPEN, Fate.SEEN)
        lease?.take()
        return fate.get() == Fate.SEEN
    }

    private fun seeOrThrow() {
        if (!isCompletedExceptionally && !see()) throw CancellationException("what depended on the lease was ended")
    }

    /** Releases the lease, unless code of the program has seen it. */
    private fun release() {
        if (fate.compareAndSet(Fate.OPEN, Fate.RELEASED)) lease?.startRelease()
    }

    private fun abandon() {
        if (!cancel(false)) release()
    }

    private inline fun <T> watched(dependent: () -> T): T {
        watched.incrementAndGet()
        return dependent()
    }

    private fun <T, R> seeing(action: Function<in T, out R>): Function<T, R> =
        Function { value ->
            seeIfMine(value)
            action.apply(value)
        }

    private fun <T> seeing(action: Consumer<in T>): Consumer<T> =
        Consumer { value ->
            seeIfMine(value)
            action.accept(value)
        }

    private fun seeing(action: Runnable): Runnable =
        Runnable {
            seeOrThrow()
            action.run()
        }

    private fun <T, U, R> seeing(action: BiFunction<in T, in U, out R>): BiFunction<T, U, R> =
        BiFunction { value, other ->
            seeIfMine(value)
            action.apply(value, other)
        }

    private fun <T, U> seeing(action: BiConsumer<in T, in U>): BiConsumer<T, U> =
        BiConsumer { value, other ->
            seeIfMine(value)
            action.accept(value, other)
        }

    /** Marks the lease as seen if [value] is this lease. Otherwise the value comes from another stage. */
    private fun seeIfMine(value: Any?) {
        if (value != null && value === lease?.lease()) seeOrThrow()
    }

    /**
     * A future that depends on the grant. If the program completes or cancels it before its function begins, the
     * program does not want the lease any more.
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
