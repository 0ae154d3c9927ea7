package io.leasehold.spring.integration;

import io.leasehold.LeaseholdClient;
import io.leasehold.spring.autoconfigure.LeaseholdAutoConfiguration;
import io.leasehold.spring.autoconfigure.LeaseholdProperties;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.autoconfigure.condition.ConditionalOnSingleCandidate;
import org.springframework.context.annotation.Bean;
import org.springframework.integration.support.locks.LockRegistry;

/** A {@link LockRegistry}, unless the program has one. */
@AutoConfiguration(after = LeaseholdAutoConfiguration.class)
@ConditionalOnClass(LockRegistry.class)
@ConditionalOnSingleCandidate(LeaseholdClient.class)
@ConditionalOnProperty(
        name = "leasehold.registry.enabled",
        havingValue = "true",
        matchIfMissing = true)
public class LockRegistryAutoConfiguration {
    @Bean
    @ConditionalOnMissingBean(LockRegistry.class)
    LeaseholdLockRegistry leaseholdLockRegistry(
            LeaseholdClient client, LeaseholdProperties properties) {
        LeaseholdProperties.Registry registry = properties.registry();
        return new LeaseholdLockRegistry(client, registry.prefix(), registry.kind());
    }
}
