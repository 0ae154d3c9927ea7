package io.github.steadlock.opentelemetry

import io.github.steadlock.ClosedException
import io.github.steadlock.InvalidArgumentException
import io.github.steadlock.SteadlockBuilder
import io.github.steadlock.SteadlockClient
import io.github.steadlock.opentelemetry.internal.Instrumentation
import io.opentelemetry.api.GlobalOpenTelemetry
import io.opentelemetry.api.OpenTelemetry
import io.opentelemetry.api.common.Attributes
import java.io.Closeable

/**
 * Spans and metrics of a client for OpenTelemetry. Needs `io.opentelemetry:opentelemetry-api` on the class path, which
 * this library does not bring.
 *
 * ```java
 * var client = Steadlock.builder().url("redis://localhost:6379").metrics().connect();
 * var telemetry = SteadlockTelemetry.instrument(client, openTelemetry);
 * ```
 */
public object SteadlockTelemetry {
    /**
     * From now on, each acquisition has a span `steadlock.wait`, and each lease a span `steadlock.hold`. The parent of
     * both is what is `Context.current()` where the lock is asked for, also if the lease ends on another thread. What
     * the client counts comes as metrics, whose numbers are those of [SteadlockClient.metrics].
     *
     * Spans and the two histograms are handed to OpenTelemetry on a thread of their own, when a wait or a lease has
     * ended: nothing of it keeps a lock waiting. A failure of it goes to the log, the first one only. While 10,000 of
     * them wait for a slow exporter, further ones are left out, and the log says how many.
     *
     * When the client is closed, what was open ends, and its metrics end.
     *
     * @param client made with [SteadlockBuilder.metrics]
     * @param openTelemetry whose spans and metrics they are; by default the global one, which has to be set before
     * @param attributes added to each span and metric. Several clients of one [openTelemetry] need some that tell them
     * apart: of two numbers with the same name and attributes, it takes only one
     * @return closing it ends the metrics and observes no further acquisitions; those that it knows of get their spans.
     * Waits 500 ms at the most for what has ended to be handed on
     * @throws InvalidArgumentException if [client] was made without metrics
     * @throws IllegalStateException if [client] is instrumented already
     * @throws ClosedException if [client] is closed
     */
    @JvmStatic
    @JvmOverloads
    public fun instrument(
        client: SteadlockClient,
        openTelemetry: OpenTelemetry = GlobalOpenTelemetry.get(),
        attributes: Attributes = Attributes.empty(),
    ): Closeable = Instrumentation(client.engine, openTelemetry, attributes).apply { start() }
}
