package io.github.steadlock.spring.autoconfigure;

import io.github.steadlock.OnUnavailable;
import io.github.steadlock.SteadlockBuilder;
import io.github.steadlock.internal.CoreLimits;
import io.github.steadlock.internal.Limits;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.bind.DefaultValue;
import org.springframework.boot.context.properties.bind.Name;
import org.springframework.core.Ordered;

/**
 * The properties of Steadlock. A property that is not set has the default of {@link
 * SteadlockBuilder}, which also checks the values. An unknown name stops the start.
 *
 * <p>One of these names the server: {@code url}, {@code host} with the properties that belong to
 * it, {@code sentinel}, {@code cluster}, or {@code primaries}. If none is set, the server is that
 * of Spring Boot's connection details, or of {@code spring.data.redis.*}, or {@code
 * redis://localhost:6379}.
 *
 * @param enabled Whether there is a client, and with it everything that needs a client.
 * @param url The server: redis://[user:password@]host[:port][/db],
 *     redis+sentinel://host,host/service, redis+cluster://host,host, each also as rediss… with TLS;
 *     redis+unix:///path, memory:// or memory://name. The word valkey can replace redis.
 * @param host The host of the server: a name or an address.
 * @param port The port of the server, 1 to 65535.
 * @param username The user for the login. Needs a password.
 * @param password The password for the login.
 * @param database The number of the database on the server. A cluster has only database 0.
 * @param ssl The settings of TLS.
 * @param sentinel The sentinels that watch the server.
 * @param cluster The cluster.
 * @param primaries URLs of several independent servers for RedLock: an odd number, 3 to 15.
 * @param commandTimeout How long a reply of the server may take, 1 ms to 24 h. If spring.data.redis
 *     names the server, the default is spring.data.redis.timeout.
 * @param connectTimeout How long connecting may take, 1 ms to 24 h. If spring.data.redis names the
 *     server, the default is spring.data.redis.connect-timeout.
 * @param lease The lease of locks without a lease of their own, 300 ms to 24 h. The client renews
 *     it each time a third has passed.
 * @param waiting How long @DistributedLock waits for a lock if the annotation sets no wait; 0s
 *     makes a single attempt. Without this property, it waits as long as the server answers.
 * @param keyPrefix A prefix for the name of each lock.
 * @param retryInterval The limits of the time between two polls of a waiter.
 * @param onUnavailable How an acquisition ends while the circuit breaker of the server is open.
 *     Switches the circuit breaker on.
 * @param breaker The circuit breaker, which is off unless one of its properties or on-unavailable
 *     is set.
 * @param metrics The metrics of the client.
 * @param clientInfo Whether the client tells its servers which program on which machine it is, so
 *     that other programs can name the holder of a lock.
 * @param clientLabel A label that the client publishes with its client-info: one line of up to 200
 *     characters. Default: spring.data.redis.client-name if spring.data.redis names the server, or
 *     spring.application.name.
 * @param lazy Whether to connect at the first use instead of at start, for a program that starts
 *     before its server.
 * @param addressMap Maps the addresses that cluster nodes and sentinels announce to addresses that
 *     the program can reach: from "[10.0.0.1:6379]" to "localhost:7001".
 * @param annotation The settings of the annotation DistributedLock.
 * @param registry The LockRegistry for Spring Integration.
 */
@ConfigurationProperties(prefix = "steadlock", ignoreUnknownFields = false)
public record SteadlockProperties(
        @DefaultValue("true") boolean enabled,
        String url,
        String host,
        Integer port,
        String username,
        String password,
        Integer database,
        @DefaultValue Ssl ssl,
        @DefaultValue Sentinel sentinel,
        @DefaultValue Cluster cluster,
        List<String> primaries,
        Duration commandTimeout,
        Duration connectTimeout,
        Duration lease,
        @Name("wait") Duration waiting,
        String keyPrefix,
        @DefaultValue RetryInterval retryInterval,
        OnUnavailable onUnavailable,
        @DefaultValue Breaker breaker,
        @DefaultValue Metrics metrics,
        Boolean clientInfo,
        String clientLabel,
        @DefaultValue("false") boolean lazy,
        Map<String, String> addressMap,
        @DefaultValue Annotation annotation,
        @DefaultValue Registry registry) {

    /**
     * Adds the steps of the properties that need nothing but the builder. {@link ClientSteps} adds
     * the others.
     */
    void addTo(Steps steps) {
        steps.add("lease", lease, SteadlockBuilder::lease);
        steps.add("key-prefix", keyPrefix, SteadlockBuilder::keyPrefix);
        retryInterval.addTo(steps);
        steps.add("on-unavailable", onUnavailable, SteadlockBuilder::onUnavailable);
        breaker.addTo(steps);
        steps.add("lazy", lazy ? true : null, (builder, isLazy) -> builder.lazy());
    }

    /** Hides all values, because they can contain secrets. */
    @Override
    public String toString() {
        return "SteadlockProperties(..)";
    }

    /**
     * The settings of TLS. For a server that is named by a URL, the scheme of the URL decides
     * whether connections use TLS.
     *
     * @param enabled Whether connections use TLS, for a server that is not named by a URL. Default:
     *     true if another of the ssl properties is set.
     * @param caFile A PEM file of the authorities to trust, instead of those of the system.
     * @param certFile A PEM file of the certificate of this client, for a server that demands one.
     *     Needs key-file.
     * @param keyFile A PEM file of the private key of that certificate, not encrypted.
     * @param serverName The host name that the certificates of all servers must have, instead of
     *     the host to which the client connects.
     * @param bundle An SSL bundle of Spring Boot. Its trust store has the authorities to trust. The
     *     bundle must have no key store unless cert-file and key-file are set.
     */
    public record Ssl(
            Boolean enabled,
            String caFile,
            String certFile,
            String keyFile,
            String serverName,
            String bundle) {}

    /**
     * The sentinels. The user and the password of the servers themselves are {@code
     * steadlock.username} and {@code steadlock.password}.
     *
     * @param master The name of the service that the sentinels watch.
     * @param nodes Some of the sentinels, as host or host:port. The default port is 26379.
     * @param username The user for the login at the sentinels. Needs a password.
     * @param password The password for the login at the sentinels.
     */
    public record Sentinel(String master, List<String> nodes, String username, String password) {
        /** Hides the password. */
        @Override
        public String toString() {
            return "Sentinel(..)";
        }
    }

    /**
     * The cluster.
     *
     * @param nodes Some of the nodes, as host or host:port. The default port is 6379.
     */
    public record Cluster(List<String> nodes) {}

    /**
     * The time after which a waiter asks the server again if no message comes before: random,
     * between {@code min} and {@code max}. If only one of them is set, it counts for both.
     *
     * @param min The shortest time, 1 ms to 24 h.
     * @param max The longest time, 1 ms to 24 h.
     */
    public record RetryInterval(Duration min, Duration max) {
        private void addTo(Steps steps) {
            List<String> given = new ArrayList<>();
            if (min != null) {
                given.add(Steps.PREFIX + ".retry-interval.min");
            }
            if (max != null) {
                given.add(Steps.PREFIX + ".retry-interval.max");
            }
            if (!given.isEmpty()) {
                Duration low = min == null ? max : min;
                Duration high = max == null ? min : max;
                steps.add(new Step(given, null, builder -> builder.retryInterval(low, high)));
            }
        }
    }

    /**
     * The settings of the circuit breaker.
     *
     * @param failures The number of failures in a row that opens the circuit breaker, 1 to 1000000.
     * @param pause The time between two probes of the server while the circuit breaker is open, 1
     *     ms to 24 h.
     */
    public record Breaker(Integer failures, Duration pause) {
        /**
         * Adds the circuit breaker. The builder needs both values, so a property that is not set
         * gets the default of the client.
         */
        private void addTo(Steps steps) {
            if (failures == null && pause == null) {
                return;
            }
            Limits defaults = CoreLimits.get();
            int number = failures == null ? defaults.getBreakerFailures() : failures;
            steps.add(
                    "breaker.failures",
                    failures,
                    (builder, given) -> builder.breaker(given, defaults.getBreakerPause()));
            steps.add("breaker.pause", pause, (builder, given) -> builder.breaker(number, given));
        }
    }

    /**
     * The metrics of the client.
     *
     * @param enabled Whether the client counts acquisitions, waits, holds, renewals and losses.
     *     Default: true if there is a MeterRegistry, or if another of the metrics properties is
     *     set.
     * @param groups How many groups of locks the metrics tell apart, 1 to 10000. The group is the
     *     part of a name before the first colon.
     * @param queues Fair locks, up to 100, whose wait queues on the server are counted.
     */
    public record Metrics(Boolean enabled, Integer groups, List<String> queues) {}

    /**
     * The settings of the annotation {@link io.github.steadlock.spring.DistributedLock}.
     *
     * @param enabled Whether the annotation has an effect.
     * @param order The order of the annotation's advice. An advice with a lower order runs outside.
     *     The lock must be outside of the transaction, whose order is the lowest precedence.
     * @param commitGuard Whether a transaction is rolled back if its lease is not valid any more
     *     just before the commit.
     * @param retry How long a method that is retried holds its lock: each attempt acquires it
     *     again, or the whole call holds it, including back-offs.
     */
    public record Annotation(
            @DefaultValue("true") boolean enabled,
            @DefaultValue("" + Annotation.DEFAULT_ORDER) int order,
            @DefaultValue("true") boolean commitGuard,
            @DefaultValue("each-attempt") Retry retry) {
        /**
         * The default order, which is outside of {@code @Transactional}, whose default is the last
         * order.
         */
        public static final int DEFAULT_ORDER = Ordered.LOWEST_PRECEDENCE - 100;

        /** The time for which a method that is retried holds its lock. */
        public enum Retry {
            /** Each attempt acquires the lock, which is free during a back-off. */
            EACH_ATTEMPT,
            /** The call holds the lock from the first attempt to the last. */
            WHOLE_CALL
        }
    }

    /**
     * The settings of the {@code LockRegistry} for Spring Integration.
     *
     * @param enabled Whether there is a LockRegistry.
     * @param prefix A prefix for the keys of the registry, in addition to steadlock.key-prefix,
     *     which comes first.
     * @param kind The kind of lock in the registry: the reentrant lock, or the mutex, which
     *     excludes locks of other libraries.
     */
    public record Registry(
            @DefaultValue("true") boolean enabled,
            @DefaultValue("") String prefix,
            @DefaultValue("lock") Kind kind) {
        /** A kind of lock. */
        public enum Kind {
            /** The reentrant lock. */
            LOCK,
            /** The simple lock with the record of most other lock libraries. Not reentrant. */
            MUTEX
        }
    }
}
