package io.github.steadlock.spring.autoconfigure;

/**
 * A marker: if there is a bean of this type, the client uses {@code memory://} instead of the
 * server that properties name. For tests, by {@link
 * io.github.steadlock.spring.test.AutoConfigureSteadlock}.
 */
public final class InMemoryServer {}
