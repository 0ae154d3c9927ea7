package io.github.steadlock.spring.actuate;

import io.github.steadlock.LockActivity;
import io.github.steadlock.SteadlockClient;
import io.github.steadlock.spring.aop.LockReasons;
import io.github.steadlock.spring.autoconfigure.SteadlockAutoConfiguration;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.actuate.autoconfigure.endpoint.condition.ConditionalOnAvailableEndpoint;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnSingleCandidate;
import org.springframework.context.annotation.Bean;

/**
 * The endpoint {@code locks}, if it is exposed. Otherwise nothing is kept of what the client does.
 */
@AutoConfiguration(after = SteadlockAutoConfiguration.class)
@ConditionalOnClass(ConditionalOnAvailableEndpoint.class)
@ConditionalOnAvailableEndpoint(endpoint = LocksEndpoint.class)
@ConditionalOnSingleCandidate(SteadlockClient.class)
public class LocksEndpointAutoConfiguration {
    @Bean(destroyMethod = "close")
    @ConditionalOnMissingBean
    LockActivity steadlockLockActivity(SteadlockClient client) {
        return LockActivity.watch(client);
    }

    @Bean
    @ConditionalOnMissingBean
    LocksEndpoint locksEndpoint(LockActivity activity, ObjectProvider<LockReasons> reasons) {
        return new LocksEndpoint(activity, reasons.getIfAvailable());
    }
}
