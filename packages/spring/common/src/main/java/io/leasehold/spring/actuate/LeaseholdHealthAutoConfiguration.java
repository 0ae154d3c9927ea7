package io.leasehold.spring.actuate;

import io.leasehold.LeaseholdClient;
import io.leasehold.spring.autoconfigure.LeaseholdAutoConfiguration;
import io.leasehold.spring.autoconfigure.LeaseholdServer;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnSingleCandidate;
import org.springframework.context.annotation.Bean;

/** What the health contributor of each version of Spring Boot asks. */
@AutoConfiguration(after = LeaseholdAutoConfiguration.class)
@ConditionalOnSingleCandidate(LeaseholdClient.class)
public class LeaseholdHealthAutoConfiguration {
    @Bean
    @ConditionalOnMissingBean
    LeaseholdHealth leaseholdHealth(
            LeaseholdClient client, ObjectProvider<LeaseholdServer> server) {
        LeaseholdServer known = server.getIfAvailable();
        return new LeaseholdHealth(client, known == null ? null : known.server());
    }
}
