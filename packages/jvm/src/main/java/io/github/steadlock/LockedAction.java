package io.github.steadlock;

/**
 * An action that runs while a lock is held.
 *
 * @param <T> the result of the action
 * @param <E> the checked exception that the action throws; callers see it with its own type
 */
@FunctionalInterface
public interface LockedAction<T, E extends Exception> {
    T run(Lease lease) throws E;
}
