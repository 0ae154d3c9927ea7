package io.github.steadlock

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.time.Duration

/** Tests the metrics of a client in Prometheus' text format. */
class MetricsTest {
    /** Returns the sum of the samples with this name and these labels. */
    private fun SteadlockClient.number(name: String, vararg labels: Pair<String, String>): Double =
        metrics()
            .lines()
            .filter { line ->
                line.startsWith("$name{") && labels.all { (label, value) -> "$label=\"$value\"" in line }
            }
            .sumOf { it.substringAfterLast(' ').toDouble() }

    @Test
    fun `calls are counted, and the counts can be read after close`() {
        val client = Steadlock.builder().url("memory://").keyPrefix("shop:").metrics().connect()
        val lock = client.lock("stock:42")
        lock.lock()
        assertEquals(1.0, client.number("steadlock_held", "kind" to "lock", "group" to "stock"))
        assertFalse(onAnotherThread { lock.tryLock(50, java.util.concurrent.TimeUnit.MILLISECONDS) })
        lock.unlock()
        client.close()
        for (outcome in listOf("granted", "timed_out")) {
            assertEquals(1.0, client.number("steadlock_acquisitions_total", "group" to "stock", "outcome" to outcome))
        }
        assertEquals(2.0, client.number("steadlock_wait_seconds_count", "kind" to "lock", "group" to "stock"))
        assertTrue(client.number("steadlock_wait_seconds_sum") >= 0.05)
        assertEquals(1.0, client.number("steadlock_hold_seconds_count", "kind" to "lock", "group" to "stock"))
        assertEquals(0.0, client.number("steadlock_held") + client.number("steadlock_waiting"))
        assertFalse("stock:" in client.metrics() || "shop" in client.metrics())
    }

    @Test
    fun `the text has header lines and samples only`() {
        Steadlock.builder().url("memory://").metrics().connect().use { client ->
            client.lock("stock:42").apply { lock() }.unlock()
            val text = client.metrics()
            assertTrue(text.endsWith("\n"))
            val known = HashSet<String>()
            for (line in text.trimEnd().lines()) {
                val type = TYPE.matchEntire(line)
                if (type != null) {
                    known.add(type.groupValues[1])
                } else if (!line.startsWith("# HELP steadlock_")) {
                    val sample = checkNotNull(SAMPLE.matchEntire(line)) { line }
                    assertTrue(sample.groupValues[1].replace(Regex("_(bucket|sum|count)$"), "") in known, line)
                }
            }
        }
    }

    @Test
    fun `losses, renewals and reconnects are counted`() {
        RedisServer().use { server ->
            val builder = Steadlock.builder().url(server.url).lease(Duration.ofSeconds(6)).metrics()
            builder.connect().use { client ->
                val lock = client.lock("stock:1")
                lock.lock()
                val short = LockOptions.DEFAULT.withLease(Duration.ofSeconds(2)).renewed()
                client.lock("stock:2", short).withLock {
                    awaitTrue("a renewal") { client.number("steadlock_renewals_total", "outcome" to "renewed") >= 1 }
                }
                server.kill()
                server.startAgain()
                val removed = arrayOf("kind" to "lock", "group" to "stock", "reason" to "removed")
                awaitTrue("the loss") { client.number("steadlock_losses_total", *removed) == 1.0 }
                awaitTrue("the reconnect") { client.number("steadlock_reconnects_total", "link" to "calls") >= 1 }
                assertThrows(LockLostException::class.java) { lock.unlock() }
            }
        }
    }

    @Test
    fun `groups beyond the cap count as other`() {
        Steadlock.builder().url("memory://").metrics().metricsGroups(2).connect().use { client ->
            for (group in "abcd") {
                client.lock("$group:1").apply { lock() }.unlock()
            }
            val granted =
                listOf("a", "b", "c", "other").map { group ->
                    client.number("steadlock_acquisitions_total", "group" to group, "outcome" to "granted")
                }
            assertEquals(listOf(1.0, 1.0, 0.0, 2.0), granted)
        }
    }

    @Test
    fun `metrics are off by default, and the error names the option`() {
        Steadlock.connect("memory://").use { client ->
            assertThrows(InvalidArgumentException::class.java) { client.metrics() }
        }
        for (most in listOf(0, -1, 10_001)) {
            val builder = Steadlock.builder().url("memory://").metrics().metricsGroups(most)
            assertThrows(InvalidArgumentException::class.java) { builder.connect() }
        }
        val without = Steadlock.builder().url("memory://").metricsGroups(10)
        assertThrows(InvalidArgumentException::class.java) { without.connect() }
    }

    private companion object {
        val TYPE = Regex("# TYPE (steadlock_\\w+) (counter|gauge|histogram)")
        val SAMPLE = Regex("(steadlock_\\w+)(?:\\{(?:\\w+=\"[^\"]*\",?)+})? [\\d.E-]+")
    }
}
