package io.github.steadlock.spring;

/**
 * The thread was interrupted while it waited for the lock of a {@link DistributedLock}, and the
 * method does not declare {@link InterruptedException}. Nothing of the attempt stays behind, the
 * method did not run, and the thread's interrupt is still set.
 */
public class LockInterruptedException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** With the method that waited, and what interrupted it. */
    public LockInterruptedException(String message, InterruptedException cause) {
        super(message, cause);
    }
}
