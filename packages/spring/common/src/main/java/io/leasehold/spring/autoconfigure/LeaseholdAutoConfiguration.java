package io.leasehold.spring.autoconfigure;

import io.leasehold.Leasehold;
import io.leasehold.LeaseholdClient;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.context.annotation.Bean;

/** The client, by the properties {@code leasehold.*}. */
@AutoConfiguration
@ConditionalOnProperty(name = "leasehold.enabled", havingValue = "true", matchIfMissing = true)
@EnableConfigurationProperties(LeaseholdProperties.class)
public class LeaseholdAutoConfiguration {
    @Bean(destroyMethod = "close")
    @ConditionalOnMissingBean
    LeaseholdClient leaseholdClient(LeaseholdProperties properties) {
        String url = properties.url();
        return Leasehold.connect(url == null ? "redis://localhost:6379" : url);
    }
}
