package io.github.steadlock.spring.autoconfigure;

import io.github.steadlock.SteadlockBuilder;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.function.Consumer;
import java.util.function.UnaryOperator;

/** The steps that name a server, by the properties of Steadlock or by those of Spring. */
final class ServerSteps {
    private static final String PARTS = "parts";

    private final String prefix;
    private final List<Step> steps = new ArrayList<>();
    private RedisUrl url;

    private ServerSteps(String prefix) {
        this.prefix = prefix;
    }

    /**
     * The parts of a server that the properties of Steadlock and those of Spring have in common.
     */
    record Parts(
            String url,
            String host,
            Integer port,
            String username,
            String password,
            Integer database,
            boolean tls,
            Boolean tlsAsGiven,
            SteadlockProperties.Sentinel sentinel,
            SteadlockProperties.Cluster cluster,
            List<String> primaries) {
        static Parts of(SteadlockProperties properties) {
            SteadlockProperties.Ssl ssl = properties.ssl();
            boolean hasTls =
                    ssl.caFile() != null
                            || ssl.certFile() != null
                            || ssl.keyFile() != null
                            || ssl.serverName() != null
                            || ssl.bundle() != null;
            return new Parts(
                    given(properties.url()),
                    given(properties.host()),
                    properties.port(),
                    properties.username(),
                    properties.password(),
                    properties.database(),
                    ssl.enabled() == null ? hasTls : ssl.enabled(),
                    ssl.enabled(),
                    properties.sentinel(),
                    properties.cluster(),
                    properties.primaries());
        }

        /**
         * Returns the text, or null if it is blank. A blank property, such as {@code ${REDIS_URL:}}
         * without that variable, counts as not set.
         */
        private static String given(String text) {
            return text == null || text.isBlank() ? null : text;
        }

        /**
         * Returns the parts of Spring's properties. Leaves out a user without a password, as Spring
         * does.
         */
        static Parts of(SpringRedis redis) {
            boolean hasTls =
                    redis.ssl().enabled() == null
                            ? redis.ssl().bundle() != null
                            : redis.ssl().enabled();
            boolean hasSentinels = redis.sentinel().master() != null;
            boolean hasNodes = !hasSentinels && redis.cluster().nodes() != null;
            boolean isOne = !hasSentinels && !hasNodes;
            boolean hasUrl = isOne && given(redis.url()) != null;
            return new Parts(
                    hasUrl ? (hasTls ? RedisUrl.withTls(redis.url()) : redis.url()) : null,
                    isOne && !hasUrl ? redis.host() : null,
                    isOne && !hasUrl ? redis.port() : null,
                    hasUrl || redis.password() == null ? null : redis.username(),
                    hasUrl ? null : redis.password(),
                    hasUrl || hasNodes ? null : redis.database(),
                    hasTls,
                    isOne && !hasUrl && hasTls ? true : null,
                    hasSentinels ? redis.sentinel() : NO_SENTINEL,
                    hasNodes ? redis.cluster() : NO_CLUSTER,
                    null);
        }

        private static final SteadlockProperties.Sentinel NO_SENTINEL =
                new SteadlockProperties.Sentinel(null, null, null, null);
        private static final SteadlockProperties.Cluster NO_CLUSTER =
                new SteadlockProperties.Cluster(null);

        /** Returns the ways in which properties name the server, each with one such property. */
        Map<String, String> ways() {
            var ways = new TreeMap<String, String>();
            put(ways, "url", "url", url);
            put(ways, "primaries", "primaries", primaries);
            put(ways, "cluster", "cluster.nodes", cluster.nodes());
            put(ways, "sentinel", "sentinel.username", sentinel.username());
            put(ways, "sentinel", "sentinel.password", sentinel.password());
            put(ways, "sentinel", "sentinel.nodes", sentinel.nodes());
            put(ways, "sentinel", "sentinel.master", sentinel.master());
            put(ways, "host", "port", port);
            put(ways, "host", "host", host);
            boolean isByParts = !ways.containsKey("url") && !ways.containsKey("primaries");
            if (ways.isEmpty() || !isByParts) {
                // With a host, sentinels or a cluster, these properties belong to that server. With
                // a URL or primaries they are a second way to name it, because a URL contains these
                // parts.
                put(ways, PARTS, "ssl.enabled", tlsAsGiven);
                put(ways, PARTS, "database", database);
                put(ways, PARTS, "password", password);
                put(ways, PARTS, "username", username);
            }
            return ways;
        }

        /**
         * Returns a property of the login, the database or TLS if no property names the server
         * itself.
         */
        Optional<String> withoutPlace() {
            Map<String, String> ways = ways();
            return ways.size() == 1 ? Optional.ofNullable(ways.get(PARTS)) : Optional.empty();
        }

        private static void put(Map<String, String> ways, String way, String name, Object value) {
            if (value != null) {
                ways.put(way, name);
            }
        }
    }

    /** The steps and the resulting URLs. There are no steps if no server is named. */
    record Named(List<Step> steps, List<String> urls) {}

    /**
     * Returns the steps of a server with these parts.
     *
     * @throws SteadlockStartException if the parts name the server in two ways or only in part
     */
    static Named of(String prefix, Parts parts) {
        Map<String, String> ways = parts.ways();
        if (ways.size() > 1) {
            List<String> both =
                    ways.values().stream().limit(2).map(name -> prefix + "." + name).toList();
            throw SteadlockStartException.ofProperties(
                    both,
                    null,
                    "the server is named in two ways",
                    "Leave "
                            + String.join(" or ", both)
                            + " out: a server is named by a URL, by a host and what belongs to it,"
                            + " by sentinels, by a cluster, or by primaries.");
        }
        var steps = new ServerSteps(prefix);
        if (ways.containsKey("url")) {
            steps.add("url", null, builder -> builder.url(parts.url()));
            return new Named(steps.steps, List.of(parts.url()));
        }
        if (ways.containsKey("primaries")) {
            steps.add("primaries", null, builder -> builder.primaries(parts.primaries()));
            return new Named(steps.steps, parts.primaries());
        }
        if (!ways.isEmpty()) {
            steps.addParts(parts);
            return new Named(steps.steps, List.of(steps.url.text()));
        }
        return new Named(List.of(), List.of());
    }

    private void addParts(Parts parts) {
        SteadlockProperties.Sentinel sentinel = parts.sentinel();
        if (parts.ways().containsKey("sentinel")) {
            require("sentinel.master", sentinel.master(), "sentinel.nodes");
            require("sentinel.nodes", sentinel.nodes(), "sentinel.master");
            step("sentinel.nodes", sentinel.nodes(), RedisUrl.ofSentinels(sentinel.nodes(), "any"));
            step(
                    "sentinel.master",
                    sentinel.master(),
                    RedisUrl.ofSentinels(sentinel.nodes(), sentinel.master()));
            String password = sentinel.password();
            next("sentinel.password", password, url -> url.withSentinelLogin(null, password));
            next(
                    "sentinel.username",
                    sentinel.username(),
                    url -> url.withSentinelLogin(sentinel.username(), password));
        } else if (parts.cluster().nodes() != null) {
            List<String> nodes = parts.cluster().nodes();
            step("cluster.nodes", nodes, RedisUrl.ofCluster(nodes));
        } else {
            String host = parts.host() == null ? "localhost" : parts.host();
            step("host", host, RedisUrl.of(host, null));
            next("port", parts.port(), url -> RedisUrl.of(host, parts.port()));
        }
        String password = parts.password();
        next("password", password, url -> url.withLogin(null, password));
        next("username", parts.username(), url -> url.withLogin(parts.username(), password));
        next("database", parts.database(), url -> url.withDatabase(parts.database()));
        if (parts.tls()) {
            next("ssl.enabled", true, url -> url.withTls(true));
        }
    }

    private void require(String name, Object value, String given) {
        if (value == null) {
            throw SteadlockStartException.ofProperties(
                    List.of(prefix + "." + name),
                    null,
                    "it is missing",
                    "Give " + prefix + "." + name + " beside " + prefix + "." + given + ".");
        }
    }

    private void next(String name, Object value, UnaryOperator<RedisUrl> change) {
        if (value != null) {
            step(name, value, change.apply(url));
        }
    }

    private void step(String name, Object value, RedisUrl next) {
        url = next;
        String text = next.text();
        // An @ may come from a URL with a password that was given as another property.
        boolean isSecret = name.endsWith("password") || String.valueOf(value).contains("@");
        add(name, isSecret ? null : value, builder -> builder.url(text));
    }

    private void add(String name, Object value, Consumer<SteadlockBuilder> apply) {
        steps.add(new Step(prefix + "." + name, value, apply));
    }
}
