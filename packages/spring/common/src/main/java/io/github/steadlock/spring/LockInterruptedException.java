package io.github.steadlock.spring;

/**
 * The thread was interrupted while it waited for the lock of a {@link DistributedLock}, and the
 * method does not declare {@link InterruptedException}. The attempt is undone in the background,
 * the method did not run, and the thread's interrupt status is still set.
 */
public class LockInterruptedException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** Makes the exception of the method that waited, and of its interrupt. */
    public LockInterruptedException(String message, InterruptedException cause) {
        super(message, cause);
    }
}
