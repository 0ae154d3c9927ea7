package io.github.steadlock.internal

import io.github.steadlock.LockOptions
import io.github.steadlock.LostReason
import java.nio.ByteBuffer
import java.time.Duration

/**
 * The functions of the native part that this library calls.
 *
 * Functions that start an operation never block. Each takes a tag, the caller's own number for the request; the event
 * that ends the request repeats the tag. Each returns a number of the native part. A number that is not negative means
 * that the operation has started; the number of an acquisition is for [cancel]. [DROPPED] means that the client was
 * dropped, and a smaller number means a defect.
 */
internal interface NativeApi {
    /**
     * Checks the options and starts to connect; an event of tag 0 reports the result. With `lazy`, the first operation
     * starts to connect, and no event reports the result.
     */
    fun open(options: ClientOptions): Opened

    /** Starts an acquisition. [lock] is the [LockRef.bytes] of a lock, here and below. */
    fun acquire(client: Long, tag: Long, lock: ByteArray, owner: Owner, options: LockOptions): Long

    /** Starts to request a run of a job. */
    fun acquireRun(client: Long, tag: Long, lock: ByteArray, options: LockOptions, terms: RunTerms): Long

    fun release(client: Long, tag: Long, lease: Long): Long

    /** Starts to release a lease, and says how its run ended; for a lease that is no run, a plain release. */
    fun endRun(client: Long, tag: Long, lease: Long, end: RunEnd, atLeastMs: Double?): Long

    /** Starts to end a term, in favour of the candidate with the owner id [to]. */
    fun resign(client: Long, tag: Long, lease: Long, to: String): Long

    fun lastRun(client: Long, tag: Long, lock: ByteArray): Long

    /**
     * Starts to ask who leads. With [seen], the number of a term or 0 for "nobody leads", the request ends as soon as
     * that has changed.
     */
    fun leadership(client: Long, tag: Long, lock: ByteArray, seen: Long?): Long

    /** Returns the pause in ms before a candidate campaigns again, after [failures] lost terms one after another. */
    fun campaignPauseMs(failures: Int): Long

    fun releaseInnermost(client: Long, tag: Long, lock: ByteArray, context: Long): Long

    fun extend(client: Long, tag: Long, lease: Long, byMs: Double?): Long

    fun inspect(client: Long, tag: Long, lock: ByteArray): Long

    fun forceRelease(client: Long, tag: Long, lock: ByteArray): Long

    fun setLimit(client: Long, tag: Long, lock: ByteArray): Long

    fun held(client: Long, tag: Long, lock: ByteArray, context: Long): Long

    /** Returns whether a holder of [lock] would wait for itself if it acquired [wanted]. */
    fun keepsOut(client: Long, lock: ByteArray, wanted: ByteArray): Boolean

    fun close(client: Long, tag: Long): Long

    /** Cancels an acquisition whose caller no longer waits for it. */
    fun cancel(client: Long, request: Long)

    /**
     * Blocks until there are events, at most [timeoutMs], and writes them to the start of the direct [buffer]. Returns
     * the number of bytes written, or -1 if the client was dropped or the native part failed.
     */
    fun next(client: Long, timeoutMs: Long, buffer: ByteBuffer): Int

    /**
     * Returns how long the holder may rely on a lease, in nanoseconds; 0 if the lease is not valid. Reads a clock that
     * also counts the time for which the machine was suspended.
     */
    fun remaining(client: Long, lease: Long): Long

    /** Blocks until the leases are released, at most [timeoutMs]. */
    fun releaseNow(client: Long, leases: List<Long>, timeoutMs: Long)

    /** Forgets a lost lease, because the program has no object of it any more. */
    fun forget(client: Long, lease: Long)

    /** Returns the metrics of the client, or the reason why there are none; null if the client was dropped. */
    fun metrics(client: Long): Counted<String>?

    /** Returns the same metrics as rows. */
    fun metricRows(client: Long): Counted<List<Metric>>?

    /**
     * Returns the label `group` that the metrics give to a lock of this name; null if the client counts no metrics or
     * was dropped.
     */
    fun metricsGroup(client: Long, name: String): String?

    fun dropClient(client: Long)

    /** Returns a lock's name as messages show it. */
    fun displayName(name: String): String

    /** Returns the error for a lease of lock [name] that was lost for [reason]. */
    fun lostError(name: String, reason: LostReason): Failure

    fun vocabulary(): Vocabulary

    fun limits(): Limits

    companion object {
        /** The client was dropped. */
        const val DROPPED = -1L
    }
}

/**
 * The options of a client by their names in the core; one that is left out has the core's default. A value is a
 * Boolean, a Double, a String, a list of strings, a map of strings, or a pair of doubles for the shortest and the
 * longest duration. The options hold passwords, so [toString] hides them.
 */
internal class ClientOptions(val values: Map<String, Any>) {
    val isLazy: Boolean get() = values["lazy"] == true

    fun with(name: String, value: Any): ClientOptions = ClientOptions(values + (name to value))

    override fun toString(): String = "ClientOptions(..)"
}

/** The handle of a new client, or the reason why opening failed. */
internal class Opened(val handle: Long, val failure: Failure?)

/** The metrics of a client, as a text for Prometheus or as rows, or the reason why there are none. */
internal class Counted<T>(val metrics: T, val failure: Failure?)

/** One metric. [kind] is `counter`, `gauge` or `histogram`. A histogram has the [bounds] of its buckets, in seconds. */
internal class Metric(
    val name: String,
    val kind: String,
    val meaning: String,
    val otelName: String,
    val otelUnit: String,
    val bounds: List<Double>,
    val rows: List<MetricRow>,
)

/** One series of a metric. For a histogram, [number] is the number of measured times, and [seconds] is their sum. */
internal class MetricRow(val labels: Map<String, String>, val number: Long, val seconds: Double)

/**
 * All words that this library and the native part exchange: error kinds, release outcomes, reasons of a loss, kinds of
 * lock, and policies for outages in the order of their numbers.
 */
internal class Vocabulary(
    val errorKinds: List<String>,
    val releaseOutcomes: List<String>,
    val lostReasons: List<String>,
    val kinds: List<String>,
    val onUnavailable: List<String>,
)

/**
 * Ranges and defaults of the core. [shortestLease] is the shortest length of a fixed lease, and [mostPermits] is the
 * largest limit of a semaphore. The last two are the defaults of a circuit breaker.
 */
internal class Limits(
    val shortestLease: Duration,
    val longestLease: Duration,
    val mostPermits: Int,
    val breakerFailures: Int,
    val breakerPause: Duration,
)
