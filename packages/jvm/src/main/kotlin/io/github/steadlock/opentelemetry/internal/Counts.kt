package io.github.steadlock.opentelemetry.internal

import io.github.steadlock.internal.Engine
import io.github.steadlock.internal.Metric
import io.opentelemetry.api.common.Attributes
import io.opentelemetry.api.metrics.BatchCallback
import io.opentelemetry.api.metrics.Meter
import io.opentelemetry.api.metrics.ObservableLongMeasurement
import io.opentelemetry.api.metrics.ObservableMeasurement

/** The counters and gauges of the client, observed when OpenTelemetry collects. One collection reads all at once. */
internal class Counts(
    private val engine: Engine,
    metrics: List<Metric>,
    private val meter: Meter,
    private val common: Attributes,
) {
    private val measurements =
        metrics.filter { it.kind != "histogram" }.associate { it.otelName to measurement(it) }
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
        for (metric in engine.metricRows()) {
            val measurement = measurements[metric.otelName] ?: continue
            for (row in metric.rows) {
                val attributes = common.toBuilder()
                row.labels.forEach { (label, value) -> attributes.put("steadlock.$label", value) }
                measurement.record(row.number, attributes.build())
            }
        }
    }

    private fun measurement(metric: Metric): ObservableLongMeasurement =
        with(metric) {
            if (kind == "counter") {
                meter.counterBuilder(otelName).setUnit(otelUnit).setDescription(meaning).buildObserver()
            } else {
                meter.upDownCounterBuilder(otelName).setUnit(otelUnit).setDescription(meaning).buildObserver()
            }
        }
}
