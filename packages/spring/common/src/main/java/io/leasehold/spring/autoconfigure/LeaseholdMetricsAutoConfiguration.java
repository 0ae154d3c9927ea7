package io.leasehold.spring.autoconfigure;

import io.leasehold.InvalidArgumentException;
import io.leasehold.LeaseholdClient;
import io.leasehold.micrometer.LeaseholdMetrics;
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
@AutoConfiguration(after = LeaseholdAutoConfiguration.class)
@ConditionalOnClass(MeterRegistry.class)
@ConditionalOnBean(MeterRegistry.class)
@ConditionalOnSingleCandidate(LeaseholdClient.class)
@ConditionalOnProperty(
        name = "leasehold.metrics.enabled",
        havingValue = "true",
        matchIfMissing = true)
public class LeaseholdMetricsAutoConfiguration {
    /** Null for a client of the program's own that counts nothing. */
    @Bean(destroyMethod = "close")
    @ConditionalOnMissingBean
    LeaseholdMetrics leaseholdMetrics(LeaseholdClient client) {
        try {
            return new LeaseholdMetrics(client);
        } catch (InvalidArgumentException none) {
            LoggerFactory.getLogger("io.leasehold")
                    .info("there are no metrics: the client was made without metrics()");
            return null;
        }
    }
}
