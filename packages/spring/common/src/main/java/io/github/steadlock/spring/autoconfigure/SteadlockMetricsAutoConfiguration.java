package io.github.steadlock.spring.autoconfigure;

import io.github.steadlock.InvalidArgumentException;
import io.github.steadlock.SteadlockClient;
import io.github.steadlock.micrometer.SteadlockMetrics;
import io.micrometer.core.instrument.MeterRegistry;
import org.slf4j.LoggerFactory;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.autoconfigure.condition.ConditionalOnSingleCandidate;
import org.springframework.context.annotation.Bean;

/** What the client counts, as meters of Micrometer, if there is a registry for them. */
@AutoConfiguration(after = SteadlockAutoConfiguration.class)
@ConditionalOnClass(MeterRegistry.class)
@ConditionalOnBean(MeterRegistry.class)
@ConditionalOnSingleCandidate(SteadlockClient.class)
@ConditionalOnProperty(
        name = "steadlock.metrics.enabled",
        havingValue = "true",
        matchIfMissing = true)
public class SteadlockMetricsAutoConfiguration {
    /** Null for a client of the program's own that counts nothing. */
    @Bean(destroyMethod = "close")
    @ConditionalOnMissingBean
    SteadlockMetrics steadlockMetrics(SteadlockClient client) {
        try {
            return new SteadlockMetrics(client);
        } catch (InvalidArgumentException none) {
            LoggerFactory.getLogger("io.github.steadlock")
                    .info("there are no metrics: the client was made without metrics()");
            return null;
        }
    }
}
