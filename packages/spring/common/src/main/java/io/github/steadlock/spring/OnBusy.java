package io.github.steadlock.spring;

/** What becomes of a call whose lock was not granted within its wait. */
public enum OnBusy {
    /**
     * The call throws {@link io.github.steadlock.LockTimeoutException}, which says who holds the
     * lock.
     */
    THROW,

    /**
     * The method does not run, and the call gives {@code null}, an empty {@code Optional}, or an
     * empty publisher. Methods with a primitive result are refused at start.
     */
    SKIP
}
