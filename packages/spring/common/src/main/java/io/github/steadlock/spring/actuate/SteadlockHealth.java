package io.github.steadlock.spring.actuate;

import io.github.steadlock.SteadlockClient;
import io.github.steadlock.SteadlockException;
import java.time.Duration;
import java.util.Map;
import java.util.TreeMap;

/**
 * The check whether locks can be acquired: asks the server whether the lock {@code
 * steadlock-health}, which no program uses, is held. The check ends within the command timeout. In
 * a cluster, only the node that has the slot of this lock is asked. For RedLock, each primary is
 * asked, and a majority must answer.
 */
public final class SteadlockHealth {
    private static final String PROBE = "steadlock-health";

    private final SteadlockClient client;
    private final String server;

    /**
     * Makes the health check of a client.
     *
     * @param client the client whose server is checked
     * @param server the address of the server without user and password, or null if unknown
     */
    public SteadlockHealth(SteadlockClient client, String server) {
        this.client = client;
        this.server = server;
    }

    /**
     * The result of a check.
     *
     * @param isUp whether the server answered
     * @param failure the failure, or null if the server answered
     * @param details details for people: {@code server}, {@code roundTrip}, {@code openBreakers} if
     *     the client has metrics, and {@code kind} of a failure
     */
    public record Result(boolean isUp, RuntimeException failure, Map<String, Object> details) {}

    /** Asks the server. Never throws. */
    public Result check() {
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
        return new Result(failure == null, failure, details);
    }

    private static String kindOf(RuntimeException failed) {
        String name = failed.getClass().getSimpleName();
        return failed instanceof SteadlockException ? name.replaceFirst("Exception$", "") : name;
    }

    /** Returns the number of open circuit breakers, or null if the client has no metrics. */
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
