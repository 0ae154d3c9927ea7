package io.github.steadlock.spring;

import io.github.steadlock.Lease;
import io.github.steadlock.spring.aop.ContextLeases;
import io.github.steadlock.spring.aop.ThreadLeases;
import java.util.Optional;
import reactor.core.publisher.Mono;

/**
 * The lease by which a method with {@link DistributedLock} runs, for its fencing token.
 *
 * <pre>{@code
 * Long token = CurrentLease.get().getToken();
 * }</pre>
 */
public final class CurrentLease {
    private CurrentLease() {}

    /**
     * The innermost lease of the calling thread. The part of a method that runs on another thread
     * has none; hand the lease on to it.
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
     * The innermost lease of the calling thread, or empty if it runs no method with {@link
     * DistributedLock}.
     */
    public static Optional<Lease> find() {
        return ThreadLeases.current();
    }

    /**
     * The innermost lease of the subscriber's context, in methods with a reactive result and, by
     * {@code awaitSingleOrNull()}, in suspend functions. Empty outside a method with {@link
     * DistributedLock}.
     */
    public static Mono<Lease> reactive() {
        return ContextLeases.current();
    }
}
