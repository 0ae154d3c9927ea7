package io.github.steadlock.spring.autoconfigure;

import static io.github.steadlock.spring.autoconfigure.Contexts.runner;
import static org.assertj.core.api.Assertions.assertThat;
import static org.mockito.Mockito.mock;

import io.github.steadlock.LockOptions;
import io.github.steadlock.Steadlock;
import io.github.steadlock.SteadlockClient;
import io.github.steadlock.spring.RedisServer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.annotation.Order;
import org.springframework.scheduling.concurrent.ThreadPoolTaskExecutor;

/** Tests the client that the starter makes as a bean. */
class ClientTest {
    @Test
    void a_mocked_client_has_no_metrics() {
        var registry = new SimpleMeterRegistry();
        try (var metrics = new ClientMetrics(Map.of("locks", mock(SteadlockClient.class)))) {
            metrics.bindTo(registry);
        }
        assertThat(registry.getMeters()).isEmpty();
    }

    @Test
    void a_url_makes_a_client_that_is_closed_with_the_context() {
        var seen = new SteadlockClient[1];
        runner("steadlock.url=memory://")
                .run(
                        context -> {
                            seen[0] = context.getBean(SteadlockClient.class);
                            assertThat(seen[0].lock("stock:42").tryLock()).isTrue();
                        });
        assertThat(seen[0].isClosed()).isTrue();
    }

    @Test
    void an_executor_that_waits_for_its_tasks_ends_before_the_client_is_closed() throws Exception {
        var begun = new CountDownLatch(1);
        var executor = new WaitingExecutor();
        var wasValid = new CompletableFuture<Boolean>();
        runner("steadlock.url=memory://")
                .withBean("executor", ThreadPoolTaskExecutor.class, () -> executor)
                .run(
                        context -> {
                            var lock = context.getBean(SteadlockClient.class).lock("report");
                            executor.execute(
                                    () -> {
                                        lock.lock();
                                        begun.countDown();
                                        executor.awaitEnd();
                                        wasValid.complete(lock.isHeldByCurrentThread());
                                    });
                            begun.await();
                        });
        assertThat(wasValid.get(20, TimeUnit.SECONDS)).isTrue();
    }

    /** An executor whose tasks can wait for its shutdown. */
    private static final class WaitingExecutor extends ThreadPoolTaskExecutor {
        private final CountDownLatch ending = new CountDownLatch(1);

        WaitingExecutor() {
            setWaitForTasksToCompleteOnShutdown(true);
            setAwaitTerminationSeconds(20);
        }

        void awaitEnd() {
            try {
                ending.await();
            } catch (InterruptedException interrupted) {
                throw new IllegalStateException(interrupted);
            }
        }

        @Override
        public void shutdown() {
            ending.countDown();
            super.shutdown();
        }
    }

    @Test
    void an_empty_url_counts_as_not_set() {
        try (var server = new RedisServer()) {
            runner("steadlock.url=", "steadlock.host=localhost", "steadlock.port=" + server.port())
                    .run(context -> assertThat(context).hasNotFailed());
        }
    }

    @Test
    void without_enabled_there_is_no_client() {
        runner("steadlock.enabled=false", "steadlock.url=nonsense")
                .run(
                        context ->
                                assertThat(context)
                                        .hasNotFailed()
                                        .doesNotHaveBean(SteadlockClient.class));
    }

    @Test
    void a_client_of_the_program_replaces_that_of_the_properties() {
        runner("steadlock.url=nonsense")
                .withBean(
                        "own", SteadlockClient.class, () -> Steadlock.connect("memory://"))
                .run(
                        context -> {
                            assertThat(context).hasSingleBean(SteadlockClient.class);
                            assertThat(context).hasBean("own");
                            assertThat(context).doesNotHaveBean(ClientSteps.class);
                        });
    }

    @Test
    void customizers_are_called_in_their_order_after_the_properties() {
        runner("steadlock.url=memory://", "steadlock.lease=10s")
                .withUserConfiguration(Customized.class)
                .run(
                        context -> {
                            assertThat(context.getBean(Customized.class).calls)
                                    .containsExactly("first", "second");
                            var lock = context.getBean(SteadlockClient.class).lock("a");
                            lock.lock();
                            assertThat(lock.getLease().getRemaining())
                                    .isLessThan(Duration.ofSeconds(5));
                        });
    }

    @Test
    void properties_reach_the_client() {
        try (var server = new RedisServer()) {
            runner(
                            "steadlock.url=" + server.url(),
                            "steadlock.lease=4s",
                            "steadlock.key-prefix=shop:",
                            "steadlock.command-timeout=2s",
                            "steadlock.connect-timeout=2s",
                            "steadlock.retry-interval.min=100ms",
                            "steadlock.breaker.failures=3",
                            "steadlock.on-unavailable=skip",
                            "steadlock.metrics.queues=tickets",
                            "steadlock.client-label=blue")
                    .run(
                            context -> {
                                var client = context.getBean(SteadlockClient.class);
                                var lock = client.lock("a");
                                lock.lock();
                                assertThat(server.ask("EXISTS shop:a")).startsWith(":1");
                                assertThat(lock.getLease().getRemaining())
                                        .isLessThan(Duration.ofSeconds(4));
                                assertThat(client.metrics()).contains("steadlock_acquisitions");
                                assertThat(lock.holder().getClient().getLabel()).isEqualTo("blue");
                                server.stop();
                                var other = LockOptions.DEFAULT.withWait(Duration.ofMillis(300));
                                // The attempt on lock b is skipped only while the breaker is open.
                                io.github.steadlock.spring.Waiting.until(
                                        "the breaker opens",
                                        () ->
                                                client.metrics()
                                                        .contains("steadlock_breakers_open 1"));
                                assertThat(client.lock("b", other).tryLock()).isFalse();
                            });
        }
    }

    @Test
    void the_default_label_is_the_name_of_the_application() {
        try (var server = new RedisServer()) {
            runner("steadlock.url=" + server.url(), "spring.application.name=shop")
                    .run(
                            context -> {
                                var lock = context.getBean(SteadlockClient.class).lock("a");
                                lock.lock();
                                assertThat(lock.holder().getClient().getLabel()).isEqualTo("shop");
                            });
            runner(
                            "steadlock.url=" + server.url(),
                            "spring.application.name=shop",
                            "steadlock.client-info=false")
                    .run(context -> assertThat(context).hasNotFailed());
        }
    }

    @Test
    void a_lazy_client_starts_before_its_server() {
        runner("steadlock.url=redis://127.0.0.1:1", "steadlock.lazy=true")
                .run(context -> assertThat(context).hasNotFailed());
    }

    @Configuration(proxyBeanMethods = false)
    static class Customized {
        final List<String> calls = new ArrayList<>();

        @Bean
        @Order(2)
        SteadlockBuilderCustomizer second() {
            return builder -> {
                calls.add("second");
                builder.lease(Duration.ofSeconds(5));
            };
        }

        @Bean
        @Order(1)
        SteadlockBuilderCustomizer first() {
            return builder -> {
                calls.add("first");
                builder.lease(Duration.ofSeconds(20));
            };
        }
    }
}
