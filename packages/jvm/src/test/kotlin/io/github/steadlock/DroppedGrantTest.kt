package io.github.steadlock

import org.junit.jupiter.api.AfterEach
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Assumptions.assumeTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.params.ParameterizedTest
import org.junit.jupiter.params.provider.EnumSource
import java.time.Duration
import java.util.Random
import java.util.concurrent.CancellationException
import java.util.concurrent.CompletableFuture
import java.util.concurrent.ConcurrentLinkedQueue
import java.util.concurrent.ExecutionException
import java.util.concurrent.Executor
import java.util.concurrent.TimeUnit
import java.util.concurrent.TimeoutException
import java.util.concurrent.atomic.AtomicInteger

/**
 * Tests stages and leases that the program no longer uses. No such stage acquires a lock, and no such lease stays held
 * without a warning.
 */
class DroppedGrantTest {
    private val client = Steadlock.connect("memory://")
    private val lock = client.lock("door")
    private val warnings = Warnings()

    @AfterEach
    fun close() {
        client.close()
        warnings.close()
    }

    /** The ways to end a stage that waits. */
    enum class End(val of: (CompletableFuture<Lease>) -> CompletableFuture<*>) {
        CANCEL_OF_ITSELF({ it.apply { cancel(true) } }),
        CANCEL_OF_A_DEPENDENT({ future -> future.thenApply { it.name }.apply { cancel(true) } }),
        CANCEL_OF_A_DEPENDENT_OF_A_DEPENDENT({ future ->
            future.thenApply { it.name }.thenAccept { }.apply { cancel(false) }
        }),
        CANCEL_OF_A_COMPOSITION({ future ->
            future.thenCompose { CompletableFuture.completedFuture(it) }.apply { cancel(true) }
        }),
        CANCEL_ON_AN_EXECUTOR({ future -> future.thenApplyAsync { it.name }.apply { cancel(true) } }),
        TIMEOUT({ it.orTimeout(1, TimeUnit.MILLISECONDS) }),
        TIMEOUT_OF_A_DEPENDENT({ future -> future.thenApply { it.name }.orTimeout(1, TimeUnit.MILLISECONDS) }),
        DEFAULT_IN_TIME({ future ->
            future.thenApply { it.name }.completeOnTimeout("none", 1, TimeUnit.MILLISECONDS)
        }),
        FAILURE_OF_A_DEPENDENT({ future ->
            future.thenAccept { }.apply { completeExceptionally(IllegalStateException()) }
        }),
        VALUE_OF_A_DEPENDENT({ future -> future.thenApply { 1 }.apply { complete(2) } }),
        CANCEL_OF_A_COPY({ future -> future.copy().apply { cancel(true) } }),
        CANCEL_OF_A_MINIMAL_STAGE({ future ->
            future.minimalCompletionStage().toCompletableFuture().apply { cancel(true) }
        }),
        CANCEL_OF_A_RECOVERY({ future -> future.exceptionally { throw it }.apply { cancel(true) } }),
    }

    @ParameterizedTest
    @EnumSource
    fun `an acquisition whose stage the program has completed is not granted`(end: End) {
        LockActivity.watch(client).use { activity ->
            lock.lock()
            val ended = end.of(lock.lockAsync().toCompletableFuture())
            awaitTrue("the stage is completed") { ended.isDone }
            awaitTrue("the attempt is given up") { activity.waiting().isEmpty() }
            lock.unlock()
            assertTrue(lock.tryLock())
            lock.unlock()
            assertFalse(lock.isLocked)
        }
    }

    /** Dependents whose function has not begun when the lock is granted. */
    enum class Later(val of: (CompletableFuture<Lease>, Executor, AtomicInteger) -> CompletableFuture<*>) {
        APPLY({ future, executor, seen -> future.thenApplyAsync({ seen.incrementAndGet() }, executor) }),
        ACCEPT({ future, executor, seen -> future.thenAcceptAsync({ seen.incrementAndGet() }, executor) }),
        RUN({ future, executor, seen -> future.thenRunAsync({ seen.incrementAndGet() }, executor) }),
        HANDLE({ future, executor, seen -> future.handleAsync({ _, _ -> seen.incrementAndGet() }, executor) }),
        COMPLETE({ future, executor, seen -> future.whenCompleteAsync({ _, _ -> seen.incrementAndGet() }, executor) }),
        COMPOSE({ future, executor, seen ->
            future.thenComposeAsync({ CompletableFuture.completedFuture(seen.incrementAndGet()) }, executor)
        }),
        COMBINE({ future, executor, seen ->
            future.thenCombineAsync(CompletableFuture.completedFuture(1), { _, _ -> seen.incrementAndGet() }, executor)
        }),
        EITHER({ future, executor, seen ->
            future.applyToEitherAsync(CompletableFuture<Lease>(), { seen.incrementAndGet() }, executor)
        }),
        OF_A_COPY({
            future,
            executor,
            seen,
            ->
            future.thenApplyAsync({ it }, executor).thenApply { seen.incrementAndGet() }
        }),
        WITH_ANOTHER({ future, _, seen ->
            future.thenAcceptBoth(CompletableFuture<Int>()) { _, _ -> seen.incrementAndGet() }
        }),
    }

    @ParameterizedTest
    @EnumSource
    fun `cancelling a dependent before its function releases the lease`(later: Later) {
        val seen = AtomicInteger()
        val tasks = ConcurrentLinkedQueue<Runnable>()
        val stage = lock.lockAsync().toCompletableFuture()
        val dependent = later.of(stage, tasks::add, seen)
        awaitTrue("it is granted") { stage.isDone }
        assertTrue(dependent.cancel(true))
        awaitTrue("it is free") { !lock.isLocked }
        tasks.forEach { it.run() }
        assertEquals(0, seen.get())
        assertThrows(CancellationException::class.java) { stage.join() }
    }

    @ParameterizedTest
    @EnumSource
    fun `cancelling a dependent after its function keeps the lease`(later: Later) {
        assumeTrue(later != Later.WITH_ANOTHER && later != Later.OF_A_COPY)
        val seen = AtomicInteger()
        val stage = lock.lockAsync().toCompletableFuture()
        val dependent = later.of(stage, { it.run() }, seen)
        val next = dependent.thenApplyAsync({ }, { })
        awaitTrue("it has run") { dependent.isDone }
        assertTrue(next.cancel(true))
        assertFalse(stage.thenApplyAsync({ }, { }).cancel(true) && !lock.isLocked)
        assertEquals(1, seen.get())
        assertTrue(lock.isLocked)
        assertTrue(stage.join().isValid)
        stage.join().release()
    }

    @Test
    fun `the lease of a stage that lost applyToEither is released`() {
        lock.lock()
        val stage = lock.lockAsync()
        val instead = CompletableFuture<Lease?>()
        val either = stage.applyToEither(instead) { it == null }
        instead.complete(null)
        assertTrue(either.toCompletableFuture().get(5, TimeUnit.SECONDS))
        lock.unlock()
        awaitTrue("it is granted") { stage.toCompletableFuture().isDone }
        awaitTrue("it is free") { !lock.isLocked }
    }

    @Test
    fun `a dependent cancelled during the grant runs its function or releases the lease`() {
        val ran = AtomicInteger()
        val random = Random(7)
        repeat(3_000) { round ->
            val name = "race:${round % 8}"
            val dependent =
                client.lock(name).lockAsync().thenApply {
                    ran.incrementAndGet()
                    it.releaseAsync()
                }
            val end = System.nanoTime() + random.nextInt(100_000)
            while (System.nanoTime() < end) Thread.onSpinWait()
            dependent.toCompletableFuture().cancel(true)
        }
        awaitTrue("all are free") { (0 until 8).none { client.lock("race:$it").isLocked } }
        assertTrue(ran.get() in 1..2_999, "$ran ran")
        assertEquals(0, dropped())
    }

    @Test
    fun `permits whose stage the program has completed are not granted`() {
        val semaphore = client.semaphore("seats", 1)
        semaphore.acquire()
        val dependent = semaphore.acquireAsync().thenApply { it.name }.toCompletableFuture()
        dependent.cancel(true)
        semaphore.release()
        awaitTrue("it is free") { semaphore.available() == 1 }
    }

    @Test
    fun `dependents of a stage run as usual`() {
        val seen = AtomicInteger()
        val stage = lock.lockAsync().toCompletableFuture()
        val both = CompletableFuture.allOf(stage, stage.thenAccept { seen.incrementAndGet() })
        both.thenCompose { stage.thenCompose { it.releaseAsync() } }.get(5, TimeUnit.SECONDS)
        assertEquals(1, seen.get())
        val failed = lock.lockAsync(LockOptions.DEFAULT.withLease(Duration.ofMillis(1))).toCompletableFuture()
        val failure = assertThrows(ExecutionException::class.java) { failed.thenApply { it }.get(5, TimeUnit.SECONDS) }
        assertTrue(failure.cause is InvalidArgumentException)
    }

    @Test
    fun `an unused grant is released with a warning`() {
        lock.lock()
        assertThrows(TimeoutException::class.java) {
            lock.lockAsync().toCompletableFuture().get(1, TimeUnit.MILLISECONDS)
        }
        lock.unlock()
        awaitTrue("it is released") {
            System.gc()
            warnings.any { it.contains("door") && it.contains("it is released now") }
        }
        awaitTrue("it is free") { !lock.isLocked }
    }

    @Test
    fun `a dropped lease causes one warning and stays held`() {
        assertTrue(lock.lockAsync().toCompletableFuture().get(5, TimeUnit.SECONDS).isValid)
        awaitTrue("it is logged") {
            System.gc()
            dropped() == 1
        }
        sweep()
        assertEquals(1, dropped())
        assertTrue(lock.isLocked)
    }

    @Test
    fun `a fixed, observed or referenced lease is not dropped`() {
        val fixed = LockOptions.DEFAULT.withLease(Duration.ofSeconds(20))
        client.lock("fixed", fixed).lockAsync().toCompletableFuture().get(5, TimeUnit.SECONDS)
        client.lock("observed").lockAsync().toCompletableFuture().get(5, TimeUnit.SECONDS).onLost { }
        val kept = lock.lockAsync().toCompletableFuture().get(5, TimeUnit.SECONDS)
        sweep()
        sweep()
        assertEquals(0, dropped())
        assertTrue(listOf("fixed", "observed", "door").all { client.lock(it).isLocked })
        kept.release()
    }

    @Test
    fun `a thread that ended with a re-entered lock causes one warning`() {
        onAnotherThread { repeat(2) { lock.lock() } }
        awaitTrue("it is released") { !lock.isLocked }
        assertEquals(1, warnings.count { it.contains("ended while it held lock \"door\"") })
    }

    private fun dropped() = warnings.count { it.contains("dropped without a release") }

    /** Collects garbage and waits until the client has looked for dropped leases. */
    private fun sweep() {
        val other = client.lock("other")
        onAnotherThread { other.lock() }
        awaitTrue("the sweep has run") {
            System.gc()
            !other.isLocked
        }
    }
}
