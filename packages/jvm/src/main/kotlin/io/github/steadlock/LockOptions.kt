package io.github.steadlock

import io.github.steadlock.internal.millis
import java.time.Duration
import java.util.concurrent.TimeUnit

/**
 * How a lock is taken. Immutable: each `with…` gives a changed copy. What is not set is the default.
 *
 * ```java
 * LockOptions.DEFAULT.withWait(Duration.ofSeconds(5)).withMaxHold(Duration.ofMinutes(10))
 * ```
 *
 * The values are checked when a lock is taken: [InvalidArgumentException] says that one is out of its range.
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
    /** How long to wait for the lock; zero tries once. Default: as long as the server answers. */
    public fun withWait(wait: Duration): LockOptions = copy(waitMs = wait.millis())

    /**
     * A fixed lease, 100 ms to 24 h, that is not renewed, unless these options say [renewed] too. Default: the
     * client's lease, renewed until the release.
     */
    public fun withLease(lease: Duration): LockOptions = copy(leaseMs = lease.millis())

    /**
     * Renew the lease of [withLease], then 300 ms to 24 h, until the release. Says nothing new without a lease.
     *
     * ```java
     * LockOptions.DEFAULT.withLease(Duration.ofSeconds(5)).renewed()
     * ```
     */
    public fun renewed(): LockOptions = copy(renew = true)

    /** The longest the hold may last, counted from its first grant; it is lost then. Default: no bound. */
    public fun withMaxHold(maxHold: Duration): LockOptions = copy(maxHoldMs = maxHold.millis())

    /** The held lease of the same lock to re-enter. For callers without a thread of their own. */
    public fun within(lease: Lease): LockOptions = copy(within = lease)

    /** Draw no fencing token. */
    public fun withoutFencing(): LockOptions = copy(fencing = false)

    /**
     * What becomes of the acquisition while the server is unavailable. The client must have a circuit breaker
     * ([SteadlockBuilder.breaker] or [SteadlockBuilder.onUnavailable]): without one, acquiring the lock throws
     * [InvalidArgumentException]. Default: what the client has.
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

    /** A lease that is not renewed, whatever these options say. */
    internal fun withFixedLease(lease: Duration): LockOptions = copy(leaseMs = lease.millis(), renew = false)

    /** A fixed lease; -1 is one that is renewed, of the length of [withLease] if that is [renewed], or the client's. */
    internal fun withLease(lease: Long, unit: TimeUnit): LockOptions =
        when {
            lease != AUTO_RENEWED -> copy(leaseMs = unit.millis(lease), renew = false)
            renew -> this
            else -> copy(leaseMs = null)
        }

    /** A time as a `Lock` takes it: one that is negative does not wait. */
    internal fun withWait(wait: Long, unit: TimeUnit): LockOptions =
        copy(waitMs = unit.millis(wait.coerceAtLeast(0)))

    /** A time to wait as those of a `Lock`: one that is negative does not wait. */
    internal fun withWaitFrom(wait: Duration): LockOptions = withWait(if (wait.isNegative) Duration.ZERO else wait)

    /** These options, and where they set nothing, [defaults]. */
    internal fun over(defaults: LockOptions): LockOptions =
        LockOptions(
            waitMs ?: defaults.waitMs,
            leaseMs ?: defaults.leaseMs,
            // A lease and who renews it go together.
            renew || (leaseMs == null && defaults.renew),
            maxHoldMs ?: defaults.maxHoldMs,
            within ?: defaults.within,
            fencing && defaults.fencing,
            onUnavailable ?: defaults.onUnavailable,
        )

    public companion object {
        /** All defaults. */
        @JvmField
        public val DEFAULT: LockOptions = LockOptions(null, null, false, null, null, true, null)
        private const val AUTO_RENEWED = -1L
    }
}
