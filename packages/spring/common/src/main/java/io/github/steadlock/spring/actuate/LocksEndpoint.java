package io.github.steadlock.spring.actuate;

import io.github.steadlock.LockActivity;
import io.github.steadlock.LostReason;
import io.github.steadlock.spring.aop.LockReasons;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import org.springframework.boot.actuate.endpoint.annotation.Endpoint;
import org.springframework.boot.actuate.endpoint.annotation.ReadOperation;

/** The endpoint {@code locks}: what this instance holds, waits for and has lost. Asks no server. */
@Endpoint(id = "locks")
public class LocksEndpoint {
    private final LockActivity activity;
    private final LockReasons reasons;

    /**
     * For a client.
     *
     * @param activity what the client does
     * @param reasons why methods with the annotation need their locks, or null if that is not known
     */
    public LocksEndpoint(LockActivity activity, LockReasons reasons) {
        this.activity = activity;
        this.reasons = reasons;
    }

    /**
     * What there is of locks.
     *
     * @param held the leases that are held, the oldest first
     * @param waiting what is waited for, the oldest first
     * @param lost the leases that were lost, the latest 100, the oldest first
     */
    public record Locks(List<Held> held, List<Waiting> waiting, List<Lost> lost) {}

    /**
     * A lease that is held.
     *
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
     * @param name the lock
     * @param kind the kind of lock
     * @param since when it was asked for
     * @param thread the thread that waits, or null of a publisher, a stage or a coroutine
     * @param reason what the annotation says, or null
     */
    public record Waiting(String name, String kind, Instant since, String thread, String reason) {}

    /**
     * A lease that was lost.
     *
     * @param name the lock
     * @param kind the kind of lock
     * @param since when it was granted
     * @param at when it was lost, as far as this instance knows
     * @param reason why
     * @param thread the thread that held it, or null of a publisher, a stage or a coroutine
     */
    public record Lost(
            String name,
            String kind,
            Instant since,
            Instant at,
            LostReason reason,
            String thread) {}

    /** What there is at this moment. */
    @ReadOperation
    public Locks locks() {
        List<Held> held = activity.held().stream().map(this::held).toList();
        List<Waiting> waiting = activity.waiting().stream().map(this::waiting).toList();
        List<Lost> lost = activity.lost().stream().map(LocksEndpoint::lost).toList();
        return new Locks(held, waiting, lost);
    }

    private Held held(LockActivity.Hold hold) {
        return new Held(
                hold.getName(),
                hold.getKind(),
                hold.getSince(),
                hold.getRemaining(),
                hold.getToken(),
                hold.isDegraded(),
                hold.getThread(),
                reasonOf(hold.getName()));
    }

    private Waiting waiting(LockActivity.Wait wait) {
        String reason = reasonOf(wait.getName());
        return new Waiting(
                wait.getName(), wait.getKind(), wait.getSince(), wait.getThread(), reason);
    }

    private static Lost lost(LockActivity.Loss loss) {
        return new Lost(
                loss.getName(),
                loss.getKind(),
                loss.getSince(),
                loss.getAt(),
                loss.getReason(),
                loss.getThread());
    }

    private String reasonOf(String name) {
        return reasons == null ? null : reasons.of(name).orElse(null);
    }
}
