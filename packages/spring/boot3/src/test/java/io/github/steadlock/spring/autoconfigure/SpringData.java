package io.github.steadlock.spring.autoconfigure;

import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.autoconfigure.data.redis.RedisAutoConfiguration;
import org.springframework.boot.autoconfigure.data.redis.RedisConnectionDetails;

/** What this version of Spring Boot calls its support of Redis. */
final class SpringData {
    private SpringData() {}

    static AutoConfigurations autoConfiguration() {
        return AutoConfigurations.of(RedisAutoConfiguration.class);
    }

    static Class<RedisConnectionDetails> detailsType() {
        return RedisConnectionDetails.class;
    }

    /** As Testcontainers and the like make them. */
    static RedisConnectionDetails details(String host, int port) {
        return new RedisConnectionDetails() {
            @Override
            public Standalone getStandalone() {
                return Standalone.of(host, port);
            }
        };
    }
}
