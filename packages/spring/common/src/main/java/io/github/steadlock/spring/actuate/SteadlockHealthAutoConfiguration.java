package io.github.steadlock.spring.actuate;

import io.github.steadlock.SteadlockClient;
import io.github.steadlock.spring.autoconfigure.SteadlockAutoConfiguration;
import io.github.steadlock.spring.autoconfigure.SteadlockServer;
import java.util.LinkedHashMap;
import java.util.Map;
import org.springframework.beans.factory.ListableBeanFactory;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.context.annotation.Bean;

/**
 * The auto-configuration of the health checks, which the health contributor of each version of
 * Spring Boot runs.
 */
@AutoConfiguration(after = SteadlockAutoConfiguration.class)
@ConditionalOnBean(SteadlockClient.class)
public class SteadlockHealthAutoConfiguration {
    /** The bean name of the client that the properties describe. Only its server is known. */
    private static final String FROM_PROPERTIES = "steadlockClient";

    @Bean
    @ConditionalOnMissingBean
    ClientHealths steadlockHealths(
            ListableBeanFactory beans, ObjectProvider<SteadlockServer> server) {
        SteadlockServer known = server.getIfAvailable();
        Map<String, SteadlockClient> clients = beans.getBeansOfType(SteadlockClient.class);
        var healths = new LinkedHashMap<String, SteadlockHealth>();
        clients.forEach(
                (name, client) -> {
                    boolean isKnown =
                            known != null && (clients.size() == 1 || name.equals(FROM_PROPERTIES));
                    healths.put(name, new SteadlockHealth(client, isKnown ? known.server() : null));
                });
        return new ClientHealths(healths);
    }
}
