package io.github.steadlock.spring.autoconfigure;

import java.util.List;

/**
 * The program does not start, because properties are wrong or the server cannot be used. Spring
 * Boot shows {@link #getMessage} and {@link #action}. Neither contains a password.
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

    /**
     * Returns the exception for wrong {@code properties}. {@code value} is their value, or null for
     * a secret.
     */
    static SteadlockStartException ofProperties(
            List<String> properties, Object value, String wrong, String action) {
        return new SteadlockStartException(
                properties, said(properties, value) + ": " + wrong + ".", action, null);
    }

    /** Returns the exception for a property that the client refuses, with the client's message. */
    static SteadlockStartException ofRefused(Step step, RuntimeException refusal) {
        String said = said(step.properties(), step.value());
        return new SteadlockStartException(
                step.properties(),
                said + ": " + refusal.getMessage() + ".",
                "Change " + String.join(" or ", step.properties()) + " as the message says.",
                refusal);
    }

    /**
     * Returns the exception for a server that cannot be used. {@code properties} name the server.
     */
    static SteadlockStartException ofServer(
            List<String> properties, String server, String advice, RuntimeException cause) {
        String named = properties.isEmpty() ? "" : ", of " + String.join(", ", properties);
        return new SteadlockStartException(
                properties,
                "No locks at the server " + server + named + ": " + cause.getMessage() + ".",
                advice,
                cause);
    }

    /** Returns the names of the properties that are involved; may be empty. */
    public List<String> properties() {
        return properties;
    }

    /** Returns the remedy. */
    public String action() {
        return action;
    }

    private static String said(List<String> properties, Object value) {
        String names = String.join(" and ", properties);
        return "The property " + names + (value == null ? "" : " is '" + value + "'");
    }
}
