package io.github.steadlock.opentelemetry.internal

import io.github.steadlock.LostReason
import io.github.steadlock.internal.Failure
import io.github.steadlock.internal.LockRef
import io.github.steadlock.internal.Metric
import io.github.steadlock.internal.displayName
import io.opentelemetry.api.OpenTelemetry
import io.opentelemetry.api.common.AttributeKey.booleanKey
import io.opentelemetry.api.common.AttributeKey.longKey
import io.opentelemetry.api.common.AttributeKey.stringKey
import io.opentelemetry.api.common.Attributes
import io.opentelemetry.api.common.AttributesBuilder
import io.opentelemetry.api.metrics.DoubleHistogram
import io.opentelemetry.api.trace.Span
import io.opentelemetry.api.trace.StatusCode
import io.opentelemetry.context.Context

/**
 * The recorder of the spans and times of waits and leases that have ended. The functions may throw, because they call
 * the program's code.
 */
internal class Recorder(
    openTelemetry: OpenTelemetry,
    metrics: List<Metric>,
    private val common: Attributes,
    private val groupOf: (String) -> String?,
) {
    private val tracer = openTelemetry.getTracer(SCOPE)
    private val histograms =
        metrics.filter { it.kind == "histogram" }.associate { it.otelName to histogram(openTelemetry, it) }
    private val waits = histograms.getValue("steadlock.wait.duration")
    private val holds = histograms.getValue("steadlock.hold.duration")

    fun wait(lock: LockRef, parent: Context, from: Moment, to: Moment, outcome: String, failure: Failure?) {
        val isError = outcome in ERRORS
        val attributes = attributes(lock).put(OUTCOME, outcome)
        if (isError) attributes.put(ERROR_TYPE, failure?.kind)
        val error = if (isError) failure?.message else null
        try {
            span("steadlock.wait", parent, from, to, attributes.build(), error)
        } finally {
            waits.record(to.secondsSince(from), times(lock, outcome).put(OUTCOME, outcome).build(), parent)
        }
    }

    fun hold(
        lock: LockRef,
        parent: Context,
        from: Moment,
        to: Moment,
        token: Long?,
        isDegraded: Boolean,
        outcome: String,
        lost: LostReason?,
    ) {
        val attributes = attributes(lock).put(OUTCOME, outcome)
        token?.let { attributes.put(TOKEN, it) }
        if (isDegraded) attributes.put(DEGRADED, true)
        lost?.let { attributes.put(REASON, it.name.lowercase()) }
        val error = if (lost in LOSSES) "the lease was lost: ${lost?.name?.lowercase()}" else null
        try {
            span("steadlock.hold", parent, from, to, attributes.build(), error)
        } finally {
            holds.record(to.secondsSince(from), times(lock, outcome).build(), parent)
        }
    }

    private fun span(name: String, parent: Context, from: Moment, to: Moment, attributes: Attributes, error: String?) {
        val builder = tracer.spanBuilder(name).setParent(parent).setStartTimestamp(from.wall)
        val span: Span = builder.setAllAttributes(attributes).startSpan()
        try {
            error?.let { span.setStatus(StatusCode.ERROR, it) }
        } finally {
            span.end(to.wall)
        }
    }

    private fun attributes(lock: LockRef): AttributesBuilder =
        common.toBuilder().put(KIND, lock.kind).put(LOCK, displayName(lock.name))

    private fun times(lock: LockRef, outcome: String): AttributesBuilder =
        common.toBuilder().put(KIND, lock.kind).put(GROUP, group(lock, outcome))

    /**
     * Returns the group of a lock in the metrics. A refused acquisition counts as `other` until the group is known,
     * because refused names can be arbitrary and many.
     */
    fun group(lock: LockRef, outcome: String): String {
        lock.group?.let { return it }
        val group = if (outcome == "refused") null else groupOf(lock.name)
        return group?.also { lock.group = it } ?: "other"
    }

    private companion object {
        val KIND = stringKey("steadlock.kind")
        val LOCK = stringKey("steadlock.lock")
        val GROUP = stringKey("steadlock.group")
        val OUTCOME = stringKey("steadlock.outcome")
        val REASON = stringKey("steadlock.reason")
        val TOKEN = longKey("steadlock.token")
        val DEGRADED = booleanKey("steadlock.degraded")
        val ERROR_TYPE = stringKey("error.type")

        /** The outcomes of a wait that are errors. */
        val ERRORS = setOf("unavailable", "misconfigured", "refused", "lost", "closed")

        /** The losses that are errors. The program itself causes the other ones. */
        val LOSSES = setOf(LostReason.EXPIRED, LostReason.REMOVED, LostReason.STOLEN)

        fun histogram(openTelemetry: OpenTelemetry, metric: Metric): DoubleHistogram {
            val builder = openTelemetry.getMeter(SCOPE).histogramBuilder(metric.otelName).setUnit(metric.otelUnit)
            return builder.setDescription(metric.meaning).setExplicitBucketBoundariesAdvice(metric.bounds).build()
        }
    }
}
