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
 * The spans and metrics of a client for OpenTelemetry. Needs `io.opentelemetry:opentelemetry-api` on the class path,
 * which is no dependency of this library.
 *
 * ```java
 * var client = Steadlock.builder().url("redis://localhost:6379").metrics().connect();
 * var telemetry = SteadlockTelemetry.instrument(client, openTelemetry);
 * ```
 */
public object SteadlockTelemetry {
    /**
     * Makes a span `steadlock.wait` for each acquisition from now on, and a span `steadlock.hold` for each lease. The
     * parent of both is `Context.current()` at the call that acquires the lock, even if the lease ends on another
     * thread. Also reports metrics with the numbers of [SteadlockClient.metrics].
     *
     * A separate thread passes spans and the two histograms to OpenTelemetry after a wait or a lease has ended. No
     * caller of a lock waits for OpenTelemetry. Only the first failure of OpenTelemetry is logged. When 10,000 records
     * wait for a slow exporter, further ones are left out, and the log shows their number.
     *
     * When the client is closed, open spans and the metrics end.
     *
     * @param client a client that was made with [SteadlockBuilder.metrics]
     * @param openTelemetry the target of spans and metrics; by default the global one, which must be set before this
     * call
     * @param attributes attributes to add to each span and metric. If several clients share one [openTelemetry], give
     * each different attributes, because OpenTelemetry keeps only one of two numbers with the same name and attributes
     * @return closing it ends the metrics and the observation of new acquisitions; acquisitions that have begun still
     * get their spans. Closing waits at most 500 ms until finished spans are passed on
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
