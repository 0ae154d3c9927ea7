package io.github.steadlock.spring.autoconfigure;

import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.autoconfigure.data.redis.RedisAutoConfiguration;
import org.springframework.boot.autoconfigure.data.redis.RedisConnectionDetails;

/** The classes of this version of Spring Boot for Redis. */
final class SpringData {
    private SpringData() {}

    static AutoConfigurations autoConfiguration() {
        return AutoConfigurations.of(RedisAutoConfiguration.class);
    }

    static Class<RedisConnectionDetails> detailsType() {
        return RedisConnectionDetails.class;
    }

    /** Returns connection details like those of Testcontainers. */
    static RedisConnectionDetails details(String host, int port) {
        return new RedisConnectionDetails() {
            @Override
            public Standalone getStandalone() {
                return Standalone.of(host, port);
            }
        };
    }
}
