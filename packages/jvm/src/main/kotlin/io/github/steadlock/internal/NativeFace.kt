package io.github.steadlock.internal

import io.github.steadlock.LockOptions
import io.github.steadlock.LostReason
import java.nio.ByteBuffer

/**
 * The native part, as this library calls it.
 *
 * Functions that start an operation never block. Each takes a tag, the caller's own number for the request, which
 * comes back in the event that ends it, and gives a number of the native part: not negative, what [cancel] takes;
 * or [DROPPED], or less for a defect. A second face can be added beside [JnaFace] without a change elsewhere.
 */
internal interface NativeFace {
    /** Checks the options and starts to connect; the first event, of tag 0, says how that went. */
    fun open(options: ClientOptions): Opened

    /** [lock] is the address of a [LockKey], here and below. */
    fun acquire(client: Long, tag: Long, lock: ByteArray, owner: Owner, options: LockOptions): Long

    fun release(client: Long, tag: Long, lease: Long): Long

    fun releaseInnermost(client: Long, tag: Long, lock: ByteArray, context: Long): Long

    fun extend(client: Long, tag: Long, lease: Long, byMs: Double?): Long

    fun inspect(client: Long, tag: Long, lock: String): Long

    fun forceRelease(client: Long, tag: Long, lock: String): Long

    fun setLimit(client: Long, tag: Long, lock: String): Long

    fun held(client: Long, tag: Long, lock: ByteArray, context: Long): Long

    /** Whether a holder of [lock] would wait for itself if it asked for [wanted]. */
    fun keepsOut(client: Long, lock: String, wanted: String): Boolean

    fun close(client: Long, tag: Long): Long

    /** The caller of an acquisition went away. */
    fun cancel(client: Long, request: Long)

    /**
     * Blocks until there are events, [timeoutMs] at the most, and writes them to the start of the direct [buffer].
     * Gives the bytes written, or -1 if the client was dropped.
     */
    fun next(client: Long, timeoutMs: Long, buffer: ByteBuffer): Int

    /** How long a lease may be relied on, in nanoseconds. Reads a clock that counts suspend. */
    fun remaining(client: Long, lease: Long): Long

    /** Blocks until the leases are released, [timeoutMs] at the most. */
    fun releaseNow(client: Long, leases: List<Long>, timeoutMs: Long)

    /** The program has nothing any more of a lease that was lost. */
    fun forget(client: Long, lease: Long)

    /** A client's counts as text, or why they are not known; null if the client was dropped. */
    fun metrics(client: Long): Counted<String>?

    /** The same as rows. */
    fun metricRows(client: Long): Counted<List<Metric>>?

    /** The label that locks of this name have for their group; null if the client counts nothing, or was dropped. */
    fun metricsGroup(client: Long, name: String): String?

    fun dropClient(client: Long)

    /** A lock's name as messages show it. */
    fun shown(name: String): String

    /** What releasing a lease of lock [name] throws that was lost for [reason]. */
    fun lostError(name: String, reason: LostReason): Failure

    fun vocabulary(): Vocabulary

    companion object {
        /** The client was dropped. */
        const val DROPPED = -1L
    }
}

/**
 * The options of a client by their names in the core; one that is left out has the core's default. A value is a
 * Boolean, a Double, a String, a list of strings, a map of strings, or a pair of doubles for the shortest and the longest
 * duration. It holds passwords, and is not to be shown.
 */
internal class ClientOptions(val values: Map<String, Any>) {
    val isLazy: Boolean get() = values["lazy"] == true

    fun with(name: String, value: Any): ClientOptions = ClientOptions(values + (name to value))

    override fun toString(): String = "ClientOptions(..)"
}

/** A new client's handle, or why there is none. */
internal class Opened(val handle: Long, val failure: Failure?)

/** A client's metrics, as a text for Prometheus or as rows, or why there are none. */
internal class Counted<T>(val metrics: T, val failure: Failure?)

/** One metric: [kind] is `counter`, `gauge` or `histogram`, and a histogram has the [bounds] of its buckets in seconds. */
internal class Metric(
    val name: String,
    val kind: String,
    val meaning: String,
    val otelName: String,
    val otelUnit: String,
    val bounds: List<Double>,
    val rows: List<MetricRow>,
)

/** One series of a metric. For a histogram, [number] is how many times it counted, and [seconds] is their sum. */
internal class MetricRow(val labels: Map<String, String>, val number: Long, val seconds: Double)

/** All words that the native part may say. */
internal class Vocabulary(
    val errorKinds: List<String>,
    val releaseOutcomes: List<String>,
    val lostReasons: List<String>,
    val kinds: List<String>,
    val onUnavailable: List<String>,
)
