package io.leasehold.spring.boot;

import io.leasehold.spring.autoconfigure.LeaseholdAutoConfiguration;
import io.leasehold.spring.autoconfigure.LeaseholdConnectionDetails;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.data.redis.autoconfigure.DataRedisAutoConfiguration;
import org.springframework.boot.data.redis.autoconfigure.DataRedisConnectionDetails;
import org.springframework.context.annotation.Bean;
import org.springframework.core.env.Environment;

/** The server of Spring Boot's connection details for Redis, in the form that Leasehold knows. */
@AutoConfiguration(
        after = DataRedisAutoConfiguration.class,
        before = LeaseholdAutoConfiguration.class)
@ConditionalOnClass(DataRedisConnectionDetails.class)
@ConditionalOnBean(DataRedisConnectionDetails.class)
public class RedisDetailsAutoConfiguration {
    @Bean
    @ConditionalOnMissingBean
    LeaseholdConnectionDetails leaseholdConnectionDetails(
            DataRedisConnectionDetails details, Environment environment) {
        return new RedisDetails(details, environment);
    }
}
