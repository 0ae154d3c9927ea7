package io.github.steadlock.internal

import com.sun.jna.Native
import io.github.steadlock.LockOptions
import io.github.steadlock.LostReason
import io.github.steadlock.internal.uniffi.NativeFailure
import io.github.steadlock.internal.uniffi.NativeMetric
import io.github.steadlock.internal.uniffi.NativeRun
import io.github.steadlock.internal.uniffi.NativeRunEnd
import io.github.steadlock.internal.uniffi.NativeValue
import java.nio.ByteBuffer
import java.time.Duration
import io.github.steadlock.internal.uniffi.acquireRun as uniffiAcquireRun
import io.github.steadlock.internal.uniffi.campaignPauseMs as uniffiCampaignPauseMs
import io.github.steadlock.internal.uniffi.cancel as uniffiCancel
import io.github.steadlock.internal.uniffi.close as uniffiClose
import io.github.steadlock.internal.uniffi.dropClient as uniffiDropClient
import io.github.steadlock.internal.uniffi.endRun as uniffiEndRun
import io.github.steadlock.internal.uniffi.extend as uniffiExtend
import io.github.steadlock.internal.uniffi.forceRelease as uniffiForceRelease
import io.github.steadlock.internal.uniffi.forget as uniffiForget
import io.github.steadlock.internal.uniffi.inspect as uniffiInspect
import io.github.steadlock.internal.uniffi.keepsOut as uniffiKeepsOut
import io.github.steadlock.internal.uniffi.lastRun as uniffiLastRun
import io.github.steadlock.internal.uniffi.leadership as uniffiLeadership
import io.github.steadlock.internal.uniffi.limits as uniffiLimits
import io.github.steadlock.internal.uniffi.lostError as uniffiLostError
import io.github.steadlock.internal.uniffi.metricRows as uniffiMetricRows
import io.github.steadlock.internal.uniffi.metrics as uniffiMetrics
import io.github.steadlock.internal.uniffi.metricsGroup as uniffiMetricsGroup
import io.github.steadlock.internal.uniffi.open as uniffiOpen
import io.github.steadlock.internal.uniffi.releaseNow as uniffiReleaseNow
import io.github.steadlock.internal.uniffi.resign as uniffiResign
import io.github.steadlock.internal.uniffi.setLimit as uniffiSetLimit
import io.github.steadlock.internal.uniffi.shown as uniffiShown
import io.github.steadlock.internal.uniffi.vocabulary as uniffiVocabulary

/**
 * The native part by JNA (Java Native Access): frequent calls go through [HotFunctions], rare calls through the
 * functions that uniffi generates.
 */
internal class JnaApi : NativeApi {
    override fun open(options: ClientOptions): Opened {
        val ofProcess = mapOf("log" to Log.wantedLevel(), "program" to programName(), "language" to LANGUAGE)
        val given = options.values + ofProcess.mapNotNull { (name, value) -> value?.let { name to it } }
        val opened = uniffiOpen(given.mapValues { (_, value) -> native(value) })
        return Opened(opened.handle.toLong(), opened.failure?.let { failure(it) })
    }

    override fun acquire(client: Long, tag: Long, lock: ByteArray, owner: Owner, options: LockOptions): Long =
        HotFunctions.steadlock_acquire(
            client,
            tag,
            lock,
            lock.size,
            owner.context,
            options.within?.held?.id ?: NONE,
            options.waitMs ?: Double.NaN,
            options.leaseMs ?: Double.NaN,
            if (options.renew) 1 else 0,
            options.maxHoldMs ?: Double.NaN,
            if (options.fencing) 1 else 0,
            options.onUnavailable?.ordinal ?: NONE.toInt(),
        )

    override fun release(client: Long, tag: Long, lease: Long): Long =
        HotFunctions.steadlock_release(client, tag, lease)

    override fun acquireRun(
        client: Long,
        tag: Long,
        lock: ByteArray,
        options: LockOptions,
        terms: RunTerms,
    ): Long {
        val run =
            NativeRun(
                leaseMs = options.leaseMs,
                renew = options.renew,
                maxHoldMs = options.maxHoldMs,
                fencing = options.fencing,
                onUnavailable = options.onUnavailable?.ordinal?.toUInt(),
                atLeastMs = terms.atLeastMs,
                key = terms.key,
                keepMs = terms.keepMs,
                onFailure = terms.onFailure?.name?.lowercase(),
            )
        return uniffiAcquireRun(client.toULong(), tag.toULong(), lock, run)
    }

    override fun endRun(client: Long, tag: Long, lease: Long, end: RunEnd, atLeastMs: Double?): Long {
        val native = NativeRunEnd.valueOf(end.name)
        return started(uniffiEndRun(client.toULong(), tag.toULong(), lease.toULong(), native, atLeastMs))
    }

    override fun resign(client: Long, tag: Long, lease: Long, to: String): Long =
        started(uniffiResign(client.toULong(), tag.toULong(), lease.toULong(), to))

    override fun lastRun(client: Long, tag: Long, lock: ByteArray): Long =
        started(uniffiLastRun(client.toULong(), tag.toULong(), lock))

    override fun leadership(client: Long, tag: Long, lock: ByteArray, seen: Long?): Long =
        uniffiLeadership(client.toULong(), tag.toULong(), lock, seen?.toULong())

    override fun campaignPauseMs(failures: Int): Long = uniffiCampaignPauseMs(failures.toUInt()).toLong()

    override fun releaseInnermost(client: Long, tag: Long, lock: ByteArray, context: Long): Long =
        HotFunctions.steadlock_release_innermost(client, tag, lock, lock.size, context)

    override fun next(client: Long, timeoutMs: Long, buffer: ByteBuffer): Int =
        // `clear` sets the position to the start, because JNA passes the address of the buffer's position.
        HotFunctions.steadlock_next(client, timeoutMs, buffer.clear(), buffer.capacity())

    override fun remaining(client: Long, lease: Long): Long = HotFunctions.steadlock_remaining(client, lease)

    override fun extend(client: Long, tag: Long, lease: Long, byMs: Double?): Long =
        started(uniffiExtend(client.toULong(), tag.toULong(), lease.toULong(), byMs))

    override fun inspect(client: Long, tag: Long, lock: ByteArray): Long =
        started(uniffiInspect(client.toULong(), tag.toULong(), lock))

    override fun forceRelease(client: Long, tag: Long, lock: ByteArray): Long =
        started(uniffiForceRelease(client.toULong(), tag.toULong(), lock))

    override fun setLimit(client: Long, tag: Long, lock: ByteArray): Long =
        started(uniffiSetLimit(client.toULong(), tag.toULong(), lock))

    override fun held(client: Long, tag: Long, lock: ByteArray, context: Long): Long =
        HotFunctions.steadlock_held(client, tag, lock, lock.size, context)

    override fun keepsOut(client: Long, lock: ByteArray, wanted: ByteArray): Boolean =
        uniffiKeepsOut(client.toULong(), lock, wanted)

    override fun close(client: Long, tag: Long): Long = started(uniffiClose(client.toULong(), tag.toULong()))

    override fun cancel(client: Long, request: Long) = uniffiCancel(client.toULong(), request.toULong())

    override fun releaseNow(client: Long, leases: List<Long>, timeoutMs: Long) =
        uniffiReleaseNow(client.toULong(), leases.map(Long::toULong), timeoutMs.toULong())

    override fun forget(client: Long, lease: Long) = uniffiForget(client.toULong(), lease.toULong())

    override fun metrics(client: Long): Counted<String>? =
        uniffiMetrics(client.toULong())?.let { counted -> Counted(counted.text, counted.failure?.let { failure(it) }) }

    override fun metricRows(client: Long): Counted<List<Metric>>? =
        uniffiMetricRows(client.toULong())?.let { counted ->
            Counted(counted.metrics.map(::metric), counted.failure?.let { failure(it) })
        }

    override fun metricsGroup(client: Long, name: String): String? = uniffiMetricsGroup(client.toULong(), name)

    override fun dropClient(client: Long) = uniffiDropClient(client.toULong())

    override fun displayName(name: String): String = uniffiShown(name)

    override fun lostError(name: String, reason: LostReason): Failure =
        failure(uniffiLostError(name, reason.name.lowercase()), name, reason)

    override fun vocabulary(): Vocabulary =
        uniffiVocabulary().let {
            Vocabulary(it.errorKinds, it.releaseOutcomes, it.lostReasons, it.kinds, it.onUnavailable)
        }

    override fun limits(): Limits =
        uniffiLimits().let {
            Limits(
                it.shortestLeaseMs.milliseconds(),
                it.longestLeaseMs.milliseconds(),
                it.mostPermits.toInt(),
                it.breakerFailures.toInt(),
                it.breakerPauseMs.milliseconds(),
            )
        }

    private fun ULong.milliseconds(): Duration = Duration.ofMillis(toLong())

    private fun failure(native: NativeFailure, lock: String? = null, reason: LostReason? = null): Failure =
        with(native) { Failure(kind, operation, message, lock, null, reason, node, isRetryable, cause) }

    private fun metric(native: NativeMetric): Metric =
        with(native) {
            val rows = rows.map { MetricRow(it.labels, it.number.toLong(), it.seconds) }
            Metric(name, kind, meaning, otelName, otelUnit, bounds, rows)
        }

    /** Returns the result of a call that cannot be cancelled, and so has no native number. */
    private fun started(isStarted: Boolean): Long = if (isStarted) 0 else NativeApi.DROPPED

    private fun native(value: Any): NativeValue =
        when (value) {
            is Boolean -> NativeValue.Flag(value)
            is Double -> NativeValue.Number(value)
            is Pair<*, *> -> NativeValue.Range(value.first as Double, value.second as Double)
            is List<*> -> NativeValue.Texts(value.map { it as String })
            is Map<*, *> -> NativeValue.Table(value.entries.associate { (from, to) -> from as String to to as String })
            else -> NativeValue.Text(value as String)
        }

    private companion object {
        const val NONE = -1L
        val LANGUAGE = "java ${System.getProperty("java.version")}"
    }
}

/**
 * The C functions of `bindings/jvm/src/hot.rs`, by JNA's direct mapping. They take only numbers and bytes, so that a
 * call costs a fraction of a microsecond instead of several.
 */
@Suppress("ktlint:standard:function-naming", "FunctionName")
internal object HotFunctions {
    init {
        Native.register(HotFunctions::class.java, "steadlock_jvm")
    }

    external fun steadlock_acquire(
        client: Long,
        tag: Long,
        lock: ByteArray,
        length: Int,
        context: Long,
        within: Long,
        waitMs: Double,
        leaseMs: Double,
        renew: Int,
        maxHoldMs: Double,
        fencing: Int,
        onUnavailable: Int,
    ): Long

    external fun steadlock_release(client: Long, tag: Long, lease: Long): Long

    external fun steadlock_release_innermost(
        client: Long,
        tag: Long,
        lock: ByteArray,
        length: Int,
        context: Long,
    ): Long

    external fun steadlock_held(client: Long, tag: Long, lock: ByteArray, length: Int, context: Long): Long

    external fun steadlock_next(client: Long, timeoutMs: Long, buffer: ByteBuffer, capacity: Int): Int

    external fun steadlock_remaining(client: Long, lease: Long): Long
}
