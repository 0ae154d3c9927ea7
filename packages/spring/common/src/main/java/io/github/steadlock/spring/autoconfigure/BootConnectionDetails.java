package io.github.steadlock.spring.autoconfigure;

import org.springframework.boot.autoconfigure.service.connection.ConnectionDetails;
import org.springframework.core.env.Environment;

/**
 * Spring Boot's connection details for Redis as ours, as far as they are the same in each version
 * of it. The starters read the rest, whose types have moved.
 */
public abstract class BootConnectionDetails implements SteadlockConnectionDetails {
    private final ConnectionDetails details;
    private final Environment environment;

    protected BootConnectionDetails(ConnectionDetails details, Environment environment) {
        this.details = details;
        this.environment = environment;
    }

    /** The server, without the login and TLS. */
    protected abstract RedisUrl place();

    protected abstract String username();

    protected abstract String password();

    @Override
    public final String url() {
        // Spring passes over a user without a password.
        String username = password() == null ? null : username();
        return place().withLogin(username, password()).withTls(hasTls()).text();
    }

    @Override
    public final String origin() {
        return isOfProperties() ? "spring.data.redis.*" : details.getClass().getSimpleName();
    }

    /** The details do not say so of a URL that does. */
    private boolean hasTls() {
        String url = environment.getProperty("spring.data.redis.url", "");
        return sslBundle() != null || isOfProperties() && RedisUrl.hasTls(url);
    }

    /** The class is not public. */
    private boolean isOfProperties() {
        return details.getClass().getSimpleName().startsWith("Properties");
    }
}
