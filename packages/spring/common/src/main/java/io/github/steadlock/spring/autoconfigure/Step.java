package io.github.steadlock.spring.autoconfigure;

import io.github.steadlock.SteadlockBuilder;
import java.util.List;
import java.util.function.Consumer;

/**
 * What one property, or some that go together, say to the builder. If a client is refused with the
 * first steps up to this one, and was not before it, this one says something wrong.
 *
 * @param properties the names
 * @param value what they say, for messages; null for a secret
 */
record Step(List<String> properties, Object value, Consumer<SteadlockBuilder> apply) {
    Step(String property, Object value, Consumer<SteadlockBuilder> apply) {
        this(List.of(property), value, apply);
    }
}
