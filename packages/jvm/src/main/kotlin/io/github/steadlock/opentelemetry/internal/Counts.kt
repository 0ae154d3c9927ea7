package io.github.steadlock.opentelemetry.internal

import io.github.steadlock.internal.Engine
import io.github.steadlock.internal.Exposition
import io.github.steadlock.internal.Family
import io.opentelemetry.api.common.Attributes
import io.opentelemetry.api.metrics.BatchCallback
import io.opentelemetry.api.metrics.Meter
import io.opentelemetry.api.metrics.ObservableLongMeasurement
import io.opentelemetry.api.metrics.ObservableMeasurement

/** The metrics of the client, observed when OpenTelemetry collects. One collection reads all numbers from one text. */
internal class Counts(private val engine: Engine, private val meter: Meter, private val common: Attributes) {
    private val measurements =
        Exposition(engine.metrics()).families.filter { it.type != "histogram" }.associate { it.name to measurement(it) }
    private var callback: BatchCallback? = null

    @Synchronized
    fun start() {
        val all = measurements.values.toTypedArray<ObservableMeasurement>()
        callback = meter.batchCallback(::observe, all.first(), *all.drop(1).toTypedArray())
    }

    @Synchronized
    fun close() {
        callback?.close()
        callback = null
    }

    private fun observe() {
        if (engine.isClosed) return
        for (sample in Exposition(engine.metrics()).samples) {
            val measurement = measurements[sample.name] ?: continue
            val attributes = common.toBuilder()
            sample.labels.forEach { (label, value) -> attributes.put("steadlock.$label", value) }
            measurement.record(sample.value.toLong(), attributes.build())
        }
    }

    private fun measurement(family: Family): ObservableLongMeasurement {
        val name = family.name.removeSuffix("_total").replace('_', '.')
        val unit = UNITS.getValue(name)
        return if (family.type == "counter") {
            meter.counterBuilder(name).setUnit(unit).setDescription(family.meaning).buildObserver()
        } else {
            meter.upDownCounterBuilder(name).setUnit(unit).setDescription(family.meaning).buildObserver()
        }
    }

    private companion object {
        val UNITS =
            mapOf(
                "steadlock.acquisitions" to "{acquisition}",
                "steadlock.held" to "{lease}",
                "steadlock.waiting" to "{caller}",
                "steadlock.renewals" to "{renewal}",
                "steadlock.losses" to "{lease}",
                "steadlock.connections.lost" to "{connection}",
                "steadlock.reconnects" to "{connection}",
                "steadlock.connect.failures" to "{try}",
                "steadlock.breakers.opened" to "{breaker}",
                "steadlock.breakers.open" to "{breaker}",
                "steadlock.fair.queue" to "{caller}",
            )
    }
}
