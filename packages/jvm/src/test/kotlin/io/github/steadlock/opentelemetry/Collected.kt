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

/** A program's OpenTelemetry, which keeps what it is given. */
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

    /** The library's spans, by their start; waits until there are [count] of them, and there are no more. */
    fun spans(count: Int): List<SpanData> {
        awaitTrue("$count spans") { spans().size >= count }
        return spans().also { assertEquals(count, it.size, "$it") }
    }

    /** The library's spans so far, by their start. */
    fun spans(): List<SpanData> =
        spans.finishedSpanItems.filter { it.name.startsWith("steadlock.") }.sortedBy(SpanData::getStartEpochNanos)

    /** Forgets the spans so far. */
    fun clear() = spans.reset()

    /** What is measured now, by its name. */
    fun metrics(): Map<String, MetricData> = reader.collectAllMetrics().associateBy(MetricData::getName)

    /** Runs [work] in a span of the program, and gives its id. */
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

/** A client that counts, on a store of its own. */
fun counting(url: String = "memory://"): SteadlockBuilder = Steadlock.builder().url(url).metrics()

/** An attribute as text, without its `steadlock.`; null if it is not there. */
operator fun Attributes.get(name: String): String? =
    asMap().entries.singleOrNull { (key: AttributeKey<*>, _) -> key.key.removePrefix("steadlock.") == name }
        ?.value?.toString()

operator fun SpanData.get(name: String): String? = attributes[name]

val SpanData.waits: Boolean
    get() = name == "steadlock.wait"
