package io.github.steadlock;

/**
 * What runs while a lock is held.
 *
 * @param <T> what it gives
 * @param <E> the checked exception that it throws, and that comes out with its type
 */
@FunctionalInterface
public interface LockedAction<T, E extends Exception> {
    T run(Lease lease) throws E;
}
