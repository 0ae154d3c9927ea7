package io.github.steadlock.spring;

import java.time.Duration;
import java.util.function.BooleanSupplier;

/** Waits for conditions that other threads or processes make true. */
public final class Waiting {
    private static final Duration LIMIT = Duration.ofSeconds(20);

    private Waiting() {}

    /** Waits until {@code condition} is true. Fails after 20 s. */
    public static void until(String what, BooleanSupplier condition) {
        long deadline = System.nanoTime() + LIMIT.toNanos();
        while (!condition.getAsBoolean()) {
            if (System.nanoTime() > deadline) {
                throw new AssertionError("not within " + LIMIT + ": " + what);
            }
            try {
                Thread.sleep(5);
            } catch (InterruptedException interrupt) {
                throw new AssertionError("interrupted while waiting: " + what, interrupt);
            }
        }
    }
}
