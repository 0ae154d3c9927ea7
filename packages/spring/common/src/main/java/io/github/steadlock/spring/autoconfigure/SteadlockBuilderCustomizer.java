package io.github.steadlock.spring.autoconfigure;

import io.github.steadlock.SteadlockBuilder;

/**
 * A callback that changes how the auto-configuration makes the client, for settings without a
 * property, such as an executor for callbacks. Beans of this type are called in their order, after
 * the properties have been applied.
 */
@FunctionalInterface
public interface SteadlockBuilderCustomizer {
    /**
     * Changes {@code builder}.
     *
     * @param builder the builder with the settings of the properties; the auto-configuration calls
     *     its {@code connect} after all customizers
     */
    void customize(SteadlockBuilder builder);
}
