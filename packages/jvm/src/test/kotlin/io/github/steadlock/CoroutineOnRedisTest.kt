package io.github.steadlock

import org.junit.jupiter.api.AfterAll

class CoroutineOnRedisTest : CoroutineBehaviour() {
    override val url
        get() = server.url

    companion object {
        private val server = RedisServer()

        @JvmStatic
        @AfterAll
        fun stop() = server.close()
    }
}
