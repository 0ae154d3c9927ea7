package io.github.steadlock.spring.actuate;

import io.github.steadlock.SteadlockClient;
import io.github.steadlock.SteadlockException;
import java.time.Duration;
import java.util.Map;
import java.util.TreeMap;

/**
 * Whether locks can be taken: asks the server whether a lock is held that nobody takes. One call,
 * which ends within the command timeout. Of a cluster, the node is asked that has the lock's slot.
 */
public final class SteadlockHealth {
    private static final String PROBE = "steadlock-health";

    private final SteadlockClient client;
    private final String server;

    /**
     * For a client.
     *
     * @param client whose server is asked
     * @param server its address without user and password, or null if it is not known
     */
    public SteadlockHealth(SteadlockClient client, String server) {
        this.client = client;
        this.server = server;
    }

    /**
     * What was found.
     *
     * @param isUp whether the server answered
     * @param failure why not, or null
     * @param details for people: {@code server}, {@code roundTrip}, {@code openBreakers} if the
     *     client has metrics, and of a failure {@code kind}
     */
    public record Finding(boolean isUp, RuntimeException failure, Map<String, Object> details) {}

    /** Asks the server. Does not throw. */
    public Finding look() {
        var details = new TreeMap<String, Object>();
        if (server != null) {
            details.put("server", server);
        }
        long start = System.nanoTime();
        RuntimeException failure = null;
        try {
            client.lock(PROBE).isLocked();
            details.put("roundTrip", Duration.ofNanos(System.nanoTime() - start).toString());
        } catch (RuntimeException failed) {
            failure = failed;
            details.put("kind", kindOf(failed));
        }
        Integer open = openBreakers();
        if (open != null) {
            details.put("openBreakers", open);
        }
        return new Finding(failure == null, failure, details);
    }

    private static String kindOf(RuntimeException failed) {
        String name = failed.getClass().getSimpleName();
        return failed instanceof SteadlockException ? name.replaceFirst("Exception$", "") : name;
    }

    /** Null if the client counts nothing. */
    private Integer openBreakers() {
        try {
            return client.metrics()
                    .lines()
                    .filter(line -> line.startsWith("steadlock_breakers_open "))
                    .map(line -> (int) Double.parseDouble(line.substring(line.indexOf(' ') + 1)))
                    .findFirst()
                    .orElse(null);
        } catch (SteadlockException none) {
            return null;
        }
    }
}
