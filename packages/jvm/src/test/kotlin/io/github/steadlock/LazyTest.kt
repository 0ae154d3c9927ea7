package io.github.steadlock

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test

/** Tests clients that connect at their first use. */
class LazyTest {
    private fun nowhere(): String = "redis://127.0.0.1:${freePort()}"

    @Test
    fun `one is made before its server is up, and connects at its first use`() {
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
    fun `what is wrong for good is told at each use`() {
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
    fun `one that is never used connects to nothing`() {
        Steadlock.builder().url(nowhere()).lazy().connect().close()
        val majority = List(3) { nowhere() }
        Steadlock.builder().primaries(majority).lazy().connect().close()
    }
}
