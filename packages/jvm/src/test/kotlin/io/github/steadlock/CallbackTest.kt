package io.github.steadlock

import io.github.steadlock.internal.Callbacks
import io.github.steadlock.internal.ClientOptions
import io.github.steadlock.internal.Engine
import io.github.steadlock.internal.LoadedFace
import io.github.steadlock.internal.NativeFace
import kotlinx.coroutines.asCoroutineDispatcher
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

/** A program's own code never runs where events are fetched, so whatever it does, everything else goes on. */
@Timeout(60, threadMode = ThreadMode.SEPARATE_THREAD)
class CallbackTest {
    /** Executors that run tasks where they are called, or that fail. */
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
    fun `if the thread that fetches events ends, every call fails and every lease is lost`() {
        val shared = "memory://${UUID.randomUUID()}"
        val face = BreakingFace()
        val engine = Engine.connect(ClientOptions(url = shared), Callbacks(null), face)
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

    /** A native part whose event thread runs out of memory when it is told to. */
    private class BreakingFace(private val face: NativeFace = LoadedFace.instance) : NativeFace by face {
        @Volatile
        var breaks = false

        override fun next(client: Long, timeoutMs: Long, buffer: ByteBuffer): Int {
            val written = face.next(client, timeoutMs, buffer)
            if (breaks) throw OutOfMemoryError("for the test")
            return written
        }
    }

    private fun callbackThreads(): Set<Thread> =
        Thread.getAllStackTraces().keys.filter { it.name.startsWith("steadlock-callback") }.toSet()

    private fun connect(executor: Executor): SteadlockClient =
        Steadlock.builder().url("memory://").callbackExecutor(executor).connect()

    private companion object {
        const val LISTENERS = 500
        val SHORT: Duration = Duration.ofMillis(100)
    }
}
