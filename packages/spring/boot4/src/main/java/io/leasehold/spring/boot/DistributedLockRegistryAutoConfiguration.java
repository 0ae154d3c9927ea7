package io.leasehold.spring.boot;

import io.leasehold.LeaseholdClient;
import io.leasehold.spring.autoconfigure.LeaseholdAutoConfiguration;
import io.leasehold.spring.autoconfigure.LeaseholdProperties;
import io.leasehold.spring.integration.LeaseholdLockRegistry;
import io.leasehold.spring.integration.LockRegistryAutoConfiguration;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.autoconfigure.condition.ConditionalOnSingleCandidate;
import org.springframework.context.annotation.Bean;
import org.springframework.integration.support.locks.DistributedLock;
import org.springframework.integration.support.locks.LockRegistry;

/** The registry of Spring Integration 7, whose locks also take a lease of the caller. */
@AutoConfiguration(
        after = LeaseholdAutoConfiguration.class,
        before = LockRegistryAutoConfiguration.class)
@ConditionalOnClass(DistributedLock.class)
@ConditionalOnSingleCandidate(LeaseholdClient.class)
@ConditionalOnProperty(
        name = "leasehold.registry.enabled",
        havingValue = "true",
        matchIfMissing = true)
public class DistributedLockRegistryAutoConfiguration {
    @Bean
    @ConditionalOnMissingBean(LockRegistry.class)
    LockRegistry<DistributedLock> leaseholdLockRegistry(
            LeaseholdClient client, LeaseholdProperties properties) {
        LeaseholdProperties.Registry registry = properties.registry();
        return new DistributedLockRegistry(
                new LeaseholdLockRegistry(client, registry.prefix(), registry.kind()));
    }
}
