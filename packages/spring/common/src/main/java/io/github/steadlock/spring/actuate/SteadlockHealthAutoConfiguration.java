package io.github.steadlock.spring.actuate;

import io.github.steadlock.SteadlockClient;
import io.github.steadlock.spring.autoconfigure.SteadlockAutoConfiguration;
import io.github.steadlock.spring.autoconfigure.SteadlockServer;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnSingleCandidate;
import org.springframework.context.annotation.Bean;

/** What the health contributor of each version of Spring Boot asks. */
@AutoConfiguration(after = SteadlockAutoConfiguration.class)
@ConditionalOnSingleCandidate(SteadlockClient.class)
public class SteadlockHealthAutoConfiguration {
    @Bean
    @ConditionalOnMissingBean
    SteadlockHealth steadlockHealth(
            SteadlockClient client, ObjectProvider<SteadlockServer> server) {
        SteadlockServer known = server.getIfAvailable();
        return new SteadlockHealth(client, known == null ? null : known.server());
    }
}
