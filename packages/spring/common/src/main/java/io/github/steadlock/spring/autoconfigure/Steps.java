package io.github.steadlock.spring.autoconfigure;

import io.github.steadlock.SteadlockBuilder;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.function.BiFunction;
import org.springframework.boot.convert.DurationStyle;

/** The steps of a client, in the order in which the builder gets them. */
final class Steps {
    static final String PREFIX = "steadlock";

    private final List<Step> all = new ArrayList<>();

    List<Step> all() {
        return all;
    }

    void add(Step step) {
        all.add(step);
    }

    void addAll(Collection<Step> steps) {
        all.addAll(steps);
    }

    /** Adds the property of this name below {@code steadlock}, if it is set. */
    <T> void add(String name, T value, BiFunction<SteadlockBuilder, T, SteadlockBuilder> apply) {
        addNamed(PREFIX + "." + name, value, apply);
    }

    /** Adds a property by its whole name, if it is set. */
    <T> void addNamed(
            String property, T value, BiFunction<SteadlockBuilder, T, SteadlockBuilder> apply) {
        if (value != null) {
            add(new Step(property, shown(value), builder -> apply.apply(builder, value)));
        }
    }

    /** Returns a value for messages. Writes a duration as in a property, such as {@code 5s}. */
    private static Object shown(Object value) {
        return value instanceof Duration time ? DurationStyle.SIMPLE.print(time) : value;
    }
}
