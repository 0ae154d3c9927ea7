package io.github.steadlock.spring;

/**
 * The fate of the lock of a call whose {@code CompletableFuture} is cancelled while the method
 * works for it.
 */
public enum OnCancel {
    /**
     * The lock is held until the future of the method itself has completed. Cancelling a future
     * does not stop the work that another thread does for it, and nobody else is to come in
     * meanwhile.
     */
    KEEP,

    /**
     * The future of the method is cancelled too, and the lock is released at once. Work that goes
     * on all the same does so without the lock.
     */
    RELEASE
}
