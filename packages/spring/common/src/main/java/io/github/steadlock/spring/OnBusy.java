package io.github.steadlock.spring;

/** How a call ends whose lock was not granted within its wait. */
public enum OnBusy {
    /**
     * The call throws {@link io.github.steadlock.LockTimeoutException}, which names the holder of
     * the lock.
     */
    THROW,

    /**
     * The method does not run, and the call returns {@code null}, an empty {@code Optional}, or an
     * empty publisher. A method with a primitive result stops the start of the program.
     */
    SKIP
}
