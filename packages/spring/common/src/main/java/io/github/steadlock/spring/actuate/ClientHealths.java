package io.github.steadlock.spring.actuate;

import java.util.Map;
import java.util.function.Function;

/**
 * The health checks of all clients.
 *
 * @param byClient the health checks, by the bean names of the clients
 */
public record ClientHealths(Map<String, SteadlockHealth> byClient) {
    /** Returns the result of {@code one} for a single client, and of {@code several} otherwise. */
    public <T> T contributor(
            Function<SteadlockHealth, T> one, Function<Map<String, SteadlockHealth>, T> several) {
        return byClient.size() == 1
                ? one.apply(byClient.values().iterator().next())
                : several.apply(byClient);
    }
}
