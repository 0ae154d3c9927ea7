package io.github.steadlock

import io.github.steadlock.internal.LogLine
import io.github.steadlock.internal.LogThread
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.Timeout
import org.junit.jupiter.api.Timeout.ThreadMode
import java.time.Duration
import java.util.concurrent.CompletableFuture
import java.util.concurrent.CopyOnWriteArrayList
import java.util.concurrent.CountDownLatch
import java.util.concurrent.TimeUnit
import java.util.logging.Handler
import java.util.logging.LogRecord
import java.util.logging.Logger

/** Tests that a blocking or failing logger of the program does not affect locks. */
@Timeout(60, threadMode = ThreadMode.SEPARATE_THREAD)
class LoggerTest {
    @Test
    fun `a blocking appender delays neither locks nor losses nor close`() {
        val (blocked, proceed) = CountDownLatch(1) to CountDownLatch(1)
        val written = CopyOnWriteArrayList<String>()
        val appender = { record: LogRecord ->
            blocked.countDown()
            proceed.await()
            written += record.message
        }
        logging(appender) {
            val client = Steadlock.connect("memory://")
            client.lock("first").lock(SHORT)
            assertTrue(blocked.await(10, TimeUnit.SECONDS), "the expired lease was not reported")
            val reported = CompletableFuture<LostReason>()
            client.lock("second").lock(SHORT).onLost(reported::complete)
            assertEquals(LostReason.EXPIRED, reported.get(10, TimeUnit.SECONDS))
            val lock = client.lock("third")
            lock.lock()
            assertTrue(lock.tryLock())
            lock.unlock()
            lock.unlock()
            assertTrue(lock.tryLock(Duration.ofSeconds(1)))
            val took = millis(client::close)
            assertTrue(took < CLOSE_MS, "close took $took ms")
            assertEquals(emptyList<String>(), written)
            proceed.countDown()
            awaitTrue("it is written") { written.any { "\"first\"" in it } }
        }
    }

    @Test
    fun `a throwing appender affects neither the client nor its cleanup`() {
        val reported = CountDownLatch(1)
        val appender = { record: LogRecord ->
            if ("careless" in record.message) reported.countDown()
            throw StackOverflowError("a broken appender")
        }
        logging(appender) {
            Steadlock.connect("memory://").use { client ->
                client.lock("expires").lock(SHORT)
                Thread({ client.lock("door").lock() }, "careless").apply { start() }.join()
                assertTrue(reported.await(10, TimeUnit.SECONDS))
                assertTrue(client.lock("door").tryLock(Duration.ofSeconds(10)))
                assertFalse(client.isClosed)
            }
        }
    }

    @Test
    fun `close waits for the last lines`() {
        val written = CopyOnWriteArrayList<String>()
        val appender = { record: LogRecord ->
            Thread.sleep(20)
            written += record.message
        }
        logging(appender) {
            val reported = CompletableFuture<LostReason>()
            val client = Steadlock.connect("memory://")
            client.lock("expires").lock(SHORT).onLost(reported::complete)
            reported.get(10, TimeUnit.SECONDS)
            client.close()
            assertTrue(written.any { "\"expires\"" in it }, "$written")
        }
    }

    @Test
    fun `lines are written in order, excess lines are counted, and the thread ends`() {
        val (blocked, proceed) = CountDownLatch(1) to CountDownLatch(1)
        val written = CopyOnWriteArrayList<String>()
        val threads = CopyOnWriteArrayList<Thread>()
        val log =
            LogThread {
                if (threads.addIfAbsent(Thread.currentThread())) blocked.countDown()
                proceed.await()
                written += it.message
            }
        log.add(LogLine("info", "0"))
        blocked.await()
        (1..LogThread.CAPACITY + EXCESS).forEach { log.add(LogLine("info", "$it")) }
        val took = millis { log.flush(50) }
        assertTrue(took >= 50, "flush took $took ms")
        proceed.countDown()
        log.flush(10_000)
        log.add(LogLine("info", "after"))
        log.flush(10_000)
        val missing = "$EXCESS lines were dropped, because the logger was too slow"
        assertEquals((0..LogThread.CAPACITY).map(Int::toString) + missing + "after", written)
        assertTrue(threads.single().isDaemon)
        awaitTrue("the thread ends") { !threads.single().isAlive }
        log.add(LogLine("info", "another thread"))
        log.flush(10_000)
        assertEquals("another thread", written.last())
    }

    private fun logging(appender: (LogRecord) -> Unit, work: () -> Unit) {
        val logger = Logger.getLogger("io.github.steadlock")
        val handler =
            object : Handler() {
                override fun publish(record: LogRecord) = appender(record)

                override fun flush() = Unit

                override fun close() = Unit
            }
        logger.addHandler(handler)
        try {
            work()
        } finally {
            logger.removeHandler(handler)
        }
    }

    private companion object {
        val SHORT: Duration = Duration.ofMillis(100)
        const val EXCESS = 234

        /** Far more than the time limit of close. */
        const val CLOSE_MS = 5_000L
    }
}
