package io.github.steadlock

import io.github.steadlock.internal.Callbacks
import io.github.steadlock.internal.ClientOptions
import io.github.steadlock.internal.Engine
import io.github.steadlock.internal.NativeApi
import io.github.steadlock.internal.NativeApiLoader
import io.github.steadlock.internal.Owner
import kotlinx.coroutines.CoroutineDispatcher
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.asCoroutineDispatcher
import kotlinx.coroutines.awaitCancellation
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withContext
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertInstanceOf
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.Timeout
import org.junit.jupiter.api.Timeout.ThreadMode
import org.junit.jupiter.params.ParameterizedTest
import org.junit.jupiter.params.provider.EnumSource
import java.nio.ByteBuffer
import java.time.Duration
import java.util.UUID
import java.util.concurrent.CompletableFuture
import java.util.concurrent.CountDownLatch
import java.util.concurrent.ExecutionException
import java.util.concurrent.Executor
import java.util.concurrent.RejectedExecutionException
import java.util.concurrent.SynchronousQueue
import java.util.concurrent.ThreadPoolExecutor
import java.util.concurrent.TimeUnit
import kotlin.coroutines.CoroutineContext
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Duration.Companion.seconds

/**
 * Tests that the program's code never runs on the thread that fetches events. Code that blocks or fails there would
 * stop all other calls of the client.
 */
@Timeout(60, threadMode = ThreadMode.SEPARATE_THREAD)
class CallbackTest {
    /** Executors that run tasks on the calling thread, or that fail. */
    enum class Trouble(val executor: () -> Executor) {
        RUNS_INLINE({ Executor(Runnable::run) }),
        CALLER_RUNS({
            ThreadPoolExecutor(1, 1, 0, TimeUnit.SECONDS, SynchronousQueue(), ThreadPoolExecutor.CallerRunsPolicy())
                .apply { execute { CountDownLatch(1).await() } }
        }),
        REJECTS({ Executor { throw RejectedExecutionException("shut down") } }),
        THROWS({ Executor { error("a broken executor") } }),
        THROWS_AN_ERROR({ Executor { throw StackOverflowError("a broken executor") } }),
    }

    @Test
    fun `blocking callbacks do not delay coroutines, and cause a warning`() {
        val gate = CountDownLatch(1)
        val blocked = CountDownLatch(Callbacks.MAX_THREADS)
        Steadlock.connect("memory://").use { client ->
            val warnings = Warnings()
            repeat(Callbacks.MAX_THREADS) { number ->
                val lock = client.lock("blocked:$number")
                // The lock is held during `lockAsync`, because the function of a stage that is already granted would
                // run on this thread.
                lock.withLock {
                    lock.lockAsync().thenAccept { lease ->
                        blocked.countDown()
                        gate.await()
                        lease.close()
                    }
                }
            }
            assertTrue(blocked.await(20, TimeUnit.SECONDS))
            runBlocking {
                assertTrue(client.withLock("free", wait = 10.seconds) { it.isValid })
                assertThrows(LockLostException::class.java) {
                    runBlocking { client.withLock("expires", lease = 150.milliseconds) { awaitCancellation() } }
                }
            }
            var more = 0
            awaitTrue("it is logged") {
                client.lock("more:${more++}").lockAsync()
                warnings.any { it.contains("callbacks have not returned") }
            }
            gate.countDown()
            warnings.close()
        }
    }

    @ParameterizedTest
    @EnumSource
    fun `a listener can wait for a lock with any executor`(trouble: Trouble) {
        connect(trouble.executor()).use { client ->
            val reported = CompletableFuture<LostReason>()
            client.lock("expires").lock(SHORT).onLost { reason ->
                client.lock("other").withLock { reported.complete(reason) }
            }
            assertEquals(LostReason.EXPIRED, reported.get(10, TimeUnit.SECONDS))
        }
    }

    @ParameterizedTest
    @EnumSource
    fun `a stage can wait for a lock with any executor`(trouble: Trouble) {
        connect(trouble.executor()).use { client ->
            val waited = client.lock("first").lockAsync().thenApply { client.lock("second").withLock { true } }
            assertTrue(waited.toCompletableFuture().get(10, TimeUnit.SECONDS))
        }
    }

    @ParameterizedTest
    @EnumSource
    fun `an Error of a listener has no effect on others`(trouble: Trouble) {
        connect(trouble.executor()).use { client ->
            val reported = CompletableFuture<LostReason>()
            val lease = client.lock("expires").lock(SHORT)
            lease.onLost { throw StackOverflowError("a broken listener") }
            lease.onLost { error("a broken listener") }
            lease.onLost(reported::complete)
            assertEquals(LostReason.EXPIRED, reported.get(10, TimeUnit.SECONDS))
            assertEquals(1, client.lock("expires").withLock { client.lock("expires").holdCount })
        }
    }

    @Test
    fun `listeners that never return use a bounded number of threads`() {
        val client = Steadlock.connect("memory://")
        val before = callbackThreads()
        val (proceed, reported) = CountDownLatch(1) to CountDownLatch(LISTENERS)
        repeat(LISTENERS) {
            client.lock("expires-$it").lock(SHORT).onLost {
                proceed.await()
                reported.countDown()
            }
        }
        awaitTrue("the last one is lost") { !client.lock("expires-${LISTENERS - 1}").isLocked }
        assertEquals(1, client.lock("other").withLock { client.lock("other").holdCount })
        val threads = (callbackThreads() - before).size
        assertTrue(threads in 1..64, "$threads threads")
        proceed.countDown()
        assertTrue(reported.await(30, TimeUnit.SECONDS), "not reported: ${reported.count}")
        client.close()
    }

    @Test
    fun `a direct dispatcher does not run tasks on the event thread`() {
        Steadlock.connect("memory://").use { client ->
            val token =
                runBlocking {
                    withContext(Executor(Runnable::run).asCoroutineDispatcher()) {
                        client.withLock("outer") { client.lock("inner").withLock { it.token } }
                    }
                }
            assertTrue(token != null)
        }
    }

    @Test
    fun `stages that wait for further stages do not deadlock`() {
        Steadlock.connect("memory://").use { client ->
            val stages =
                List(STAGES) { number ->
                    client.lock("outer-$number").lockAsync().thenApply {
                        val inner = client.lock("inner").lockAsync().thenApply(Lease::release)
                        client.lock("inner").lock()
                        client.lock("inner").unlock()
                        inner.toCompletableFuture().join()
                    }
                }
            for (stage in stages) {
                assertEquals(ReleaseOutcome.RELEASED, stage.toCompletableFuture().get(30, TimeUnit.SECONDS))
            }
            awaitTrue("idle threads end") { callbackThreads().size <= Callbacks.MAX_THREADS }
        }
    }

    @Test
    fun `a lost lock cancels its block even if the executor runs nothing`() {
        connect(Executor { }).use { client ->
            assertThrows(LockLostException::class.java) {
                runBlocking { client.withLock("expires", lease = 100.milliseconds) { awaitCancellation() } }
            }
        }
    }

    @Test
    fun `a throwing dispatcher leaves no lock held`() {
        Steadlock.connect("memory://").use { client ->
            val held = client.lock("door").lock(Duration.ofHours(1))
            val dispatcher = BreakingDispatcher()
            CoroutineScope(dispatcher).launch { client.withLock("door") { awaitCancellation() } }
            dispatcher.breaks = true
            held.release()
            assertTrue(client.lock("door").tryLock(Duration.ofSeconds(10)))
        }
    }

    @Test
    fun `a stack overflow inside a call leaves no lock held and no call waiting`() {
        val shared = "memory://${UUID.randomUUID()}"
        val native = OverflowingNativeApi()
        val engine = Engine.connect(ClientOptions(mapOf("url" to shared)), Callbacks(null), native)
        val (client, other) = SteadlockClient(engine) to Steadlock.connect(shared)
        // The grant can come before or after the failure.
        for (pauseMs in listOf(0L, 100L)) {
            native.pauseMs = pauseMs
            native.overflows = true
            assertThrows(StackOverflowError::class.java) { client.lock("door").lock() }
            native.overflows = false
            assertTrue(other.lock("door").tryLock(Duration.ofSeconds(10)))
            other.lock("door").unlock()
        }

        val lease = client.lock("door").lock(Duration.ofHours(1))
        native.overflows = true
        assertThrows(StackOverflowError::class.java) { lease.release() }
        native.overflows = false
        assertEquals(ReleaseOutcome.RELEASED, lease.release())
        client.close()
        other.close()
    }

    @Test
    fun `if the event thread ends, all calls fail and all leases are lost`() {
        val shared = "memory://${UUID.randomUUID()}"
        val native = FailingNativeApi()
        val engine = Engine.connect(ClientOptions(mapOf("url" to shared)), Callbacks(null), native)
        val (client, other) = SteadlockClient(engine) to Steadlock.connect(shared)
        val lease = client.lock("held").lock(Duration.ofHours(1))
        val lost = CompletableFuture<LostReason>()
        lease.onLost(lost::complete)
        val stage = client.lock("held").lockAsync().toCompletableFuture()
        val blocked = CompletableFuture<Unit>()
        val thread = Thread { blocked.completeAsync({ client.lock("held").lock() }, Runnable::run) }.apply { start() }
        awaitTrue("the thread waits") { thread.state == Thread.State.WAITING }

        native.breaks = true
        assertThrows(UnavailableException::class.java) { client.lock("held").isLocked }

        for (call in listOf(stage, blocked)) {
            val failed = assertThrows(ExecutionException::class.java) { call.get(10, TimeUnit.SECONDS) }.cause
            assertInstanceOf(UnavailableException::class.java, failed)
            assertTrue(failed?.message.orEmpty().contains("OutOfMemoryError"), failed?.message)
        }
        assertEquals(LostReason.CLOSED, lost.get(10, TimeUnit.SECONDS))
        assertFalse(lease.isValid)
        assertTrue(client.isClosed)
        assertThrows(ClosedException::class.java) { client.lock("held").tryLock() }
        client.close()
        assertTrue(other.lock("held").tryLock(Duration.ofSeconds(10)))
        other.close()
    }

    /** A native part whose event thread runs out of memory once [breaks] is set. */
    private class FailingNativeApi(private val native: NativeApi = NativeApiLoader.instance) : NativeApi by native {
        @Volatile
        var breaks = false

        override fun next(client: Long, timeoutMs: Long, buffer: ByteBuffer): Int {
            val written = native.next(client, timeoutMs, buffer)
            if (breaks) throw OutOfMemoryError("for the test")
            return written
        }
    }

    /** A native part that overflows the caller's stack while [overflows] is set. */
    private class OverflowingNativeApi(private val native: NativeApi = NativeApiLoader.instance) : NativeApi by native {
        @Volatile
        var overflows = false

        @Volatile
        var pauseMs = 0L

        override fun acquire(client: Long, tag: Long, lock: ByteArray, owner: Owner, options: LockOptions): Long =
            native.acquire(client, tag, lock, owner, options).also { overflow() }

        override fun release(client: Long, tag: Long, lease: Long): Long {
            overflow()
            return native.release(client, tag, lease)
        }

        private fun overflow() {
            // Only threads of the program overflow, not the event thread.
            if (overflows &&
                !Thread.currentThread().name.startsWith("steadlock")
            ) {
                Thread.sleep(pauseMs)
                throw StackOverflowError("for the test")
            }
        }
    }

    /** Runs tasks on the calling thread, and throws once [breaks] is set. */
    private class BreakingDispatcher : CoroutineDispatcher() {
        @Volatile
        var breaks = false

        override fun dispatch(context: CoroutineContext, block: Runnable) {
            if (breaks) throw RejectedExecutionException("shut down")
            block.run()
        }
    }

    private fun connect(executor: Executor): SteadlockClient =
        Steadlock.builder().url("memory://").callbackExecutor(executor).connect()

    private companion object {
        const val LISTENERS = 500
        const val STAGES = 100
        val SHORT: Duration = Duration.ofMillis(100)
    }
}
