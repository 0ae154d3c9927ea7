package io.leasehold

/** What becomes of an acquisition while the circuit breaker of its server is open. */
public enum class OnUnavailable {
    /** It fails at once with an [UnavailableException]. */
    FAIL,

    /**
     * It is granted a lease that excludes others of the same client alone: [Lease.isDegraded], without a token. For
     * `lock`, `mutex`, `fairLock` and several of these as one; acquisitions of others fail.
     */
    LOCAL,

    /**
     * It is not granted: `tryLock` gives false or null, and what gives a lease or runs a block throws an
     * [UnavailableException] whose `isSkipped` is true, without running the block.
     */
    SKIP,
}
