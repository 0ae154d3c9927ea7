package io.github.steadlock.spring.boot;

import io.github.steadlock.spring.autoconfigure.BootConnectionDetails;
import io.github.steadlock.spring.autoconfigure.RedisUrl;
import java.util.List;
import org.springframework.boot.autoconfigure.data.redis.RedisConnectionDetails;
import org.springframework.boot.autoconfigure.data.redis.RedisConnectionDetails.Node;
import org.springframework.boot.ssl.SslBundle;
import org.springframework.core.env.Environment;

/** The conversion of Spring Boot's connection details to those of Steadlock. */
final class RedisDetails extends BootConnectionDetails {
    private final RedisConnectionDetails details;

    RedisDetails(RedisConnectionDetails details, Environment environment) {
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
        if (details.getSentinel() != null) {
            return details.getSentinel().getSslBundle();
        }
        if (details.getCluster() != null) {
            return details.getCluster().getSslBundle();
        }
        return details.getStandalone().getSslBundle();
    }

    @Override
    protected RedisUrl server() {
        if (details.getSentinel() != null) {
            RedisConnectionDetails.Sentinel sentinel = details.getSentinel();
            String password = sentinel.getPassword();
            return RedisUrl.ofSentinels(nodes(sentinel.getNodes()), sentinel.getMaster())
                    .withSentinelLogin(password == null ? null : sentinel.getUsername(), password)
                    .withDatabase(sentinel.getDatabase());
        }
        if (details.getCluster() != null) {
            return RedisUrl.ofCluster(nodes(details.getCluster().getNodes()));
        }
        RedisConnectionDetails.Standalone one = details.getStandalone();
        return RedisUrl.of(one.getHost(), one.getPort()).withDatabase(one.getDatabase());
    }

    private static List<String> nodes(List<Node> nodes) {
        return nodes.stream().map(node -> RedisUrl.node(node.host(), node.port())).toList();
    }
}
