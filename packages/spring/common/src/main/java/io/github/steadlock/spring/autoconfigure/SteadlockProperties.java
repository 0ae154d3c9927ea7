package io.github.steadlock.spring.autoconfigure;

import io.github.steadlock.OnUnavailable;
import io.github.steadlock.SteadlockBuilder;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.bind.DefaultValue;
import org.springframework.boot.context.properties.bind.Name;
import org.springframework.core.Ordered;

/**
 * The properties of Steadlock. What is not set has the default of {@link SteadlockBuilder}, which
 * also knows what is allowed. A name that is not here stops the start.
 *
 * <p>The server is named by one of {@code url}, {@code host} and what belongs to it, {@code
 * sentinel}, {@code cluster} and {@code primaries}. If it is by none, it is the one of Spring
 * Boot's connection details, or of {@code spring.data.redis.*}, or {@code redis://localhost:6379}.
 *
 * @param enabled Whether there is a client at all, with all that needs one.
 * @param url The server: redis://[user:password@]host[:port][/db],
 *     redis+sentinel://host,host/service, redis+cluster://host,host, each also as rediss… with TLS;
 *     redis+unix:///path, memory:// or memory://name; valkey may stand for redis.
 * @param host The host of the server, a name or an address.
 * @param port The port of the server, 1 to 65535.
 * @param username The user to log in as, with a password.
 * @param password The password to log in with.
 * @param database The number of the database of the server. A cluster has none but 0.
 * @param ssl TLS.
 * @param sentinel Sentinels that watch the server.
 * @param cluster A cluster.
 * @param primaries URLs of several independent servers for RedLock: an odd number, 3 to 15.
 * @param commandTimeout How long the server may take to answer, 1 ms to 24 h. Default of a server
 *     that spring.data.redis names: spring.data.redis.timeout.
 * @param connectTimeout How long connecting may take, 1 ms to 24 h. Default of a server that
 *     spring.data.redis names: spring.data.redis.connect-timeout.
 * @param lease The lease of locks that are given none, 300 ms to 24 h. It is renewed every third of
 *     it.
 * @param waiting How long @DistributedLock waits for a lock unless it says otherwise; 0s tries
 *     once. Without it, it waits as long as the server answers.
 * @param keyPrefix Put before the name of each lock.
 * @param retryInterval When a waiter asks the server again.
 * @param onUnavailable What becomes of an acquisition while the circuit breaker of the server is
 *     open. Switches the circuit breaker on.
 * @param breaker The circuit breaker, which is off unless one of its properties or on-unavailable
 *     is given.
 * @param metrics What the client counts.
 * @param clientInfo Whether the client tells its servers which program on which machine it is, so
 *     that others can say who holds a lock.
 * @param clientLabel What the client says of itself besides, up to 200 characters of one line.
 *     Default: spring.data.redis.client-name of a server named there, or spring.application.name.
 * @param lazy Whether to connect at the first use instead of at start, for a program that starts
 *     before its server.
 * @param addressMap Where the servers are reached that a cluster or sentinels announce: from
 *     "[10.0.0.1:6379]" to "localhost:7001".
 * @param annotation The annotation DistributedLock.
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

    /** Does not show what may be a secret. */
    @Override
    public String toString() {
        return "SteadlockProperties(..)";
    }

    /**
     * TLS. A URL says by its scheme whether there is any.
     *
     * @param enabled Whether connections use TLS, for a server that is not named by a URL. Default:
     *     true if another of the ssl properties is given.
     * @param caFile A PEM file of the authorities to trust, in place of those of the system.
     * @param certFile A PEM file of the certificate of this client, for a server that demands one.
     *     Together with key-file.
     * @param keyFile A PEM file of the private key of that certificate, not encrypted.
     * @param serverName What the certificates of all servers are to be for, in place of the host
     *     that is connected to.
     * @param bundle An SSL bundle of Spring Boot whose trust store says which authorities to trust.
     *     It may have no key store: give cert-file and key-file for that.
     */
    public record Ssl(
            Boolean enabled,
            String caFile,
            String certFile,
            String keyFile,
            String serverName,
            String bundle) {}

    /**
     * Sentinels. The user and the password of the servers are {@code steadlock.username} and {@code
     * steadlock.password}.
     *
     * @param master The name of the service that the sentinels watch.
     * @param nodes Some of the sentinels, as host or host:port; the port is 26379 if not given.
     * @param username The user to log in as at the sentinels, with a password.
     * @param password The password to log in with at the sentinels.
     */
    public record Sentinel(String master, List<String> nodes, String username, String password) {
        /** Does not show the password. */
        @Override
        public String toString() {
            return "Sentinel(..)";
        }
    }

    /**
     * A cluster.
     *
     * @param nodes Some of the nodes, as host or host:port; the port is 6379 if not given.
     */
    public record Cluster(List<String> nodes) {}

    /**
     * When a waiter asks the server again, if no message comes before: after a random time between
     * the two. One without the other is both.
     *
     * @param min The shortest time, 1 ms to 24 h.
     * @param max The longest time, 1 ms to 24 h.
     */
    public record RetryInterval(Duration min, Duration max) {}

    /**
     * The circuit breaker.
     *
     * @param failures After so many failures in a row it opens, 1 to 1000000.
     * @param pause While it is open, the server is asked so often whether it serves, 1 ms to 24 h.
     */
    public record Breaker(Integer failures, Duration pause) {}

    /**
     * What the client counts.
     *
     * @param enabled Whether the client counts acquisitions, waits, holds, renewals and losses.
     *     Default: true if there is a MeterRegistry, or if another of the metrics properties is
     *     given.
     * @param groups How many groups of locks are told apart, 1 to 10000. The group is what stands
     *     before the first colon of a name.
     * @param queues Fair locks, up to 100, whose queues on the server are counted.
     */
    public record Metrics(Boolean enabled, Integer groups, List<String> queues) {}

    /**
     * The annotation {@link io.github.steadlock.spring.DistributedLock}.
     *
     * @param enabled Whether the annotation does anything.
     * @param order The order of its advice. One that is lower goes before: the lock is to be
     *     outside of the transaction, whose order is the lowest precedence.
     * @param commitGuard Whether a transaction is rolled back whose lease is not valid any more
     *     just before the commit.
     * @param retry What the lock of a method that is retried is held for: each attempt acquires it
     *     again, or the whole call holds it, back-offs included.
     */
    public record Annotation(
            @DefaultValue("true") boolean enabled,
            @DefaultValue("" + Annotation.DEFAULT_ORDER) int order,
            @DefaultValue("true") boolean commitGuard,
            @DefaultValue("each-attempt") Retry retry) {
        /** Outside of {@code @Transactional}, which is last unless it is told otherwise. */
        public static final int DEFAULT_ORDER = Ordered.LOWEST_PRECEDENCE - 100;

        /** What the lock of a method that is retried is held for. */
        public enum Retry {
            /** Each attempt acquires the lock: it is free during a back-off. */
            EACH_ATTEMPT,
            /** The lock is held from the first attempt to the last. */
            WHOLE_CALL
        }
    }

    /**
     * The {@code LockRegistry} for Spring Integration.
     *
     * @param enabled Whether there is one.
     * @param prefix Put before the keys that it is asked for, after steadlock.key-prefix.
     * @param kind Which kind of lock it gives: the reentrant one, or the one that excludes other
     *     lock libraries.
     */
    public record Registry(
            @DefaultValue("true") boolean enabled,
            @DefaultValue("") String prefix,
            @DefaultValue("lock") Kind kind) {
        /** A kind of lock. */
        public enum Kind {
            /** The reentrant lock. */
            LOCK,
            /** The simple lock, in the layout of most other lock libraries. Not reentrant. */
            MUTEX
        }
    }
}
