package com.example.shop;

import io.github.steadlock.OnUnavailable;
import io.github.steadlock.SteadlockClient;
import io.github.steadlock.SteadlockException;
import io.github.steadlock.spring.InvalidAnnotationException;
import io.github.steadlock.spring.RedisServer;
import io.github.steadlock.spring.actuate.LocksEndpoint;
import io.github.steadlock.spring.autoconfigure.SteadlockProperties;
import io.github.steadlock.spring.autoconfigure.SteadlockServer;
import io.github.steadlock.spring.autoconfigure.SteadlockStartException;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Future;
import org.springframework.boot.context.properties.bind.BindException;

/**
 * Starts of the program with different properties. Some properties are read at start, others are
 * fixed at build time.
 */
final class Starts {
    private Starts() {}

    static void check() {
        checkServerOfSpring();
        checkEnd();
        checkProperties();
        checkWrongProperties();
        checkWhatIsFixed();
    }

    private static void checkServerOfSpring() {
        try (var server = new RedisServer("--requirepass", "secret");
                var context =
                        ShopApplication.start(
                                "--spring.data.redis.host=127.0.0.1",
                                "--spring.data.redis.port=" + server.port(),
                                "--spring.data.redis.password=secret")) {
            Checks.equal(
                    "the server of Spring's connection details",
                    server.url(),
                    context.getBean(SteadlockServer.class).server());
            Checks.equal("a lock on a server", "mutex till", context.getBean(Shop.class).pay(5));
            var lock = context.getBean(SteadlockClient.class).lock("a");
            lock.lock();
            Checks.equal(
                    "the application's name is the label",
                    "corner",
                    lock.holder().getClient().getLabel());
        }
        try (var server = new RedisServer();
                var context = ShopApplication.start("--steadlock.url=" + server.url())) {
            context.getBean(SteadlockClient.class).lock("a").lock();
            Checks.contains(
                    "customizers are called in their order", server.ask("EXISTS shop:a"), ":1");
        }
    }

    private static void checkEnd() {
        Future<Boolean> wasHeld;
        SteadlockClient client;
        try (var context = ShopApplication.start("--steadlock.url=memory://")) {
            client = context.getBean(SteadlockClient.class);
            wasHeld = context.getBean(LastTask.class).begin(client.lock("report"));
        } catch (InterruptedException interrupted) {
            throw new AssertionError(interrupted);
        }
        Checks.that("the client is closed with the context", client.isClosed());
        Checks.that("it is closed after tasks that are waited for", isTrue(wasHeld));
    }

    private static boolean isTrue(Future<Boolean> future) {
        try {
            return future.get();
        } catch (Exception failed) {
            throw new AssertionError(failed);
        }
    }

    private static void checkProperties() {
        try (var context =
                ShopApplication.start(
                        "--steadlock.lazy=true",
                        "--steadlock.host=127.0.0.1",
                        "--steadlock.port=1",
                        "--steadlock.username=u",
                        "--steadlock.password=p",
                        "--steadlock.database=3",
                        "--steadlock.command-timeout=2s",
                        "--steadlock.connect-timeout=1s",
                        "--steadlock.lease=4s",
                        "--steadlock.wait=1s",
                        "--steadlock.key-prefix=k:",
                        "--steadlock.retry-interval.min=100ms",
                        "--steadlock.retry-interval.max=200ms",
                        "--steadlock.on-unavailable=skip",
                        "--steadlock.breaker.failures=3",
                        "--steadlock.breaker.pause=1s",
                        "--steadlock.metrics.groups=7",
                        "--steadlock.client-label=blue",
                        "--steadlock.registry.prefix=r:")) {
            var properties = context.getBean(SteadlockProperties.class);
            Checks.equal(
                    "properties are bound",
                    List.of(true, "127.0.0.1", 1, "u", "p", 3, "k:", 7, "blue", "r:"),
                    List.of(
                            properties.lazy(),
                            properties.host(),
                            properties.port(),
                            properties.username(),
                            properties.password(),
                            properties.database(),
                            properties.keyPrefix(),
                            properties.metrics().groups(),
                            properties.clientLabel(),
                            properties.registry().prefix()));
            Checks.equal(
                    "properties of times and words are bound",
                    List.of(
                            Duration.ofSeconds(2),
                            Duration.ofSeconds(1),
                            Duration.ofSeconds(4),
                            Duration.ofSeconds(1),
                            new SteadlockProperties.RetryInterval(
                                    Duration.ofMillis(100), Duration.ofMillis(200)),
                            OnUnavailable.SKIP,
                            new SteadlockProperties.Breaker(3, Duration.ofSeconds(1)),
                            SteadlockProperties.Registry.Kind.MUTEX),
                    List.of(
                            properties.commandTimeout(),
                            properties.connectTimeout(),
                            properties.lease(),
                            properties.waiting(),
                            properties.retryInterval(),
                            properties.onUnavailable(),
                            properties.breaker(),
                            properties.registry().kind()));
        }
    }

    /** Checks that properties are bound: the error message for a wrong value names its property. */
    private static void checkWrongProperties() {
        refused("steadlock.ssl.ca-file", "steadlock.host=a", "steadlock.ssl.ca-file=/nowhere");
        refused("steadlock.ssl.cert-file", "steadlock.host=a", "steadlock.ssl.cert-file=/c");
        refused("steadlock.ssl.key-file", "steadlock.host=a", "steadlock.ssl.key-file=/k");
        refused("steadlock.ssl.server-name", "steadlock.host=a", "steadlock.ssl.server-name=a b");
        refused("steadlock.ssl.bundle", "steadlock.host=a", "steadlock.ssl.bundle=none");
        refused("steadlock.ssl.enabled", "steadlock.url=memory://", "steadlock.ssl.enabled=true");
        refused("steadlock.cluster.nodes", "steadlock.cluster.nodes=a b");
        refused("steadlock.sentinel.nodes", "steadlock.sentinel.master=main");
        refused("steadlock.primaries", "steadlock.primaries=memory://a,memory://b");
        refused(
                "steadlock.address-map",
                "steadlock.url=memory://",
                "steadlock.address-map.[a:1]=b:1");
        Checks.fails(
                "the methods are read at start",
                InvalidAnnotationException.class,
                () -> ShopApplication.start("--steadlock.url=memory://", "--shop.lease=long"));
        Checks.fails(
                "a property that does not exist",
                BindException.class,
                () -> ShopApplication.start("--steadlock.pasword=hunter2"));
        Checks.contains(
                "its analysis", Analyses.latest(), "There is no such property: steadlock.pasword");
        Checks.that("no secret is in it", !Analyses.latest().contains("hunter2"));
    }

    private static void refused(String blamed, String... properties) {
        var failure =
                Checks.fails(
                        blamed,
                        SteadlockStartException.class,
                        () ->
                                ShopApplication.start(
                                        Arrays.stream(properties)
                                                .map("--"::concat)
                                                .toArray(String[]::new)));
        Checks.that(blamed + " is blamed", failure.properties().contains(blamed));
        Checks.contains(
                "the analysis of " + blamed,
                Analyses.latest(),
                failure.getMessage(),
                failure.action());
    }

    /** Checks the properties that README.md calls fixed. */
    private static void checkWhatIsFixed() {
        try (var context =
                ShopApplication.start(
                        "--steadlock.url=memory://",
                        "--steadlock.enabled=false",
                        "--steadlock.annotation.enabled=false",
                        "--steadlock.annotation.commit-guard=false",
                        "--steadlock.registry.enabled=false",
                        "--management.health.steadlock.enabled=false",
                        "--management.endpoints.web.exposure.include=health")) {
            Checks.equal(
                    "the annotation is fixed at build time",
                    "lock stock:42",
                    context.getBean(Shop.class).buyLater("42").join());
            for (String bean :
                    List.of(
                            "steadlockClient",
                            "steadlockTransactionManagerGuard",
                            "steadlockReactiveGuard",
                            "steadlockLockRegistry")) {
                Checks.that(bean + " is fixed at build time", context.containsBean(bean));
            }
            Checks.contains(
                    "health is fixed at build time",
                    Actuator.get(context, "health"),
                    "\"steadlock\":{");
            Checks.that(
                    "the endpoint of locks is fixed at build time",
                    context.getBeanProvider(LocksEndpoint.class).getIfAvailable() != null);
        }
        try (var context =
                ShopApplication.start(
                        "--steadlock.url=memory://", "--steadlock.metrics.enabled=false")) {
            Checks.fails(
                    "steadlock.metrics.enabled is not fixed",
                    SteadlockException.class,
                    context.getBean(SteadlockClient.class)::metrics);
        }
    }
}
