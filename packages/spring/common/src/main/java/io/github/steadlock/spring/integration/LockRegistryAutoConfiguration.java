package io.github.steadlock.spring.integration;

import io.github.steadlock.SteadlockClient;
import io.github.steadlock.spring.autoconfigure.SteadlockAutoConfiguration;
import io.github.steadlock.spring.autoconfigure.SteadlockProperties;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.autoconfigure.condition.ConditionalOnSingleCandidate;
import org.springframework.context.annotation.Bean;
import org.springframework.integration.support.locks.LockRegistry;

/** The auto-configuration of a {@link LockRegistry}, unless the program has one. */
@AutoConfiguration(after = SteadlockAutoConfiguration.class)
@ConditionalOnClass(LockRegistry.class)
@ConditionalOnSingleCandidate(SteadlockClient.class)
@ConditionalOnProperty(
        name = {"steadlock.enabled", "steadlock.registry.enabled"},
        havingValue = "true",
        matchIfMissing = true)
public class LockRegistryAutoConfiguration {
    @Bean
    @ConditionalOnMissingBean(LockRegistry.class)
    SteadlockLockRegistry steadlockLockRegistry(
            SteadlockClient client, SteadlockProperties properties) {
        SteadlockProperties.Registry registry = properties.registry();
        return new SteadlockLockRegistry(client, registry.prefix(), registry.kind());
    }
}
