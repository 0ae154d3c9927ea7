package io.github.steadlock.spring.autoconfigure;

import io.github.steadlock.spring.boot.RedisDetailsAutoConfiguration;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.autoconfigure.ssl.SslAutoConfiguration;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;

/** Contexts that have only the client. */
final class Contexts {
    private Contexts() {}

    static ApplicationContextRunner runner(String... properties) {
        return new ApplicationContextRunner()
                .withConfiguration(
                        AutoConfigurations.of(
                                SslAutoConfiguration.class,
                                RedisDetailsAutoConfiguration.class,
                                SteadlockAutoConfiguration.class))
                .withPropertyValues(properties);
    }

    /** Returns the start failure among the causes, or null. */
    static SteadlockStartException failure(Throwable failure) {
        for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
            if (cause instanceof SteadlockStartException start) {
                return start;
            }
        }
        return null;
    }
}
