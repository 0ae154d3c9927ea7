package io.github.steadlock

/**
 * The policy for acquisitions while the circuit breaker of their server is open; see [SteadlockBuilder.breaker].
 * [SteadlockBuilder.onUnavailable] sets the policy for a client, [LockOptions.onUnavailable] for a lock.
 *
 * To read a policy from configuration, use `OnUnavailable.valueOf("SKIP")`, which throws [IllegalArgumentException] for
 * an unknown name.
 */
public enum class OnUnavailable {
    /** The acquisition fails at once with [UnavailableException]. The default. */
    FAIL,

    /**
     * The client grants a *degraded* lease, which excludes only other callers of this client: other clients do not know
     * of it. [Lease.isDegraded] is true then, and there is no [Lease.token].
     *
     * Works for `lock`, `mutex`, `fairLock` and composite locks of these. Acquisitions of other kinds fail as with
     * [FAIL]. A client of several primaries refuses this policy with [InvalidArgumentException].
     */
    LOCAL,

    /**
     * The lock is not granted, and the program should skip the work that the lock guards. Methods that report a refusal
     * by their result return false or null at once. The others throw [UnavailableException] with
     * [SteadlockException.isSkipped] set, so that the body of a `withLock` does not run.
     */
    SKIP,
    ;

    /** The name of the policy in all other languages and in the native part. */
    internal val word: String = name.lowercase()
}
