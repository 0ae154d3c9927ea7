package io.github.steadlock.spring.autoconfigure;

import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.regex.Pattern;

/**
 * The URL of a server, of its parts. What the parts may be, the client decides; here they are put
 * together so that none is taken for another, whatever characters it has. Immutable.
 *
 * @param scheme {@code redis}, {@code redis+sentinel} or {@code redis+cluster}
 * @param tls whether connections use TLS
 * @param nodes the server, or some of the sentinels or nodes, each as host or host:port
 * @param service what the sentinels watch, or null
 * @param database the number of the database, or null for 0
 * @param login of the servers
 * @param sentinelLogin of the sentinels
 */
public record RedisUrl(
        String scheme,
        boolean tls,
        List<String> nodes,
        String service,
        Integer database,
        Login login,
        Login sentinelLogin) {

    /** A user and a password; null for none. */
    record Login(String username, String password) {
        private static final Login NONE = new Login(null, null);

        boolean isGiven() {
            return username != null || password != null;
        }

        @Override
        public String toString() {
            return "Login(..)";
        }
    }

    /** One server. */
    public static RedisUrl of(String host, Integer port) {
        return of("redis", List.of(node(host, port)), null);
    }

    /** A server that sentinels watch. */
    public static RedisUrl ofSentinels(List<String> nodes, String service) {
        return of("redis+sentinel", nodes, service);
    }

    /** A cluster. */
    public static RedisUrl ofCluster(List<String> nodes) {
        return of("redis+cluster", nodes, null);
    }

    private static RedisUrl of(String scheme, List<String> nodes, String service) {
        return new RedisUrl(scheme, false, nodes, service, null, Login.NONE, Login.NONE);
    }

    /**
     * A node of its parts, an IPv6 address in brackets.
     *
     * @param port null for the usual one
     */
    public static String node(String host, Integer port) {
        boolean isAddress = host.indexOf(':') != host.lastIndexOf(':');
        String place = isAddress && !host.startsWith("[") ? "[" + host + "]" : host;
        // One colon would be taken for what comes before a port.
        place = isAddress ? place : escaped(place);
        return port == null ? place : place + ":" + port;
    }

    /** The same with TLS, or without. */
    public RedisUrl withTls(boolean tls) {
        return new RedisUrl(scheme, tls, nodes, service, database, login, sentinelLogin);
    }

    /** The same with a database; null for 0. */
    public RedisUrl withDatabase(Integer database) {
        return new RedisUrl(scheme, tls, nodes, service, database, login, sentinelLogin);
    }

    /** The same with a user and a password of the servers; null for none. */
    public RedisUrl withLogin(String username, String password) {
        Login login = new Login(username, password);
        return new RedisUrl(scheme, tls, nodes, service, database, login, sentinelLogin);
    }

    /** The same with a user and a password of the sentinels; null for none. */
    public RedisUrl withSentinelLogin(String username, String password) {
        Login sentinelLogin = new Login(username, password);
        return new RedisUrl(scheme, tls, nodes, service, database, login, sentinelLogin);
    }

    /** The URL, with the passwords. */
    public String text() {
        var url = new StringBuilder(tls ? scheme.replaceFirst("redis", "rediss") : scheme);
        url.append("://");
        if (login.isGiven()) {
            url.append(escaped(login.username()))
                    .append(':')
                    .append(escaped(login.password()))
                    .append('@');
        }
        url.append(String.join(",", nodes));
        if (service != null) {
            url.append('/').append(escaped(service));
        }
        if (database != null && database != 0) {
            url.append('/').append(database);
        }
        if (sentinelLogin.isGiven()) {
            url.append("?sentinel_user=").append(escaped(sentinelLogin.username()));
            url.append("&sentinel_password=").append(escaped(sentinelLogin.password()));
        }
        return url.toString();
    }

    /** Whether connections by this URL use TLS: {@code rediss}, {@code valkeys} and their forms. */
    static boolean hasTls(String url) {
        return TLS.matcher(url).lookingAt();
    }

    /**
     * The same URL with TLS; another one than that of a server, sentinels or a cluster as it is.
     */
    static String withTls(String url) {
        return PLAIN.matcher(url).replaceFirst("$1s$2");
    }

    // What may stand before a URL, and what is a URL, the client decides.
    private static final Pattern TLS =
            Pattern.compile(
                    "\\P{Alpha}*(rediss|valkeys)(\\+\\p{Alpha}+)?:", Pattern.CASE_INSENSITIVE);
    private static final Pattern PLAIN =
            Pattern.compile(
                    "^(\\P{Alpha}*(?:redis|valkey))((?:\\+(?:sentinel|cluster))?:)",
                    Pattern.CASE_INSENSITIVE);

    /** Does not show the passwords. */
    @Override
    public String toString() {
        return shown(text());
    }

    /** A URL without user, password and what follows the question mark, for messages. */
    public static String shown(String url) {
        int start = url.indexOf("://") + 3;
        if (start < 3) {
            return "(not a URL)";
        }
        String scheme = url.substring(0, start);
        int end = url.indexOf('?', start);
        if (end >= 0 && url.indexOf('@', end) >= 0) {
            // The question mark, or what follows it, may be part of a password.
            return scheme + "…";
        }
        String rest = end < 0 ? url.substring(start) : url.substring(start, end);
        return scheme + rest.substring(rest.lastIndexOf('@') + 1);
    }

    private static String escaped(String part) {
        if (part == null) {
            return "";
        }
        // Made for forms, which write a blank in their own way, and which the asterisk is plain in.
        String form = URLEncoder.encode(part, StandardCharsets.UTF_8);
        return form.replace("+", "%20").replace("*", "%2A");
    }
}
