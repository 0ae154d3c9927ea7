package io.github.steadlock

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.util.concurrent.Callable
import java.util.concurrent.CyclicBarrier
import java.util.concurrent.Executors
import java.util.concurrent.TimeUnit.SECONDS

/** Tests clients that connect at their first use. */
class LazyTest {
    private fun nowhere(): String = "redis://127.0.0.1:${freePort()}"

    @Test
    fun `a lazy client connects at its first use`() {
        Steadlock.builder().url(nowhere()).lazy().connect().use { client ->
            val failed = assertThrows(UnavailableException::class.java) { client.lock("door").tryLock() }
            assertTrue(failed.node.orEmpty().contains("127.0.0.1") && failed.isRetryable, failed.message)
            val cause = failed.causeText.orEmpty()
            assertTrue(cause.contains("refused") && failed.message.orEmpty().contains("$cause; check"), failed.message)
            val bad = assertThrows(InvalidArgumentException::class.java) { client.lock("").tryLock() }
            assertNull(bad.causeText)
        }
        RedisServer().use { server ->
            Steadlock.builder().url(server.url).lazy().connect().use { client ->
                assertEquals(0, server.scriptCalls())
                val lock = client.lock("door")
                assertTrue(lock.tryLock())
                lock.unlock()
            }
        }
    }

    @Test
    fun `threads can share the first use, and one of them is granted the lock`() {
        RedisServer().use { server ->
            repeat(5) {
                Steadlock.builder().url(server.url).lazy().connect().use { client ->
                    assertEquals(1, countGranted(client.lock("door")))
                }
            }
        }
    }

    /** Lets eight threads make one attempt each at the same time, and returns how many were granted the lock. */
    private fun countGranted(lock: NamedLock): Int {
        val callers = 8
        val together = CyclicBarrier(callers)
        val attempt = Callable {
            together.await(20, SECONDS)
            // The holder keeps the lock until all attempts were answered.
            val isGranted = try {
                lock.tryLock()
            } finally {
                together.await(20, SECONDS)
            }
            if (isGranted) lock.unlock()
            isGranted
        }
        val threads = Executors.newFixedThreadPool(callers)
        try {
            return threads.invokeAll(List(callers) { attempt }).count { it.get() }
        } finally {
            threads.shutdownNow()
        }
    }

    @Test
    fun `a permanent error is thrown at each use`() {
        RedisServer("--requirepass", "right").use { server ->
            val url = "redis://:wrong@127.0.0.1:${server.port}"
            Steadlock.builder().url(url).lazy().connect().use { client ->
                repeat(2) {
                    assertThrows(MisconfiguredException::class.java) { client.lock("door").lock() }
                }
            }
        }
    }

    @Test
    fun `an unused lazy client does not connect`() {
        Steadlock.builder().url(nowhere()).lazy().connect().close()
        val majority = List(3) { nowhere() }
        Steadlock.builder().primaries(majority).lazy().connect().close()
    }
}
