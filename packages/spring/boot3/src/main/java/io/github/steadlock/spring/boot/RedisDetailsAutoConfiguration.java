package io.github.steadlock.spring.boot;

import io.github.steadlock.spring.autoconfigure.SteadlockAutoConfiguration;
import io.github.steadlock.spring.autoconfigure.SteadlockConnectionDetails;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.data.redis.RedisAutoConfiguration;
import org.springframework.boot.autoconfigure.data.redis.RedisConnectionDetails;
import org.springframework.context.annotation.Bean;
import org.springframework.core.env.Environment;

/**
 * The auto-configuration of Steadlock's connection details, from those of Spring Boot for Redis.
 */
@AutoConfiguration(after = RedisAutoConfiguration.class, before = SteadlockAutoConfiguration.class)
@ConditionalOnClass(RedisConnectionDetails.class)
@ConditionalOnBean(RedisConnectionDetails.class)
public class RedisDetailsAutoConfiguration {
    @Bean
    @ConditionalOnMissingBean
    SteadlockConnectionDetails steadlockConnectionDetails(
            RedisConnectionDetails details, Environment environment) {
        return new RedisDetails(details, environment);
    }
}
