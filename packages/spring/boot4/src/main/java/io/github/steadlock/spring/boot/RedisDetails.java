package io.github.steadlock.spring.boot;

import io.github.steadlock.spring.autoconfigure.BootConnectionDetails;
import io.github.steadlock.spring.autoconfigure.RedisUrl;
import java.util.List;
import org.springframework.boot.data.redis.autoconfigure.DataRedisConnectionDetails;
import org.springframework.boot.data.redis.autoconfigure.DataRedisConnectionDetails.Node;
import org.springframework.boot.ssl.SslBundle;
import org.springframework.core.env.Environment;

/** The conversion of Spring Boot's connection details to those of Steadlock. */
final class RedisDetails extends BootConnectionDetails {
    private final DataRedisConnectionDetails details;

    RedisDetails(DataRedisConnectionDetails details, Environment environment) {
        super(details, environment);
        this.details = details;
    }

    @Override
    protected String username() {
        return details.getUsername();
    }

    @Override
    protected String password() {
        return details.getPassword();
    }

    @Override
    public SslBundle sslBundle() {
        return details.getSslBundle();
    }

    @Override
    protected RedisUrl server() {
        if (details.getMasterReplica() != null) {
            throw new IllegalStateException(
                    "spring.data.redis.masterreplica.nodes does not say which server is the primary,"
                            + " and locks are only at that one; give steadlock.url");
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

    private static List<String> nodes(List<Node> nodes) {
        return nodes.stream().map(node -> RedisUrl.node(node.host(), node.port())).toList();
    }
}
