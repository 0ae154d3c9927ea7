package io.github.steadlock

import org.junit.jupiter.api.AfterAll
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Test
import java.time.Duration

class LockOnRedisTest : LockBehaviour() {
    override val url
        get() = server.url

    @Test
    fun `lock and unlock need two script calls, a re-entry none`() {
        Steadlock.connect(url).use { client ->
            val lock = client.lock("calls")
            lock.withLock { }
            val before = server.scriptCalls()
            lock.withLock { lock.withLock { } }
            assertEquals(2, server.scriptCalls() - before)
        }
    }

    @Test
    fun `an unanswered unlock does not throw`() {
        RedisServer().use { silent ->
            Steadlock.builder().url(silent.url).commandTimeout(Duration.ofSeconds(1)).connect().use { client ->
                val lock = client.lock("silent")
                lock.lock()
                silent.pause()
                lock.unlock()
                assertFalse(lock.isHeldByCurrentThread)
                silent.resume()
            }
        }
    }

    companion object {
        private val server = RedisServer()

        @JvmStatic
        @AfterAll
        fun stop() = server.close()
    }
}
