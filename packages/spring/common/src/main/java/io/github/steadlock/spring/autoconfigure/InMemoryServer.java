package io.github.steadlock.spring.autoconfigure;

/**
 * A bean of it puts {@code memory://} in place of the server that properties name. For tests, which
 * have it by {@link io.github.steadlock.spring.test.AutoConfigureSteadlock}.
 */
public final class InMemoryServer {}
