package io.github.steadlock.spring.actuate;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.steadlock.Steadlock;
import io.github.steadlock.SteadlockClient;
import io.github.steadlock.spring.Waiting;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import org.junit.jupiter.api.Test;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

/**
 * Tests health, metrics and the endpoint of locks of a program with two clients, neither of them
 * primary.
 */
class TwoClientsTest {
    @Test
    void health_metrics_and_locks_cover_both_clients() throws Exception {
        var program =
                new SpringApplicationBuilder(Program.class)
                        .properties(
                                "server.port=0",
                                "management.health.redis.enabled=false",
                                "management.endpoint.health.show-details=always",
                                "management.endpoints.web.exposure.include=health,prometheus,locks",
                                "management.prometheus.metrics.export.enabled=true");
        try (var context = program.run()) {
            var address =
                    "http://127.0.0.1:"
                            + context.getEnvironment().getProperty("local.server.port")
                            + "/actuator/";
            for (String name : new String[] {"orderLocks", "auditLocks"}) {
                context.getBean(name, SteadlockClient.class).lock("of:" + name).lock();
            }
            assertThat(get(address + "locks"))
                    .containsPattern("\"client\":\"orderLocks\",\"name\":\"of:orderLocks\"")
                    .containsPattern("\"client\":\"auditLocks\",\"name\":\"of:auditLocks\"");
            assertThat(get(address + "health"))
                    .containsPattern("\"steadlock\":\\{.*\"orderLocks\":\\{.*roundTrip")
                    .containsPattern("\"steadlock\":\\{.*\"auditLocks\":\\{.*roundTrip");
            Waiting.until(
                    "the meters are there",
                    () ->
                            get(address + "prometheus").contains("client=\"orderLocks\",group=\"of\"")
                                    && get(address + "prometheus")
                                            .contains("client=\"auditLocks\",group=\"of\""));
            context.getBean("auditLocks", SteadlockClient.class).close();
            assertThat(get(address + "health"))
                    .contains("\"status\":\"DOWN\"", "\"kind\":\"Closed\"", "\"status\":\"UP\"");
        }
    }

    private static String get(String address) {
        try {
            return HttpClient.newHttpClient()
                    .send(
                            HttpRequest.newBuilder(URI.create(address)).build(),
                            HttpResponse.BodyHandlers.ofString())
                    .body();
        } catch (Exception failed) {
            throw new AssertionError(failed);
        }
    }

    @Configuration(proxyBeanMethods = false)
    @EnableAutoConfiguration
    static class Program {
        @Bean
        SteadlockClient orderLocks() {
            return Steadlock.builder().url("memory://").metrics().connect();
        }

        @Bean
        SteadlockClient auditLocks() {
            return Steadlock.builder().url("memory://").metrics().connect();
        }
    }
}
