package io.github.steadlock

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.time.Duration
import java.util.concurrent.CopyOnWriteArrayList
import java.util.logging.Handler
import java.util.logging.Level
import java.util.logging.LogRecord
import java.util.logging.Logger

/** Tests the log lines for lost locks, lost connections and reconnects. */
class LogTest {
    @Test
    fun `the log reports a loss, a disconnect and a reconnect, without secrets`() {
        val password = "sesame-open-and-more"
        RedisServer("--requirepass", password).use { server ->
            val url = server.url.replace("//", "//:$password@")
            val records = CopyOnWriteArrayList<LogRecord>()
            val handler =
                object : Handler() {
                    override fun publish(record: LogRecord) {
                        records += record
                    }

                    override fun flush() = Unit

                    override fun close() = Unit
                }
            val logger = Logger.getLogger("io.github.steadlock")
            logger.addHandler(handler)
            try {
                Steadlock.builder().url(url).lease(Duration.ofSeconds(6)).connect().use { client ->
                    client.lock("door").lock()
                    server.kill()
                    server.startAgain()
                    val wanted = listOf("lock \"door\" is lost", "the connection to", "connected to")
                    awaitTrue("all three are logged") { wanted.all { start -> records.any { start in it.message } } }
                }
            } finally {
                logger.removeHandler(handler)
            }
            val lost = records.first { "lock \"door\" is lost" in it.message }
            assertEquals(Level.SEVERE, lost.level)
            assertTrue("127.0.0.1:${server.port} has no record of it any more" in lost.message, lost.message)
            assertEquals(Level.WARNING, records.first { "the connection to" in it.message }.level)
            assertEquals(Level.INFO, records.first { "connected to" in it.message }.level)
            assertFalse(records.any { "sesame" in it.message })
        }
    }
}
