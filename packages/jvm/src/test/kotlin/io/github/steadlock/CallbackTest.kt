package io.github.steadlock

import io.github.steadlock.internal.Callbacks
import io.github.steadlock.internal.ClientOptions
import io.github.steadlock.internal.Engine
import io.github.steadlock.internal.LoadedFace
import io.github.steadlock.internal.NativeFace
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
 * Tests that the program's code never runs on the thread that fetches events, so that it cannot block or end anything
 * else.
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
    fun `callbacks that block keep no coroutine waiting, and a warning tells of them`() {
        val gate = CountDownLatch(1)
        val blocked = CountDownLatch(Callbacks.MOST)
        Steadlock.connect("memory://").use { client ->
            val warnings = Warnings()
            repeat(Callbacks.MOST) { number ->
                val lock = client.lock("blocked:$number")
                // The lock is held during `lockAsync`: a stage that is already granted would run its function on this
                // thread.
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
                    runBlocking { client.withLock("lapses", lease = 150.milliseconds) { awaitCancellation() } }
                }
            }
            var more = 0
            awaitTrue("it is told") {
                client.lock("more:${more++}").lockAsync()
                warnings.any { it.contains("callbacks have not returned") }
            }
            gate.countDown()
            warnings.close()
        }
    }

    @ParameterizedTest
    @EnumSource
    fun `a listener may wait for a lock, whatever the executor does`(trouble: Trouble) {
        connect(trouble.executor()).use { client ->
            val told = CompletableFuture<LostReason>()
            client.lock("lapses").lock(SHORT).onLost { reason ->
                client.lock("other").withLock { told.complete(reason) }
            }
            assertEquals(LostReason.EXPIRED, told.get(10, TimeUnit.SECONDS))
        }
    }

    @ParameterizedTest
    @EnumSource
    fun `a stage may wait for a lock, whatever the executor does`(trouble: Trouble) {
        connect(trouble.executor()).use { client ->
            val waited = client.lock("first").lockAsync().thenApply { client.lock("second").withLock { true } }
            assertTrue(waited.toCompletableFuture().get(10, TimeUnit.SECONDS))
        }
    }

    @ParameterizedTest
    @EnumSource
    fun `a listener that throws an Error ends nothing`(trouble: Trouble) {
        connect(trouble.executor()).use { client ->
            val told = CompletableFuture<LostReason>()
            val lease = client.lock("lapses").lock(SHORT)
            lease.onLost { throw StackOverflowError("a broken listener") }
            lease.onLost { error("a broken listener") }
            lease.onLost(told::complete)
            assertEquals(LostReason.EXPIRED, told.get(10, TimeUnit.SECONDS))
            assertEquals(1, client.lock("lapses").withLock { client.lock("lapses").holdCount })
        }
    }

    @Test
    fun `listeners that never end take a bounded number of threads, and locks go on`() {
        val client = Steadlock.connect("memory://")
        val before = callbackThreads()
        val (goOn, told) = CountDownLatch(1) to CountDownLatch(LISTENERS)
        repeat(LISTENERS) {
            client.lock("lapses-$it").lock(SHORT).onLost {
                goOn.await()
                told.countDown()
            }
        }
        awaitTrue("the last one is lost") { !client.lock("lapses-${LISTENERS - 1}").isLocked }
        assertEquals(1, client.lock("other").withLock { client.lock("other").holdCount })
        val threads = (callbackThreads() - before).size
        assertTrue(threads in 1..64, "$threads threads")
        goOn.countDown()
        assertTrue(told.await(30, TimeUnit.SECONDS), "not told: ${told.count}")
        client.close()
    }

    @Test
    fun `a dispatcher that runs tasks where it is called does not run them where events are fetched`() {
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
    fun `stages that wait for further stages, and for locks that these hold, never wait for ever`() {
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
            awaitTrue("the threads end, but for as many as may be idle") { callbackThreads().size <= Callbacks.MOST }
        }
    }

    @Test
    fun `a lost lock cancels its block though the program's executor never runs anything`() {
        connect(Executor { }).use { client ->
            assertThrows(LockLostException::class.java) {
                runBlocking { client.withLock("lapses", lease = 100.milliseconds) { awaitCancellation() } }
            }
        }
    }

    @Test
    fun `a dispatcher that throws leaves no lock behind`() {
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
    fun `a stack that is full in the midst of a call leaves no lock behind, and no call that waits for ever`() {
        val shared = "memory://${UUID.randomUUID()}"
        val face = OverflowingFace()
        val engine = Engine.connect(ClientOptions(mapOf("url" to shared)), Callbacks(null), face)
        val (client, other) = SteadlockClient(engine) to Steadlock.connect(shared)
        // The grant can come before or after the failure.
        for (pauseMs in listOf(0L, 100L)) {
            face.pauseMs = pauseMs
            face.overflows = true
            assertThrows(StackOverflowError::class.java) { client.lock("door").lock() }
            face.overflows = false
            assertTrue(other.lock("door").tryLock(Duration.ofSeconds(10)))
            other.lock("door").unlock()
        }

        val lease = client.lock("door").lock(Duration.ofHours(1))
        face.overflows = true
        assertThrows(StackOverflowError::class.java) { lease.release() }
        face.overflows = false
        assertEquals(ReleaseOutcome.RELEASED, lease.release())
        client.close()
        other.close()
    }

    @Test
    fun `if the thread that fetches events ends, every call fails and every lease is lost`() {
        val shared = "memory://${UUID.randomUUID()}"
        val face = BreakingFace()
        val engine = Engine.connect(ClientOptions(mapOf("url" to shared)), Callbacks(null), face)
        val (client, other) = SteadlockClient(engine) to Steadlock.connect(shared)
        val lease = client.lock("held").lock(Duration.ofHours(1))
        val lost = CompletableFuture<LostReason>()
        lease.onLost(lost::complete)
        val stage = client.lock("held").lockAsync().toCompletableFuture()
        val blocked = CompletableFuture<Unit>()
        val thread = Thread { blocked.completeAsync({ client.lock("held").lock() }, Runnable::run) }.apply { start() }
        awaitTrue("the thread waits") { thread.state == Thread.State.WAITING }

        face.breaks = true
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
    private class BreakingFace(private val face: NativeFace = LoadedFace.instance) : NativeFace by face {
        @Volatile
        var breaks = false

        override fun next(client: Long, timeoutMs: Long, buffer: ByteBuffer): Int {
            val written = face.next(client, timeoutMs, buffer)
            if (breaks) throw OutOfMemoryError("for the test")
            return written
        }
    }

    /** A native part that overflows the caller's stack while [overflows] is set. */
    private class OverflowingFace(private val face: NativeFace = LoadedFace.instance) : NativeFace by face {
        @Volatile
        var overflows = false

        @Volatile
        var pauseMs = 0L

        override fun acquire(client: Long, tag: Long, lock: ByteArray, owner: Owner, options: LockOptions): Long =
            face.acquire(client, tag, lock, owner, options).also { overflow() }

        override fun release(client: Long, tag: Long, lease: Long): Long {
            overflow()
            return face.release(client, tag, lease)
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
