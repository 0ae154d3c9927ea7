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
 * The endpoint {@code locks}: the locks that this instance holds, waits for and has lost. Makes no
 * server call.
 *
 * <p>The records contain no Kotlin types. Spring reads the result type of an operation ahead of
 * time, and fails at a Kotlin type in a program without {@code kotlin-reflect}.
 */
@Endpoint(id = "locks")
public class LocksEndpoint implements AutoCloseable {
    private final List<Watched> clients = new ArrayList<>();
    private final LockReasons reasons;

    /**
     * Watches clients from now on, until the endpoint is closed.
     *
     * @param clients the clients by their bean names
     * @param reasons the reasons why annotated methods need their locks, or null if there are none
     */
    public LocksEndpoint(Map<String, SteadlockClient> clients, LockReasons reasons) {
        clients.forEach(
                (name, client) ->
                        this.clients.add(new Watched(name, client, LockActivity.watch(client))));
        this.reasons = reasons;
    }

    private record Watched(String name, SteadlockClient client, LockActivity activity) {}

    /**
     * The locks of this instance.
     *
     * @param held the leases that are held, oldest first
     * @param waiting the acquisitions that wait, oldest first
     * @param lost the last 100 leases of each client that were lost, oldest first
     */
    public record Locks(List<Held> held, List<Waiting> waiting, List<Lost> lost) {}

    /**
     * A lease that is held.
     *
     * @param client the bean name of the client
     * @param name the name of the lock
     * @param kind the kind of lock, such as {@code lock} or {@code fair_lock}
     * @param since the time of the grant
     * @param remaining how long the holder may rely on the lease if nothing renews it
     * @param token the fencing token, or null
     * @param degraded whether the lease excludes only other callers of this client
     * @param thread the thread that holds it, or null for a publisher, a stage or a coroutine
     * @param reason the reason in the annotation, or null
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
     * An acquisition that is not granted yet.
     *
     * @param client the bean name of the client
     * @param name the name of the lock
     * @param kind the kind of lock
     * @param since the time of the request
     * @param thread the thread that waits, or null for a publisher, a stage or a coroutine
     * @param reason the reason in the annotation, or null
     */
    public record Waiting(
            String client, String name, String kind, Instant since, String thread, String reason) {}

    /**
     * A lease that was lost.
     *
     * @param client the bean name of the client
     * @param name the name of the lock
     * @param kind the kind of lock
     * @param since the time of the grant
     * @param at when this instance noticed the loss
     * @param reason the reason for the loss: the name of a {@link io.github.steadlock.LostReason}
     * @param thread the thread that held it, or null for a publisher, a stage or a coroutine
     */
    public record Lost(
            String client,
            String name,
            String kind,
            Instant since,
            Instant at,
            String reason,
            String thread) {}

    /** Returns the locks at this moment. */
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

    /** Stops watching. */
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
