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
 * What a client counts, as meters of Micrometer. Needs `io.micrometer:micrometer-core` on the class path, which this
 * library does not bring.
 *
 * ```java
 * var client = Steadlock.builder().url("redis://localhost:6379").metrics().connect();
 * new SteadlockMetrics(client).bindTo(registry);
 * ```
 *
 * Names and numbers are those of [SteadlockClient.metrics], with dots: a Prometheus registry says
 * `steadlock_acquisitions_total` of `steadlock.acquisitions`. The times `steadlock.wait` and `steadlock.hold` are
 * [FunctionTimer]s, which have the number and the sum of the times, but neither buckets nor a longest time: Micrometer
 * takes no histogram that is counted already.
 *
 * A meter that is read gives what the client had counted no more than 250 ms before. There is no thread behind it: kinds
 * and groups of locks that are new get their meters when any meter of this client is read. So each is there with the
 * next scrape or push after the one that follows its first acquisition, at the latest; counters lose nothing by that.
 *
 * When the client is closed, its meters stay, and give what it had counted in the end, until [close].
 *
 * @param client made with [SteadlockBuilder.metrics]
 * @param tags added to each meter. Several clients of one registry need some that tell them apart, with the same keys
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

        /** Readers of meters do not wait for it, as they may have locks of their registry. */
        private val changing = ReentrantLock()
        private val bound = mutableListOf<BoundRegistry>()
        private var isClosed = false
        private val hasFailed = AtomicBoolean()

        @Volatile
        private var counted = Counted(Exposition(client.metrics()))

        /**
         * Adds the meters to [registry], and those of further kinds and groups when they come. A registry that has them
         * already is left as it is.
         *
         * @throws IllegalStateException if meters of another client are there with the same tags, or this was closed
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

        /** Takes the meters out of their registries. The second time it does nothing. */
        override fun close(): Unit =
            changing.withLock {
                isClosed = true
                bound.forEach(BoundRegistry::remove)
                bound.clear()
            }

        /** The number of this id. */
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

        /** A reader is not to be told that another meter fails. */
        private fun addSafely(registry: BoundRegistry, sample: Sample) {
            try {
                registry.add(sample)
            } catch (failure: Throwable) {
                if (hasFailed.compareAndSet(false, true)) {
                    Log.error("Micrometer failed, and a meter is missing; locks are not affected", failure)
                }
            }
        }

        /** A registry and what it has of ours, by its id. */
        private inner class BoundRegistry(val registry: MeterRegistry) {
            private val known = HashSet<String>()
            private val meters = mutableListOf<Meter>()

            fun add(sample: Sample) {
                // One that fails is not tried again at each reading.
                if (known.add(sample.id)) {
                    meters += meterOf(sample) ?: return
                }
            }

            fun remove() {
                meters.forEach(registry::remove)
                meters.clear()
            }

            /** What is read has `this` for itself: meters refer to it weakly, and their functions do not. */
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

                    // The sum of a histogram, which belongs to the meter of its count.
                    else -> null
                }
            }
        }

        private companion object {
            /** A meter that is always there. */
            const val ANCHOR = "steadlock.breakers.open"

            fun dotted(name: String): String = name.removeSuffix("_total").removeSuffix("_seconds").replace('_', '.')
        }
    }

/** What the client had counted at some moment. */
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
