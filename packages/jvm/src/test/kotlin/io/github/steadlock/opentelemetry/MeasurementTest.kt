package io.github.steadlock.opentelemetry

import com.google.gson.JsonObject
import com.google.gson.JsonParser
import io.github.steadlock.LockOptions
import io.github.steadlock.RedisServer
import io.github.steadlock.SteadlockClient
import io.github.steadlock.awaitTrue
import io.github.steadlock.internal.Exposition
import io.github.steadlock.onAnotherThread
import io.opentelemetry.api.common.Attributes
import io.opentelemetry.sdk.metrics.data.HistogramPointData
import io.opentelemetry.sdk.metrics.data.MetricData
import io.opentelemetry.sdk.metrics.data.MetricDataType
import org.junit.jupiter.api.AfterEach
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.nio.file.Files
import java.nio.file.Path
import java.time.Duration

/** Compares the metrics with `ci/api/metrics.json` and with the metrics of the client itself. */
class MeasurementTest {
    private val collected = Collected()
    private val table = JsonParser.parseString(Files.readString(Path.of("../../ci/api/metrics.json"))).asJsonObject

    @AfterEach
    fun close() = collected.close()

    @Test
    fun `every metric of the table has its name, unit, meaning and numbers`() =
        RedisServer().use { server ->
            counting(
                server.url,
            ).lease(Duration.ofSeconds(6)).metricsGroups(4).metricsQueues("hot").connect().use { client ->
                SteadlockTelemetry.instrument(client, collected.sdk)
                client.lock("held:1").lock()
                val held = "steadlock_renewals_total{kind=\"lock\",group=\"held\",outcome=\"renewed\"} "
                val short = LockOptions.DEFAULT.withLease(Duration.ofSeconds(2)).renewed()
                client.lock("held:2", short).withLock {
                    awaitTrue("a renewal") { held in client.metrics() && "${held}0" !in client.metrics() }
                }
                useAll(client)
                client.once("report:daily").run { }
                awaitTrue("the queue") { "steadlock_fair_queue{queue=\"hot\"} 0" in client.metrics() }
                server.kill()
                server.startAgain()
                val reconnects = "steadlock_reconnects_total{link=\"calls\"} 0"
                awaitTrue("the reconnect") { reconnects !in client.metrics() }
                awaitTrue("the loss") { "kind=\"lock\",group=\"held\",reason=\"removed\"} 1" in client.metrics() }
                client.lock("held:1").lockAsync()
                awaitTrue("all is there") { sameAs(client) }
                val found = collected.metrics()
                val metrics = table["client"].asJsonArray.map { it.asJsonObject }
                assertEquals(metrics.map(::otel).toSet(), found.values.map { it.name to it.unit }.toSet())
                for (metric in metrics) {
                    assertLikeTheTable(metric, found.getValue(otel(metric).first))
                }
                assertTrue(found.values.all { it.instrumentationScopeInfo.name == "io.github.steadlock" })
            }
        }

    /** Makes series of every kind, some beyond the limit of groups, and one with a name that needs escapes. */
    private fun useAll(client: SteadlockClient) {
        val (lock, sides) = client.lock("stock:1") to client.readWriteLock("stock:2")
        val odd = client.mutex("a \"b\\ c\r\n{x}=,:1")
        listOf(lock, client.fairLock("report"), sides.read, sides.write, odd).forEach { it.withLock { } }
        client.semaphore("printers:1", 2).withPermits(2) { }
        // The group of a composite lock is the group of its first name.
        client.multiLock(client.lock("stock:9"), client.lock("printers:0")).withLock { }
        listOf("x:1", "y:1", "z:1").forEach { client.lock(it).withLock { } }
        lock.withLock { assertFalse(onAnotherThread { lock.tryLock() }) }
        client.lock("stock:3").lock(Duration.ofMillis(100))
        awaitTrue("the loss") { "kind=\"lock\",group=\"stock\",reason=\"expired\"} 1" in client.metrics() }
    }

    private fun otel(metric: JsonObject): Pair<String, String> =
        metric["otel"].asJsonArray.let { it[0].asString to it[1].asString }

    private fun assertLikeTheTable(metric: JsonObject, found: MetricData) {
        val name = found.name
        assertEquals(metric["meaning"].asString, found.description, name)
        val type = metric["type"].asString
        val wanted = if (type == "histogram") MetricDataType.HISTOGRAM else MetricDataType.LONG_SUM
        assertEquals(wanted, found.type, name)
        val labels = metric["labels"].asJsonArray.mapTo(HashSet()) { "steadlock.${it.asString}" }
        if (name == "steadlock.wait.duration") labels += "steadlock.outcome"
        for (point in found.data.points) {
            assertEquals(labels, point.attributes.asMap().keys.mapTo(HashSet()) { it.key }, name)
        }
        if (type == "histogram") {
            val buckets = table["buckets"].asJsonArray.map { it.asDouble }
            assertTrue(found.histogramData.points.all { it.boundaries == buckets }, name)
        } else {
            assertEquals(type == "counter", found.longSumData.isMonotonic, name)
        }
    }

    /**
     * Returns whether OpenTelemetry's numbers equal the client's. Returns false if the client's numbers changed
     * meanwhile.
     */
    private fun sameAs(client: SteadlockClient): Boolean {
        val before = client.metrics()
        val found = collected.metrics()
        return before == client.metrics() && counts(client) == countsOf(found) && times(client) == timesOf(found)
    }

    /** The names in OpenTelemetry, by the names in Prometheus. */
    private val otelNames =
        table["client"].asJsonArray.map { it.asJsonObject }.associate { it["name"].asString to otel(it).first }

    private fun counts(client: SteadlockClient): Map<Pair<String, Map<String, String>>, Long> {
        val exposition = Exposition(client.metrics())
        val names = exposition.families.filter { it.type != "histogram" }.map { it.name }
        return exposition.samples.filter { it.name in names }.associate {
            (otelNames.getValue(it.name) to it.labels) to it.value.toLong()
        }
    }

    private fun countsOf(found: Map<String, MetricData>): Map<Pair<String, Map<String, String>>, Long> =
        found.values.filter { it.type == MetricDataType.LONG_SUM }.flatMap { metric ->
            metric.longSumData.points.map { (metric.name to labels(it.attributes)) to it.value }
        }.toMap()

    /**
     * Returns the number of recorded times, without the outcome, which the client's own metrics do not have as a label.
     */
    private fun times(client: SteadlockClient): Map<Pair<String, Map<String, String>>, Long> =
        Exposition(client.metrics()).samples.filter { it.name.endsWith("_seconds_count") && it.value > 0 }.associate {
            val name = it.name.removeSuffix("_seconds_count").replace('_', '.') + ".duration"
            (name to it.labels) to it.value.toLong()
        }

    private fun timesOf(found: Map<String, MetricData>): Map<Pair<String, Map<String, String>>, Long> =
        found.values.filter { it.type == MetricDataType.HISTOGRAM }.flatMap { metric ->
            metric.histogramData.points.map { (metric.name to labels(it.attributes) - "outcome") to it.count }
        }.groupBy({ it.first }, { it.second }).mapValues { it.value.sum() }

    private fun labels(attributes: Attributes): Map<String, String> =
        attributes.asMap().entries.associate { (key, value) -> key.key.removePrefix("steadlock.") to "$value" }

    @Test
    fun `the times match those of the client`() =
        counting().connect().use { client ->
            SteadlockTelemetry.instrument(client, collected.sdk)
            val lock = client.lock("stock:1", LockOptions.DEFAULT.withWait(Duration.ofMillis(50)))
            val took = measured { lock.withLock { onAnotherThread { runCatching { lock.lock() } } } }
            collected.spans(3)
            awaitTrue("all is there") { sameAs(client) }
            val sums = collected.metrics().values.filter { it.type == MetricDataType.HISTOGRAM }.associate { metric ->
                metric.name to metric.histogramData.points.sumOf(HistogramPointData::getSum)
            }
            for (name in listOf("wait", "hold")) {
                val sum = sums.getValue("steadlock.$name.duration")
                assertTrue(sum in 0.05..took, "$name took $sum s of $took s")
            }
        }

    private fun measured(work: () -> Unit): Double {
        val start = System.nanoTime()
        work()
        return (System.nanoTime() - start) / 1e9
    }

    @Test
    fun `a closed client is not measured any more`() {
        val client = counting().connect()
        SteadlockTelemetry.instrument(client, collected.sdk)
        client.lock("stock:1").lock()
        client.lock("stock:1").lockAsync()
        awaitTrue("it waits") { "steadlock_waiting{kind=\"lock\",group=\"stock\"} 1" in client.metrics() }
        assertTrue("steadlock.held" in collected.metrics())
        client.close()
        val times = listOf("steadlock.hold.duration", "steadlock.wait.duration")
        awaitTrue("both times are there, and nothing else") { collected.metrics().keys.sorted() == times }
        awaitTrue("all times are there") { times(client) == timesOf(collected.metrics()) }
    }

    @Test
    fun `two clients have different attributes`() =
        counting().connect().use { one ->
            counting().connect().use { two ->
                for ((client, role) in listOf(one to "one", two to "two")) {
                    val attributes = Attributes.builder().put("role", role).build()
                    SteadlockTelemetry.instrument(client, collected.sdk, attributes)
                }
                one.lock("stock:1").lock()
                two.lock("stock:1").withLock { }
                val held = collected.metrics().getValue("steadlock.held").longSumData.points
                assertEquals(mapOf("one" to 1L, "two" to 0L), held.associate { it.attributes["role"] to it.value })
                one.lock("stock:1").unlock()
                assertEquals(setOf("one", "two"), collected.spans(4).mapTo(HashSet()) { it["role"] })
            }
        }

    @Test
    fun `refused names add no groups`() =
        counting().connect().use { client ->
            SteadlockTelemetry.instrument(client, collected.sdk)
            repeat(5) { runCatching { client.lock("group$it:\u0000").lock() } }
            collected.spans(5)
            awaitTrue("all is there") {
                val points = collected.metrics()["steadlock.wait.duration"]?.histogramData?.points.orEmpty()
                assertTrue(points.all { it.attributes["group"] == "other" }, "$points")
                points.sumOf { it.count } == 5L
            }
        }
}
