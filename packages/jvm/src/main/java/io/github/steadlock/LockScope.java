package io.github.steadlock;

import kotlin.internal.LowPriorityInOverloadResolution;

/**
 * The part of {@link NamedLock} that Kotlin cannot declare: a method that throws what its argument
 * throws.
 */
public interface LockScope {
    /**
     * Runs {@code action} while the calling thread holds the lock. An interrupt during the wait is
     * kept for later.
     *
     * <pre>{@code
     * String row = lock.withLock(lease -> Files.readString(path)); // throws IOException
     * }</pre>
     *
     * @throws E if {@code action} throws it; what the release has to say is among its suppressed
     *     exceptions
     * @throws LockLostException if the lock was lost meanwhile, unless {@code action} threw
     * @throws UnavailableException if the server does not answer, or the lock is skipped ({@link
     *     OnUnavailable#SKIP}); {@code action} does not run
     */
    @LowPriorityInOverloadResolution // Kotlin has one of its own, without an E to infer.
    <T, E extends Exception> T withLock(LockedAction<T, E> action) throws E;
}
