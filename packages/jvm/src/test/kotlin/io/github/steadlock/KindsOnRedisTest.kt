package io.github.steadlock

import org.junit.jupiter.api.AfterAll
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import redis.clients.jedis.params.SetParams

class KindsOnRedisTest : KindBehaviour() {
    override val url
        get() = server.url

    @Test
    fun `a mutex excludes libraries that set its key`() {
        Steadlock.connect(url).use { client ->
            val theirs = SetParams().nx().px(10_000)
            server.ask { it.set("mutex", "theirs", theirs) }
            assertFalse(client.mutex("mutex").tryLock())
            server.ask { it.del("mutex") }
            client.mutex("mutex").withLock { assertEquals(null, server.ask { it.set("mutex", "theirs", theirs) }) }
            assertTrue(client.mutex("mutex").tryLock())
        }
    }

    @Test
    fun `acquire and release need two script calls for each kind`() {
        Steadlock.connect(url).use { client ->
            for (kind in LOCKS.keys - "multi") {
                val lock = LOCKS.getValue(kind)(client, "calls-$kind", LockOptions.DEFAULT)
                lock.withLock { }
                val before = server.scriptCalls()
                lock.withLock { }
                assertEquals(2, server.scriptCalls() - before, kind)
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
