package io.github.steadlock;

import kotlin.internal.LowPriorityInOverloadResolution;

/**
 * The part of {@link NamedJob} that Kotlin cannot declare: a method that throws the checked
 * exceptions of its argument.
 */
public interface JobScope {
    /**
     * Runs {@code action} if no other run of the job goes on and the job is not done. The run ends
     * well when {@code action} returns, and as failed when it throws.
     *
     * @return {@link Ran} with the result of {@code action}, or {@link Skipped}
     * @throws E if {@code action} throws it; an exception of the release is among its suppressed
     *     exceptions
     * @throws LockLostException if the lease was lost meanwhile, unless {@code action} threw
     * @throws UnavailableException if the server does not answer; {@code action} does not run then
     */
    @LowPriorityInOverloadResolution // Kotlin has an overload of its own, with no E to infer.
    <T, E extends Exception> RunResult<T> run(LockedAction<T, E> action) throws E;
}
