package io.github.steadlock.spring.autoconfigure;

import io.github.steadlock.SteadlockBuilder;
import java.util.List;
import java.util.function.Consumer;

/**
 * The change that one property, or several that belong together, make to the builder. If the client
 * is refused with all steps up to this one, but not without this one, then this step is wrong.
 *
 * @param properties the names of the properties
 * @param value their value, for messages; null for a secret
 */
record Step(List<String> properties, Object value, Consumer<SteadlockBuilder> apply) {
    Step(String property, Object value, Consumer<SteadlockBuilder> apply) {
        this(List.of(property), value, apply);
    }
}
