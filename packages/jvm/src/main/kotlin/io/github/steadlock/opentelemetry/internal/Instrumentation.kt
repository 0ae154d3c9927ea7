package io.github.steadlock.opentelemetry.internal

import io.github.steadlock.internal.Engine
import io.github.steadlock.internal.LockRef
import io.github.steadlock.internal.Log
import io.github.steadlock.internal.ObservedWait
import io.github.steadlock.internal.Observer
import io.github.steadlock.internal.Owner
import io.github.steadlock.internal.WorkThread
import io.opentelemetry.api.OpenTelemetry
import io.opentelemetry.api.common.Attributes
import java.io.Closeable
import java.util.concurrent.atomic.AtomicBoolean

/**
 * One instrumented client. Refers only to the engine of the client, so that the program can drop an instrumented
 * client.
 */
internal class Instrumentation(private val engine: Engine, openTelemetry: OpenTelemetry, attributes: Attributes) :
    Observer,
    Closeable {
    private val counts: Counts
    private val recorder: Recorder
    private val records = WorkThread("steadlock-telemetry", CAPACITY, ::droppedItem, ::run)
    private val hasFailed = AtomicBoolean()

    init {
        val metrics = engine.metricRows()
        counts = Counts(engine, metrics, openTelemetry.getMeter(SCOPE), attributes)
        recorder = Recorder(openTelemetry, metrics, attributes, engine::metricsGroup)
    }

    fun start() {
        engine.observe(this)
        try {
            counts.start()
        } catch (failed: Throwable) {
            engine.unobserve(this)
            throw failed
        }
    }

    override val isOnlyOne = true

    override fun requested(lock: LockRef, owner: Owner): ObservedWait = WaitRecord(lock, recorder, records::add)

    override fun closed(limitMs: Long) {
        records.add(counts::close)
        records.flush(limitMs)
    }

    override fun close() {
        engine.unobserve(this)
        records.add(counts::close)
        records.flush(CLOSE_MS)
    }

    /** Runs [record], and logs only the first failure of the program's exporter. */
    private fun run(record: Runnable) {
        try {
            record.run()
        } catch (failure: Throwable) {
            if (hasFailed.compareAndSet(false, true)) {
                Log.error("OpenTelemetry failed, and a span or a number is missing; locks are not affected", failure)
            }
        }
    }

    private companion object {
        /** The largest number of records that wait. */
        const val CAPACITY = 10_000
        const val CLOSE_MS = 500L
    }
}

private fun droppedItem(records: Long) = Runnable {
    Log.warn("$records spans and times were dropped, because OpenTelemetry was too slow")
}

/** The name of this library in OpenTelemetry. */
internal const val SCOPE = "io.github.steadlock"
