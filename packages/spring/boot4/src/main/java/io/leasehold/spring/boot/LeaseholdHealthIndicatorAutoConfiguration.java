package io.leasehold.spring.boot;

import io.leasehold.spring.actuate.LeaseholdHealth;
import io.leasehold.spring.actuate.LeaseholdHealthAutoConfiguration;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.health.autoconfigure.contributor.ConditionalOnEnabledHealthIndicator;
import org.springframework.boot.health.contributor.HealthIndicator;
import org.springframework.context.annotation.Bean;

/** The health contributor {@code leasehold}, if there is Actuator. */
@AutoConfiguration(after = LeaseholdHealthAutoConfiguration.class)
@ConditionalOnClass({HealthIndicator.class, ConditionalOnEnabledHealthIndicator.class})
@ConditionalOnBean(LeaseholdHealth.class)
@ConditionalOnEnabledHealthIndicator("leasehold")
public class LeaseholdHealthIndicatorAutoConfiguration {
    @Bean
    @ConditionalOnMissingBean(name = "leaseholdHealthIndicator")
    HealthIndicator leaseholdHealthIndicator(LeaseholdHealth health) {
        return new LeaseholdHealthIndicator(health);
    }
}
