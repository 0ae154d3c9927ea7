package io.github.steadlock.spring.boot;

import io.github.steadlock.spring.autoconfigure.SteadlockAutoConfiguration;
import io.github.steadlock.spring.autoconfigure.SteadlockConnectionDetails;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.data.redis.autoconfigure.DataRedisAutoConfiguration;
import org.springframework.boot.data.redis.autoconfigure.DataRedisConnectionDetails;
import org.springframework.context.annotation.Bean;
import org.springframework.core.env.Environment;

/**
 * The auto-configuration of Steadlock's connection details, from those of Spring Boot for Redis.
 */
@AutoConfiguration(
        after = DataRedisAutoConfiguration.class,
        before = SteadlockAutoConfiguration.class)
@ConditionalOnClass(DataRedisConnectionDetails.class)
@ConditionalOnBean(DataRedisConnectionDetails.class)
public class RedisDetailsAutoConfiguration {
    @Bean
    @ConditionalOnMissingBean
    SteadlockConnectionDetails steadlockConnectionDetails(
            DataRedisConnectionDetails details, Environment environment) {
        return new RedisDetails(details, environment);
    }
}
