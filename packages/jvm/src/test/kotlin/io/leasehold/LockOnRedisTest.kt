package io.leasehold

import org.junit.jupiter.api.AfterAll
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Test

class LockOnRedisTest : LockBehaviour() {
    override val url
        get() = server.url

    @Test
    fun `a lock and its unlock cost two script calls, a re-entry none`() {
        Leasehold.connect(url).use { client ->
            val lock = client.lock("calls")
            lock.withLock { }
            val before = server.scriptCalls()
            lock.withLock { lock.withLock { } }
            assertEquals(2, server.scriptCalls() - before)
        }
    }

    companion object {
        private val server = RedisServer()

        @JvmStatic
        @AfterAll
        fun stop() = server.close()
    }
}
