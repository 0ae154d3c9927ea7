package io.github.steadlock.spring.actuate;

import io.github.steadlock.LockActivity;
import io.github.steadlock.SteadlockClient;
import io.github.steadlock.spring.aop.LockReasons;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.Stream;
import org.springframework.boot.actuate.endpoint.annotation.Endpoint;
import org.springframework.boot.actuate.endpoint.annotation.ReadOperation;

/**
 * The endpoint {@code locks}: what this instance holds, waits for and has lost. Asks no server.
 *
 * <p>Its records have no types of Kotlin. Spring reads the type of an operation's result ahead of
 * time, and fails at one of Kotlin in a program without {@code kotlin-reflect}.
 */
@Endpoint(id = "locks")
public class LocksEndpoint implements AutoCloseable {
    private final List<Watched> clients = new ArrayList<>();
    private final LockReasons reasons;

    /**
     * Watches clients from now on, until it is closed.
     *
     * @param clients by the names of their beans
     * @param reasons why methods with the annotation need their locks, or null if that is not known
     */
    public LocksEndpoint(Map<String, SteadlockClient> clients, LockReasons reasons) {
        clients.forEach(
                (name, client) ->
                        this.clients.add(new Watched(name, client, LockActivity.watch(client))));
        this.reasons = reasons;
    }

    private record Watched(String name, SteadlockClient client, LockActivity activity) {}

    /**
     * What there is of locks.
     *
     * @param held the leases that are held, the oldest first
     * @param waiting what is waited for, the oldest first
     * @param lost the leases that were lost, the latest 100 of each client, the oldest first
     */
    public record Locks(List<Held> held, List<Waiting> waiting, List<Lost> lost) {}

    /**
     * A lease that is held.
     *
     * @param client the bean of the client
     * @param name the lock
     * @param kind the kind of lock, as {@code lock} or {@code fair_lock}
     * @param since when it was granted
     * @param remaining how long it may be relied on if nothing renews it
     * @param token its fencing token, or null
     * @param degraded whether it excludes others of this instance alone
     * @param thread the thread that holds it, or null of a publisher, a stage or a coroutine
     * @param reason what the annotation says, or null
     */
    public record Held(
            String client,
            String name,
            String kind,
            Instant since,
            Duration remaining,
            Long token,
            boolean degraded,
            String thread,
            String reason) {}

    /**
     * An acquisition under way.
     *
     * @param client the bean of the client
     * @param name the lock
     * @param kind the kind of lock
     * @param since when it was asked for
     * @param thread the thread that waits, or null of a publisher, a stage or a coroutine
     * @param reason what the annotation says, or null
     */
    public record Waiting(
            String client, String name, String kind, Instant since, String thread, String reason) {}

    /**
     * A lease that was lost.
     *
     * @param client the bean of the client
     * @param name the lock
     * @param kind the kind of lock
     * @param since when it was granted
     * @param at when it was lost, as far as this instance knows
     * @param reason why, as the name of a {@link io.github.steadlock.LostReason}
     * @param thread the thread that held it, or null of a publisher, a stage or a coroutine
     */
    public record Lost(
            String client,
            String name,
            String kind,
            Instant since,
            Instant at,
            String reason,
            String thread) {}

    /** What there is at this moment. */
    @ReadOperation
    public Locks locks() {
        return new Locks(
                all(client -> client.activity.held().stream().map(hold -> held(client, hold)))
                        .sorted(Comparator.comparing(Held::since))
                        .toList(),
                all(client -> client.activity.waiting().stream().map(wait -> waiting(client, wait)))
                        .sorted(Comparator.comparing(Waiting::since))
                        .toList(),
                all(client -> client.activity.lost().stream().map(loss -> lost(client, loss)))
                        .sorted(Comparator.comparing(Lost::at))
                        .toList());
    }

    /** Watches no longer. */
    @Override
    public void close() {
        clients.forEach(client -> client.activity.close());
    }

    private <T> Stream<T> all(Function<Watched, Stream<T>> part) {
        return clients.stream().flatMap(part);
    }

    private Held held(Watched client, LockActivity.Hold hold) {
        return new Held(
                client.name,
                hold.getName(),
                hold.getKind(),
                hold.getSince(),
                hold.getRemaining(),
                hold.getToken(),
                hold.isDegraded(),
                hold.getThread(),
                reasonOf(client, hold.getName()));
    }

    private Waiting waiting(Watched client, LockActivity.Wait wait) {
        return new Waiting(
                client.name,
                wait.getName(),
                wait.getKind(),
                wait.getSince(),
                wait.getThread(),
                reasonOf(client, wait.getName()));
    }

    private static Lost lost(Watched client, LockActivity.Loss loss) {
        return new Lost(
                client.name,
                loss.getName(),
                loss.getKind(),
                loss.getSince(),
                loss.getAt(),
                loss.getReason().name(),
                loss.getThread());
    }

    private String reasonOf(Watched client, String name) {
        return reasons == null ? null : reasons.of(client.client, name).orElse(null);
    }
}
