package io.github.steadlock.opentelemetry

import io.github.steadlock.Steadlock
import io.github.steadlock.SteadlockBuilder
import io.github.steadlock.awaitTrue
import io.opentelemetry.api.common.AttributeKey
import io.opentelemetry.api.common.Attributes
import io.opentelemetry.sdk.OpenTelemetrySdk
import io.opentelemetry.sdk.metrics.SdkMeterProvider
import io.opentelemetry.sdk.metrics.data.MetricData
import io.opentelemetry.sdk.testing.exporter.InMemoryMetricReader
import io.opentelemetry.sdk.testing.exporter.InMemorySpanExporter
import io.opentelemetry.sdk.trace.SdkTracerProvider
import io.opentelemetry.sdk.trace.data.SpanData
import io.opentelemetry.sdk.trace.export.SimpleSpanProcessor
import io.opentelemetry.sdk.trace.export.SpanExporter
import org.junit.jupiter.api.Assertions.assertEquals

/** A program's OpenTelemetry that keeps all spans and metrics in memory. */
class Collected(exporter: SpanExporter? = null) : AutoCloseable {
    private val spans = InMemorySpanExporter.create()
    private val reader = InMemoryMetricReader.create()

    val sdk: OpenTelemetrySdk =
        OpenTelemetrySdk.builder()
            .setTracerProvider(
                SdkTracerProvider.builder()
                    .addSpanProcessor(SimpleSpanProcessor.create(exporter ?: spans))
                    .build(),
            )
            .setMeterProvider(SdkMeterProvider.builder().registerMetricReader(reader).build())
            .build()

    /**
     * Waits until there are [count] spans of the library, and returns them in the order of their start. Fails if there
     * are more.
     */
    fun spans(count: Int): List<SpanData> {
        awaitTrue("$count spans") { spans().size >= count }
        return spans().also { assertEquals(count, it.size, "$it") }
    }

    /** Returns the library's spans so far, in the order of their start. */
    fun spans(): List<SpanData> =
        spans.finishedSpanItems.filter { it.name.startsWith("steadlock.") }.sortedBy(SpanData::getStartEpochNanos)

    /** Forgets the spans so far. */
    fun clear() = spans.reset()

    /** Collects the metrics now, and returns them by name. */
    fun metrics(): Map<String, MetricData> = reader.collectAllMetrics().associateBy(MetricData::getName)

    /** Runs [work] in a span of the program, and returns the id of the span. */
    fun within(work: () -> Unit): String {
        val span = sdk.getTracer("test").spanBuilder("caller").startSpan()
        try {
            span.makeCurrent().use { work() }
        } finally {
            span.end()
        }
        return span.spanContext.spanId
    }

    override fun close() = sdk.close()
}

/** Returns a builder with metrics, by default for a store of its own. */
fun counting(url: String = "memory://"): SteadlockBuilder = Steadlock.builder().url(url).metrics()

/** Returns the text of the attribute `steadlock.[name]`, or of the attribute [name]; null if there is none. */
operator fun Attributes.get(name: String): String? =
    asMap().entries.singleOrNull { (key: AttributeKey<*>, _) -> key.key.removePrefix("steadlock.") == name }
        ?.value?.toString()

operator fun SpanData.get(name: String): String? = attributes[name]

val SpanData.waits: Boolean
    get() = name == "steadlock.wait"
