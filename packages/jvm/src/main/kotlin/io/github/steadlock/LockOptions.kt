package io.github.steadlock

import io.github.steadlock.internal.millis
import java.time.Duration
import java.util.concurrent.TimeUnit

/**
 * The options for acquiring a lock. Immutable: each method returns a changed copy. An option that is not set has its
 * default.
 *
 * ```java
 * LockOptions.DEFAULT.withWait(Duration.ofSeconds(5)).withMaxHold(Duration.ofMinutes(10))
 * ```
 *
 * The values are checked when a lock is acquired: a value out of its range throws [InvalidArgumentException].
 */
public class LockOptions private constructor(
    internal val waitMs: Double?,
    internal val leaseMs: Double?,
    internal val renew: Boolean,
    internal val maxHoldMs: Double?,
    internal val within: Lease?,
    internal val fencing: Boolean,
    internal val onUnavailable: OnUnavailable?,
) {
    /** Sets how long to wait for the lock. Zero makes a single attempt. Default: as long as the server answers. */
    public fun withWait(wait: Duration): LockOptions = copy(waitMs = wait.millis())

    /**
     * Sets the length of the lease, 100 ms to 24 h. The lease is fixed, unless [renewed] is set too. Default: the
     * client's lease, renewed until the release.
     */
    public fun withLease(lease: Duration): LockOptions = copy(leaseMs = lease.millis())

    /**
     * Renews the lease of [withLease] until the release, whether these options set that lease or the lock's own do. A
     * renewed lease is 300 ms to 24 h long. Changes nothing if neither sets a lease, because the client's own lease is
     * renewed anyway.
     *
     * ```java
     * LockOptions.DEFAULT.withLease(Duration.ofSeconds(5)).renewed()
     * ```
     */
    public fun renewed(): LockOptions = copy(renew = true)

    /**
     * Sets the longest time that the hold may last, counted from its first grant. The lease is lost when that time has
     * passed. Default: no bound.
     */
    public fun withMaxHold(maxHold: Duration): LockOptions = copy(maxHoldMs = maxHold.millis())

    /**
     * Re-enters the hold of [lease], a held lease of the same lock. For callers that are no thread, such as stages and
     * coroutines.
     */
    public fun within(lease: Lease): LockOptions = copy(within = lease)

    /** Acquires the lock without a fencing token. */
    public fun withoutFencing(): LockOptions = copy(fencing = false)

    /**
     * Sets how an acquisition ends while the server is unavailable. The client must have a circuit breaker
     * ([SteadlockBuilder.breaker] or [SteadlockBuilder.onUnavailable]): without one, acquiring the lock throws
     * [InvalidArgumentException]. Default: the setting of the client.
     */
    public fun onUnavailable(onUnavailable: OnUnavailable): LockOptions = copy(onUnavailable = onUnavailable)

    internal fun copy(
        waitMs: Double? = this.waitMs,
        leaseMs: Double? = this.leaseMs,
        renew: Boolean = this.renew,
        maxHoldMs: Double? = this.maxHoldMs,
        within: Lease? = this.within,
        fencing: Boolean = this.fencing,
        onUnavailable: OnUnavailable? = this.onUnavailable,
    ): LockOptions = LockOptions(waitMs, leaseMs, renew, maxHoldMs, within, fencing, onUnavailable)

    /** Sets a fixed lease and clears [renewed]. */
    internal fun withFixedLease(lease: Duration): LockOptions = copy(leaseMs = lease.millis(), renew = false)

    /**
     * Sets a fixed lease. -1 stands for an auto-renewed lease: that of these options if it is [renewed], or else the
     * client's.
     */
    internal fun withLease(lease: Long, unit: TimeUnit): LockOptions =
        when {
            lease != AUTO_RENEWED -> copy(leaseMs = unit.millis(lease), renew = false)
            renew -> this
            else -> copy(leaseMs = null)
        }

    /** Sets a wait with the rule of `Lock`: a negative time does not wait. */
    internal fun withWait(wait: Long, unit: TimeUnit): LockOptions =
        copy(waitMs = unit.millis(wait.coerceAtLeast(0)))

    /** Sets a wait with the rule of `Lock`: a negative time does not wait. */
    internal fun withWaitFrom(wait: Duration): LockOptions = withWait(if (wait.isNegative) Duration.ZERO else wait)

    /** Returns these options, completed by [defaults] where they set nothing. */
    internal fun over(defaults: LockOptions): LockOptions =
        LockOptions(
            waitMs ?: defaults.waitMs,
            leaseMs ?: defaults.leaseMs,
            // The renewal of the defaults is for the lease of the defaults, and not for a lease of these options.
            renew || (leaseMs == null && defaults.renew),
            maxHoldMs ?: defaults.maxHoldMs,
            within ?: defaults.within,
            fencing && defaults.fencing,
            onUnavailable ?: defaults.onUnavailable,
        )

    public companion object {
        /** The options with all defaults. */
        @JvmField
        public val DEFAULT: LockOptions = LockOptions(null, null, false, null, null, true, null)
        private const val AUTO_RENEWED = -1L
    }
}
