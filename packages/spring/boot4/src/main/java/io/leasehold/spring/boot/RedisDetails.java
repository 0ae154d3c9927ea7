package io.leasehold.spring.boot;

import io.leasehold.spring.autoconfigure.LeaseholdConnectionDetails;
import io.leasehold.spring.autoconfigure.RedisUrl;
import java.util.List;
import org.springframework.boot.data.redis.autoconfigure.DataRedisConnectionDetails;
import org.springframework.boot.data.redis.autoconfigure.DataRedisConnectionDetails.Node;
import org.springframework.boot.ssl.SslBundle;
import org.springframework.core.env.Environment;

/** Spring Boot's connection details as ours. */
final class RedisDetails implements LeaseholdConnectionDetails {
    private final DataRedisConnectionDetails details;
    private final Environment environment;

    RedisDetails(DataRedisConnectionDetails details, Environment environment) {
        this.details = details;
        this.environment = environment;
    }

    @Override
    public String url() {
        // Spring passes over a user without a password.
        String password = details.getPassword();
        String username = password == null ? null : details.getUsername();
        return place().withLogin(username, password).withTls(hasTls()).text();
    }

    @Override
    public SslBundle sslBundle() {
        return details.getSslBundle();
    }

    @Override
    public String origin() {
        return isOfProperties() ? "spring.data.redis.*" : details.getClass().getSimpleName();
    }

    private RedisUrl place() {
        if (details.getMasterReplica() != null) {
            throw new IllegalStateException(
                    "spring.data.redis.masterreplica.nodes does not say which server is the primary,"
                            + " and locks are only at that one; give leasehold.url");
        }
        if (details.getSentinel() != null) {
            DataRedisConnectionDetails.Sentinel sentinel = details.getSentinel();
            String password = sentinel.getPassword();
            return RedisUrl.ofSentinels(nodes(sentinel.getNodes()), sentinel.getMaster())
                    .withSentinelLogin(password == null ? null : sentinel.getUsername(), password)
                    .withDatabase(sentinel.getDatabase());
        }
        if (details.getCluster() != null) {
            return RedisUrl.ofCluster(nodes(details.getCluster().getNodes()));
        }
        DataRedisConnectionDetails.Standalone one = details.getStandalone();
        return RedisUrl.of(one.getHost(), one.getPort()).withDatabase(one.getDatabase());
    }

    /** The details do not say so of a URL that begins with {@code rediss}. */
    private boolean hasTls() {
        String url = environment.getProperty("spring.data.redis.url", "");
        return sslBundle() != null || isOfProperties() && url.startsWith("rediss:");
    }

    /** The class is not public. */
    private boolean isOfProperties() {
        return details.getClass().getSimpleName().startsWith("Properties");
    }

    private static List<String> nodes(List<Node> nodes) {
        return nodes.stream().map(node -> RedisUrl.node(node.host(), node.port())).toList();
    }
}
