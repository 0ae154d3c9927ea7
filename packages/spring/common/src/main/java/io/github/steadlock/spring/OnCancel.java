package io.github.steadlock.spring;

/**
 * The rule for the lock of a call whose {@code CompletableFuture} is cancelled while the method
 * still works.
 */
public enum OnCancel {
    /**
     * The lock is held until the future of the method itself has completed. Cancelling a future
     * does not stop the work that another thread does for it, and the lock must exclude others
     * until that work has ended.
     */
    KEEP,

    /**
     * The future of the method is cancelled too, and the lock is released at once. Work that
     * continues nevertheless runs without the lock.
     */
    RELEASE
}
