package io.github.steadlock.spring.autoconfigure;

import java.util.List;

/**
 * The program does not start, because of properties that are wrong or a server that cannot be used.
 * Spring Boot shows {@link #getMessage} and {@link #action}. Neither has a password.
 */
public final class SteadlockStartException extends RuntimeException {
    private static final long serialVersionUID = 1;

    private final transient List<String> properties;
    private final String action;

    private SteadlockStartException(
            List<String> properties, String message, String action, Throwable cause) {
        super(message, cause);
        this.properties = List.copyOf(properties);
        this.action = action;
    }

    /** What is wrong with {@code properties}; {@code value} is what they say, null for a secret. */
    static SteadlockStartException ofProperties(
            List<String> properties, Object value, String wrong, String action) {
        return new SteadlockStartException(
                properties, said(properties, value) + ": " + wrong + ".", action, null);
    }

    /** A property that the client refuses, with the words of the client. */
    static SteadlockStartException ofRefused(Step step, RuntimeException refusal) {
        String said = said(step.properties(), step.value());
        return new SteadlockStartException(
                step.properties(),
                said + ": " + refusal.getMessage() + ".",
                "Change " + String.join(" or ", step.properties()) + " as the message says.",
                refusal);
    }

    /** A server that cannot be used, which {@code properties} name. */
    static SteadlockStartException ofServer(
            List<String> properties, String server, String advice, RuntimeException cause) {
        String named = properties.isEmpty() ? "" : ", of " + String.join(", ", properties);
        return new SteadlockStartException(
                properties,
                "No locks at the server " + server + named + ": " + cause.getMessage() + ".",
                advice,
                cause);
    }

    /** The names of the properties that have to do with it; may be none. */
    public List<String> properties() {
        return properties;
    }

    /** What to do. */
    public String action() {
        return action;
    }

    private static String said(List<String> properties, Object value) {
        String names = String.join(" and ", properties);
        return "The property " + names + (value == null ? "" : " is '" + value + "'");
    }
}
