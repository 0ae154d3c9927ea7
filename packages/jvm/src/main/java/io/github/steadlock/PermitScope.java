package io.github.steadlock;

import kotlin.internal.LowPriorityInOverloadResolution;

/**
 * The part of {@link NamedSemaphore} that Kotlin cannot declare: methods that throw what their
 * argument throws.
 */
public interface PermitScope {
    /** Runs {@code action} while the calling thread holds one permit. See {@link #withPermits}. */
    @LowPriorityInOverloadResolution // Kotlin has one of its own, without an E to infer.
    default <T, E extends Exception> T withPermit(LockedAction<T, E> action) throws E {
        return withPermits(1, action);
    }

    /**
     * Runs {@code action} while the calling thread holds permits. An interrupt during the wait is
     * kept for later.
     *
     * @param permits 1 to 1,000, and no more than the limit
     * @throws E if {@code action} throws it; what the release has to say is among its suppressed
     *     exceptions
     * @throws LockLostException if the permits were lost meanwhile, unless {@code action} threw
     * @throws UnavailableException if the server does not answer, or the permits are skipped
     *     ({@link OnUnavailable#SKIP}); {@code action} does not run
     */
    @LowPriorityInOverloadResolution // Kotlin has one of its own, without an E to infer.
    <T, E extends Exception> T withPermits(int permits, LockedAction<T, E> action) throws E;
}
