package io.github.steadlock.spring.actuate;

import io.github.steadlock.SteadlockClient;
import io.github.steadlock.spring.aop.LockReasons;
import io.github.steadlock.spring.autoconfigure.SteadlockAutoConfiguration;
import org.springframework.beans.factory.ListableBeanFactory;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.actuate.autoconfigure.endpoint.condition.ConditionalOnAvailableEndpoint;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.context.annotation.Bean;

/**
 * The auto-configuration of the endpoint {@code locks}, if it is exposed. Otherwise the clients
 * record no activity.
 */
@AutoConfiguration(after = SteadlockAutoConfiguration.class)
@ConditionalOnClass(ConditionalOnAvailableEndpoint.class)
@ConditionalOnAvailableEndpoint(endpoint = LocksEndpoint.class)
@ConditionalOnBean(SteadlockClient.class)
public class LocksEndpointAutoConfiguration {
    @Bean(destroyMethod = "close")
    @ConditionalOnMissingBean
    LocksEndpoint locksEndpoint(ListableBeanFactory beans, ObjectProvider<LockReasons> reasons) {
        return new LocksEndpoint(
                beans.getBeansOfType(SteadlockClient.class), reasons.getIfAvailable());
    }
}
