package io.leasehold.spring.autoconfigure;

import io.leasehold.LeaseholdBuilder;

/**
 * Changes how the client of the auto-configuration is made, for what has no property, as an
 * executor for callbacks. Beans of it are called in their order, after the properties have been
 * applied.
 */
@FunctionalInterface
public interface LeaseholdBuilderCustomizer {
    /**
     * Changes {@code builder}.
     *
     * @param builder what the properties say; it is connected afterwards
     */
    void customize(LeaseholdBuilder builder);
}
