package io.github.steadlock.spring.boot;

import io.github.steadlock.spring.actuate.ClientHealths;
import io.github.steadlock.spring.actuate.SteadlockHealthAutoConfiguration;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.health.autoconfigure.contributor.ConditionalOnEnabledHealthIndicator;
import org.springframework.boot.health.contributor.CompositeHealthContributor;
import org.springframework.boot.health.contributor.HealthContributor;
import org.springframework.boot.health.contributor.HealthIndicator;
import org.springframework.context.annotation.Bean;

/**
 * The auto-configuration of the health contributor {@code steadlock}, if the program has Actuator.
 */
@AutoConfiguration(after = SteadlockHealthAutoConfiguration.class)
@ConditionalOnClass({HealthIndicator.class, ConditionalOnEnabledHealthIndicator.class})
@ConditionalOnBean(ClientHealths.class)
@ConditionalOnEnabledHealthIndicator("steadlock")
public class SteadlockHealthIndicatorAutoConfiguration {
    @Bean
    @ConditionalOnMissingBean(name = {"steadlockHealthIndicator", "steadlockHealthContributor"})
    HealthContributor steadlockHealthContributor(ClientHealths healths) {
        return healths.contributor(
                SteadlockHealthIndicator::new,
                all -> CompositeHealthContributor.fromMap(all, SteadlockHealthIndicator::new));
    }
}
