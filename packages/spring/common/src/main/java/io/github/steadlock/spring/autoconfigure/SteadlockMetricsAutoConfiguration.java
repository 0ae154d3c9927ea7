package io.github.steadlock.spring.autoconfigure;

import io.github.steadlock.SteadlockClient;
import io.github.steadlock.micrometer.SteadlockMetrics;
import io.micrometer.core.instrument.MeterRegistry;
import org.springframework.beans.factory.ListableBeanFactory;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.context.annotation.Bean;

/** The auto-configuration of the clients' metrics as Micrometer meters, if there is a registry. */
@AutoConfiguration(after = SteadlockAutoConfiguration.class)
@ConditionalOnClass(MeterRegistry.class)
@ConditionalOnBean({MeterRegistry.class, SteadlockClient.class})
@ConditionalOnProperty(
        name = "steadlock.metrics.enabled",
        havingValue = "true",
        matchIfMissing = true)
public class SteadlockMetricsAutoConfiguration {
    @Bean(destroyMethod = "close")
    @ConditionalOnMissingBean(SteadlockMetrics.class)
    ClientMetrics steadlockMetrics(ListableBeanFactory beans) {
        return new ClientMetrics(beans.getBeansOfType(SteadlockClient.class));
    }
}
