package io.github.steadlock.spring.autoconfigure;

import org.springframework.boot.autoconfigure.service.connection.ConnectionDetails;
import org.springframework.boot.ssl.SslBundle;

/**
 * The server, if no property {@code steadlock.*} names one. The starters make it of Spring Boot's
 * own connection details for Redis, as of Testcontainers, Docker Compose or {@code
 * spring.data.redis.*}.
 */
public interface SteadlockConnectionDetails extends ConnectionDetails {
    /**
     * The server, as {@code steadlock.url} names it; may hold a password. {@link RedisUrl} makes
     * it.
     */
    String url();

    /** Which authorities to trust, for a URL with TLS; null for those of the system. */
    default SslBundle sslBundle() {
        return null;
    }

    /** Who says so, for messages: the names of properties or of a bean. Never a secret. */
    String origin();
}
