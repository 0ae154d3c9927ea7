package io.github.steadlock.spring.actuate;

import java.util.Map;
import java.util.function.Function;

/**
 * The health of each client.
 *
 * @param byClient by the names of the beans of the clients
 */
public record ClientHealths(Map<String, SteadlockHealth> byClient) {
    /** What {@code one} makes of the only client, or {@code several} of more. */
    public <T> T contributor(
            Function<SteadlockHealth, T> one, Function<Map<String, SteadlockHealth>, T> several) {
        return byClient.size() == 1
                ? one.apply(byClient.values().iterator().next())
                : several.apply(byClient);
    }
}
