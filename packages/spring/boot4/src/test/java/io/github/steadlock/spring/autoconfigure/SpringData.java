package io.github.steadlock.spring.autoconfigure;

import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.data.redis.autoconfigure.DataRedisAutoConfiguration;
import org.springframework.boot.data.redis.autoconfigure.DataRedisConnectionDetails;

/** The classes of this version of Spring Boot for Redis. */
final class SpringData {
    private SpringData() {}

    static AutoConfigurations autoConfiguration() {
        return AutoConfigurations.of(DataRedisAutoConfiguration.class);
    }

    static Class<DataRedisConnectionDetails> detailsType() {
        return DataRedisConnectionDetails.class;
    }

    /** Returns connection details like those of Testcontainers. */
    static DataRedisConnectionDetails details(String host, int port) {
        return new DataRedisConnectionDetails() {
            @Override
            public Standalone getStandalone() {
                return Standalone.of(host, port);
            }
        };
    }
}
