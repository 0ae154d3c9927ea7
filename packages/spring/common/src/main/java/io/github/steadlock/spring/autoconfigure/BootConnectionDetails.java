package io.github.steadlock.spring.autoconfigure;

import org.springframework.boot.autoconfigure.service.connection.ConnectionDetails;
import org.springframework.core.env.Environment;

/**
 * The conversion of Spring Boot's connection details for Redis to those of Steadlock. This class
 * has the part that is the same in all versions of Spring Boot. The starters read the rest, whose
 * types have moved between versions.
 */
public abstract class BootConnectionDetails implements SteadlockConnectionDetails {
    private final ConnectionDetails details;
    private final Environment environment;

    protected BootConnectionDetails(ConnectionDetails details, Environment environment) {
        this.details = details;
        this.environment = environment;
    }

    /** Returns the server, without the login and TLS. */
    protected abstract RedisUrl server();

    protected abstract String username();

    protected abstract String password();

    @Override
    public final String url() {
        // Spring ignores a user without a password.
        String username = password() == null ? null : username();
        return server().withLogin(username, password()).withTls(hasTls()).text();
    }

    @Override
    public final String origin() {
        return isOfProperties() ? "spring.data.redis.*" : details.getClass().getSimpleName();
    }

    /**
     * Returns whether connections use TLS. The details do not show the TLS of a URL, so this method
     * reads the property of the URL.
     */
    private boolean hasTls() {
        String url = environment.getProperty("spring.data.redis.url", "");
        return sslBundle() != null || isOfProperties() && RedisUrl.hasTls(url);
    }

    /**
     * Returns whether the details come from properties. Compares the name of the class, because the
     * class is not public.
     */
    private boolean isOfProperties() {
        return details.getClass().getSimpleName().startsWith("Properties");
    }
}
