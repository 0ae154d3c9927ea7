package io.github.steadlock.spring.boot;

import io.github.steadlock.SteadlockClient;
import io.github.steadlock.spring.autoconfigure.SteadlockAutoConfiguration;
import io.github.steadlock.spring.autoconfigure.SteadlockProperties;
import io.github.steadlock.spring.integration.LockRegistryAutoConfiguration;
import io.github.steadlock.spring.integration.SteadlockLockRegistry;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.autoconfigure.condition.ConditionalOnSingleCandidate;
import org.springframework.context.annotation.Bean;
import org.springframework.integration.support.locks.DistributedLock;
import org.springframework.integration.support.locks.LockRegistry;

/**
 * The auto-configuration of the registry for Spring Integration 7, in which a caller can set the
 * lease of an acquisition.
 */
@AutoConfiguration(
        after = SteadlockAutoConfiguration.class,
        before = LockRegistryAutoConfiguration.class)
@ConditionalOnClass(DistributedLock.class)
@ConditionalOnSingleCandidate(SteadlockClient.class)
@ConditionalOnProperty(
        name = {"steadlock.enabled", "steadlock.registry.enabled"},
        havingValue = "true",
        matchIfMissing = true)
public class DistributedLockRegistryAutoConfiguration {
    @Bean
    @ConditionalOnMissingBean(LockRegistry.class)
    LockRegistry<DistributedLock> steadlockLockRegistry(
            SteadlockClient client, SteadlockProperties properties) {
        SteadlockProperties.Registry registry = properties.registry();
        return new DistributedLockRegistry(
                new SteadlockLockRegistry(client, registry.prefix(), registry.kind()));
    }
}
