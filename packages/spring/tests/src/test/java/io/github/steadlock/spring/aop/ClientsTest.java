package io.github.steadlock.spring.aop;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.github.steadlock.LockTimeoutException;
import io.github.steadlock.Steadlock;
import io.github.steadlock.SteadlockClient;
import io.github.steadlock.spring.DistributedLock;
import io.github.steadlock.spring.InvalidAnnotationException;
import io.github.steadlock.spring.LockKind;
import java.util.concurrent.CompletableFuture;
import java.util.function.Supplier;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.autoconfigure.context.PropertyPlaceholderAutoConfiguration;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.ApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Primary;
import reactor.core.publisher.Mono;

/** Tests programs with two clients. */
class ClientsTest {
    @Test
    void a_method_uses_its_named_client() {
        withPrimary(
                (shop, locks, auditLocks) ->
                        shop.audit(
                                () -> {
                                    assertThat(auditLocks.lock("a").isHeldByCurrentThread()).isTrue();
                                    assertThat(locks.lock("a").isLocked()).isFalse();
                                    return null;
                                }));
    }

    @Test
    void a_method_without_a_name_uses_the_primary_client() {
        withPrimary(
                (shop, locks, auditLocks) ->
                        shop.sell(
                                () -> {
                                    assertThat(locks.lock("a").isHeldByCurrentThread()).isTrue();
                                    assertThat(auditLocks.lock("a").isLocked()).isFalse();
                                    return null;
                                }));
    }

    @Test
    void a_placeholder_names_a_client() {
        withPrimary(
                (shop, locks, auditLocks) ->
                        shop.configured(
                                () -> {
                                    assertThat(auditLocks.lock("a").isHeldByCurrentThread()).isTrue();
                                    return null;
                                }));
    }

    @Test
    void a_client_that_is_not_a_default_candidate_coexists_with_that_of_the_properties() {
        Programs.program(Beside.class)
                .withBean(Shop.class)
                .withPropertyValues("shop.client=auditLocks")
                .run(
                        context -> {
                            assertThat(context).hasNotFailed();
                            assertThat(context.getBeanNamesForType(SteadlockClient.class))
                                    .containsExactlyInAnyOrder("steadlockClient", "auditLocks");
                            var shop = context.getBean(Shop.class);
                            var locks = context.getBean("steadlockClient", SteadlockClient.class);
                            assertThat(shop.sell(() -> locks.lock("a").isHeldByCurrentThread()))
                                    .isTrue();
                            assertThat(shop.audit(() -> locks.lock("a").isLocked())).isFalse();
                        });
    }

    @Test
    void locks_of_two_clients_are_separate() {
        withPrimary(
                (shop, locks, auditLocks) -> {
                    assertThat(shop.sell(() -> shop.audit(() -> auditLocks.lock("a").isLocked())))
                            .isTrue();
                    assertThat(shop.mutex(() -> shop.auditMutex(() -> "both"))).isEqualTo("both");
                    assertThat(shop.permit(() -> shop.auditPermit(() -> "both"))).isEqualTo("both");
                    assertThat(shop.stage(() -> shop.auditStage(() -> "both").join()).join())
                            .isEqualTo("both");
                    assertThat(shop.mono(shop.auditMono(Mono.just("both"))).block())
                            .isEqualTo("both");
                });
    }

    /**
     * Uses one server for both clients: the second client waits for the first, because it is
     * another owner.
     */
    @Test
    void a_lease_of_one_client_does_not_reenter_a_lock_of_another() {
        String server = Programs.server();
        with(
                server,
                server,
                TwoOnePrimary.class,
                (shop, locks, auditLocks) -> {
                    assertThatThrownBy(() -> shop.sell(() -> shop.audit(() -> null)))
                            .isInstanceOf(LockTimeoutException.class);
                    assertThatThrownBy(() -> shop.sell(() -> shop.auditStage(() -> "").join()))
                            .hasCauseInstanceOf(LockTimeoutException.class);
                    assertThatThrownBy(
                                    () -> shop.mono(shop.auditMono(Mono.just("never"))).block())
                            .isInstanceOf(LockTimeoutException.class);
                    assertThat(shop.sell(() -> shop.sell(() -> "again"))).isEqualTo("again");
                });
    }

    @Test
    void reasons_are_those_of_one_client() {
        runner(Programs.server(), Programs.server(), TwoOnePrimary.class)
                .withBean(Shop.class)
                .run(
                        context -> {
                            var reasons = context.getBean(LockReasons.class);
                            context.getBean(Shop.class)
                                    .audit(
                                            () -> {
                                                assertThat(
                                                                reasons.of(
                                                                        client(context, "auditLocks"),
                                                                        "a"))
                                                        .contains("the law");
                                                assertThat(reasons.of(client(context, "locks"), "a"))
                                                        .isEmpty();
                                                return null;
                                            });
                        });
    }

    @Test
    void methods_with_a_named_client_need_no_primary_client() {
        runner(Programs.server(), Programs.server(), TwoNonePrimary.class)
                .withBean(Auditor.class)
                .run(
                        context -> {
                            assertThat(context).hasNotFailed();
                            assertThat(context.getBean(Auditor.class).audit()).isEqualTo("audited");
                        });
    }

    @Test
    void a_method_without_a_name_and_two_clients_stops_the_start() {
        stopped(
                TwoNonePrimary.class,
                new Object() {
                    @DistributedLock(name = "'a'")
                    public void sell() {}
                },
                "names no client, and none of several is @Primary: locks, auditLocks");
    }

    @Test
    void an_unknown_bean_name_stops_the_start() {
        stopped(
                TwoOnePrimary.class,
                new Object() {
                    @DistributedLock(name = "'a'", client = "auditLock")
                    public void sell() {}
                },
                "client = \"auditLock\" names no bean",
                "the clients are locks, auditLocks");
    }

    @Test
    void the_name_of_another_bean_stops_the_start() {
        stopped(
                TwoOnePrimary.class,
                new Object() {
                    @DistributedLock(name = "'a'", client = "shop")
                    public void sell() {}
                },
                "client = \"shop\" names a bean of " + ClientsTest.class.getName(),
                "which is not a SteadlockClient; the clients are locks, auditLocks");
    }

    @Test
    void a_placeholder_without_a_value_stops_the_start() {
        stopped(
                TwoOnePrimary.class,
                new Object() {
                    @DistributedLock(name = "'a'", client = "${nowhere}")
                    public void sell() {}
                },
                "client = \"${nowhere}\" cannot be read");
    }

    private static void withPrimary(Body test) {
        with(Programs.server(), Programs.server(), TwoOnePrimary.class, test);
    }

    private static void with(String server, String auditServer, Class<?> clients, Body test) {
        runner(server, auditServer, clients)
                .withBean(Shop.class)
                .run(
                        context ->
                                test.run(
                                        context.getBean(Shop.class),
                                        client(context, "locks"),
                                        client(context, "auditLocks")));
    }

    private static SteadlockClient client(
            ApplicationContext context, String name) {
        return context.getBean(name, SteadlockClient.class);
    }

    private static ApplicationContextRunner runner(
            String server, String auditServer, Class<?> clients) {
        return Programs.program(clients)
                .withPropertyValues(
                        "shop.client=auditLocks",
                        "servers.first=" + server,
                        "servers.second=" + auditServer);
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static void stopped(Class<?> clients, Object bean, String... messages) {
        runner(Programs.server(), Programs.server(), clients)
                .withConfiguration(
                        AutoConfigurations.of(PropertyPlaceholderAutoConfiguration.class))
                .withBean("shop", (Class) bean.getClass(), () -> bean)
                .run(
                        context ->
                                assertThat(context)
                                        .getFailure()
                                        .isInstanceOf(InvalidAnnotationException.class)
                                        .hasMessageContaining(
                                                "@DistributedLock on "
                                                        + bean.getClass().getName()
                                                        + ".sell()")
                                        .hasMessageContainingAll(messages));
    }

    interface Body {
        void run(Shop shop, SteadlockClient locks, SteadlockClient auditLocks) throws Exception;
    }

    static class Shop {
        @DistributedLock(name = "'a'")
        public <T> T sell(Supplier<T> body) {
            return body.get();
        }

        @DistributedLock(name = "'a'", client = "auditLocks", waitTime = "0s", reason = "the law")
        public <T> T audit(Supplier<T> body) {
            return body.get();
        }

        @DistributedLock(name = "'a'", client = "${shop.client}")
        public <T> T configured(Supplier<T> body) {
            return body.get();
        }

        @DistributedLock(name = "'m'", kind = LockKind.MUTEX)
        public <T> T mutex(Supplier<T> body) {
            return body.get();
        }

        @DistributedLock(name = "'m'", kind = LockKind.MUTEX, client = "auditLocks")
        public <T> T auditMutex(Supplier<T> body) {
            return body.get();
        }

        @DistributedLock(name = "'p'", kind = LockKind.SEMAPHORE, limit = 1)
        public <T> T permit(Supplier<T> body) {
            return body.get();
        }

        @DistributedLock(
                name = "'p'",
                kind = LockKind.SEMAPHORE,
                limit = 1,
                client = "auditLocks")
        public <T> T auditPermit(Supplier<T> body) {
            return body.get();
        }

        @DistributedLock(name = "'a'")
        public CompletableFuture<String> stage(Supplier<String> body) {
            return CompletableFuture.completedFuture(body.get());
        }

        @DistributedLock(name = "'a'", client = "auditLocks", waitTime = "0s")
        public CompletableFuture<String> auditStage(Supplier<String> body) {
            return CompletableFuture.completedFuture(body.get());
        }

        @DistributedLock(name = "'a'")
        public Mono<String> mono(Mono<String> body) {
            return body;
        }

        @DistributedLock(name = "'a'", client = "auditLocks", waitTime = "0s")
        public Mono<String> auditMono(Mono<String> body) {
            return body;
        }
    }

    static class Auditor {
        @DistributedLock(name = "'a'", client = "auditLocks")
        public String audit() {
            return "audited";
        }
    }

    @Configuration(proxyBeanMethods = false)
    static class TwoOnePrimary {
        @Bean
        @Primary
        SteadlockClient locks(
                @Value("${servers.first}") String server) {
            return Steadlock.connect(server);
        }

        @Bean
        SteadlockClient auditLocks(
                @Value("${servers.second}") String server) {
            return Steadlock.connect(server);
        }
    }

    @Configuration(proxyBeanMethods = false)
    static class TwoNonePrimary {
        @Bean
        SteadlockClient locks() {
            return Steadlock.connect("memory://");
        }

        @Bean
        SteadlockClient auditLocks() {
            return Steadlock.connect("memory://");
        }
    }

    @Configuration(proxyBeanMethods = false)
    static class Beside {
        @Bean(defaultCandidate = false)
        SteadlockClient auditLocks() {
            return Steadlock.connect("memory://");
        }
    }
}
