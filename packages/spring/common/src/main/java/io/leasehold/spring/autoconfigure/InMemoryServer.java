package io.leasehold.spring.autoconfigure;

/**
 * A bean of it puts {@code memory://} in place of the server that properties name. For tests, which
 * have it by {@link io.leasehold.spring.test.AutoConfigureLeasehold}.
 */
public final class InMemoryServer {}
