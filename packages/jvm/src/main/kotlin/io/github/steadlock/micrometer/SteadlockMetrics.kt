package io.github.steadlock.micrometer

import io.github.steadlock.InvalidArgumentException
import io.github.steadlock.SteadlockBuilder
import io.github.steadlock.SteadlockClient
import io.github.steadlock.internal.Engine
import io.github.steadlock.internal.Log
import io.github.steadlock.internal.Metric
import io.github.steadlock.internal.MetricRow
import io.micrometer.core.instrument.FunctionCounter
import io.micrometer.core.instrument.FunctionTimer
import io.micrometer.core.instrument.Gauge
import io.micrometer.core.instrument.Meter
import io.micrometer.core.instrument.MeterRegistry
import io.micrometer.core.instrument.Tag
import io.micrometer.core.instrument.Tags
import io.micrometer.core.instrument.binder.MeterBinder
import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicBoolean
import java.util.concurrent.locks.ReentrantLock
import kotlin.concurrent.withLock

/**
 * The metrics of a client as Micrometer meters. Needs `io.micrometer:micrometer-core` on the class path, which is no
 * dependency of this library.
 *
 * ```java
 * var client = Steadlock.builder().url("redis://localhost:6379").metrics().connect();
 * new SteadlockMetrics(client).bindTo(registry);
 * ```
 *
 * Names and numbers are those of [SteadlockClient.metrics], with dots in the names: a Prometheus registry shows
 * `steadlock.acquisitions` as `steadlock_acquisitions_total`. The times `steadlock.wait` and `steadlock.hold` are
 * [FunctionTimer]s. These have the number and the sum of the times, but neither buckets nor a maximum, because
 * Micrometer cannot import a histogram that was counted elsewhere.
 *
 * A meter shows numbers that are at most 250 ms old. There is no background thread: new kinds and groups of locks get
 * their meters when any meter of this client is read. A new meter appears, at the latest, with the second scrape or
 * push after the first acquisition of its kind and group. Counters lose nothing by the delay.
 *
 * When the client is closed, its meters stay until [close], with the final numbers.
 *
 * @param client a client that was made with [SteadlockBuilder.metrics]
 * @param tags tags to add to each meter. If several clients share one registry, give each different values for the same
 * keys
 * @throws InvalidArgumentException if [client] was made without metrics
 */
public class SteadlockMetrics
    @JvmOverloads
    constructor(
        client: SteadlockClient,
        tags: Iterable<Tag> = emptyList(),
    ) : MeterBinder,
        AutoCloseable {
        private val engine: Engine = client.engine
        private val tags = Tags.of(tags)

        /** The readers of meters never wait for this lock, because they may hold locks of their registry. */
        private val changing = ReentrantLock()
        private val bound = mutableListOf<BoundRegistry>()
        private var isClosed = false
        private val hasFailed = AtomicBoolean()

        @Volatile
        private var counted = Counted(engine.metricRows())

        /**
         * Adds the meters to [registry], and later those of new kinds and groups. Does nothing if the registry has them
         * already.
         *
         * @throws IllegalStateException if the registry has meters of another client with the same tags, or this object
         * was closed
         */
        override fun bindTo(registry: MeterRegistry): Unit =
            changing.withLock {
                check(!isClosed) { "these metrics were closed; make others" }
                if (bound.any { it.registry === registry }) return
                check(registry.find(ANCHOR).tags(tags).meters().isEmpty()) {
                    "the registry has the metrics of another client with the same tags; give each client some of its own"
                }
                counted = Counted(engine.metricRows())
                val added = BoundRegistry(registry)
                bound += added
                try {
                    counted.series.forEach { (id, series) -> added.add(id, series.metric) }
                } catch (failed: Throwable) {
                    bound -= added
                    added.remove()
                    throw failed
                }
            }

        /** Removes the meters from their registries. A second call does nothing. */
        override fun close(): Unit =
            changing.withLock {
                isClosed = true
                bound.forEach(BoundRegistry::remove)
                bound.clear()
            }

        /**
         * Returns the counts of this series, or null if the client has none. Reads the counts again if they are old.
         */
        private fun read(id: SeriesId): MetricRow? {
            if (counted.isOld && !changing.isHeldByCurrentThread && changing.tryLock()) {
                try {
                    if (counted.isOld) readAgain()
                } finally {
                    changing.unlock()
                }
            }
            return counted.series[id]?.row
        }

        private fun readAgain() {
            counted = Counted(engine.metricRows())
            for (registry in bound) {
                counted.series.forEach { (id, series) -> addSafely(registry, id, series.metric) }
            }
        }

        /**
         * Adds the meter of a series. A failure is logged and not thrown, because the program is reading another meter.
         */
        private fun addSafely(registry: BoundRegistry, id: SeriesId, metric: Metric) {
            try {
                registry.add(id, metric)
            } catch (failure: Throwable) {
                if (hasFailed.compareAndSet(false, true)) {
                    Log.error("Micrometer failed, and a meter is missing; locks are not affected", failure)
                }
            }
        }

        /** A registry with the meters that were added to it. */
        private inner class BoundRegistry(val registry: MeterRegistry) {
            private val known = HashSet<SeriesId>()
            private val meters = mutableListOf<Meter>()

            fun add(id: SeriesId, metric: Metric) {
                // A series whose meter fails counts as known, so it is not added again at each reading.
                if (known.add(id)) meters += meterOf(id, metric)
            }

            fun remove() {
                meters.forEach(registry::remove)
                meters.clear()
            }

            /**
             * Makes a meter that reads these metrics. The registry refers to this [SteadlockMetrics] weakly, but the
             * functions of the meter refer to it strongly, so that the program need not keep it.
             */
            private fun meterOf(id: SeriesId, metric: Metric): Meter {
                val (name, meaning) = dotted(metric.name) to metric.meaning
                val labels = tags.and(id.labels.map { (label, value) -> Tag.of(label, value) })
                val number = { read(id)?.number?.toDouble() ?: 0.0 }
                return when (metric.kind) {
                    "counter" -> {
                        val counter = FunctionCounter.builder(name, this@SteadlockMetrics) { number() }
                        counter.tags(labels).description(meaning).register(registry)
                    }

                    "gauge" -> {
                        val gauge = Gauge.builder(name, this@SteadlockMetrics) { number() }
                        val unit = "seconds".takeIf { metric.name.endsWith("_seconds") }
                        gauge.tags(labels).description(meaning).baseUnit(unit).register(registry)
                    }

                    else -> {
                        val timer =
                            FunctionTimer.builder(
                                name,
                                this@SteadlockMetrics,
                                { read(id)?.number ?: 0 },
                                { read(id)?.seconds ?: 0.0 },
                                TimeUnit.SECONDS,
                            )
                        timer.tags(labels).description(meaning).register(registry)
                    }
                }
            }
        }

        private companion object {
            /** The name of a meter that every client has. */
            const val ANCHOR = "steadlock.breakers.open"

            fun dotted(name: String): String = name.removeSuffix("_total").removeSuffix("_seconds").replace('_', '.')
        }
    }

/** The name of a metric and the labels of one of its series. */
private data class SeriesId(val name: String, val labels: Map<String, String>)

private class Series(val metric: Metric, val row: MetricRow)

/** The counts of the client at some moment. */
private class Counted(metrics: List<Metric>) {
    val series: Map<SeriesId, Series> =
        metrics.flatMap { metric ->
            metric.rows.map { SeriesId(metric.name, it.labels) to Series(metric, it) }
        }.toMap()
    private val readAt = System.nanoTime()

    val isOld: Boolean
        get() = System.nanoTime() - readAt > KEPT_NANOS

    private companion object {
        val KEPT_NANOS = TimeUnit.MILLISECONDS.toNanos(250)
    }
}
