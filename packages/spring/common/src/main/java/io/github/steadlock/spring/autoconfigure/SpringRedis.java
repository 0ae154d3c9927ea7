package io.github.steadlock.spring.autoconfigure;

import java.time.Duration;
import java.util.Map;
import org.springframework.boot.context.properties.bind.Bindable;
import org.springframework.boot.context.properties.bind.Binder;
import org.springframework.boot.context.properties.bind.DefaultValue;
import org.springframework.boot.context.properties.bind.PropertySourcesPlaceholdersResolver;
import org.springframework.boot.context.properties.source.ConfigurationPropertySources;
import org.springframework.core.env.Environment;

/** The properties {@code spring.data.redis.*}, read even if spring-data-redis is missing. */
record SpringRedis(
        String url,
        String host,
        Integer port,
        String username,
        String password,
        Integer database,
        @DefaultValue Ssl ssl,
        @DefaultValue SteadlockProperties.Sentinel sentinel,
        @DefaultValue SteadlockProperties.Cluster cluster,
        @DefaultValue SteadlockProperties.Cluster masterreplica,
        Duration timeout,
        Duration connectTimeout,
        String clientName,
        @DefaultValue Pooled lettuce,
        @DefaultValue Pooled jedis) {
    static final String PREFIX = "spring.data.redis";

    record Ssl(Boolean enabled, String bundle) {}

    record Pooled(Map<String, String> pool) {}

    static SpringRedis of(Environment environment) {
        var binder =
                new Binder(
                        ServiceLinks.without(ConfigurationPropertySources.get(environment)),
                        new PropertySourcesPlaceholdersResolver(environment));
        return binder.bindOrCreate(PREFIX, Bindable.of(SpringRedis.class));
    }

    /** Returns whether any of the properties names the server. */
    boolean namesServer() {
        return url != null
                || host != null
                || port != null
                || username != null
                || password != null
                || database != null
                || ssl.enabled() != null
                || ssl.bundle() != null
                || sentinel.master() != null
                || sentinel.nodes() != null
                || cluster.nodes() != null;
    }

    /** Returns the property for a connection pool, or null if there is none. */
    String pool() {
        if (lettuce.pool() != null) {
            return PREFIX + ".lettuce.pool";
        }
        return jedis.pool() != null ? PREFIX + ".jedis.pool" : null;
    }

    @Override
    public String toString() {
        return "SpringRedis(..)";
    }
}
