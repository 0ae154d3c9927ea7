package com.example.shop;

import java.util.Objects;
import java.util.concurrent.Callable;

/** Counts the checks that hold. The first check that fails ends the program. */
final class Checks {
    private static int count;

    private Checks() {}

    static void that(String what, boolean holds) {
        if (!holds) {
            throw new AssertionError("does not hold: " + what);
        }
        count++;
    }

    static void equal(String what, Object expected, Object found) {
        if (!Objects.equals(expected, found)) {
            throw new AssertionError(what + ": expected " + expected + ", found " + found);
        }
        count++;
    }

    static void contains(String what, String text, String... parts) {
        for (String part : parts) {
            if (!text.contains(part)) {
                throw new AssertionError(what + ": no " + part + " in " + text);
            }
        }
        count++;
    }

    /** Returns the exception of {@code type} that the action throws, directly or as a cause. */
    static <T extends Throwable> T fails(String what, Class<T> type, Callable<?> action) {
        try {
            action.call();
        } catch (Throwable thrown) {
            for (Throwable cause = thrown; cause != null; cause = cause.getCause()) {
                if (type.isInstance(cause)) {
                    count++;
                    return type.cast(cause);
                }
            }
            throw new AssertionError(what + ": threw something else", thrown);
        }
        throw new AssertionError(what + ": threw nothing");
    }

    static int count() {
        return count;
    }
}
