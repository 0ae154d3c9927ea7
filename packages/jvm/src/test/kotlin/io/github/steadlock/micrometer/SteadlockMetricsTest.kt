package io.github.steadlock.micrometer

import com.google.gson.JsonParser
import io.github.steadlock.InvalidArgumentException
import io.github.steadlock.Steadlock
import io.github.steadlock.SteadlockBuilder
import io.github.steadlock.SteadlockClient
import io.github.steadlock.Warnings
import io.github.steadlock.awaitTrue
import io.github.steadlock.held
import io.github.steadlock.internal.Exposition
import io.github.steadlock.onAnotherThread
import io.micrometer.core.instrument.FunctionCounter
import io.micrometer.core.instrument.Meter
import io.micrometer.core.instrument.MeterRegistry
import io.micrometer.core.instrument.Tag
import io.micrometer.core.instrument.composite.CompositeMeterRegistry
import io.micrometer.core.instrument.config.MeterFilter
import io.micrometer.core.instrument.simple.SimpleMeterRegistry
import io.micrometer.prometheusmetrics.PrometheusConfig
import io.micrometer.prometheusmetrics.PrometheusMeterRegistry
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.RepeatedTest
import org.junit.jupiter.api.Test
import java.lang.ref.WeakReference
import java.nio.file.Files
import java.nio.file.Path
import java.time.Duration
import java.util.concurrent.atomic.AtomicBoolean
import kotlin.concurrent.thread

/** Compares the meters of Micrometer's registries with the metrics of the client itself. */
class SteadlockMetricsTest {
    private fun counting(): SteadlockBuilder = Steadlock.builder().url("memory://").metrics()

    private fun prometheus() = PrometheusMeterRegistry(PrometheusConfig.DEFAULT)

    /** Returns the names, labels and numbers of a text for Prometheus, without the order of labels and lines. */
    private fun numbers(text: String): Map<Pair<String, Map<String, String>>, Double> =
        Exposition(text).samples.associate { (it.name to it.labels) to it.value }

    private fun awaitSame(client: SteadlockClient, registry: PrometheusMeterRegistry) {
        awaitTrue("all series are there") { numbers(registry.scrape()).keys == numbers(client.metrics()).keys }
        awaitTrue("all numbers are there") { numbers(registry.scrape()) == numbers(client.metrics()) }
    }

    @Test
    fun `a Prometheus registry has the names and numbers of the client`() =
        counting().lease(Duration.ofSeconds(3)).metricsQueues("hot").connect().use { client ->
            awaitQueue(client)
            val registry = prometheus()
            SteadlockMetrics(client).bindTo(registry)
            awaitSame(client, registry)
            client.lock("stock:1").withLock { }
            awaitSame(client, registry)
            val lock = client.fairLock("odd \"\\\r\n{x}=,:1").apply { lock() }
            assertFalse(onAnotherThread { lock.tryLock() })
            client.semaphore("printers:1", 2).withPermits(2) { }
            client.once("report:daily").run { }
            client.lock("expires").lock(Duration.ofMillis(100))
            awaitTrue("a renewal") { lock.held.isValid && numbers(client.metrics()).any(::isRenewal) }
            client.forceRelease(lock)
            awaitTrue("the losses") {
                numbers(client.metrics()).filterKeys { it.first == "steadlock_losses_total" }.values.sum() == 2.0
            }
            awaitSame(client, registry)
            val scraped = Exposition(registry.scrape())
            val own = Exposition(client.metrics())
            val meanings = own.families.associate { it.name to it.meaning }
            assertEquals(meanings, scraped.families.associate { it.name to it.meaning })
            client.close()
            awaitSame(client, registry)
        }

    private fun awaitQueue(client: SteadlockClient) =
        awaitTrue("the queue") { client.lock("any").holder() == null && "fair_queue{" in client.metrics() }

    private fun isRenewal(sample: Map.Entry<Pair<String, Map<String, String>>, Double>): Boolean =
        sample.key.second["outcome"] == "renewed" && sample.value > 0

    @Test
    fun `every metric of the table is a meter, with its labels`() =
        counting().metricsQueues("hot").connect().use { client ->
            client.lock("stock:1").withLock { }
            client.once("report:daily").run { }
            awaitQueue(client)
            val registry = SimpleMeterRegistry()
            SteadlockMetrics(client).bindTo(registry)
            val table = JsonParser.parseString(Files.readString(Path.of("../../ci/api/metrics.json"))).asJsonObject
            val wanted =
                table["client"].asJsonArray.map { it.asJsonObject }.associate { metric ->
                    val name = metric["name"].asString.removeSuffix("_total").removeSuffix("_seconds")
                    name.replace('_', '.') to metric["labels"].asJsonArray.mapTo(HashSet()) { it.asString }
                }
            val found = registry.meters.associate { it.id.name to it.id.tags.mapTo(HashSet(), Tag::getKey) }
            assertEquals(wanted, found)
        }

    @Test
    fun `two clients of one registry have different tags`() =
        counting().connect().use { one ->
            counting().connect().use { two ->
                val registry = prometheus()
                SteadlockMetrics(one, listOf(Tag.of("client", "one"))).bindTo(registry)
                SteadlockMetrics(two, listOf(Tag.of("client", "two"))).bindTo(registry)
                one.lock("stock:1").lock()
                two.lock("stock:1").withLock { }
                val held = { name: String ->
                    registry.find("steadlock.held").tags("client", name, "group", "stock").gauge()?.value()
                }
                awaitTrue("both are there") {
                    registry.scrape()
                    held("one") == 1.0 && held("two") == 0.0
                }
            }
        }

    @Test
    fun `a second client with the same tags is refused`() =
        counting().connect().use { one ->
            counting().connect().use { two ->
                val registry = SimpleMeterRegistry()
                val metrics = SteadlockMetrics(one)
                repeat(2) { metrics.bindTo(registry) }
                val refused =
                    assertThrows(IllegalStateException::class.java) { SteadlockMetrics(two).bindTo(registry) }
                assertTrue("tags" in refused.message.orEmpty(), refused.message)
                metrics.close()
                SteadlockMetrics(two).bindTo(registry)
            }
        }

    @Test
    fun `closing removes the meters from all registries`() =
        counting().connect().use { client ->
            val registries: List<MeterRegistry> =
                listOf(SimpleMeterRegistry(), prometheus(), CompositeMeterRegistry().add(SimpleMeterRegistry()))
            val metrics = SteadlockMetrics(client)
            registries.forEach(metrics::bindTo)
            client.lock("stock:1").withLock { }
            awaitTrue("new meters") {
                registries.flatMap(MeterRegistry::getMeters).forEach(::read)
                registries.all { registry -> registry.meters.any { it.id.getTag("group") == "stock" } }
            }
            val meters = registries.flatMap(MeterRegistry::getMeters)
            repeat(2) { metrics.close() }
            listOf("stock:1", "other:1").forEach { client.lock(it).withLock { } }
            val counter = meters.first { it.id.getTag("outcome") == "granted" } as FunctionCounter
            awaitTrue("it was read again") { counter.count() == 2.0 }
            meters.forEach(::read)
            assertTrue(registries.all { it.meters.isEmpty() })
            assertThrows(IllegalStateException::class.java) { metrics.bindTo(registries.first()) }
            Unit
        }

    private fun read(meter: Meter) = meter.measure().forEach { it.value }

    @Test
    fun `a client without metrics is refused`() =
        Steadlock.connect("memory://").use { client ->
            assertThrows(InvalidArgumentException::class.java) { SteadlockMetrics(client) }
            Unit
        }

    /** Registries refer only weakly to the objects that they measure. */
    @Test
    fun `bound metrics need no reference, and do not keep the client`() {
        val registry = SimpleMeterRegistry()
        val client = WeakReference(bound(registry))
        Warnings().use { warnings ->
            awaitTrue("the client is collected", 60_000) {
                System.gc()
                client.get() == null && warnings.any { "without close()" in it }
            }
        }
        val granted = registry.find("steadlock.acquisitions").tags("outcome", "granted").functionCounter()
        assertEquals(1.0, granted?.count())
    }

    private fun bound(registry: MeterRegistry): SteadlockClient {
        val client = counting().connect()
        client.lock("stock:1").withLock { }
        SteadlockMetrics(client).bindTo(registry)
        return client
    }

    @Test
    fun `a registry that refuses a meter still reads the others`() =
        counting().connect().use { client ->
            val registry = SimpleMeterRegistry()
            registry.config().meterFilter(
                object : MeterFilter {
                    override fun map(id: Meter.Id): Meter.Id = if (id.getTag("group") == "bad") error("refused") else id
                },
            )
            SteadlockMetrics(client).bindTo(registry)
            val gauge = checkNotNull(registry.find("steadlock.breakers.open").gauge())
            Warnings().use { warnings ->
                client.lock("bad:1").withLock { }
                awaitTrue("it is logged") {
                    assertEquals(0.0, gauge.value())
                    warnings.any { "Micrometer failed" in it }
                }
                client.lock("good:1").withLock { }
                awaitTrue("the others come") {
                    gauge.value()
                    registry.meters.any { it.id.getTag("group") == "good" }
                }
                assertEquals(1, warnings.count { "Micrometer failed" in it })
            }
        }

    @RepeatedTest(50)
    fun `threads can scrape, bind and close concurrently`() =
        counting().connect().use { client ->
            val registry = prometheus()
            val lasting = SteadlockMetrics(client, listOf(Tag.of("client", "lasting")))
            lasting.bindTo(registry)
            val isRunning = AtomicBoolean(true)
            val failures = mutableListOf<Throwable>()
            val threads =
                List(4) { number ->
                    thread {
                        try {
                            // Each round has a tag value of its own, because a scrape can see both a removed meter and
                            // its replacement.
                            for (round in generateSequence(1) { it + 1 }.takeWhile { isRunning.get() }) {
                                if (number < 2) {
                                    registry.scrape()
                                } else {
                                    SteadlockMetrics(client, listOf(Tag.of("client", "$number-$round"))).use {
                                        it.bindTo(registry)
                                        registry.scrape()
                                    }
                                }
                            }
                        } catch (failure: Throwable) {
                            synchronized(failures) { failures += failure }
                        }
                    }
                }
            repeat(20) { client.lock("group$it:1").withLock { } }
            isRunning.set(false)
            threads.forEach { it.join(10_000) }
            assertEquals(emptyList<Throwable>(), failures)
            assertTrue(threads.none(Thread::isAlive))
            val wanted = numbers(client.metrics()).mapKeys { (id, _) ->
                id.first to id.second + ("client" to "lasting")
            }
            awaitTrue("all numbers are there") { numbers(registry.scrape()) == wanted }
        }
}
