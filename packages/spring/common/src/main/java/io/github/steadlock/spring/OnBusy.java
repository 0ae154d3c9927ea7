package io.github.steadlock.spring;

/** How a call ends whose lock was not granted within its wait, or was skipped. */
public enum OnBusy {
    /**
     * The call throws {@link io.github.steadlock.LockTimeoutException}, which names the holder of
     * the lock if it is known, or {@link io.github.steadlock.UnavailableException} if the lock was
     * skipped.
     */
    THROW,

    /**
     * The method does not run, and the call returns {@code null}, an empty {@code Optional}, an
     * empty publisher, or a stage that is completed with {@code null}. A method whose result cannot
     * be null, such as an {@code int}, stops the start of the program.
     */
    SKIP
}
