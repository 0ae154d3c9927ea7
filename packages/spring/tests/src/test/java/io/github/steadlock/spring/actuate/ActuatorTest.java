package io.github.steadlock.spring.actuate;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.steadlock.LockLostException;
import io.github.steadlock.LockOptions;
import io.github.steadlock.SteadlockClient;
import io.github.steadlock.spring.RedisServer;
import io.github.steadlock.spring.Waiting;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Predicate;
import org.assertj.core.api.Assertions;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Configuration;

/** Tests health, metrics and the endpoint of locks, over HTTP. */
class ActuatorTest {
    private static final String PASSWORD = "hunter2";
    private static final HttpClient http = HttpClient.newHttpClient();
    private static RedisServer server;
    private static ConfigurableApplicationContext context;
    private static SteadlockClient client;

    @BeforeAll
    static void start() {
        server = new RedisServer("--requirepass", PASSWORD);
        context =
                new SpringApplicationBuilder(Program.class)
                        .properties(
                                "server.port=0",
                                "steadlock.host=127.0.0.1",
                                "steadlock.port=" + server.port(),
                                "steadlock.password=" + PASSWORD,
                                "steadlock.command-timeout=2s",
                                "steadlock.breaker.pause=200ms",
                                "steadlock.metrics.queues=tickets",
                                "management.health.redis.enabled=false",
                                "management.endpoint.health.show-details=always",
                                "management.endpoints.web.exposure.include=health,prometheus,locks",
                                // Spring Boot's test support would switch this off.
                                "management.prometheus.metrics.export.enabled=true")
                        .run();
        client = context.getBean(SteadlockClient.class);
    }

    @AfterAll
    static void stop() {
        context.close();
        server.close();
    }

    @Test
    void prometheus_shows_acquisitions_the_wait_as_a_summary_and_queues() {
        for (int round = 0; round < 3; round++) {
            var lock = client.lock("stock:42");
            lock.lock();
            lock.unlock();
        }
        // New kinds and groups get their meters with the second scrape.
        Waiting.until("the meters are there", () -> get("prometheus").contains("group=\"stock\""));
        String text = get("prometheus");
        assertThat(text)
                .contains("# TYPE steadlock_wait_seconds summary")
                .containsPattern("steadlock_acquisitions_total\\{.*group=\"stock\".*} 3\\.0")
                .containsPattern("steadlock_wait_seconds_count\\{.*group=\"stock\".*} 3")
                .containsPattern("steadlock_wait_seconds_sum\\{.*group=\"stock\".*} [0-9.E-]+")
                .contains("# TYPE steadlock_fair_queue gauge")
                .contains("steadlock_fair_queue{");
    }

    @Test
    void health_is_down_while_the_server_is_and_up_again_afterwards() {
        String up = get("health");
        assertThat(up)
                .contains("\"steadlock\":{")
                .contains("redis://127.0.0.1:" + server.port())
                .contains("roundTrip")
                .contains("\"openBreakers\":0")
                .doesNotContain(PASSWORD)
                .startsWith("{\"")
                .contains("\"status\":\"UP\"");
        server.stop();
        String down = awaitText("health", text -> text.contains("\"status\":\"DOWN\""));
        assertThat(down).contains("\"kind\":\"Unavailable\"").doesNotContain(PASSWORD);
        server.start();
        assertThat(awaitText("health", text -> !text.contains("DOWN"))).contains("roundTrip");
    }

    @Test
    void the_locks_endpoint_lists_held_waiting_and_lost() throws Exception {
        var lock = client.fairLock("tickets");
        lock.lock();
        var waiter =
                new Thread(
                        () -> client.fairLock("tickets").withLock(lease -> lease.isValid()),
                        "next in turn");
        waiter.start();
        Waiting.until("it waits", () -> get("locks").contains("next in turn"));
        assertThat(get("locks"))
                .contains("\"name\":\"tickets\"", "\"kind\":\"fair_lock\"", "\"token\":")
                .contains("\"thread\":\"" + Thread.currentThread().getName() + "\"");
        lock.unlock();
        waiter.join(10_000);
        var lost = client.lock("lost:1", LockOptions.DEFAULT);
        lost.lock(Duration.ofMillis(100));
        Waiting.until("it is lost", () -> get("locks").contains("\"reason\":\"EXPIRED\""));
        assertThat(get("locks")).contains("\"held\":[]", "\"waiting\":[]", "\"name\":\"lost:1\"");
        try {
            lost.unlock();
            Assertions.fail("an expired lease was unlocked");
        } catch (IllegalMonitorStateException | LockLostException expected) {
            // Either exception is documented.
        }
    }

    /** Asks until the answer is as it should be. Returns this answer. */
    private static String awaitText(String endpoint, Predicate<String> isRight) {
        var last = new AtomicReference<String>();
        Waiting.until(
                "the answer of " + endpoint,
                () -> {
                    last.set(get(endpoint));
                    return isRight.test(last.get());
                });
        return last.get();
    }

    private static String get(String endpoint) {
        String port = context.getEnvironment().getProperty("local.server.port");
        URI address = URI.create("http://127.0.0.1:" + port + "/actuator/" + endpoint);
        try {
            return http.send(
                            HttpRequest.newBuilder(address).build(),
                            HttpResponse.BodyHandlers.ofString())
                    .body();
        } catch (IOException failed) {
            throw new AssertionError(failed);
        } catch (InterruptedException interrupt) {
            throw new AssertionError("interrupted", interrupt);
        }
    }

    @Configuration(proxyBeanMethods = false)
    @EnableAutoConfiguration
    static class Program {}
}
