package io.github.steadlock.micrometer

import io.github.steadlock.InvalidArgumentException
import io.github.steadlock.SteadlockBuilder
import io.github.steadlock.SteadlockClient
import io.github.steadlock.internal.Engine
import io.github.steadlock.internal.Exposition
import io.github.steadlock.internal.Log
import io.github.steadlock.internal.Sample
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
 * push after the first acquisition. Counters lose nothing by the delay.
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
        private var counted = Counted(Exposition(client.metrics()))

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
                counted = Counted(Exposition(engine.metrics()))
                val added = BoundRegistry(registry)
                bound += added
                try {
                    counted.exposition.samples.forEach(added::add)
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

        /** Returns the number with this id. */
        private fun read(id: String): Double {
            if (counted.isOld && !changing.isHeldByCurrentThread && changing.tryLock()) {
                try {
                    if (counted.isOld) readAgain()
                } finally {
                    changing.unlock()
                }
            }
            return counted.numbers[id] ?: 0.0
        }

        private fun readAgain() {
            counted = Counted(Exposition(engine.metrics()))
            for (registry in bound) {
                counted.exposition.samples.forEach { addSafely(registry, it) }
            }
        }

        /** Adds a meter and catches its failure, because a reader must not fail through another meter. */
        private fun addSafely(registry: BoundRegistry, sample: Sample) {
            try {
                registry.add(sample)
            } catch (failure: Throwable) {
                if (hasFailed.compareAndSet(false, true)) {
                    Log.error("Micrometer failed, and a meter is missing; locks are not affected", failure)
                }
            }
        }

        /** A registry with the meters that were added to it. */
        private inner class BoundRegistry(val registry: MeterRegistry) {
            private val known = HashSet<String>()
            private val meters = mutableListOf<Meter>()

            fun add(sample: Sample) {
                // A sample that fails stays in the set, so that not every reading tries it again.
                if (known.add(sample.id)) {
                    meters += meterOf(sample) ?: return
                }
            }

            fun remove() {
                meters.forEach(registry::remove)
                meters.clear()
            }

            /**
             * Returns the meter of a sample, or null if it needs none. A meter refers to the measured object only
             * weakly, but its function captures `this`, which keeps this object alive.
             */
            private fun meterOf(sample: Sample): Meter? {
                val (id, name) = sample.id to sample.name
                val labels = tags.and(sample.labels.map { (label, value) -> Tag.of(label, value) })
                val family = counted.families[name] ?: counted.families[name.removeSuffix("_count")]
                return when (family?.type) {
                    "counter" -> {
                        val counter = FunctionCounter.builder(dotted(name), this@SteadlockMetrics) { read(id) }
                        counter.tags(labels).description(family.meaning).register(registry)
                    }

                    "gauge" -> {
                        val gauge = Gauge.builder(dotted(name), this@SteadlockMetrics) { read(id) }
                        gauge.tags(labels).description(family.meaning).register(registry)
                    }

                    "histogram" -> {
                        val sum = family.name + "_sum" + id.removePrefix(name)
                        val timer =
                            FunctionTimer.builder(
                                dotted(family.name),
                                this@SteadlockMetrics,
                                { read(id).toLong() },
                                { read(sum) },
                                TimeUnit.SECONDS,
                            )
                        timer.tags(labels).description(family.meaning).register(registry)
                    }

                    // The sum of a histogram belongs to the meter of its count.
                    else -> null
                }
            }
        }

        private companion object {
            /** The name of a meter that every client has. */
            const val ANCHOR = "steadlock.breakers.open"

            fun dotted(name: String): String = name.removeSuffix("_total").removeSuffix("_seconds").replace('_', '.')
        }
    }

/** The metrics of the client at one moment. */
private class Counted(val exposition: Exposition) {
    val numbers: Map<String, Double> = exposition.samples.associate { it.id to it.value }
    val families = exposition.families.associateBy { it.name }
    private val readAt = System.nanoTime()

    val isOld: Boolean
        get() = System.nanoTime() - readAt > KEPT_NANOS

    private companion object {
        val KEPT_NANOS = TimeUnit.MILLISECONDS.toNanos(250)
    }
}
