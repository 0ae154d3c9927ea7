package io.github.steadlock.spring.autoconfigure;

import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.regex.Pattern;

/**
 * The URL of a server, made of its parts. Special characters of a part are escaped, so that no part
 * is taken for another. The client checks whether the parts are valid. Immutable.
 *
 * @param scheme {@code redis}, {@code redis+sentinel} or {@code redis+cluster}
 * @param tls whether connections use TLS
 * @param nodes the server, or some of the sentinels or cluster nodes, each as host or host:port
 * @param service the service that the sentinels watch, or null
 * @param database the number of the database, or null for 0
 * @param login the login at the servers
 * @param sentinelLogin the login at the sentinels
 */
public record RedisUrl(
        String scheme,
        boolean tls,
        List<String> nodes,
        String service,
        Integer database,
        Login login,
        Login sentinelLogin) {

    /** A user and a password, each null for none. */
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

    /** Returns the URL of one server. */
    public static RedisUrl of(String host, Integer port) {
        return of("redis", List.of(node(host, port)), null);
    }

    /** Returns the URL of a server that sentinels watch. */
    public static RedisUrl ofSentinels(List<String> nodes, String service) {
        return of("redis+sentinel", nodes, service);
    }

    /** Returns the URL of a cluster. */
    public static RedisUrl ofCluster(List<String> nodes) {
        return of("redis+cluster", nodes, null);
    }

    private static RedisUrl of(String scheme, List<String> nodes, String service) {
        return new RedisUrl(scheme, false, nodes, service, null, Login.NONE, Login.NONE);
    }

    /**
     * Returns a node as host or host:port, with an IPv6 address in brackets.
     *
     * @param port the port, or null for the default port
     */
    public static String node(String host, Integer port) {
        boolean isIpv6 = host.indexOf(':') != host.lastIndexOf(':');
        String place = isIpv6 && !host.startsWith("[") ? "[" + host + "]" : host;
        // A name with one colon is escaped, because the colon would be taken for the start of a
        // port.
        place = isIpv6 ? place : escaped(place);
        return port == null ? place : place + ":" + port;
    }

    /** Returns this URL with or without TLS. */
    public RedisUrl withTls(boolean tls) {
        return new RedisUrl(scheme, tls, nodes, service, database, login, sentinelLogin);
    }

    /** Returns this URL with a database; null for 0. */
    public RedisUrl withDatabase(Integer database) {
        return new RedisUrl(scheme, tls, nodes, service, database, login, sentinelLogin);
    }

    /** Returns this URL with a user and a password for the servers; null for none. */
    public RedisUrl withLogin(String username, String password) {
        Login login = new Login(username, password);
        return new RedisUrl(scheme, tls, nodes, service, database, login, sentinelLogin);
    }

    /** Returns this URL with a user and a password for the sentinels; null for none. */
    public RedisUrl withSentinelLogin(String username, String password) {
        Login sentinelLogin = new Login(username, password);
        return new RedisUrl(scheme, tls, nodes, service, database, login, sentinelLogin);
    }

    /** Returns the URL, including the passwords. */
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

    /**
     * Returns whether connections by this URL use TLS: {@code rediss}, {@code valkeys} and their
     * forms.
     */
    static boolean hasTls(String url) {
        return TLS.matcher(url).lookingAt();
    }

    /**
     * Returns the URL with TLS. Returns it unchanged if it is not the URL of a server, of sentinels
     * or of a cluster.
     */
    static String withTls(String url) {
        return PLAIN.matcher(url).replaceFirst("$1s$2");
    }

    // The patterns accept any characters but letters before the scheme, because the client decides
    // what a valid URL is.
    private static final Pattern TLS =
            Pattern.compile(
                    "\\P{Alpha}*(rediss|valkeys)(\\+\\p{Alpha}+)?:", Pattern.CASE_INSENSITIVE);
    private static final Pattern PLAIN =
            Pattern.compile(
                    "^(\\P{Alpha}*(?:redis|valkey))((?:\\+(?:sentinel|cluster))?:)",
                    Pattern.CASE_INSENSITIVE);

    /** Returns the URL without user and passwords. */
    @Override
    public String toString() {
        return shown(text());
    }

    /** Returns a URL for messages: without user, password and the query. */
    public static String shown(String url) {
        int start = url.indexOf("://") + 3;
        if (start < 3) {
            return "(not a URL)";
        }
        String scheme = url.substring(0, start);
        int end = url.indexOf('?', start);
        if (end >= 0 && url.indexOf('@', end) >= 0) {
            // The question mark or the text after it may be part of a password.
            return scheme + "…";
        }
        String rest = end < 0 ? url.substring(start) : url.substring(start, end);
        return scheme + rest.substring(rest.lastIndexOf('@') + 1);
    }

    private static String escaped(String part) {
        if (part == null) {
            return "";
        }
        // URLEncoder encodes for forms, so a blank becomes "+" and the asterisk stays plain.
        String form = URLEncoder.encode(part, StandardCharsets.UTF_8);
        return form.replace("+", "%20").replace("*", "%2A");
    }
}
