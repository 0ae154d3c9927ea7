package io.github.steadlock

/**
 * What becomes of an acquisition while the circuit breaker of its server is open; see [SteadlockBuilder.breaker]. Here
 * and in [SteadlockBuilder.onUnavailable] for a client, in [LockOptions.onUnavailable] for a lock.
 *
 * From configuration by its name: `OnUnavailable.valueOf("SKIP")`, which throws [IllegalArgumentException] for another
 * word.
 */
public enum class OnUnavailable {
    /** It fails at once with [UnavailableException]. The default. */
    FAIL,

    /**
     * It is granted a *degraded* lease, which excludes others of this client alone: other processes do not know of it.
     * [Lease.isDegraded] is true then, and there is no [Lease.token].
     *
     * For `lock`, `mutex`, `fairLock` and several of these as one; acquisitions of the others fail. With several
     * primaries it is refused with [InvalidArgumentException].
     */
    LOCAL,

    /**
     * It is not granted, and what the lock guards is not to be run then. Methods that say whether the lock was taken
     * give false or null, at once; the others throw [UnavailableException], which [SteadlockException.isSkipped], so
     * that the body of a `withLock` does not run.
     */
    SKIP,
    ;

    /** The word that programs in all languages, and the native part, have for it. */
    internal val word: String = name.lowercase()
}
