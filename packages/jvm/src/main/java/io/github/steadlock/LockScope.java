package io.github.steadlock;

import kotlin.internal.LowPriorityInOverloadResolution;

/**
 * The part of {@link NamedLock} that Kotlin cannot declare: a method that throws the checked
 * exceptions of its argument.
 */
public interface LockScope {
    /**
     * Runs {@code action} while the calling thread holds the lock. An interrupt does not end the
     * wait: the thread's interrupt status is set again afterwards.
     *
     * <pre>{@code
     * String row = lock.withLock(lease -> Files.readString(path)); // throws IOException
     * }</pre>
     *
     * @throws E if {@code action} throws it; an exception of the release is among its suppressed
     *     exceptions
     * @throws LockLostException if the lock was lost meanwhile, unless {@code action} threw
     * @throws UnavailableException if the server does not answer, or the lock is skipped ({@link
     *     OnUnavailable#SKIP}); {@code action} does not run then
     */
    @LowPriorityInOverloadResolution // Kotlin has an overload of its own, with no E to infer.
    <T, E extends Exception> T withLock(LockedAction<T, E> action) throws E;
}
