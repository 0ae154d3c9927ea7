package io.github.steadlock;

import kotlin.internal.LowPriorityInOverloadResolution;

/**
 * The part of {@link NamedSemaphore} that Kotlin cannot declare: methods that throw the checked
 * exceptions of their argument.
 */
public interface PermitScope {
    /** Runs {@code action} while the calling thread holds one permit. See {@link #withPermits}. */
    @LowPriorityInOverloadResolution // Kotlin has an overload of its own, with no E to infer.
    default <T, E extends Exception> T withPermit(LockedAction<T, E> action) throws E {
        return withPermits(1, action);
    }

    /**
     * Runs {@code action} while the calling thread holds permits. An interrupt does not end the
     * wait: the thread's interrupt status is set again afterwards.
     *
     * @param permits 1 to 1,000, and no more than the limit
     * @throws E if {@code action} throws it; an exception of the release is among its suppressed
     *     exceptions
     * @throws LockLostException if the permits were lost meanwhile, unless {@code action} threw
     * @throws UnavailableException if the server does not answer, or the permits are skipped
     *     ({@link OnUnavailable#SKIP}); {@code action} does not run then
     */
    @LowPriorityInOverloadResolution // Kotlin has an overload of its own, with no E to infer.
    <T, E extends Exception> T withPermits(int permits, LockedAction<T, E> action) throws E;
}
