package io.leasehold.spring.autoconfigure;

import io.leasehold.LeaseholdBuilder;
import java.util.List;
import java.util.function.Consumer;

/**
 * What one property, or some that go together, say to the builder. If a client is refused with the
 * first steps up to this one, and was not before it, this one says something wrong.
 *
 * @param properties the names
 * @param value what they say, for messages; null for a secret
 */
record Step(List<String> properties, Object value, Consumer<LeaseholdBuilder> apply) {
    Step(String property, Object value, Consumer<LeaseholdBuilder> apply) {
        this(List.of(property), value, apply);
    }
}
