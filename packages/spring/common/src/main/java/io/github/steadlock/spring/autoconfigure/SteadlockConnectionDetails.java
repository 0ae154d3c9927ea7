package io.github.steadlock.spring.autoconfigure;

import org.springframework.boot.autoconfigure.service.connection.ConnectionDetails;
import org.springframework.boot.ssl.SslBundle;

/**
 * The server, if no property {@code steadlock.*} names one. The starters make this bean from Spring
 * Boot's own connection details for Redis, which come from Testcontainers, Docker Compose or {@code
 * spring.data.redis.*}.
 */
public interface SteadlockConnectionDetails extends ConnectionDetails {
    /**
     * Returns the URL of the server, in the format of {@code steadlock.url}. The URL can contain a
     * password. {@link RedisUrl} builds such URLs.
     */
    String url();

    /** Returns the authorities to trust, for a URL with TLS; null for those of the system. */
    default SslBundle sslBundle() {
        return null;
    }

    /**
     * Returns the origin of these details, for messages: the names of properties or of a bean. Must
     * not contain a secret.
     */
    String origin();
}
