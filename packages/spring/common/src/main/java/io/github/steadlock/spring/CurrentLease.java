package io.github.steadlock.spring;

import io.github.steadlock.Lease;
import io.github.steadlock.spring.aop.ContextLeases;
import io.github.steadlock.spring.aop.ThreadLeases;
import java.util.Optional;
import reactor.core.publisher.Mono;

/**
 * The lease of the running method with {@link DistributedLock}, for its fencing token.
 *
 * <pre>{@code
 * Long token = CurrentLease.get().getToken();
 * }</pre>
 */
public final class CurrentLease {
    private CurrentLease() {}

    /**
     * Returns the innermost lease of the calling thread. If a part of the method runs on another
     * thread, that thread has no lease here; pass the lease to that thread.
     *
     * @throws IllegalStateException if the thread runs no method with {@link DistributedLock}
     */
    public static Lease get() {
        return find().orElseThrow(
                        () ->
                                new IllegalStateException(
                                        "no method with @DistributedLock runs on this thread"));
    }

    /**
     * Returns the innermost lease of the calling thread, or empty if it runs no method with {@link
     * DistributedLock}.
     */
    public static Optional<Lease> find() {
        return ThreadLeases.current();
    }

    /**
     * Returns the innermost lease of the subscriber's context. For methods with a reactive result,
     * and for suspend functions, which read it by {@code awaitSingleOrNull()}. Empty outside a
     * method with {@link DistributedLock}.
     */
    public static Mono<Lease> reactive() {
        return ContextLeases.current();
    }
}
