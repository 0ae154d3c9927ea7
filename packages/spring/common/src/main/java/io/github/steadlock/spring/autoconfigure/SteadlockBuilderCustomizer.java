package io.github.steadlock.spring.autoconfigure;

import io.github.steadlock.SteadlockBuilder;

/**
 * Changes how the client of the auto-configuration is made, for what has no property, as an
 * executor for callbacks. Beans of it are called in their order, after the properties have been
 * applied.
 */
@FunctionalInterface
public interface SteadlockBuilderCustomizer {
    /**
     * Changes {@code builder}.
     *
     * @param builder what the properties say; it is connected afterwards
     */
    void customize(SteadlockBuilder builder);
}
